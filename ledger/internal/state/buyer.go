package state

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// Buyer is a buyer of responses.
type Buyer struct {
	Name   string // as in its first order
	Orders uint64 `audit:"the number of orders"` // sales and reservations, each counted once
	Sold   uint64 `audit:"the number of sales"`  // number of sales to the buyer
	Paid   uint64 `audit:"paid"`                 // for these sales, in minor units of the currency
}

// Fields implements [wire.Record].
func (b *Buyer) Fields(x wire.Codec) {
	x.Text(&b.Name)
	x.Uvarint(&b.Orders, &b.Sold, &b.Paid)
}

// Encode returns the payload of the record.
func (b Buyer) Encode() []byte { return wire.Encode(&b) }

// DecodeBuyer decodes what [Buyer.Encode] returns.
func DecodeBuyer(payload []byte) (Buyer, error) { return wire.Decode[Buyer](payload) }

// NumberedName is the name of a buyer with its number. The zero value means that there is none.
type NumberedName struct {
	number uint32
	name   string
}

// BuyerNumber returns the number of the buyer with a name. found is false if the ledger has no such
// buyer.
func (s *State) BuyerNumber(name string) (number uint32, found bool, err error) {
	if len(name) > event.MaxNameBytes {
		return 0, false, nil // no buyer has such a long name
	}
	return Lookup(s, BucketBuyers, NameKey(name), DecodeNumber32)
}

// Buyer returns the buyer with a number. It returns [errs.ErrCorrupt] if there is none.
func (s *State) Buyer(number uint32) (Buyer, error) {
	b, found, err := Lookup(s, BucketBuyers, NumberKey(number), DecodeBuyer)
	if err != nil || !found {
		return b, errs.Corrupt(err, "buyer %d is missing", number)
	}
	return b, nil
}

// PutBuyer writes the record of the buyer with a number.
func (s *State) PutBuyer(number uint32, b Buyer) error {
	return s.Put(BucketBuyers, NumberKey(number), b.Encode())
}

// AddOrder appends the number of a new sale or reservation to the orders of its buyer, which must
// exist. It returns the ordinal of the new order among these orders, from 1.
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

// AddPaid adds a sale and its price to those of its buyer, which must exist.
func (s *State) AddPaid(buyer uint32, price uint64) error {
	b, err := s.Buyer(buyer)
	if err != nil {
		return err
	}
	b.Sold++
	b.Paid += price
	return s.PutBuyer(buyer, b)
}

// Order returns the number of the sale or reservation with an ordinal among the orders of a buyer,
// from 1. found is false after the last one.
func (s *State) Order(buyer uint32, ordinal uint64) (number uint64, found bool, err error) {
	return Lookup(s, BucketOrders, OrderKey(buyer, ordinal), DecodeNumber64)
}

// BuyerName returns the name of a buyer, which never changes. It keeps the last name in
// s.LastBuyer, because the objects of a sale look it up one after the other.
func (s *State) BuyerName(number uint32) (string, error) {
	if s.LastBuyer.number != number || number == 0 {
		b, err := s.Buyer(number)
		if err != nil {
			return "", err
		}
		s.LastBuyer = NumberedName{number, b.Name}
	}
	return s.LastBuyer.name, nil
}
