package ledger

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
)

// Tallies count the responses as they are recorded, so that an estimate need not read the chains. What
// they hold follows from the chains, which stay the truth about it.

// tallyKey names what a tally counts: a value as the response to a question at exactly one ε or, in unary
// encoding, all responses at that ε.
type tallyKey struct {
	question uint32
	epsilon  privacy.Epsilon
	value    uint32 // 0 in unary encoding
}

// tallyKeyOf returns the key of the tally that counts a level.
func tallyKeyOf(q *event.Question, l level) tallyKey {
	return tallyKey{q.Number, l.Epsilon, uint32(l.Response.Index)}
}

// levelPrefix begins the keys of all tallies of a question at an ε.
func levelPrefix(question uint32, epsilon privacy.Epsilon) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, question), uint64(epsilon.Nano()))
}

// bytes sorts by question, rising ε and value.
func (k tallyKey) bytes() []byte {
	return binary.BigEndian.AppendUint32(levelPrefix(k.question, k.epsilon), k.value)
}

func decodeTallyKey(key []byte) (tallyKey, error) {
	d := &wire.Decoder{Rest: key}
	k := tallyKey{question: d.U32()}
	if nanos := d.U64(); nanos > 0 && nanos <= privacy.MaxEpsilonNano {
		k.epsilon, _ = privacy.EpsilonFromNano(int64(nanos))
	} else {
		d.Fail("tally at %d nano-nats", nanos)
	}
	k.value = d.U32()
	return k, d.Done()
}

// tally counts chains of a question whose responses at one ε say the same. There is none where there are no
// such chains.
type tally struct {
	tallied
	// bits counts, in unary encoding, for each value the responses whose bit is set. Else it is empty.
	bits []tallied
}

// tallied is how many chains have such a response, and of how many it is the current one.
type tallied struct{ recorded, current uint64 }

func (t tally) Encode() []byte {
	e := &wire.Encoder{}
	for _, c := range append([]tallied{t.tallied}, t.bits...) {
		e.Uvarint(c.recorded)
		e.Uvarint(c.current)
	}
	return e.Buf
}

func decodeTally(payload []byte) (tally, error) {
	d := &wire.Decoder{Rest: payload}
	t := tally{tallied: tallied{d.Uvarint(), d.Uvarint()}}
	if t.recorded == 0 || t.recorded < t.current {
		d.Fail("tally of %d responses, %d of them current", t.recorded, t.current)
	}
	for len(d.Rest) > 0 && d.Err == nil {
		bit := tallied{d.Uvarint(), d.Uvarint()}
		if bit.recorded > t.recorded || bit.current > min(bit.recorded, t.current) {
			d.Fail("tally of a bit in %d responses, %d of them current", bit.recorded, bit.current)
		}
		t.bits = append(t.bits, bit)
	}
	return t, d.Done()
}

// each changes every count that a response is part of, and tells whether all of them could be.
func (t *tally) each(response event.Value, change func(*tallied) bool) bool {
	done := change(&t.tallied)
	for v := range response.Bits.Ones() {
		done = change(&t.bits[v]) && done
	}
	return done
}

// recount is what a count changes by: each of both by 1, 0 or -1.
type recount struct{ recorded, current int8 }

// change changes a count, and tells whether the new one is possible.
func (by recount) change(c *tallied) bool {
	c.recorded += uint64(int64(by.recorded))
	c.current += uint64(int64(by.current))
	return c.recorded <= math.MaxInt64 && c.current <= c.recorded
}

// recounted is a change of a tally that was made.
type recounted struct {
	*tally
	response event.Value
	by       recount
}

// fit makes room for the bits of a question's responses. It refuses a tally of another question.
func (t *tally) fit(q *event.Question) error {
	m := 0
	if q.Encoding == Unary {
		m = len(q.Values)
	}
	if len(t.bits) == 0 && t.recorded == 0 {
		t.bits = make([]tallied, m)
	}
	if len(t.bits) != m {
		return errs.Corrupt(nil, "question %q: a tally of %d bits", q.Name, len(t.bits))
	}
	return nil
}

// countLevel counts a level that was just put in its place among those of a chain.
func (s *state) countLevel(q *event.Question, levels []level, at int) error {
	last := at == len(levels)-1
	by := recount{recorded: 1}
	if last {
		by.current = 1
	}
	err := s.recount(q, levels[at], by)
	if err != nil || !last || at == 0 {
		return err
	}
	return s.recount(q, levels[at-1], recount{current: -1})
}

