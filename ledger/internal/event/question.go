package event

import (
	"crypto/sha256"
	"slices"
	"strings"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// CheckLevel returns [errs.ErrInvalid] if the question has no responses at epsilon. That is so at ε
// = 0, and for an ε that is not one of the levels of its mechanism.
func (q *Question) CheckLevel(epsilon privacy.Epsilon) error {
	if epsilon.IsZero() {
		return errs.Invalid("ε must be above 0")
	}
	if q.Encoding != EncodingFinite || OutputsAt(q.Mechanism, epsilon) != nil {
		return nil
	}
	var all []string
	for _, at := range q.Mechanism.Family.Epsilons() {
		all = append(all, at.String())
	}
	return errs.Invalid("question %q has responses at ε=%s only, not at %s", q.Name, strings.Join(all, ", "), epsilon)
}

// LevelWithin returns the highest level of the question at or below a ceiling, and false if there
// is none. Without a mechanism of its own, a question has a level at every ε. The result is then
// the ceiling itself.
func (q *Question) LevelWithin(ceiling privacy.Epsilon) (level privacy.Epsilon, found bool) {
	if q.Encoding != EncodingFinite {
		return ceiling, true
	}
	// the ε are in rising order, so the last one that fits is the highest
	for _, at := range q.Mechanism.Family.Epsilons() {
		if !ceiling.Less(at) {
			level, found = at, true
		}
	}
	return level, found
}

// Work returns the cost of a draw, as the number of probabilities or bits that it reads: 1 in
// direct encoding, the number of bits in unary encoding. In finite encoding it is the size of the
// largest level.
func (q *Question) Work() int {
	switch q.Encoding {
	case EncodingUnary:
		return len(q.Values)
	case EncodingFinite:
		most := 0
		for _, names := range q.Mechanism.Outputs {
			most = max(most, len(q.Values)*len(names))
		}
		return most
	}
	return 1
}

// Question is the definition of a question. It never changes, and may be used concurrently.
type Question struct {
	Number    uint32            // from 1, in the order of the log
	Name      string            // the name in requests
	Values    []string          // the labels, at least two
	Encoding  string            // the form of responses
	Mechanism *api.Mechanism    // the mechanism, in finite encoding
	Index     map[string]int    `audit:"-"` // from a value to its index in Values
	ID        [sha256.Size]byte `audit:"-"` // digest of the definition, the same in every ledger
}

// NewQuestion returns the question that an event defines. A forged document can define a mechanism
// that does not fit the values. The question then has no mechanism, and so no responses.
func NewQuestion(c *QuestionDefined) *Question {
	q := &Question{
		Number: c.Number, Name: c.Name, Values: c.Values, Encoding: c.Encoding,
		Index: make(map[string]int, len(c.Values)),
	}
	for i, value := range c.Values {
		q.Index[value] = i
	}
	// true for every question of a ledger, but a document may claim any definition
	if checkMechanism(c.Mechanism, len(c.Values)) == nil {
		q.Mechanism = c.Mechanism
	}
	q.ID = definitionDigest(c.Question)
	return q
}

// DecodeQuestion decodes the record of a question. If it returns an error, the question must not be
// used.
func DecodeQuestion(payload []byte) (*Question, error) {
	c, err := wire.Decode[QuestionDefined](payload)
	return NewQuestion(&c), err
}

// Public returns the question in the form for hosts.
func (q *Question) Public() api.Question {
	return api.Question{Name: q.Name, Values: q.Values, Encoding: q.Encoding, Mechanism: q.Mechanism}
}

// LevelEntries returns how many entries of a chain one level of the question counts for.
// [MaxEntries] limits the entries of a chain.
func (q *Question) LevelEntries() int {
	if q.Encoding != EncodingUnary {
		return 1
	}
	return 1 + len(q.Values)/BitsPerEntry
}

// Has reports whether the question can have the response v at an ε: a value, a row of bits, or an
// output of its mechanism, as its encoding requires.
func (q *Question) Has(epsilon privacy.Epsilon, v Value) bool {
	switch q.Encoding {
	case EncodingUnary:
		return v.Index == 0 && v.Bits.Len() == len(q.Values)
	case EncodingFinite:
		return !v.IsUnary() && canAnswer(q.Mechanism, epsilon, v.Index)
	}
	return !v.IsUnary() && v.Index < len(q.Values)
}

// CanOccur reports whether one chain can have the response a at the ε lower, and b at the ε higher.
// Each of them must be possible at its ε: see [Question.Has]. Only for a mechanism of the
// question's own can two such responses exclude each other.
func (q *Question) CanOccur(lower privacy.Epsilon, a Value, higher privacy.Epsilon, b Value) bool {
	if q.Encoding != EncodingFinite {
		return true
	}
	level := func(e privacy.Epsilon, v Value) rrchain.Level[int] {
		return rrchain.Level[int]{Epsilon: e, Response: v.Index}
	}
	return q.Mechanism.Family.CanOccur(level(lower, a), level(higher, b))
}

// Text returns the text form of a response that the question has at an ε. The caller checks
// [Question.Has] first, because Text may panic for other responses.
func (q *Question) Text(epsilon privacy.Epsilon, v Value) string {
	switch q.Encoding {
	case EncodingUnary:
		return v.Bits.String()
	case EncodingFinite:
		return OutputsAt(q.Mechanism, epsilon)[v.Index]
	}
	return q.Values[v.Index]
}

// Read decodes the output of [Question.Text], and returns false for any other text.
func (q *Question) Read(epsilon privacy.Epsilon, text string) (v Value, known bool) {
	switch q.Encoding {
	case EncodingUnary:
		err := v.Bits.UnmarshalText([]byte(text))
		return v, err == nil && q.Has(epsilon, v)
	case EncodingFinite:
		// -1 for an unknown text, which Has refuses
		v.Index = slices.Index(OutputsAt(q.Mechanism, epsilon), text)
		return v, q.Has(epsilon, v)
	}
	v.Index, known = q.Index[text]
	return v, known
}
