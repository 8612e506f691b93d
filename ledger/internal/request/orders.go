package request

import (
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// OrderOf returns the number of a sale or reservation by its place among those of a buyer, or
// [errs.ErrUnknown].
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

// CheckReceiptSizes returns [errs.ErrUnknown] unless each of some sizes of the log is that of a
// receipt of a buyer's.
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

// Orders are the sales and reservations of one buyer, or of all if buyer is 0.
type Orders struct {
	state *state.State
	buyer uint32
	Count uint64 // how many there are
}

// OrdersOf returns those of a buyer by its name, none if it is unknown; with "", those of all.
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

// Number returns the number of the order at a place, which must be there.
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

// SoldSale returns a sale by a number that a caller gave, or [errs.ErrUnknown]. A reservation that
// was not captured is no sale.
func SoldSale(s *state.State, number uint64) (state.Sale, error) {
	return orderIf(s, "sale", number, func(r state.Sale) bool { return r.Status == state.SaleSold })
}

// Reservation returns a reservation by a number that a caller gave, or [errs.ErrUnknown]. A sale that
// was never reserved is none.
func Reservation(s *state.State, number uint64) (state.Sale, error) {
	return orderIf(s, "reservation", number, func(r state.Sale) bool { return r.Granted != 0 })
}

// orderIf returns a sale or a reservation that is what the caller takes it for, or [errs.ErrUnknown].
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

// SettledSale returns the number of the sale or reservation that an event settled.
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
