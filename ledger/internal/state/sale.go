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

// SaleStatus is how far a sale has come. It is stored as one byte.
type SaleStatus uint8

const (
	SaleReserved  SaleStatus = iota + 1 // it may have run out: see [Sale.Holds]
	SaleSold                            // carried out
	SaleCancelled                       // a reservation that somebody ended
)

// String puts the status in a word.
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

// Sale is a sale or a reservation under its number.
type Sale struct {
	Status   SaleStatus      `audit:"it"` // whether it was carried out
	Buyer    uint32          // by number
	Ordinal  uint64          `audit:"its place among the orders of its buyer"` // from 1, reservations too
	Question uint32          // by number
	Epsilon  privacy.Epsilon `audit:"ε"`                     // of the responses
	Objects  uint64          `audit:"the number of objects"` // how many take part
	Price    uint64          // in all; of a reservation, what is reserved
	// Refused counts objects left out, whose events follow those of its objects
	Refused uint64 `audit:"the number of refused objects"`
	Event   uint64 // that began it; those of its objects follow it
	// Granted is the event that reserved it, 0 without a reservation
	Granted uint64    `audit:"the event of the reservation"`
	Expires time.Time `audit:"the end of the reservation"` // of a reservation, else zero
	// Promised is what was reserved for a sale that was a reservation before
	Promised uint64 `audit:"the price reserved"`
}

// Last returns the event that settled the request which carried the sale out: the log as its
// receipt proves it ends there.
func (r Sale) Last() uint64 { return r.Event + r.Objects + r.Refused + 1 }

// Deal implements event.Names: it returns what a sale or a reservation is about.
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

// Holds tells whether it is a reservation that holds at an instant.
func (r Sale) Holds(at time.Time) bool { return r.Status == SaleReserved && at.Before(r.Expires) }

// ReservationState returns the state, at an instant, of what was reserved once.
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

// HoldsOn tells whether it is a reservation that holds something of an object. Whoever has
// withdrawn since it was granted is out of it, also when enrolled again.
func (r Sale) HoldsOn(o Object, at time.Time) bool { return r.Holds(at) && o.Withdrawn < r.Granted }

// StillHeld returns the reservations of an object that hold something of it, without one that is
// being sold; 0 stands for none.
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

// HeldUntil returns when the last of the reservations ends that hold something of an object; the
// zero time if none does.
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

// DecodeSale reads what [Sale.Encode] writes.
func DecodeSale(payload []byte) (Sale, error) { return wire.Decode[Sale](payload) }

// NumberedSale is a sale with its number, 0 for none.
type NumberedSale struct {
	Number uint64 // from 1
	Sale
}

// mostSalesKept is how many sales that were read are remembered.
const mostSalesKept = 4 * event.MaxReservations

// Sale returns a sale or reservation by its number, which must be there. It remembers the last: the
// objects of one ask for it in turn. It remembers others too, as they are stored: each of several
// checks of an object reads all of its reservations.
func (s *State) Sale(number uint64) (Sale, error) {
	if s.Latest.Number == number && number != 0 {
		return s.Latest.Sale, nil
	}
	r, found := s.salesKept[number]
	if !found {
		var err error
		if r, found, err = Lookup(s, BucketSales, EventKey(number), DecodeSale); err != nil || !found {
			return r, errs.Corrupt(err, "sale %d is missing", number)
		}
		if s.Latest.Number != 0 { // most transactions read one sale
			s.keepSale(number, r)
		}
	}
	s.Latest = NumberedSale{number, r}
	return r, nil
}

// keepSale remembers a sale that was read, beside the last.
func (s *State) keepSale(number uint64, r Sale) {
	if s.salesKept == nil || len(s.salesKept) == mostSalesKept {
		s.salesKept = make(map[uint64]Sale, 1)
	}
	s.salesKept[number] = r
}

// ForgetSales forgets what was read and written of sales.
func (s *State) ForgetSales() { s.Latest, s.salesKept = NumberedSale{}, nil }

// PutSale writes a sale or reservation.
func (s *State) PutSale(number uint64, r Sale) error {
	delete(s.salesKept, number)
	s.Latest = NumberedSale{number, r}
	return s.Put(BucketSales, EventKey(number), r.Encode())
}
