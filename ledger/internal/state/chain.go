package state

import (
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
)

// Chain is everything that was released of one object in one question.
type Chain struct {
	// Enrolled is the event that began the chain, or by which the object enrolled again.
	Enrolled uint64     `audit:"the event of the enrolment"`
	Policy   uint32     // number of the policy; 0 for none
	Noise    uint32     `audit:"the noise key"`        // number of the noise key; 0 for random draws
	Buyers   uint64     `audit:"the number of buyers"` // number of buyers that hold a level
	Bound    *event.Tag `audit:"the tag of the truth"` // keyed hash of the true value, or nil
	// Answered is what the question has cost the object in addition to its levels: charges for
	// answers, and what was spent before the object was forgotten.
	Answered privacy.Epsilon `audit:"charged by answers"`
	// Since is the event that began the current epoch or destroyed the earlier ones by forgetting
	// the object; 0 in the first epoch.
	Since  uint64        `audit:"the event of the epoch"`
	Closed []ClosedEpoch `audit:"epoch"` // in order; empty if Since is 0
	Levels []Level       // of the current epoch, as are Noise, Buyers, Bound and Answered
}

// ClosedEpoch is what a chain was before its object began a new epoch. It is about another true
// value, and nothing is ever drawn from it again.
type ClosedEpoch struct {
	End      uint64          `audit:"the end"`            // the event that began the next epoch
	Answered privacy.Epsilon `audit:"charged by answers"` // charged by answers about panels
	Levels   []Level         // in rising order of ε
}

// spent returns the ε that an epoch has cost: its highest level, and the charges of answers.
func (c ClosedEpoch) spent() privacy.Epsilon {
	return Plus(Chain{Levels: c.Levels}.Current(), c.Answered)
}

// TruthBinding is the binding of a chain to its true value in the epoch that began with an event.
type TruthBinding struct {
	Tag   *event.Tag // keyed hash of the true value; nil if the chain is not bound
	Since uint64     // as in [Chain]
}

// Binding returns the binding of the chain to its true value.
func (c *Chain) Binding() TruthBinding { return TruthBinding{c.Bound, c.Since} }

// Unused reports whether nothing has been recorded in the current epoch.
func (c *Chain) Unused() bool { return len(c.Levels) == 0 && c.Bound == nil && c.Answered.IsZero() }

// During returns the chain in the epoch that an event belongs to. For the current epoch it is c.
// For an epoch that has ended, only the levels are set.
func (c *Chain) During(event uint64) Chain {
	for _, one := range c.Closed {
		// End is the first event of the next epoch.
		if event < one.End {
			return Chain{Levels: one.Levels}
		}
	}
	return *c
}

// Current returns the ε of the highest level, or 0 if there are no levels.
func (c Chain) Current() privacy.Epsilon {
	if len(c.Levels) == 0 {
		return privacy.Epsilon{}
	}
	return c.Levels[len(c.Levels)-1].Epsilon
}

// Spent returns the ε that the current epoch has cost the object: the sum of the highest level and
// the charges of answers.
func (c Chain) Spent() privacy.Epsilon { return Plus(c.Current(), c.Answered) }

// Total returns the ε that the question has cost the object in all epochs.
func (c Chain) Total() privacy.Epsilon {
	sum := c.Spent()
	for _, one := range c.Closed {
		sum = Plus(sum, one.spent())
	}
	return sum
}

// At returns the level recorded at exactly this ε. It returns false if there is none.
func (c Chain) At(epsilon privacy.Epsilon) (Level, bool) {
	i, recorded := FindLevel(c.Levels, epsilon)
	if !recorded {
		return Level{}, false
	}
	return c.Levels[i], true
}

// With returns a copy of the chain that has a level at an ε, held by a buyer. A level that is not
// recorded yet is added without a response. If the buyer is 0, no holder is added. If the ε is 0,
// the result is c without a change.
func (c Chain) With(epsilon privacy.Epsilon, buyer uint32) Chain {
	if epsilon.IsZero() {
		return c
	}
	c.Levels = slices.Clone(c.Levels)
	at, recorded := FindLevel(c.Levels, epsilon)
	if !recorded {
		c.Levels = slices.Insert(c.Levels, at, NewLevel(epsilon, event.Value{}, 0))
	}
	if buyer != 0 {
		// Clip makes append copy the holders, which the original chain still refers to.
		c.Levels[at].Holders = append(slices.Clip(c.Levels[at].Holders), Holder{Buyer: buyer})
	}
	return c
}

// HeldBy returns the highest ε at which a buyer holds a response of the current epoch, or 0 if it
// holds none.
func (c Chain) HeldBy(buyer uint32) privacy.Epsilon {
	for _, l := range slices.Backward(c.Levels) {
		if l.IsHeldBy(buyer) {
			return l.Epsilon
		}
	}
	return privacy.Epsilon{}
}

// PaidBy returns what a buyer has paid for the levels of the current epoch that it holds, in minor
// units of the currency.
func (c *Chain) PaidBy(buyer uint32) (sum uint64) {
	for i := range c.Levels {
		if at := c.Levels[i].holder(buyer); at >= 0 {
			sum += c.Levels[i].Holders[at].Paid // the sum is at most the revenue
		}
	}
	return sum
}

