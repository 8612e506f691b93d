package state

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// Level is a recorded response, with the event that recorded it and the buyers that hold it.
type Level struct {
	rrchain.Level[event.Value]
	Event   uint64  // the number of the event
	Holders Holders `audit:"the buyers"` // in the order in which they bought it
}

// Holders are the buyers that hold a level.
type Holders []Holder

// Holder is a buyer that holds a level.
type Holder struct {
	Buyer uint32 // the number of the buyer
	Paid  uint64 // for this level, by the sale that handed it out, in minor units of the currency
}

// String lists the buyers and what they have paid.
func (h Holders) String() string {
	texts := make([]string, len(h))
	for i, one := range h {
		texts[i] = fmt.Sprintf("%d for %d", one.Buyer, one.Paid)
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// NewLevel returns a level that an event recorded, without holders.
func NewLevel(epsilon privacy.Epsilon, response event.Value, ev uint64) Level {
	return Level{Level: rrchain.Level[event.Value]{Epsilon: epsilon, Response: response}, Event: ev}
}

// FindLevel returns the index of the level at exactly this ε, and true. If there is none, it
// returns the index where the level would be inserted, and false. The levels must be in rising
// order of ε.
func FindLevel(levels []Level, epsilon privacy.Epsilon) (place int, recorded bool) {
	return slices.BinarySearchFunc(levels, epsilon, func(l Level,
		e privacy.Epsilon) int {
		return l.Epsilon.Compare(e)
	})
}

// holder returns the index of a buyer among the holders, or -1. It returns -1 for buyer 0.
func (l *Level) holder(buyer uint32) int {
	if buyer == 0 {
		return -1
	}
	return slices.IndexFunc(l.Holders, func(h Holder) bool { return h.Buyer == buyer })
}

// IsHeldBy reports whether a buyer holds the response. It returns false for buyer 0.
func (l Level) IsHeldBy(buyer uint32) bool { return l.holder(buyer) >= 0 }

// encodeLevels appends the number of levels, and then each level with its holders.
func encodeLevels(e *wire.Encoder, levels []Level) {
	e.Uvarint(uint64(len(levels)))
	for i := range levels {
		l := &levels[i]
		encodeLevel(e, l)
		e.Uvarint(uint64(len(l.Holders)))
		for _, h := range l.Holders {
			e.Uvarint(uint64(h.Buyer))
			e.Uvarint(h.Paid)
		}
	}
}

// encodeLevel appends a level without its holders: ε, the response, and the event. Both branches
// write the same form. The second is faster.
func encodeLevel(e *wire.Encoder, l *Level) {
	if l.Response.IsUnary() {
		e.Epsilon(l.Epsilon)
		l.Response.Fields(wire.Writing(e))
		e.Uvarint(l.Event)
		return
	}
	e.Buf = wire.AppendNumbers(e.Buf, uint64(l.Epsilon.Nano()), uint64(l.Response.Index), l.Event)
}

// smallestLevel is the smallest encoded size of a level in bytes.
const smallestLevel = 4

// DecodeLevel decodes a level into memory of the caller, and the number of its holders. The caller
// decodes the holders with [DecodeHolders], or skips them with [SkipHolders].
func DecodeLevel(d *wire.Decoder, into *Level) (holders int) {
	// n has ε, the index of the response, the event, and the number of holders. In unary encoding,
	// the bits of the response follow its index, and AsValue reads them.
	var n [4]uint64
	d.Uvarints(n[:2])
	into.Epsilon, into.Response = d.AsEpsilon(n[0]), event.AsValue(d, n[1])
	d.Uvarints(n[2:])
	into.Event = n[2]
	return d.Fits(n[3], smallestHolder)
}

// smallestHolder is the smallest encoded size of a holder in bytes.
const smallestHolder = 2

// DecodeHolders decodes n holders.
func DecodeHolders(d *wire.Decoder, n int) []Holder {
	if n == 0 {
		return nil
	}
	holders := make([]Holder, n)
	for i := range holders {
		holders[i] = Holder{d.Uvarint32(), d.Uvarint()}
	}
	return holders
}

// SkipHolders skips n holders.
func SkipHolders(d *wire.Decoder, n int) {
	for range n {
		d.Uvarint32()
		d.Uvarint()
	}
}

// LevelPage is reusable memory for the levels of some chains. The zero value allocates new memory
// for each chain.
type LevelPage struct {
	Page []Level // used from the front
	used int
}

// take returns memory for n levels, with capacity for one more, which an event may insert. It
// returns nil if n is 0 and the page is full or nil. A nil page stays nil, and each call allocates.
// A page that is too small is replaced by a larger one.
func (p *LevelPage) take(n int) []Level {
	switch {
	case n < len(p.Page)-p.used:
		taken := p.Page[p.used : p.used+n : p.used+n+1]
		p.used += n + 1
		return taken
	case n == 0:
		return nil
	case p.Page == nil:
		return make([]Level, n, n+1)
	}
	p.Page, p.used = make([]Level, 2*(n+1)), 0 // levels taken before keep the old page
	// The new page is large enough, so this call ends at the first case.
	return p.take(n)
}

// Clear makes the whole page free. The caller must not use levels that were taken before.
func (p *LevelPage) Clear() { p.used = 0 }

// decodeChain is [DecodeChain] with the levels of the current epoch in memory of the page. If the
// record is damaged, the page stays as it was.
func (p *LevelPage) decodeChain(payload []byte) (c Chain, err error) {
	d := wire.Decoder{Rest: payload}
	bound, levels := c.DecodeHead(&d)
	if bound != nil {
		// A copy, because bound shares the memory of the record.
		t := event.Tag(bound)
		c.Bound = &t
	}
	before := *p
	c.Levels = p.take(levels)
	for i := range c.Levels {
		l := &c.Levels[i]
		l.Holders = DecodeHolders(&d, DecodeLevel(&d, l))
	}
	if err := d.Done(); err != nil {
		*p = before
		return Chain{}, err
	}
	return c, nil
}
