package ledger

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/sluicedp/sluice/privacy"
)

// Tallies count the responses as they are recorded, so that an estimate need not read the chains. What
// they hold follows from the chains, which stay the truth about it.

// tallyKey names what a tally counts: a value as the response to a question at exactly one ε.
type tallyKey struct {
	question uint32
	epsilon  privacy.Epsilon
	value    uint32
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
	d := &decoder{rest: key}
	k := tallyKey{question: d.u32()}
	if nanos := d.u64(); nanos > 0 && nanos <= privacy.MaxEpsilonNano {
		k.epsilon, _ = privacy.EpsilonFromNano(int64(nanos))
	} else {
		d.fail("tally at %d nano-nats", nanos)
	}
	k.value = d.u32()
	return k, d.done()
}

// tally is how many chains of a question have a response at one ε, and of how many it is the current
// one. There is none where nobody has.
type tally struct{ recorded, current uint64 }

func (t tally) encode() []byte {
	e := &encoder{}
	e.uvarint(t.recorded)
	e.uvarint(t.current)
	return e.buf
}

func decodeTally(payload []byte) (tally, error) {
	d := &decoder{rest: payload}
	t := tally{d.uvarint(), d.uvarint()}
	if t.recorded == 0 || t.recorded < t.current {
		d.fail("tally of %d responses, %d of them current", t.recorded, t.current)
	}
	return t, d.done()
}

// countLevel counts a level that was just put in its place among those of a chain.
func (s *state) countLevel(question uint32, levels []level, at int) error {
	added, err := s.tally(question, levels[at])
	if err != nil {
		return err
	}
	added.recorded++
	if at < len(levels)-1 {
		return nil
	}
	added.current++
	if at == 0 {
		return nil
	}
	former, err := s.tally(question, levels[at-1])
	if err != nil {
		return err
	}
	if former.current == 0 {
		return orCorrupt(nil, "question %d: nobody was counted at ε=%s", question, levels[at-1].Epsilon)
	}
	former.current--
	return nil
}

// tally returns the tally that counts a level, to be changed in place. It is read when it is first
// asked for, and written by flushTallies.
func (s *state) tally(question uint32, l level) (*tally, error) {
	key := tallyKey{question, l.Epsilon, uint32(l.Response)}
	if t := s.tallies[key]; t != nil {
		return t, nil
	}
	t, _, err := lookup(s, bucketTallies, key.bytes(), decodeTally)
	// Each response is recorded by an event of its own, and the one being applied is not counted yet.
	if err != nil || t.recorded >= s.counters.events {
		return nil, orCorrupt(err, "question %d: %d responses by %d events", question, t.recorded, s.counters.events)
	}
	if s.tallies == nil {
		s.tallies = make(map[tallyKey]*tally)
	}
	s.tallies[key] = &t
	return &t, nil
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
			err = s.put(bucketTallies, r.key, r.encode())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// uncountLevels takes all levels of a chain off.
func (s *state) uncountLevels(question uint32, levels []level) error {
	for i, l := range levels {
		t, err := s.tally(question, l)
		if err != nil {
			return err
		}
		current := i == len(levels)-1
		if t.recorded == 0 || current && t.current == 0 {
			return orCorrupt(nil, "question %d: nobody was counted at ε=%s", question, l.Epsilon)
		}
		t.recorded--
		if current {
			t.current--
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
	payload, err := unseal(bucketTallies, key, value)
	if err != nil {
		return err
	}
	t, err := decodeTally(payload)
	if err != nil {
		return err
	}
	return visit(k, t)
}
