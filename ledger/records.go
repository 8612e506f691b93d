package ledger

import (
	"crypto/sha256"
	"time"

	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// counters summarize the log: how many events there are, the time of the last, and what they made.
type counters struct {
	events    uint64
	last      time.Time
	questions uint32
	policies  uint32
	objects   uint64
	chains    uint64
}

func (c counters) encode() []byte {
	e := &encoder{}
	e.uvarint(c.events)
	e.u64(uint64(c.last.UnixNano()))
	e.u32(c.questions)
	e.u32(c.policies)
	e.uvarint(c.objects)
	e.uvarint(c.chains)
	return e.buf
}

func decodeCounters(payload []byte) (counters, error) {
	d := &decoder{rest: payload}
	c := counters{events: d.uvarint(), last: time.Unix(0, int64(d.u64())).UTC(), questions: d.u32(), policies: d.u32(), objects: d.uvarint(), chains: d.uvarint()}
	return c, d.done()
}

// about is what the first event says of the ledger as a whole.
type about struct {
	created
	at time.Time
}

func (a about) encode() []byte {
	e := &encoder{}
	e.u64(uint64(a.at.UnixNano()))
	a.created.encode(e)
	return e.buf
}

func decodeAbout(payload []byte) (about, error) {
	d := &decoder{rest: payload}
	a := about{at: time.Unix(0, int64(d.u64())).UTC()}
	a.created = *decodeCreated(d).(*created)
	return a, d.done()
}

// question is a question as it was defined; it never changes.
type question struct {
	number uint32
	name   string
	values []string
	index  map[string]int // value to its place in values
}

func newQuestion(c *questionDefined) *question {
	q := &question{number: c.number, name: c.name, values: c.values, index: make(map[string]int, len(c.values))}
	for i, value := range c.values {
		q.index[value] = i
	}
	return q
}

func decodeQuestion(payload []byte) (*question, error) {
	d := &decoder{rest: payload}
	c := decodeQuestionDefined(d).(*questionDefined)
	return newQuestion(c), d.done()
}

// object is the budget of one object.
type object struct {
	cap    privacy.Epsilon
	spent  privacy.Epsilon
	chains uint64
}

func (o object) encode() []byte {
	e := &encoder{}
	e.epsilon(o.cap)
	e.epsilon(o.spent)
	e.uvarint(o.chains)
	return e.buf
}

func decodeObject(payload []byte) (object, error) {
	d := &decoder{rest: payload}
	o := object{cap: d.epsilon(), spent: d.epsilon(), chains: d.uvarint()}
	return o, d.done()
}

// chain is everything released of one object and question.
type chain struct {
	enrolled uint64          // the event that began it
	policy   uint32          // 0 for none
	bound    *tag            // the keyed hash of the truth it belongs to, if there is one
	answered privacy.Epsilon // what answers about the question charged the object
	levels   []level
}

// level is a recorded response with the event that recorded it.
type level struct {
	rrchain.Level
	event uint64
}

// current returns the ε of the highest level.
func (c chain) current() privacy.Epsilon {
	if len(c.levels) == 0 {
		return privacy.Epsilon{}
	}
	return c.levels[len(c.levels)-1].Epsilon
}

// at returns the level recorded at exactly this ε.
func (c chain) at(epsilon privacy.Epsilon) (level, bool) {
	for _, l := range c.levels {
		if l.Epsilon == epsilon {
			return l, true
		}
	}
	return level{}, false
}

// responses returns the chain in the form that can be drawn from.
func (c chain) responses(m int) (*rrchain.Chain, error) {
	levels := make([]rrchain.Level, len(c.levels))
	for i, l := range c.levels {
		levels[i] = l.Level
	}
	return rrchain.NewChain(m, levels...)
}

func (c chain) encode() []byte {
	e := &encoder{}
	e.uvarint(c.enrolled)
	e.uvarint(uint64(c.policy))
	encodeTag(e, c.bound)
	e.epsilon(c.answered)
	encodeLevels(e, c.levels)
	return e.buf
}

func decodeChain(payload []byte) (chain, error) {
	d := &decoder{rest: payload}
	c := chain{enrolled: d.uvarint(), policy: d.uvarint32(), bound: decodeTag(d), answered: d.epsilon(), levels: decodeLevels(d)}
	return c, d.done()
}

// spent returns the ε that the question has cost the object: the highest level and the answers add up.
func (c chain) spent() privacy.Epsilon {
	sum, err := c.current().Add(c.answered)
	if err != nil {
		return privacy.MaxEpsilon()
	}
	return sum
}

// answers is everything answered to one query about one panel, by rising ε.
type answers []answerLevel

// answerLevel is one answer with the size of the panel it is about: that of a partial request may have
// become another by the time of the next answer.
type answerLevel struct {
	level
	objects uint64
}

// best returns the answer at an ε or, if there is none, the lowest above it.
func (a answers) best(epsilon privacy.Epsilon) (answerLevel, bool) {
	for _, l := range a {
		if !l.Epsilon.Less(epsilon) {
			return l, true
		}
	}
	return answerLevel{}, false
}

// highest returns the largest ε of an answer, or 0.
func (a answers) highest() privacy.Epsilon {
	if len(a) == 0 {
		return privacy.Epsilon{}
	}
	return a[len(a)-1].Epsilon
}

func (a answers) encode() []byte {
	e := &encoder{}
	e.uvarint(uint64(len(a)))
	for _, l := range a {
		encodeLevel(e, l.level)
		e.uvarint(l.objects)
	}
	return e.buf
}

func decodeAnswers(payload []byte) (answers, error) {
	d := &decoder{rest: payload}
	const smallest = 4 // bytes of an answer
	a := make(answers, d.count(smallest))
	for i := range a {
		a[i] = answerLevel{decodeLevel(d), d.uvarint()}
	}
	return a, d.done()
}

func encodeLevels(e *encoder, levels []level) {
	e.uvarint(uint64(len(levels)))
	for _, l := range levels {
		encodeLevel(e, l)
	}
}

func encodeLevel(e *encoder, l level) {
	e.epsilon(l.Epsilon)
	e.uvarint(uint64(l.Response))
	e.uvarint(l.event)
}

func decodeLevel(d *decoder) level {
	return level{rrchain.Level{Epsilon: d.epsilon(), Response: d.response()}, d.uvarint()}
}

func decodeLevels(d *decoder) []level {
	const smallest = 3 // bytes of a level
	n := d.count(smallest)
	if n == 0 {
		return nil
	}
	levels := make([]level, n)
	for i := range levels {
		levels[i] = decodeLevel(d)
	}
	return levels
}

// request is what an idempotency key stands for: the digest of the request, and the events that
// settled it part by part.
type request struct {
	digest  [sha256.Size]byte
	done    bool
	settled []uint64
}

func (r request) encode() []byte {
	e := &encoder{}
	e.raw(r.digest[:])
	e.flag(r.done)
	e.uvarint(uint64(len(r.settled)))
	for _, number := range r.settled {
		e.uvarint(number)
	}
	return e.buf
}

func decodeRequest(payload []byte) (request, error) {
	d := &decoder{rest: payload}
	r := request{}
	d.array(r.digest[:])
	r.done = d.flag()
	r.settled = make([]uint64, d.count(1))
	for i := range r.settled {
		r.settled[i] = d.uvarint()
	}
	return r, d.done()
}

// noPolicy stands for an object enrolled without a policy: only its cap binds.
func noPolicy() policy.Policy { return policy.Fixed(privacy.MaxEpsilon()) }
