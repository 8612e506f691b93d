package state

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

// Tallies count the responses as they are recorded, so that estimates need not read the chains.
// They follow from the chains, which are authoritative.

// TallyKey identifies what a tally counts: one response to a question at exactly one ε or, in unary
// encoding, all responses at that ε.
type TallyKey struct {
	Question uint32          // number of the question
	Epsilon  privacy.Epsilon // the level
	Value    uint32          // index of the response; 0 in unary encoding
}

// tallyKeyOf returns the key of the tally that counts a level.
func tallyKeyOf(q *event.Question, l Level) TallyKey {
	return TallyKey{q.Number, l.Epsilon, uint32(l.Response.Index)}
}

// levelPrefix returns the prefix of the keys of all tallies of a question at an ε.
func levelPrefix(question uint32, epsilon privacy.Epsilon) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, question), uint64(epsilon.Nano()))
}

// Bytes returns the key of the record. Keys sort by question, rising ε and value.
func (k TallyKey) Bytes() []byte {
	return binary.BigEndian.AppendUint32(levelPrefix(k.Question, k.Epsilon), k.Value)
}

// DecodeTallyKey decodes what [TallyKey.Bytes] returns.
func DecodeTallyKey(key []byte) (TallyKey, error) {
	d := &wire.Decoder{Rest: key}
	k := TallyKey{Question: d.U32()}
	if nanos := d.U64(); nanos > 0 && nanos <= uint64(privacy.MaxEpsilon().Nano()) {
		k.Epsilon, _ = privacy.EpsilonFromNano(int64(nanos))
	} else {
		d.Fail("tally at %d nano-nats", nanos)
	}
	k.Value = d.U32()
	return k, d.Done()
}

// Tally counts the chains of a question that have the same response at one ε. It is not stored if
// there are no such chains.
type Tally struct {
	Tallied
	// Bits counts, in unary encoding, the responses whose bit is set, for each value. In other
	// encodings it is empty.
	Bits []Tallied `audit:"bit"`
}

// Tallied is the number of chains that have a response, and the number of those where it is the
// current one.
type Tallied struct {
	// Recorded counts chains with the response at this ε, including those that were raised since
	// then.
	Recorded uint64 `audit:"the number of chains with it"`
	Current  uint64 `audit:"the number of chains where it is the current one"` // those that were not raised since then
}

// Encode returns the payload of the record.
func (t Tally) Encode() []byte {
	e := &wire.Encoder{}
	for _, c := range append([]Tallied{t.Tallied}, t.Bits...) {
		e.Uvarint(c.Recorded)
		e.Uvarint(c.Current)
	}
	return e.Buf
}

// DecodeTally decodes what [Tally.Encode] returns.
func DecodeTally(payload []byte) (Tally, error) {
	d := &wire.Decoder{Rest: payload}
	t := Tally{Tallied: Tallied{d.Uvarint(), d.Uvarint()}}
	if t.Recorded == 0 || t.Recorded < t.Current {
		d.Fail("tally of %d responses, %d of them current", t.Recorded, t.Current)
	}
	for len(d.Rest) > 0 && d.Err == nil {
		bit := Tallied{d.Uvarint(), d.Uvarint()}
		if bit.Recorded > t.Recorded || bit.Current > min(bit.Recorded, t.Current) {
			d.Fail("tally of a bit in %d responses, %d of them current", bit.Recorded, bit.Current)
		}
		t.Bits = append(t.Bits, bit)
	}
	return t, d.Done()
}

// each calls change for every count that a response is part of: the one of the tally and, in unary
// encoding, that of each set bit. It makes all calls, and reports whether all returned true.
func (t *Tally) each(response event.Value, change func(*Tallied) bool) bool {
	done := change(&t.Tallied)
	for v := range response.Bits.Ones() {
		done = change(&t.Bits[v]) && done
	}
	return done
}

// recount is a change of a count: each field is 1, 0 or −1, and is added.
type recount struct{ recorded, current int8 }

// change adds by to a count. It reports whether the result is a possible count.
func (by recount) change(c *Tallied) bool {
	c.Recorded += uint64(int64(by.recorded))
	c.Current += uint64(int64(by.current))
	// A count below 0 wraps around to a number above MaxInt64.
	return c.Recorded <= math.MaxInt64 && c.Current <= c.Recorded
}

// recounted is a change that was applied to a tally, so that it can be undone.
type recounted struct {
	*Tally
	response event.Value
	by       recount
}

// Fit allocates the counts of bits in a new tally, one for each value in unary encoding. It returns
// [errs.ErrCorrupt] if a stored tally has another number of bits.
func (t *Tally) Fit(q *event.Question) error {
	m := 0
	if q.Encoding == event.EncodingUnary {
		m = len(q.Values)
	}
	if len(t.Bits) == 0 && t.Recorded == 0 {
		t.Bits = make([]Tallied, m)
	}
	if len(t.Bits) != m {
		return errs.Corrupt(nil, "question %q: a tally has %d bits, which is not the number of its values",
			q.Name, len(t.Bits))
	}
	return nil
}