// recount changes the counts that a level is part of.
func (s *state) recount(q *event.Question, l level, by recount) error {
	if !q.Has(l.Epsilon, l.Response) {
		return errs.Corrupt(nil, "question %q: a response of %v", q.Name, l.Response)
	}
	t, err := s.tally(tallyKeyOf(q, l))
	if err == nil {
		err = t.fit(q)
	}
	if err != nil {
		return err
	}
	if s.plain {
		s.recounts = append(s.recounts, recounted{t, l.Response, by})
	}
	if !t.each(l.Response, by.change) {
		err = errs.Corrupt(nil, "question %d: nobody was counted at ε=%s", q.Number, l.Epsilon)
	}
	return err
}

// undoRecounts takes back what recount has changed since the last event.
func (s *state) undoRecounts() {
	for _, r := range s.recounts {
		r.each(r.response, recount{-r.by.recorded, -r.by.current}.change)
	}
	s.recounts = s.recounts[:0]
}

// tally returns a tally, to be changed in place. It is read when it is first asked for, and written by
// flushTallies.
func (s *state) tally(key tallyKey) (*tally, error) {
	var near *nearTally
	if s.near != nil {
		if near = &s.near[key.near()]; near.tally != nil && near.key == key {
			return near.tally, nil
		}
	}
	if t := s.tallies[key]; t != nil {
		if near != nil {
			*near = nearTally{key, t}
		}
		return t, nil
	}
	t, _, err := lookup(s, bucketTallies, key.bytes(), decodeTally)
	// Each response is recorded by an event of its own, and the one being applied is not counted yet.
	if err != nil || t.recorded >= s.counters.events {
		return nil, errs.Corrupt(err, "question %d: %d responses by %d events", key.question, t.recorded, s.counters.events)
	}
	if s.tallies == nil {
		s.tallies = make(map[tallyKey]*tally)
	}
	s.tallies[key] = &t
	return &t, nil
}

// nearTally is one of those that are found without the map: many events in a row count the same few responses.
type nearTally struct {
	key tallyKey
	*tally
}

// near returns the place of a tally among those, and leaves it to chance which others have the same.
func (k tallyKey) near() uint64 {
	const mixing = 0x9e3779b97f4a7c15
	return (uint64(k.epsilon.Nano()) ^ uint64(k.value)<<32 ^ uint64(k.question)<<48) * mixing >> (64 - nearBits)
}

const nearBits = 6

// nearTallies sees to it that tallies are found without the map.
func (s *state) nearTallies() {
	if s.near == nil {
		s.near = make([]nearTally, 1<<nearBits)
	}
}

// forgetTallies forgets what was counted, once it is written.
func (s *state) forgetTallies() {
	s.tallies = nil
	clear(s.near)
}

// countedInMemory returns how many counts are to be written.
func (s *state) countedInMemory() int {
	n := 0
	for _, t := range s.tallies {
		n += 1 + len(t.bits)
	}
	return n
}

// flushTallies writes what was counted, in the order of the keys: a draw at an ε where many others were
// drawn costs nothing more, and the same transaction always makes the same writes.
func (s *state) flushTallies() error {
	type record struct {
		key []byte
		*tally
	}
	records := make([]record, 0, len(s.tallies))
	for key, t := range s.tallies {
		records = append(records, record{key.bytes(), t})
	}
	slices.SortFunc(records, func(a, b record) int { return bytes.Compare(a.key, b.key) })
	for _, r := range records {
		var err error
		if r.recorded == 0 {
			err = s.writer.Delete(bucketTallies, r.key)
		} else {
			err = s.put(bucketTallies, r.key, r.Encode())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// uncountLevels takes all levels of a chain off.
func (s *state) uncountLevels(q *event.Question, levels []level) error {
	for i, l := range levels {
		by := recount{recorded: -1}
		if i == len(levels)-1 {
			by.current = -1
		}
		if err := s.recount(q, l, by); err != nil {
			return err
		}
	}
	return nil
}

// scanTallies visits the stored tallies of a question, at one ε or, if that is 0, at all, by rising ε and
// value. It does not see what was counted in the same transaction.
func (s *state) scanTallies(question uint32, epsilon privacy.Epsilon, visit func(tallyKey, tally) error) error {
	prefix := levelPrefix(question, epsilon)
	from := prefix
	if epsilon.IsZero() {
		prefix = prefix[:4]
	}
	var fault error
	err := s.Scan(bucketTallies, from, func(key, value []byte) bool {
		if !bytes.HasPrefix(key, prefix) {
			return false
		}
		fault = openTally(key, value, visit)
		return fault == nil
	})
	if err == nil {
		err = fault
	}
	return err
}

func openTally(key, value []byte, visit func(tallyKey, tally) error) error {
	k, err := decodeTallyKey(key)
	if err != nil {
		return err
	}
	payload, err := wire.Unseal(bucketTallies, key, value)
	if err != nil {
		return err
	}
	t, err := decodeTally(payload)
	if err != nil {
		return err
	}
	return visit(k, t)
}
