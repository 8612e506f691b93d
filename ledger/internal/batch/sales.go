package batch

import (
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
)

// salesAtATime is how many sales and reservations [SomeSales] reads at most.
const salesAtATime = 1024

// Describe returns a sale or reservation in a caller's form, and its size in rows, which is 0 if it is not to be listed.
type Describe[T any] func(s *state.State, number uint64, r state.Sale) (one T, size int, err error)

// SomeSales describes sales and reservations of one buyer, or of all if name is "", from a place on. It returns the place to go on with,
// or 0 at the end. Places of one buyer are those among its own: the orders of others cost it no time.
func SomeSales[T any](s *state.State, name string, from uint64, describe Describe[T]) (found []T, next uint64, err error) {
	of, err := ordersOf(s, name)
	if err != nil {
		return nil, 0, err
	}
	end := min(from+salesAtATime, of.count+1)
	rows := 0 // in what was found
	for place := from; place < end; place++ {
		number, err := of.number(place)
		if err != nil {
			return nil, 0, err
		}
		r, err := s.Sale(number)
		if err != nil {
			return nil, 0, err
		}
		one, size, err := describe(s, number, r)
		if err != nil {
			return nil, 0, err
		}
		if size == 0 {
			continue
		}
		found = append(found, one)
		if rows += size; rows > vocabulary.MaxPanel {
			end = place + 1
		}
	}
	if end > of.count {
		end = 0
	}
	return found, end, nil
}

// OrderOf returns the number of a sale or reservation by its place among those of a buyer, or [errs.ErrUnknown].
func OrderOf(s *state.State, name string, ordinal uint64) (uint64, error) {
	of, err := ordersOf(s, name)
	if err == nil && (ordinal == 0 || ordinal > of.count) {
		err = fmt.Errorf("order %d of buyer %q: %w", ordinal, name, errs.ErrUnknown)
	}
	if err != nil {
		return 0, err
	}
	return of.number(ordinal)
}

// CheckReceiptSizes returns [errs.ErrUnknown] unless each of some sizes of the log is that of a receipt of a buyer's.
func CheckReceiptSizes(s *state.State, name string, sizes ...uint64) error {
	buyer, known, err := s.BuyerNumber(name)
	if err != nil {
		return err
	}
	for _, size := range sizes {
		r, is, err := receiptAt(s, size)
		if err != nil {
			return err
		}
		if !known || !is || r.Buyer != buyer {
			return fmt.Errorf("a receipt of buyer %q at %d events: %w", name, size, errs.ErrUnknown)
		}
	}
	return nil
}

// receiptAt returns the sale whose receipt proves the log at a size, if there is one.
func receiptAt(s *state.State, size uint64) (r state.Sale, is bool, err error) {
	if size == 0 || size > s.Counters.Events {
		return r, false, nil
	}
	ev, err := s.Event(size)
	if err != nil {
		return r, false, err
	}
	end, is := ev.Change.(*event.Settled)
	if !is || end.Sale == 0 {
		return r, false, nil
	}
	r, err = s.Sale(end.Sale)
	return r, err == nil && r.Status == state.SaleSold && r.Last() == size, err
}

// orders are the sales and reservations of one buyer, or of all if buyer is 0.
type orders struct {
	state *state.State
	buyer uint32
	count uint64
}

// ordersOf returns those of a buyer by its name, none if it is unknown; with "", those of all.
func ordersOf(s *state.State, name string) (orders, error) {
	if name == "" {
		return orders{s, 0, s.Counters.Sales}, nil
	}
	number, known, err := s.BuyerNumber(name)
	if err != nil || !known {
		return orders{s, 0, 0}, err
	}
	b, err := s.Buyer(number)
	return orders{s, number, b.Orders}, err
}

// number returns the number of the order at a place, which must be there.
func (o orders) number(place uint64) (uint64, error) {
	if o.buyer == 0 {
		return place, nil
	}
	number, found, err := o.state.Order(o.buyer, place)
	if err == nil && !found {
		err = errs.Corrupt(nil, "order %d of buyer %d is missing", place, o.buyer)
	}
	return number, err
}
