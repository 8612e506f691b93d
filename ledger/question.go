package ledger

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// DefineQuestion adds a question. It never changes afterwards. The name is unique; there are 2 to
// 2²⁰ values, in unary encoding 2¹², all different; names and values have 1 to 256 bytes. Defining
// the same question again, with whatever key, does nothing; another one under its name is
// [ErrInvalid]. (Mechanisms are the same if their levels and outputs are. Channels stay what they
// were at first.)
func (l *Ledger) DefineQuestion(ctx context.Context, key string, q Question) error {
	asked := q.Encoding
	if asked == "" {
		q.Encoding = event.EncodingFor(q)
	}
	q.Values, q.Mechanism = slices.Clone(q.Values), event.NameOutputs(q.Mechanism)
	if err := event.CheckQuestion(q); err != nil {
		return err
	}
	return l.requests.Once(ctx, key, "", event.DefineRequest(q, asked), func(s *state.State) (event.Change, error) { return defineQuestion(s, q, asked != "") })
}

// defineQuestion returns the change that defines a question, or nil if it is defined already.
// strict: in this encoding, and no other.
func defineQuestion(s *state.State, q Question, strict bool) (event.Change, error) {
	number, found, err := s.QuestionNumber(q.Name)
	if err != nil {
		return nil, err
	}
	if !found {
		return &event.QuestionDefined{Number: s.Counters.Questions + 1, Question: q}, nil
	}
	old, err := s.Question(number)
	if err == nil && !slices.Equal(old.Values, q.Values) {
		err = errs.Invalid("question %q is defined with other values", q.Name)
	}
	if err == nil && strict && old.Encoding != q.Encoding {
		err = errs.Invalid("question %q is defined in %s encoding", q.Name, old.Encoding)
	}
	if err == nil && !event.SameBehaviour(old.Mechanism, q.Mechanism) {
		err = errs.Invalid("question %q is defined with another mechanism", q.Name)
	}
	return nil, err
}

// Questions returns all questions in the order of their definition.
func (l *Ledger) Questions(ctx context.Context) ([]Question, error) {
	var all []Question
	err := l.scan(ctx, state.BucketQuestions, []byte("q"), func(key, value []byte) (bool, error) {
		if len(key) != len(state.NumberKey(0)) || key[0] != 'q' {
			return false, fmt.Errorf("%w: %x among the questions", ErrCorrupt, key)
		}
		payload, err := wire.Unseal(state.BucketQuestions, key, value)
		if err != nil {
			return false, err
		}
		q, err := event.DecodeQuestion(payload)
		if err == nil && binary.BigEndian.Uint32(key[1:]) != q.Number {
			err = fmt.Errorf("%w: question %d stands where another should", ErrCorrupt, q.Number)
		}
		if err != nil {
			return false, err
		}
		all = append(all, Question{Name: q.Name, Values: q.Values, Encoding: q.Encoding, Mechanism: q.Mechanism})
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}
