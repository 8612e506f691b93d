package ledger

import (
	"context"

	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Receipt returns the receipt of a sale, with a checkpoint of the log as it is now. It reads only. It returns
// [ErrUnknown] for what is no sale, and [ErrNoSigner] if the ledger was opened without a key. An object that is
// forgotten while the receipt is being made is in it whole or erased; either is proven.
//
// Two receipts of a sale say the same, but for the objects forgotten in between, and name the log at two sizes;
// [Ledger.Consistency] proves that it is one log.
func (l *Ledger) Receipt(ctx context.Context, sale uint64) (evidence.Receipt, error) {
	if l.signer == nil {
		return evidence.Receipt{}, ErrNoSigner
	}
	m := receiptMaker{}
	if err := l.engine.View(ctx, func(s *state.State) error { return m.begin(s, sale) }); err != nil {
		return evidence.Receipt{}, err
	}
	// Leaves never change: snapshots of any time go with one checkpoint, and none is long.
	for from := uint64(0); from < m.sale.Objects; from += scanSize {
		err := l.engine.View(ctx, func(s *state.State) error { return m.add(s, from, min(scanSize, m.sale.Objects-from)) })
		if err != nil {
			return evidence.Receipt{}, err
		}
	}
	proof, signed, err := l.proveSigned(ctx, 0, m.numbers)
	if err != nil {
		return evidence.Receipt{}, err
	}
	return m.Finish(proof, signed), nil
}

// receiptMaker reads what a receipt is made of.
type receiptMaker struct {
	*evidence.ReceiptMaker
	sale    state.Sale
	numbers []uint64 // of the events in it
}

// begin reads all but the responses.
func (m *receiptMaker) begin(s *state.State, number uint64) (err error) {
	if m.sale, err = carriedOut(s, number); err != nil {
		return err
	}
	question, err := s.Definition(state.BucketQuestions, m.sale.Question)
	if err != nil {
		return err
	}
	buyer, err := s.Definition(state.BucketBuyers, m.sale.Buyer)
	if err != nil {
		return err
	}
	m.numbers = []uint64{1, question, buyer, m.sale.Event}
	var all [4]evidence.Entry
	for i, number := range m.numbers {
		if all[i], err = evidenceOf(s, number); err != nil {
			return err
		}
	}
	if c, ok := all[3].Change.(*event.SaleMade); !ok || c.Sale != number {
		return errs.Corrupt(nil, "event %d does not make sale %d", m.sale.Event, number)
	}
	m.ReceiptMaker, err = evidence.NewReceipt(all[0], all[1], all[2], all[3])
	return err
}

// add adds n responses behind the first from.
func (m *receiptMaker) add(s *state.State, from, n uint64) error {
	next := make([]uint64, n)
	for i := range next {
		next[i] = m.sale.Event + 1 + from + uint64(i)
	}
	prefetchEvents(s, next)
	for _, number := range next {
		ev, err := evidenceOf(s, number)
		if err == nil {
			err = m.Add(ev)
		}
		if err != nil {
			return err
		}
	}
	m.numbers = append(m.numbers, next...)
	return nil
}
