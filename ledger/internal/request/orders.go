package request

import (
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// OrderOf returns the number of a buyer's sale or reservation by its ordinal among the orders of
// that buyer, from 1. It returns [errs.ErrUnknown] if there is no such order.
func OrderOf(s *state.State, name string, ordinal uint64) (uint64, error) {
	of, err := OrdersOf(s, name)
	if err == nil && (ordinal == 0 || ordinal > of.Count) {
		err = fmt.Errorf("order %d of buyer %q: %w", ordinal, name, errs.ErrUnknown)
	}
	if err != nil {
		return 0, err
	}
	return of.Number(ordinal)
}

// CheckReceiptSizes returns [errs.ErrUnknown] unless, for each of these log sizes, the buyer has a
// receipt that proves the log at that size.
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
			return fmt.Errorf("receipt of buyer %q at log size %d: %w", name, size, errs.ErrUnknown)
		}
	}
	return nil
}

// receiptAt returns the sale that was settled by the last event of the log at a size. Its receipt
// proves the log at that size. is is false if there is no such sale.
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

// Orders is the list of the sales and reservations of one buyer, or of all buyers.
type Orders struct {
	state *state.State // the snapshot
	buyer uint32       // 0 for all buyers
	Count uint64       // number of orders
}

// OrdersOf returns the orders of the buyer with this name, or no orders if the buyer is unknown.
// With an empty name it returns the orders of all buyers.
func OrdersOf(s *state.State, name string) (Orders, error) {
	if name == "" {
		return Orders{s, 0, s.Counters.Sales}, nil
	}
	number, known, err := s.BuyerNumber(name)
	if err != nil || !known {
		return Orders{s, 0, 0}, err
	}
	b, err := s.Buyer(number)
	return Orders{s, number, b.Orders}, err
}

// Number returns the number of the sale or reservation at a place in the list, from 1 to Count.
func (o Orders) Number(place uint64) (uint64, error) {
	if o.buyer == 0 {
		return place, nil
	}
	number, found, err := o.state.Order(o.buyer, place)
	if err == nil && !found {
		err = errs.Corrupt(nil, "order %d of buyer %d is missing", place, o.buyer)
	}
	return number, err
}

// SoldSale returns the sale with a number that a caller gave. It returns [errs.ErrUnknown] if there
// is none, and for a reservation that was not captured.
func SoldSale(s *state.State, number uint64) (state.Sale, error) {
	return orderIf(s, "sale", number, func(r state.Sale) bool { return r.Status == state.SaleSold })
}

// Reservation returns the reservation with a number that a caller gave. It returns
// [errs.ErrUnknown] if there is none, and for a sale that was never reserved.
func Reservation(s *state.State, number uint64) (state.Sale, error) {
	return orderIf(s, "reservation", number, func(r state.Sale) bool { return r.Granted != 0 })
}

// orderIf returns the sale or reservation with a number if it satisfies is, and otherwise
// [errs.ErrUnknown]. kind is for the error.
func orderIf(s *state.State, kind string, number uint64, is func(state.Sale) bool) (state.Sale, error) {
	unknown := fmt.Errorf("%s %d: %w", kind, number, errs.ErrUnknown)
	if number == 0 || number > s.Counters.Sales {
		return state.Sale{}, unknown
	}
	r, err := s.Sale(number)
	if err == nil && !is(r) {
		err = unknown
	}
	return r, err
}

// SettledSale returns the number of the sale or reservation whose request was settled by the event
// with this number.
func SettledSale(s *state.State, number uint64) (uint64, error) {
	end, err := s.Settlement(number)
	if err == nil && end.Sale == 0 {
		err = errs.Corrupt(nil, "event %d settles no sale", number)
	}
	if err != nil {
		return 0, err
	}
	return end.Sale, nil
}
