package request

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
)

// The parts of an ID, in bytes: what is offered, of whom, and under which policies. A part is a
// hash.
const (
	offerBytes  = 16
	peopleBytes = 4
	termsBytes  = 8
)

// quotedPeople are the objects of a quote, refused or not.
type quotedPeople struct{ people, under hash.Hash }

// newQuotedPeople returns none.
func newQuotedPeople() *quotedPeople { return &quotedPeople{sha256.New(), sha256.New()} }

// add adds an object, with the number of its policy.
func (p *quotedPeople) add(name string, policy uint32) {
	e := wire.Encoder{Buf: make([]byte, 0, 64)}
	e.Text(name)
	_, _ = p.people.Write(e.Buf) // it never fails
	e.Uvarint(uint64(policy))
	_, _ = p.under.Write(e.Buf)
}

// quotedOffer is what a quote says of its objects.
type quotedOffer struct {
	sum hash.Hash
	e   *wire.Encoder
}

// newQuotedOffer returns the offer of a ledger to a buyer, without objects.
func newQuotedOffer(ledger [16]byte, buyer string, question uint32, epsilon privacy.Epsilon) *quotedOffer {
	o := &quotedOffer{sha256.New(), wire.NewDigest("quote")}
	o.e.Raw(ledger[:])
	o.e.Text(buyer)
	o.e.U32(question)
	o.e.Epsilon(epsilon)
	o.write()
	return o
}

// sells adds an object that answers, with its price.
func (o *quotedOffer) sells(name string, price uint64) {
	o.e.Flag(true)
	o.e.Text(name)
	o.e.Uvarint(price)
	o.write()
}

// refuses adds an object that is refused. The ID does not say why: the buyer has it.
func (o *quotedOffer) refuses(name string) {
	o.e.Flag(false)
	o.e.Text(name)
	o.write()
}

// write hashes what was encoded.
func (o *quotedOffer) write() {
	_, _ = o.sum.Write(o.e.Buf) // it never fails
	o.e.Buf = o.e.Buf[:0]
}

// id returns the ID of the quote that makes this offer about some people.
func (o *quotedOffer) id(p *quotedPeople) string {
	offer, people, terms := o.sum.Sum(nil)[:offerBytes], p.people.Sum(nil)[:peopleBytes], p.under.Sum(nil)[:termsBytes]
	return hex.EncodeToString(slices.Concat(offer, people, terms))
}

// areSameOffer reports whether two quotes offer the same.
func areSameOffer(id, other string) bool {
	return id[:min(len(id), 2*offerBytes)] == other[:min(len(other), 2*offerBytes)]
}

// areUnderOtherTerms reports whether one quote is about the same people as another, under other
// policies.
func areUnderOtherTerms(id, other string) bool {
	const people, all = 2 * offerBytes, 2 * (offerBytes + peopleBytes + termsBytes)
	const terms = people + 2*peopleBytes
	return len(id) == all && len(other) == all && id[people:terms] == other[people:terms] && id[terms:] != other[terms:]
}
