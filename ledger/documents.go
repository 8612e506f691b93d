package ledger

import (
	"context"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Receipt returns the receipt of a sale, with a checkpoint of the log right after the sale: it has
// [api.Sale.Last] events. Receipt only reads the ledger. It returns [api.ErrUnknown] if the number
// is not a sale, and [api.ErrNoSigner] if the ledger was opened without a signing key. An object
// that is forgotten while the receipt is made is in it completely or erased; either is proven.
//
// Two receipts of one sale are equal, except for objects that were forgotten in between. Receipts
// of two sales are about the log at two sizes; [Ledger.Consistency] proves that it is the same log.
func (l *Ledger) Receipt(ctx context.Context, sale uint64) (evidence.Receipt, error) {
	if l.documents.Signer == nil {
		return evidence.Receipt{}, api.ErrNoSigner
	}
	find := func(s *state.State) (state.Sale, error) { return request.SoldSale(s, sale) }
	sold, err := engine.Read(ctx, &l.engine, find)
	if err != nil {
		return evidence.Receipt{}, err
	}
	return l.documents.Receipt(ctx, sold, sale)
}

// Statement records that a statement about an object is made, and returns the statement. It takes
// an idempotency key, like every request that changes something. The same key returns the same
// statement again, with the same time.
//
// It returns [api.ErrUnknown] if there is no such object; an object that was only ever refused does
// not exist. It returns [api.ErrNoSigner] if the ledger was opened without a signing key, and
// [api.ErrForgotten] if the object was forgotten since the key was used.
func (l *Ledger) Statement(ctx context.Context, r api.ObjectRequest) (evidence.Statement, error) {
	if l.documents.Signer == nil {
		return evidence.Statement{}, api.ErrNoSigner
	}
	if err := event.CheckName("object", r.Object); err != nil {
		return evidence.Statement{}, err
	}
	id := event.ObjectRequest(event.RequestStatement, r.Object)
	state := func(s *state.State) (event.Change, error) { return s.Statement(r.Object) }
	if err := l.requests.Once(ctx, r.Key, r.Object, id, state); err != nil {
		return evidence.Statement{}, err
	}
	// The statement is recorded, and is returned even if ctx has ended.
	return l.documents.Statement(context.WithoutCancel(ctx), r.Key)
}
