package request

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
)

// Lengths in bytes of the three parts of a quote ID. Each part is the beginning of a hash: of the
// offer, of the objects, and of their policies.
const (
	offerBytes = 16
	namesBytes = 4
	termsBytes = 8
)

// quotedObjects hashes the objects of a quote, including the refused ones, and separately their
// policies.
type quotedObjects struct{ names, policies hash.Hash }

// newQuotedObjects returns a quotedObjects without objects.
func newQuotedObjects() *quotedObjects { return &quotedObjects{sha256.New(), sha256.New()} }

// add adds an object to both hashes, and the number of its policy to the second.
func (p *quotedObjects) add(name string, policy uint32) {
	e := wire.Encoder{Buf: make([]byte, 0, 64)}
	e.Text(name)
	_, _ = p.names.Write(e.Buf) // a hash returns no error
	e.Uvarint(uint64(policy))
	_, _ = p.policies.Write(e.Buf)
}

// quotedOffer hashes what a quote offers of each object: a price, or nothing.
type quotedOffer struct {
	sum hash.Hash
	e   *wire.Encoder
}

// newQuotedOffer returns the offer of a ledger to a buyer for a question at an ε, without objects.
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

// refuses adds an object that is refused. The reason is not hashed, because the buyer has the ID,
// and could compute it for each reason.
func (o *quotedOffer) refuses(name string) {
	o.e.Flag(false)
	o.e.Text(name)
	o.write()
}

// write adds the encoded bytes to the hash and empties the buffer.
func (o *quotedOffer) write() {
	_, _ = o.sum.Write(o.e.Buf) // a hash returns no error
	o.e.Buf = o.e.Buf[:0]
}

// id returns the ID of the quote that makes this offer about these objects, in hexadecimal digits.
func (o *quotedOffer) id(objects *quotedObjects) string {
	offer, names := o.sum.Sum(nil)[:offerBytes], objects.names.Sum(nil)[:namesBytes]
	return hex.EncodeToString(slices.Concat(offer, names, objects.policies.Sum(nil)[:termsBytes]))
}

// areSameOffer reports whether two quote IDs are of the same offer: their first part is equal. The
// ID that a buyer gives may be shorter than that.
func areSameOffer(id, other string) bool {
	return id[:min(len(id), 2*offerBytes)] == other[:min(len(other), 2*offerBytes)]
}

// areUnderOtherTerms reports whether two quote IDs are about the same objects under different
// policies: their second part is equal, and their third is not.
func areUnderOtherTerms(id, other string) bool {
	// In an ID, a byte is two hexadecimal digits: offer and terms are where the second and the
	// third part begin.
	const offer, all = 2 * offerBytes, 2 * (offerBytes + namesBytes + termsBytes)
	const terms = offer + 2*namesBytes
	return len(id) == all && len(other) == all && id[offer:terms] == other[offer:terms] && id[terms:] != other[terms:]
}
