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

// Receipt returns the receipt of a sale, with a checkpoint of the log as the sale left it: it has
// [api.Sale.Last] events. It reads only. It returns [api.ErrUnknown] for what is no sale, and [api.ErrNoSigner]
// if the ledger was opened without a key. An object that is forgotten while the receipt is being
// made is in it whole or erased; either is proven.
//
// Two receipts of a sale say the same, but for the objects forgotten in between. Receipts of two
// sales name the log at two sizes; [Ledger.Consistency] proves that it is one log.
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

// Statement records that a statement about an object is made, and returns it. It takes an
// idempotency key like every request that changes something: the same key returns the same
// statement, of the same time, again. It returns [api.ErrUnknown] if there is no such object (whoever
// was only ever refused is none), [api.ErrNoSigner] if the ledger was opened without a key, and
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
	return l.documents.Statement(context.WithoutCancel(ctx), r.Key) // it is done, whatever has become of ctx
}
