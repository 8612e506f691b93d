package ledger

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/ledger/vocabulary"
)

// DefineQuestion adds a question. It never changes afterwards. The name is unique; there are 2 to
// 2²⁰ values, in unary encoding 2¹², all different; names and values have 1 to 256 bytes. Defining the same question again,
// with whatever key, does nothing; another one under its name is [ErrInvalid]. (Mechanisms are the same if their
// levels and outputs are. Channels stay what they were at first.)
func (l *Ledger) DefineQuestion(ctx context.Context, key string, q Question) error {
	asked := q.Encoding
	if asked == "" {
		q.Encoding = vocabulary.EncodingFor(q)
	}
	q.Values, q.Mechanism = slices.Clone(q.Values), q.Mechanism.Named()
	if err := vocabulary.CheckQuestion(q); err != nil {
		return err
	}
	if err := l.admit(ctx, "question", (*state).knowsQuestion, q.Name); err != nil {
		return err
	}
	f := formOf("question")
	f.field("Encoding").Text(string(asked))
	f.field("Name").Text(q.Name)
	values := f.field("Values")
	for _, value := range q.Values {
		values.Text(value)
	}
	f.field("Mechanism").Raw(q.Mechanism.Behaviour())
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
	if err == nil && !old.mechanism.AnswersAs(q.Mechanism) {
		err = errs.Invalid("question %q is defined with another mechanism", q.Name)
	}
	return nil, err
}

// Questions returns all questions in the order of their definition.
func (l *Ledger) Questions(ctx context.Context) ([]Question, error) {
	var all []Question
	err := l.scan(ctx, bucketQuestions, []byte("q"), func(key, value []byte) (bool, error) {
		if len(key) != len(numberKey(0)) || key[0] != 'q' {
			return false, fmt.Errorf("%w: %x among the questions", ErrCorrupt, key)
		}
		payload, err := wire.Unseal(bucketQuestions, key, value)
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
		all = append(all, Question{Name: q.name, Values: q.values, Encoding: q.encoding, Mechanism: q.mechanism})
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}