// CountLevel counts the level levels[at], which was just inserted into a chain. If it is the
// highest one, it is counted as current, and the level below it is no longer counted as current.
func (s *State) CountLevel(q *event.Question, levels []Level, at int) error {
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

// recount changes the counts that a level is part of. It returns [errs.ErrCorrupt] if the level is
// not possible, or if a count becomes impossible.
func (s *State) recount(q *event.Question, l Level, by recount) error {
	if !q.Has(l.Epsilon, l.Response) {
		return errs.Corrupt(nil, "question %q does not have the response %v", q.Name, l.Response)
	}
	t, err := s.tally(tallyKeyOf(q, l))
	if err == nil {
		err = t.Fit(q)
	}
	if err != nil {
		return err
	}
	if s.Plain {
		// Recorded even if the change turns out to be impossible, because an audit undoes it then.
		s.Recounts = append(s.Recounts, recounted{t, l.Response, by})
	}
	if !t.each(l.Response, by.change) {
		err = errs.Corrupt(nil, "question %d: the tally at ε=%s does not count the response that is removed",
			q.Number, l.Epsilon)
	}
	return err
}

// UndoRecounts undoes the changes in s.Recounts. An audit calls it when the current event cannot be
// applied.
func (s *State) UndoRecounts() {
	for _, r := range s.Recounts {
		r.each(r.response, recount{-r.by.recorded, -r.by.current}.change)
	}
	s.Recounts = s.Recounts[:0]
}

// tally returns the tally with a key, for the caller to change. The first call reads it, or creates
// it with counts of 0. [State.FlushTallies] writes it.
func (s *State) tally(key TallyKey) (*Tally, error) {
	if t := s.Tallies[key]; t != nil {
		return t, nil
	}
	t, _, err := Lookup(s, BucketTallies, key.Bytes(), DecodeTally)
	// Each response has an event of its own, and the event being applied is not counted yet.
	if err != nil || t.Recorded >= s.Counters.Events {
		return nil, errs.Corrupt(err, "question %d: a tally counts %d responses in a log of %d events",
			key.Question, t.Recorded, s.Counters.Events)
	}
	if s.Tallies == nil {
		s.Tallies = make(map[TallyKey]*Tally)
	}
	s.Tallies[key] = &t
	return &t, nil
}

// Responses returns how many chains of a question have a response at exactly this ε. It sums up the
// tallies of all values, including changed ones.
func (s *State) Responses(q *event.Question, epsilon privacy.Epsilon) (n uint64, err error) {
	// The number of tallies at one ε.
	values := len(q.Values)
	switch q.Encoding {
	case event.EncodingUnary:
		values = 1
	case event.EncodingFinite:
		values = len(event.OutputsAt(q.Mechanism, epsilon))
	}
	for value := range values {
		key := TallyKey{q.Number, epsilon, uint32(value)}
		t := s.Tallies[key]
		if t == nil {
			stored, _, err := Lookup(s, BucketTallies, key.Bytes(), DecodeTally)
			if err != nil {
				return 0, err
			}
			t = &stored
		}
		n += t.Recorded
	}
	return n, nil
}

// ForgetTallies drops the changed tallies. The caller calls it after [State.FlushTallies], which
// keeps them in memory.
func (s *State) ForgetTallies() { s.Tallies = nil }

// CountedInMemory returns the number of counts that [State.FlushTallies] will write.
func (s *State) CountedInMemory() int {
	n := 0
	for _, t := range s.Tallies {
		n += 1 + len(t.Bits)
	}
	return n
}

// FlushTallies writes the changed tallies in the order of their keys. Many draws at one ε thus cost
// few writes, and the same transaction always makes the same writes.
func (s *State) FlushTallies() error {
	type record struct {
		key []byte
		*Tally
	}
	records := make([]record, 0, len(s.Tallies))
	for key, t := range s.Tallies {
		records = append(records, record{key.Bytes(), t})
	}
	slices.SortFunc(records, func(a, b record) int { return bytes.Compare(a.key, b.key) })
	for _, r := range records {
		var err error
		if r.Recorded == 0 {
			err = s.Writer.Delete(BucketTallies, r.key)
		} else {
			err = s.Put(BucketTallies, r.key, r.Encode())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// UncountLevels removes all levels of a chain from the counts.
func (s *State) UncountLevels(q *event.Question, levels []Level) error {
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

// ScanTallies calls visit for the stored tallies of a question, by rising ε and value. If epsilon
// is not 0, it visits only the tallies at that ε. It does not see changes of the same transaction.
func (s *State) ScanTallies(question uint32, epsilon privacy.Epsilon, visit func(TallyKey, Tally) error) error {
	prefix := levelPrefix(question, epsilon)
	// The scan begins at the ε. Without one, it ends only with the question, which is the first 4
	// bytes.
	from := prefix
	if epsilon.IsZero() {
		prefix = prefix[:4]
	}
	var fault error
	err := s.Scan(BucketTallies, from, func(key, value []byte) bool {
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

// openTally decodes a stored tally with its key, and passes both to visit.
func openTally(key, value []byte, visit func(TallyKey, Tally) error) error {
	k, err := DecodeTallyKey(key)
	if err != nil {
		return err
	}
	t, _, err := DecodeRecord(BucketTallies, key, value, DecodeTally)
	if err != nil {
		return err
	}
	return visit(k, t)
}
