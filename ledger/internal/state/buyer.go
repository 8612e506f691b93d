package state

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// Buyer is a customer of the market.
type Buyer struct {
	Name   string // as in its first order
	Orders uint64 `audit:"the number of orders"` // sales and reservations, each counted once
	Sold   uint64 `audit:"the number of sales"`  // sales to it
	Paid   uint64 `audit:"paid"`                 // for them, in minor units of the currency
}

// Fields implements [wire.Record].
func (b *Buyer) Fields(x wire.Codec) {
	x.Text(&b.Name)
	x.Uvarint(&b.Orders, &b.Sold, &b.Paid)
}

// Encode returns the payload of the record.
func (b Buyer) Encode() []byte { return wire.Encode(&b) }

// DecodeBuyer reads what [Buyer.Encode] writes.
func DecodeBuyer(payload []byte) (Buyer, error) { return wire.Decode[Buyer](payload) }

// NumberedName is a name with its number, 0 for none.
type NumberedName struct {
	number uint32
	name   string
}

// BuyerNumber returns the number of a buyer by its name.
func (s *State) BuyerNumber(name string) (number uint32, found bool, err error) {
	if len(name) > event.MaxNameBytes {
		return 0, false, nil
	}
	return Lookup(s, BucketBuyers, NameKey(name), DecodeNumber32)
}

// Buyer returns a buyer by its number, who must be there.
func (s *State) Buyer(number uint32) (Buyer, error) {
	b, found, err := Lookup(s, BucketBuyers, NumberKey(number), DecodeBuyer)
	if err != nil || !found {
		return b, errs.Corrupt(err, "buyer %d is missing", number)
	}
	return b, nil
}

// PutBuyer writes a buyer.
func (s *State) PutBuyer(number uint32, b Buyer) error {
	return s.Put(BucketBuyers, NumberKey(number), b.Encode())
}

// AddOrder gives a new sale or reservation the next place among the orders of its buyer, who must
// be there, and returns that.
func (s *State) AddOrder(buyer uint32, number uint64) (ordinal uint64, err error) {
	b, err := s.Buyer(buyer)
	if err != nil {
		return 0, err
	}
	b.Orders++
	if err := s.Put(BucketOrders, OrderKey(buyer, b.Orders), EventKey(number)); err != nil {
		return 0, err
	}
	return b.Orders, s.PutBuyer(buyer, b)
}

// AddPaid adds a sale to those of its buyer, who must be there.
func (s *State) AddPaid(buyer uint32, price uint64) error {
	b, err := s.Buyer(buyer)
	if err != nil {
		return err
	}
	b.Sold++
	b.Paid += price
	return s.PutBuyer(buyer, b)
}

// Order returns the number of a sale or reservation by its place among those of its buyer, from 1.
// It is not found beyond the last.
func (s *State) Order(buyer uint32, ordinal uint64) (number uint64, found bool, err error) {
	return Lookup(s, BucketOrders, OrderKey(buyer, ordinal), DecodeNumber64)
}

// BuyerName returns the name of a buyer, which never changes. It remembers the last: the objects of
// a sale ask for it in turn.
func (s *State) BuyerName(number uint32) (string, error) {
	if s.Client.number != number || number == 0 {
		b, err := s.Buyer(number)
		if err != nil {
			return "", err
		}
		s.Client = NumberedName{number, b.Name}
	}
	return s.Client.name, nil
}
