package documents

import (
	"context"

	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Receipt returns the receipt of a sale, in the log as the sale left it: whenever it is made, it
// says nothing of what came later.
func (m *Maker) Receipt(ctx context.Context, sale state.Sale, number uint64) (evidence.Receipt, error) {
	r := receipt{sale: sale}
	if err := m.Engine.View(ctx, func(s *state.State) error { return r.begin(s, number) }); err != nil {
		return evidence.Receipt{}, err
	}
	// Leaves never change: snapshots of any time go with one checkpoint, and none is long.
	for from := uint64(0); from < sale.Objects; from += perSnapshot {
		n := min(perSnapshot, sale.Objects-from)
		if err := m.Engine.View(ctx, func(s *state.State) error { return r.add(s, from, n) }); err != nil {
			return evidence.Receipt{}, err
		}
	}
	proof, signed, err := m.proveSigned(ctx, sale.Last(), r.numbers)
	if err != nil {
		return evidence.Receipt{}, err
	}
	return r.Finish(proof, signed), nil
}

// receipt reads what a receipt is made of.
type receipt struct {
	*evidence.ReceiptMaker
	sale    state.Sale
	numbers []uint64 // of the events in it
}

// begin reads all but the responses.
func (r *receipt) begin(s *state.State, number uint64) (err error) {
	question, err := s.Definition(state.BucketQuestions, r.sale.Question)
	if err != nil {
		return err
	}
	buyer, err := s.Definition(state.BucketBuyers, r.sale.Buyer)
	if err != nil {
		return err
	}
	r.numbers = []uint64{1, question, buyer, r.sale.Event}
	var all [4]evidence.Entry
	for i, number := range r.numbers {
		if all[i], err = Entry(s, number); err != nil {
			return err
		}
	}
	if c, ok := all[3].Change.(*event.SaleMade); !ok || c.Sale != number {
		return errs.Corrupt(nil, "event %d does not make sale %d", r.sale.Event, number)
	}
	r.ReceiptMaker, err = evidence.NewReceipt(all[0], all[1], all[2], all[3])
	return err
}

// add adds n responses after the first from.
func (r *receipt) add(s *state.State, from, n uint64) error {
	next := make([]uint64, n)
	for i := range next {
		next[i] = r.sale.Event + 1 + from + uint64(i)
	}
	prefetchEvents(s, next)
	for _, number := range next {
		sold, err := Entry(s, number)
		if err == nil {
			err = r.Add(sold)
		}
		if err != nil {
			return err
		}
	}
	r.numbers = append(r.numbers, next...)
	return nil
}