// Entries returns the number of entries that count against [event.MaxEntries]. These are the closed
// epochs, and the levels and their holders in all epochs.
func (c *Chain) Entries(q *event.Question) int {
	level := q.LevelEntries()
	n := len(c.Closed) + entriesOf(c.Levels, level)
	for i := range c.Closed {
		n += entriesOf(c.Closed[i].Levels, level)
	}
	return n
}

// entriesOf returns the number of entries of some levels and their holders. A level counts as each
// entries, and a holder as one.
func entriesOf(levels []Level, each int) int {
	n := len(levels) * each
	for i := range levels {
		n += len(levels[i].Holders)
	}
	return n
}

// Encode returns the payload of the record.
func (c Chain) Encode() []byte {
	e := &wire.Encoder{}
	c.encodeTo(e)
	return e.Buf
}

// encodeTo appends the payload of the record to e. The closed epochs follow only if Since is not 0.
func (c *Chain) encodeTo(e *wire.Encoder) {
	e.Buf = wire.AppendNumbers(e.Buf, c.Enrolled, uint64(c.Policy), uint64(c.Noise), c.Buyers)
	event.EncodeTag(e, c.Bound)
	e.Epsilon(c.Answered)
	if e.Uvarint(c.Since); c.Since != 0 {
		e.Uvarint(uint64(len(c.Closed)))
		for _, one := range c.Closed {
			e.Uvarint(one.End)
			e.Epsilon(one.Answered)
			encodeLevels(e, one.Levels)
		}
	}
	encodeLevels(e, c.Levels)
}

// DecodeChain decodes what [Chain.Encode] returns.
func DecodeChain(payload []byte) (Chain, error) { return new(LevelPage).decodeChain(payload) }

// DecodeHead decodes the part of a chain before its levels into c, and returns the number of levels
// that follow. It sets all fields but Bound and Levels. bound is the tag that the chain is bound
// to, or nil. It shares the memory of the record.
func (c *Chain) DecodeHead(d *wire.Decoder) (bound []byte, levels int) {
	var n [5]uint64
	d.Uvarints(n[:])
	c.Enrolled, c.Policy, c.Noise, c.Buyers = n[0], d.In32(n[1]), d.In32(n[2]), n[3]
	// n[4] is the flag that a tag follows.
	switch n[4] {
	case 0:
	case 1:
		bound = d.Take(uint64(len(event.Tag{})))
	default:
		d.Fail("broken flag")
	}
	// n is reused for Answered and Since.
	d.Uvarints(n[:2])
	c.Answered = d.AsEpsilon(n[0])
	if c.Since = n[1]; c.Since != 0 {
		c.Closed = decodeClosed(d)
	}
	return bound, d.Count(smallestLevel)
}

// decodeClosed decodes the epochs that have ended.
func decodeClosed(d *wire.Decoder) []ClosedEpoch {
	const smallest = 3 // of an epoch, in bytes
	n := d.Count(smallest)
	if n == 0 {
		return nil
	}
	closed := make([]ClosedEpoch, n)
	for i := range closed {
		one := &closed[i]
		one.End, one.Answered = d.Uvarint(), d.Epsilon()
		one.Levels = make([]Level, d.Count(smallestLevel))
		for i := range one.Levels {
			l := &one.Levels[i]
			l.Holders = DecodeHolders(d, DecodeLevel(d, l))
		}
	}
	return closed
}

// Chain returns the chain of an object in a question. found is false if the object was never
// enrolled in it.
func (s *State) Chain(question uint32, name string) (c Chain, found bool, err error) {
	found, err = s.ReadChain(question, name, &c)
	return c, found, err
}

// ReadChain is [State.Chain] into memory of the caller. It uses the record cache if that has the
// chain. If there is no chain, *c becomes the zero value.
func (s *State) ReadChain(question uint32, name string, c *Chain) (found bool, err error) {
	// The cache has a chain if its Question is not 0.
	if m := s.recordCache.member(name); m != nil && m.Question == question && question != 0 {
		*c = m.Chain
		return true, nil
	}
	*c, found, err = Lookup(s, BucketChains, AppendChainKey(s.Buffer.Lookup(), question, name), s.Levels.decodeChain)
	if found && !s.Plain {
		m := s.recordCache.memberFor(name)
		m.Question, m.Chain = question, *c
	}
	return found, err
}

// PutChain writes a chain, and keeps it in the record cache.
func (s *State) PutChain(question uint32, name string, c Chain) error {
	if !s.Plain {
		m := s.recordCache.memberFor(name)
		m.Question, m.Chain = question, c
	}
	k := s.Buffer.Key()
	k.Buf = AppendChainKey(k.Buf, question, name)
	c.encodeTo(s.Buffer.Value())
	return s.Write(BucketChains)
}

// ScanChains calls visit for the chains of a question in the order of their objects' names, from
// the name from on. It stops when visit returns false. A damaged record ends the scan with an
// error.
func (s *State) ScanChains(question uint32, from string, visit func(name string, c Chain) bool) error {
	prefix := ChainKey(question, "")
	var fault error
	var head wire.Sums
	err := s.Scan(BucketChains, ChainKey(question, from), func(key, value []byte) bool {
		// Here the chains of the next question begin.
		if len(key) < len(prefix) || string(key[:len(prefix)]) != string(prefix) {
			return false
		}
		payload, err := head.Unseal(BucketChains, key, value)
		if err != nil {
			fault = err
			return false
		}
		c, err := DecodeChain(payload)
		fault = err
		return err == nil && visit(string(key[len(prefix):]), c)
	})
	if err == nil {
		err = fault
	}
	return err
}
