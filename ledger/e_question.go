package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// answerText puts an answer to a query in words. It refuses what cannot be one.
func (q *question) answerText(query string, r result) (string, error) {
	output := r.answer()
	parsed, err := mechanism.ParseQuery(query, q.values)
	if err != nil {
		return "", errs.Corrupt(nil, "query %q: %v", query, err)
	}
	if r.scored && parsed.Outputs(len(q.values)) != 2 {
		return "", errs.Corrupt(nil, "query %q: a score for a query with %d answers", query, parsed.Outputs(len(q.values)))
	}
	texts, err := parsed.Answers(q.values)
	if err != nil || output >= len(texts) {
		return "", errs.Corrupt(nil, "answer %d to query %q", output, query)
	}
	return texts[output], nil
}

// decodeMechanism reads what encode writes of a question with some values, and nothing else.
func decodeMechanism(d *wire.Decoder, values int) *Mechanism {
	text := d.Take(d.Uvarint())
	m := &Mechanism{}
	if err := json.Unmarshal(text, m); err != nil {
		d.Fail("a mechanism: %v", err)
	} else if !bytes.Equal(m.Encode(), text) {
		d.Fail("a mechanism that is not in its canonical form")
	} else if err := m.Check(values); err != nil {
		d.Fail("%v", err)
	}
	return m
}

// checkLevel refuses an ε at which the question has no responses.
func (q *question) checkLevel(epsilon privacy.Epsilon) error {
	if epsilon.IsZero() {
		return errs.Invalid("ε must be above 0")
	}
	if q.encoding != Finite || q.mechanism.OutputsAt(epsilon) != nil {
		return nil
	}
	var all []string
	for _, at := range q.mechanism.Family.Epsilons() {
		all = append(all, at.String())
	}
	return errs.Invalid("question %q has responses at ε=%s only, not at %s", q.name, strings.Join(all, ", "), epsilon)
}

// released returns the level at which the question has a response when a policy has released an ε, if it has.
func (q *question) released(ceiling privacy.Epsilon) (level privacy.Epsilon, found bool) {
	if q.encoding != Finite {
		return ceiling, true
	}
	return q.mechanism.Floor(ceiling)
}

// work is how much a draw costs: how many probabilities, or bits, it looks at.
func (q *question) work() int {
	switch q.encoding {
	case Unary:
		return len(q.values)
	case Finite:
		most := 0
		for _, names := range q.mechanism.Outputs {
			most = max(most, len(q.values)*len(names))
		}
		return most
	}
	return 1
}

// question is a question as it was defined; it never changes.
type question struct {
	number    uint32
	name      string
	values    []string
	encoding  Encoding
	mechanism *Mechanism        // of finite encoding
	index     map[string]int    // value to its place in values
	id        [sha256.Size]byte // stands for the definition, in every ledger
}

func newQuestion(c *questionDefined) *question {
	q := &question{number: c.number, name: c.Name, values: c.Values, encoding: c.Encoding, index: make(map[string]int, len(c.Values))}
	for i, value := range c.Values {
		q.index[value] = i
	}
	if c.Mechanism.Check(len(c.Values)) == nil { // as it is, but for what somebody says a question is
		q.mechanism = c.Mechanism
	}
	q.id = definitionDigest(c.Question)
	return q
}

// definitionDigest is the same for the same question in every ledger.
func definitionDigest(q Question) [sha256.Size]byte {
	e := wire.Digest("definition")
	e.Text(q.Name)
	e.U8(encodingCode(q.Encoding))
	for _, value := range q.Values {
		e.Text(value)
	}
	if q.Mechanism != nil {
		e.Raw(q.Mechanism.Encode())
	}
	return e.Sum()
}

func decodeQuestion(payload []byte) (*question, error) {
	d := &wire.Decoder{Rest: payload}
	c := decodeQuestionDefined(d).(*questionDefined)
	return newQuestion(c), d.Done()
}

// encodingCode is how events name an encoding.
func encodingCode(e vocabulary.Encoding) uint8 {
	switch e {
	case Unary:
		return 2
	case Finite:
		return 3
	}
	return 1
}

func decodeEncoding(d *wire.Decoder) Encoding {
	switch code := d.U8(); code {
	case encodingCode(Direct):
		return Direct
	case encodingCode(Unary):
		return Unary
	case encodingCode(Finite):
		return Finite
	default:
		d.Fail("unknown encoding %d", code)
		return ""
	}
}

// has tells whether a response is one that the question can have at an ε.
func (q *question) has(epsilon privacy.Epsilon, v value) bool {
	switch q.encoding {
	case Unary:
		return v.index == 0 && v.bits.Len() == len(q.values)
	case Finite:
		return !v.isUnary() && q.mechanism.Possible(epsilon, v.index)
	}
	return !v.isUnary() && v.index < len(q.values)
}

// text writes a response that the question has at an ε.
func (q *question) text(epsilon privacy.Epsilon, v value) string {
	switch q.encoding {
	case Unary:
		return v.bits.String()
	case Finite:
		return q.mechanism.OutputsAt(epsilon)[v.index]
	}
	return q.values[v.index]
}

// read reads what text writes.
func (q *question) read(epsilon privacy.Epsilon, text string) (v value, known bool) {
	switch q.encoding {
	case Unary:
		bits, err := rrchain.ParseBits(text)
		v = value{bits: bits}
		return v, err == nil && q.has(epsilon, v)
	case Finite:
		v.index = slices.Index(q.mechanism.OutputsAt(epsilon), text)
		return v, q.has(epsilon, v)
	}
	v.index, known = q.index[text]
	return v, known
}
