package ledger

import (
	"context"
	"slices"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// DefineQuestion adds a question. It never changes afterwards. The name is unique; there are 2 to
// 2²⁰ values, in unary encoding 2¹², all different; names and values have 1 to 256 bytes. Defining
// the same question again, with whatever key, does nothing; another one under its name is
// [api.ErrInvalid]. (Mechanisms are the same if their levels and outputs are. Channels stay what they
// were at first.)
func (l *Ledger) DefineQuestion(ctx context.Context, key string, q api.Question) error {
	asked := q.Encoding
	if asked == "" {
		q.Encoding = event.EncodingFor(q)
	}
	q.Values, q.Mechanism = slices.Clone(q.Values), event.NameOutputs(q.Mechanism)
	if err := event.CheckQuestion(q); err != nil {
		return err
	}
	define := func(s *state.State) (event.Change, error) { return defineQuestion(s, q, asked != "") }
	return l.requests.Once(ctx, key, "", event.DefineRequest(q, asked), define)
}

// defineQuestion returns the change that defines a question, or nil if it is defined already.
// strict: in this encoding, and no other.
func defineQuestion(s *state.State, q api.Question, strict bool) (event.Change, error) {
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
func (l *Ledger) Questions(ctx context.Context) ([]api.Question, error) {
	var all []api.Question
	for more := true; more; {
		err := l.engine.View(ctx, func(s *state.State) error {
			end := min(uint64(s.Counters.Questions), uint64(len(all))+scanSize)
			more = end < uint64(s.Counters.Questions)
			for uint64(len(all)) < end {
				number := uint32(len(all)) + 1
				// The state's own copy of a question is shared: the host may change what it gets.
				q, found, err := state.Lookup(s, state.BucketQuestions, state.NumberKey(number), event.DecodeQuestion)
				if err != nil || !found || q.Number != number {
					return errs.Corrupt(err, "question %d is missing, or is another", number)
				}
				all = append(all, q.Public())
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// CheckName returns nil if a text may be a name in a ledger: of an object, a question, a value, a
// buyer or an idempotency key. Otherwise it returns the [api.ErrInvalid] that every request with
// that name returns, most often a [*api.NameError]. The error describes the text as what. A host
// calls it where it takes names from people, such as in a sign-up form.
func CheckName(what, name string) error { return event.CheckName(what, name) }
