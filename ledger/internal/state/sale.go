package state

import (
	"fmt"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
)

// SaleStatus is the status of a sale. It is stored as one byte.
type SaleStatus uint8

const (
	SaleReserved  SaleStatus = iota + 1 // may have expired: see [Sale.Holds]
	SaleSold                            // executed
	SaleCancelled                       // a reservation that was cancelled
)

// String returns the status as a word.
func (s SaleStatus) String() string {
	switch s {
	case SaleReserved:
		return "reserved"
	case SaleSold:
		return "sold"
	case SaleCancelled:
		return "cancelled"
	}
	return fmt.Sprintf("of status %d", uint8(s))
}

// Sale is the record of a sale or a reservation.
type Sale struct {
	Status   SaleStatus      `audit:"it"` // the status
	Buyer    uint32          // number of the buyer
	Ordinal  uint64          `audit:"its place among the orders of its buyer"` // from 1, including reservations
	Question uint32          // number of the question
	Epsilon  privacy.Epsilon `audit:"ε"`                     // of the responses
	Objects  uint64          `audit:"the number of objects"` // number of objects that take part
	Price    uint64          // in total; for a reservation, the reserved price
	// Refused is the number of objects left out. Their events follow those of the objects that take
	// part.
	Refused uint64 `audit:"the number of refused objects"`
	Event   uint64 // the event that began it; the events of its objects follow
	// Granted is the event that granted the reservation; 0 without a reservation.
	Granted uint64    `audit:"the event of the reservation"`
	Expires time.Time `audit:"the end of the reservation"` // end of a reservation; otherwise zero
	// Promised is the reserved price of a sale that was a reservation before.
	Promised uint64 `audit:"the price reserved"`
}

// Last returns the event that settled the request of the sale. It follows the event of the sale,
// one for each object, and one for each refusal. The receipt of the sale proves the log up to this
// event.
func (r Sale) Last() uint64 { return r.Event + r.Objects + r.Refused + 1 }

// Deal implements event.Names. It returns the terms of a sale or a reservation: its number, buyer,
// question and ε.
func (s *State) Deal(_ event.Kind, sale uint64) (event.Deal, error) {
	r, err := s.Sale(sale)
	return event.Deal{Sale: sale, Buyer: r.Buyer, Question: r.Question, Epsilon: r.Epsilon}, err
}

// NamesOf returns the names of the buyer and the question of a sale.
func (s *State) NamesOf(r Sale) (buyer, question string, err error) {
	b, err := s.Buyer(r.Buyer)
	if err != nil {
		return "", "", err
	}
	q, err := s.Question(r.Question)
	if err != nil {
		return "", "", err
	}
	return b.Name, q.Name, nil
}

// Holds reports whether it is a reservation that is open at a time.
func (r Sale) Holds(at time.Time) bool { return r.Status == SaleReserved && at.Before(r.Expires) }

// ReservationState returns the state of a reservation at a time, as one of the texts of package
// event such as [event.ReservationOpen].
func (r Sale) ReservationState(at time.Time) string {
	switch {
	case r.Status == SaleSold:
		return event.ReservationCaptured
	case r.Status == SaleCancelled:
		return event.ReservationCancelled
	case r.Holds(at):
		return event.ReservationOpen
	}
	return event.ReservationExpired
}

// HoldsOn reports whether it is a reservation that holds budget of an object at a time. An object
// that has withdrawn since the grant is not part of the reservation, even if it has enrolled again.
func (r Sale) HoldsOn(o Object, at time.Time) bool { return r.Holds(at) && o.Withdrawn < r.Granted }

// StillHeld returns the numbers of the reservations that hold budget of an object now. sold is the
// reservation that is being captured, which is left out, or 0.
func (s *State) StillHeld(o Object, sold uint64) (numbers []uint64, err error) {
	for _, number := range o.Held {
		if number == sold {
			continue
		}
		r, err := s.Sale(number)
		if err != nil {
			return nil, err
		}
		if r.HoldsOn(o, s.Now) {
			numbers = append(numbers, number)
		}
	}
	return numbers, nil
}

// HeldUntil returns when the last reservation ends that holds budget of an object, or the zero time
// if there is none.
func (s *State) HeldUntil(o Object) (end time.Time, err error) {
	for _, number := range o.Held {
		r, err := s.Sale(number)
		if err != nil {
			return end, err
		}
		if r.HoldsOn(o, s.Now) && end.Before(r.Expires) {
			end = r.Expires
		}
	}
	return end, nil
}

// Fields implements [wire.Record].
func (r *Sale) Fields(x wire.Codec) {
	x.U8((*uint8)(&r.Status))
	x.U32(&r.Buyer, &r.Question)
	x.Uvarint(&r.Ordinal)
	x.Epsilon(&r.Epsilon)
	x.Uvarint(&r.Objects, &r.Price, &r.Refused, &r.Event, &r.Granted)
	if ends := !r.Expires.IsZero(); x.Flag(&ends) {
		x.Time(&r.Expires)
	}
	x.Uvarint(&r.Promised)
	isStatus := r.Status >= SaleReserved && r.Status <= SaleCancelled
	if d := x.Reads(); d != nil && (!isStatus || r.Objects == 0 || r.Objects > api.MaxPanel) {
		d.Fail("sale of %d objects with status %d", r.Objects, r.Status)
	}
}

// Encode returns the payload of the record.
func (r Sale) Encode() []byte { return wire.Encode(&r) }

// DecodeSale decodes what [Sale.Encode] returns.
func DecodeSale(payload []byte) (Sale, error) { return wire.Decode[Sale](payload) }

// NumberedSale is a sale with its number; 0 for none.
type NumberedSale struct {
	Number uint64 // from 1
	Sale
}

// maxSalesKept is the largest number of sales that are kept in addition to the last one.
const maxSalesKept = 4 * event.MaxReservations

// Sale returns the sale or reservation with a number. It returns an error if there is none. It
// keeps the last one, because the objects of a sale look it up one after the other. It also keeps
// others as stored, because several checks of an object each read all of its reservations.
func (s *State) Sale(number uint64) (Sale, error) {
	if s.LastSale.Number == number && number != 0 {
		return s.LastSale.Sale, nil
	}
	r, found := s.salesKept[number]
	if !found {
		var err error
		if r, found, err = Lookup(s, BucketSales, EventKey(number), DecodeSale); err != nil || !found {
			return r, errs.Corrupt(err, "sale %d is missing", number)
		}
		// Most transactions read one sale, so only a second one is kept in the map.
		if s.LastSale.Number != 0 {
			s.keepSale(number, r)
		}
	}
	s.LastSale = NumberedSale{number, r}
	return r, nil
}

// keepSale keeps a sale that was read, in addition to the last one. If maxSalesKept sales are kept,
// it first drops them all.
func (s *State) keepSale(number uint64, r Sale) {
	if s.salesKept == nil || len(s.salesKept) == maxSalesKept {
		s.salesKept = make(map[uint64]Sale, 1)
	}
	s.salesKept[number] = r
}

// ForgetSales drops all sales that are kept.
func (s *State) ForgetSales() { s.LastSale, s.salesKept = NumberedSale{}, nil }

// PutSale writes a sale or reservation, and makes it the last one.
func (s *State) PutSale(number uint64, r Sale) error {
	// The map may have the sale as it was before.
	delete(s.salesKept, number)
	s.LastSale = NumberedSale{number, r}
	return s.Put(BucketSales, EventKey(number), r.Encode())
}
