package ledger

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/rrchain"
)

// Question is a function of an object with a fixed list of labelled values.
type Question struct {
	Name   string   `json:"question"`
	Values []string `json:"values"`
	// Encoding is what a response is. If it is empty when the question is defined, the ledger picks the one
	// that estimates better at ε = 2: unary from 21 values on, see [rrchain.UnaryFrom]. A host that means to
	// release less or more may know better: unary is better from 10 values on at ε = 1, from 135 at ε = 4.
	Encoding Encoding `json:"encoding"`
	// Mechanism is how the question is answered, in finite encoding, which is the one that the ledger picks if there
	// is a mechanism. Else it is nil.
	Mechanism *Mechanism `json:"mechanism,omitempty"`
}

// DefineQuestion adds a question. It never changes afterwards. The name is unique; there are 2 to
// 2²⁰ values, in unary encoding 2¹², all different; names and values have 1 to 256 bytes. Defining the same question again,
// with whatever key, does nothing; another one under its name is [ErrInvalid]. (Mechanisms are the same if their
// levels and outputs are. Channels stay what they were at first.)
func (l *Ledger) DefineQuestion(ctx context.Context, key string, q Question) error {
	asked := q.Encoding
	if asked == "" {
		q.Encoding = encodingFor(q)
	}
	q.Values, q.Mechanism = slices.Clone(q.Values), q.Mechanism.named()
	if err := checkQuestion(q); err != nil {
		return err
	}
	if err := l.admit(ctx, "question", (*state).knowsQuestion, q.Name); err != nil {
		return err
	}
	f := formOf("question")
	f.field("Encoding").text(string(asked))
	f.field("Name").text(q.Name)
	values := f.field("Values")
	for _, value := range q.Values {
		values.text(value)
	}
	f.field("Mechanism").raw(q.Mechanism.levels())
	return l.once(ctx, key, "", f, func(s *state) (change, error) { return s.define(q, asked != "") })
}

// define returns the change that defines a question, or nil if it is defined already. strict: in this
// encoding, and no other.
func (s *state) define(q Question, strict bool) (change, error) {
	number, found, err := s.questionNumber(q.Name)
	if err != nil {
		return nil, err
	}
	if !found {
		return &questionDefined{s.counters.questions + 1, q}, nil
	}
	old, err := s.question(number)
	if err == nil && !slices.Equal(old.values, q.Values) {
		err = errs.Invalid("question %q is defined with other values", q.Name)
	}
	if err == nil && strict && old.encoding != q.Encoding {
		err = errs.Invalid("question %q is defined in %s encoding", q.Name, old.encoding)
	}
	if err == nil && !old.mechanism.answersAs(q.Mechanism) {
		err = errs.Invalid("question %q is defined with another mechanism", q.Name)
	}
	return nil, err
}

func checkQuestion(q Question) error {
	if err := checkName("question", q.Name); err != nil {
		return err
	}
	if len(q.Values) < 2 || len(q.Values) > rrchain.MaxValues {
		return errs.Invalid("question %q has %d values; 2 to %d are possible", q.Name, len(q.Values), rrchain.MaxValues)
	}
	if err := checkEncoding(q); err != nil {
		return errs.Invalid("question %q: %v", q.Name, err)
	}
	seen := make(map[string]bool, len(q.Values))
	for _, value := range q.Values {
		if err := checkName("value", value); err != nil {
			return fmt.Errorf("question %q: %w", q.Name, err)
		}
		if seen[value] {
			return errs.Invalid("question %q has the value %q twice", q.Name, value)
		}
		seen[value] = true
	}
	return nil
}

// Questions returns all questions in the order of their definition.
func (l *Ledger) Questions(ctx context.Context) ([]Question, error) {
	var all []Question
	err := l.scan(ctx, bucketQuestions, []byte("q"), func(key, value []byte) (bool, error) {
		if len(key) != len(numberKey(0)) || key[0] != 'q' {
			return false, fmt.Errorf("%w: %x among the questions", ErrCorrupt, key)
		}
		payload, err := unseal(bucketQuestions, key, value)
		if err != nil {
			return false, err
		}
		q, err := decodeQuestion(payload)
		if err == nil && binary.BigEndian.Uint32(key[1:]) != q.number {
			err = fmt.Errorf("%w: question %d stands where another should", ErrCorrupt, q.number)
		}
		if err != nil {
			return false, err
		}
		all = append(all, Question{q.name, q.values, q.encoding, q.mechanism})
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}
