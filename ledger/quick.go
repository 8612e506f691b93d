package ledger

import (
	"encoding/binary"
	"math"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// quick reads the numbers of a record that has no fault, in a third of the time that decoder takes. It finds no fault: what
// it does not know as right it calls unusual, and then decoder says what is wrong, if anything is.
type quick struct {
	record []byte
	at     int // where the next number stands: behind the end of the record once something was unusual
}

// number reads a number. Most are small.
func (q *quick) number() uint64 {
	if at := q.at; at < len(q.record) && q.record[at] < 0x80 {
		q.at++
		return uint64(q.record[at])
	}
	return q.longNumber()
}

func (q *quick) longNumber() (n uint64) {
	at := q.at
	for shift := 0; at < len(q.record) && shift < 63; shift += 7 {
		digits := q.record[at]
		at++
		n |= uint64(digits&0x7f) << shift
		if digits < 0x80 {
			if digits == 0 && shift > 0 { // longer than it need be
				break
			}
			q.at = at
			return n
		}
	}
	q.at = len(q.record) + 1
	return 0
}

// take returns the next n bytes, or nil.
func (q *quick) take(n int) []byte {
	from := q.at
	if n > len(q.record)-from {
		q.at = len(q.record) + 1
		return nil
	}
	q.at += n
	return q.record[from:q.at]
}

// fits tells whether a list of so many items, of at least size bytes each, can follow.
func (q *quick) fits(items uint64, size int) bool {
	return int64(items) <= int64((len(q.record)-q.at)/size) // of at most 63 bits
}

// done tells whether all of the record was read, and nothing of it was unusual.
func (q *quick) done() bool { return q.at == len(q.record) }

// object reads the record of an object.
func (q *quick) object(o *object) (usual bool) {
	limit, spent := q.number(), q.number()
	o.chains, o.withdrawn, o.forgotten, o.earned = q.number(), q.number(), q.number(), q.number()
	o.latest, o.events, o.settled, o.settles = q.number(), q.number(), q.number(), q.number()
	if q.number() != 0 { // nothing of it is held
		return false
	}
	o.cap, _ = privacy.EpsilonFromNano(int64(limit))
	o.spent, _ = privacy.EpsilonFromNano(int64(spent))
	return q.done() && max(limit, spent) <= privacy.MaxEpsilonNano
}

// chain reads the record of a chain whose responses are no rows of bits. Its levels are put on the page.
func (q *quick) chain(c *chain, p *levelPage) (usual bool) {
	c.enrolled = q.number()
	policy, noise := q.number(), q.number()
	c.orders = q.number()
	switch q.number() {
	case 0:
	case 1:
		bound := q.take(len(tag{}))
		if bound == nil {
			return false
		}
		t := tag(bound)
		c.bound = &t
	default:
		return false
	}
	answered, levels := q.number(), q.number()
	const smallest = 4 // bytes of a level
	if !q.fits(levels, smallest) || max(policy, noise) > math.MaxUint32 || answered > privacy.MaxEpsilonNano {
		return false
	}
	c.policy, c.noise = uint32(policy), uint32(noise)
	c.answered, _ = privacy.EpsilonFromNano(int64(answered))
	before := *p
	c.levels = p.take(int(levels))
	usual = true
	for i := range c.levels {
		usual = q.level(&c.levels[i]) && usual
	}
	if usual = usual && q.done(); !usual {
		*p = before
	}
	return usual
}

// level reads a level with its buyers.
func (q *quick) level(l *level) (usual bool) {
	epsilon, response, event := q.number(), q.number(), q.number()
	l.Epsilon, _ = privacy.EpsilonFromNano(int64(epsilon))
	l.Response, l.event, l.buyers = value{index: int(response)}, event, nil
	usual = epsilon <= privacy.MaxEpsilonNano && response < rrchain.MaxValues
	if buyers := q.number(); buyers > 0 {
		if !q.fits(buyers, 1) {
			return false
		}
		l.buyers = make([]uint32, buyers)
		for i := range l.buyers {
			buyer := q.number()
			l.buyers[i], usual = uint32(buyer), usual && buyer <= math.MaxUint32
		}
	}
	return usual
}

// plainObject is object in an audit's memory, where records have no checksums.
func (s *state) plainObject(name string) (o object, found bool, err error) {
	key := appendObjectKey(s.draft.lookup(), name)
	payload, err := s.Get(bucketObjects, key)
	if err != nil || payload == nil {
		return object{}, false, err
	}
	q := quick{record: payload}
	if q.object(&o) {
		return o, true, nil
	}
	return decodePayload(bucketObjects, key, payload, decodeObject)
}

// plainChain is chain in an audit's memory.
func (s *state) plainChain(question uint32, name string) (c chain, found bool, err error) {
	key := appendChainKey(s.draft.lookup(), question, name)
	payload, err := s.Get(bucketChains, key)
	if err != nil || payload == nil {
		return chain{}, false, err
	}
	q := quick{record: payload}
	if q.chain(&c, &s.levels) {
		return c, true, nil
	}
	return decodePayload(bucketChains, key, payload, s.levels.decodeChain)
}

// appendNumber is binary.AppendUvarint. Most numbers are small.
func appendNumber(b []byte, n uint64) []byte {
	if n < 0x80 {
		return append(b, byte(n))
	}
	return binary.AppendUvarint(b, n)
}
