package ledger

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// quick reads the numbers of a record that has no fault, in a third of the time that decoder takes. It finds no fault: what
// it does not know as right it calls unusual, and then decoder says what is wrong, if anything is.
type quick struct {
	record []byte
	texts  *texts // as that of decoder
	at     int    // where the next number stands: behind the end of the record once something was unusual
}

// numbers reads as many numbers as are asked for. Most are small.
func (q *quick) numbers(into []uint64) {
	record, at := q.record, q.at
	for i := range into {
		if at < len(record) && record[at] < 0x80 {
			into[i] = uint64(record[at])
			at++
		} else {
			into[i], at = largeNumber(record, at)
		}
	}
	q.at = at
}

// largeNumber reads a number of up to 63 bits, and returns where it ends: behind the end of the record if it is cut off, or
// longer than it need be.
func largeNumber(record []byte, at int) (n uint64, end int) {
	for shift := 0; at < len(record) && shift < 63; shift += 7 {
		digits := record[at]
		at++
		n |= uint64(digits&0x7f) << shift
		if digits < 0x80 {
			if digits == 0 && shift > 0 {
				break
			}
			return n, at
		}
	}
	return 0, len(record) + 1
}

// take returns the next n bytes, or nil.
func (q *quick) take(n uint64) []byte {
	from := q.at
	if from > len(q.record) || n > uint64(len(q.record)-from) {
		q.at = len(q.record) + 1
		return nil
	}
	q.at += int(n)
	return q.record[from:q.at]
}

// fits tells whether a list of so many items, of at least size bytes each, can follow.
func (q *quick) fits(items uint64, size int) bool {
	return int64(items) <= int64((len(q.record)-q.at)/size) // of at most 63 bits
}

// done tells whether all of the record was read, and nothing of it was unusual.
func (q *quick) done() bool { return q.at == len(q.record) }

// object reads the record of an object of which nothing is held.
func (q *quick) object(o *object) (usual bool) {
	var n [11]uint64
	q.numbers(n[:])
	o.cap, _ = privacy.EpsilonFromNano(int64(n[0]))
	o.spent, _ = privacy.EpsilonFromNano(int64(n[1]))
	o.chains, o.withdrawn, o.forgotten, o.earned = n[2], n[3], n[4], n[5]
	o.links, o.held = links{n[6], n[7], n[8], n[9]}, nil
	return q.done() && n[10] == 0 && max(n[0], n[1]) <= privacy.MaxEpsilonNano
}

// chain reads the record of a chain that has no epoch before, and whose responses are no rows of bits. Its levels are put on the page.
func (q *quick) chain(c *chain, p *levelPage) (usual bool) {
	var n [5]uint64
	q.numbers(n[:])
	c.enrolled, c.policy, c.noise, c.buyers, c.bound = n[0], uint32(n[1]), uint32(n[2]), n[3], nil
	if max(n[1], n[2]) > math.MaxUint32 || n[4] > 1 {
		return false
	}
	if n[4] == 1 {
		bound := q.take(uint64(len(tag{})))
		if bound == nil {
			return false
		}
		t := tag(bound)
		c.bound = &t
	}
	q.numbers(n[:3])
	if n[1] != 0 || !q.fits(n[2], smallestLevel) || n[0] > privacy.MaxEpsilonNano {
		return false
	}
	c.since, c.closed = 0, nil
	c.answered, _ = privacy.EpsilonFromNano(int64(n[0]))
	before := *p
	c.levels = p.take(int(n[2]))
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
	var n [4]uint64
	q.numbers(n[:])
	l.Epsilon, _ = privacy.EpsilonFromNano(int64(n[0]))
	l.Response, l.event, l.buyers = value{index: int(n[1])}, n[2], nil
	if n[0] > privacy.MaxEpsilonNano || n[1] >= rrchain.MaxValues || !q.fits(n[3], 1) {
		return false
	}
	return n[3] == 0 || q.buyers(l, n[3])
}

func (q *quick) buyers(l *level, count uint64) (usual bool) {
	l.buyers = make([]uint32, count)
	usual = true
	for i := range l.buyers {
		var n [1]uint64
		q.numbers(n[:])
		l.buyers[i], usual = uint32(n[0]), usual && n[0] <= math.MaxUint32
	}
	return usual
}

// released reads what a response hides, if it is no row of bits.
func (q *quick) released(c *released) (usual bool) {
	var n [3]uint64
	q.numbers(n[:1])
	name, question := q.take(n[0]), q.take(4)
	q.numbers(n[:]) // the method is one byte, and so is a number as small as that
	if !q.done() || n[0] > privacy.MaxEpsilonNano || n[1] >= rrchain.MaxValues || n[2] < uint64(methodRaise) || n[2] > uint64(methodInsert) {
		return false
	}
	c.object, c.question = q.texts.of(name), binary.BigEndian.Uint32(question)
	c.epsilon, _ = privacy.EpsilonFromNano(int64(n[0]))
	c.response = response{value: value{index: int(n[1])}, method: method(n[2])}
	return true
}

// plainObject is object in an audit's memory, where records have no checksums.
func (s *state) plainObject(name string, o *object) (found bool, err error) {
	key := appendObjectKey(s.draft.lookup(), name)
	payload, err := s.Get(bucketObjects, key)
	if err != nil || payload == nil {
		return false, err
	}
	q := quick{record: payload}
	if !q.object(o) {
		*o, found, err = decodePayload(bucketObjects, key, payload, decodeAnyObject)
		return found, err
	}
	return true, nil
}

// plainChain is chain in an audit's memory.
func (s *state) plainChain(question uint32, name string, c *chain) (found bool, err error) {
	key := appendChainKey(s.draft.lookup(), question, name)
	payload, err := s.Get(bucketChains, key)
	if err != nil || payload == nil {
		return false, err
	}
	q := quick{record: payload}
	if !q.chain(c, &s.levels) {
		*c, found, err = decodePayload(bucketChains, key, payload, s.levels.decodeAnyChain)
		return found, err
	}
	return true, nil
}

// texts puts many short texts one behind the other: memory for all of them is asked for at once, and in use as long as one
// of them is. A nil one gives each its own.
type texts struct{ strings.Builder }

// of returns a text.
func (t *texts) of(text []byte) string {
	if t == nil {
		return string(text)
	}
	const piece = 4 << 10
	if len(text) > t.Cap()-t.Len() {
		t.Reset()
		t.Grow(max(piece, len(text)))
	}
	at := t.Len()
	t.Write(text)
	return t.String()[at:]
}

// appendNumbers is binary.AppendUvarint for one number after the other.
func appendNumbers(b []byte, numbers ...uint64) []byte {
	b = slices.Grow(b, len(numbers)*binary.MaxVarintLen64)
	at := len(b)
	b = b[:cap(b)]
	for _, n := range numbers {
		for ; n >= 0x80; n >>= 7 {
			b[at] = byte(n) | 0x80
			at++
		}
		b[at] = byte(n)
		at++
	}
	return b[:at]
}
