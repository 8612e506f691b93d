package state

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// Buyer is a customer of the market.
type Buyer struct {
	Name string // as in its first order
	Sold uint64 `audit:"the number of sales"` // sales to it
	Paid uint64 `audit:"paid"`                // for them, in minor units of the currency
}

// Fields implements [wire.Record].
func (b *Buyer) Fields(x wire.Codec) {
	x.Text(&b.Name)
	x.Uvarint(&b.Sold, &b.Paid)
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
	if len(name) > names.MaxBytes {
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

// BuyerName returns the name of a buyer, which never changes. It remembers the last: the objects of a sale ask for it in turn.
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
