package ledger

import (
	"context"
	"iter"
	"slices"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// DefineQuestion adds a question, which never changes afterwards. The name is unique. There are 2
// to 2²⁰ values, or up to 2¹² in unary encoding, all different. Names and values have 1 to 256
// bytes.
//
// Defining the same question again, with any key, does nothing. Defining a different question under
// its name is [api.ErrInvalid]. Two mechanisms are the same if their levels and outputs are; the
// ledger keeps the channels of the first definition.
func (l *Ledger) DefineQuestion(ctx context.Context, key string, q api.Question) error {
	encoding := q.Encoding
	if encoding == "" {
		q.Encoding = event.EncodingFor(q)
	}
	q.Values, q.Mechanism = slices.Clone(q.Values), event.NameOutputs(q.Mechanism)
	if err := event.CheckQuestion(q); err != nil {
		return err
	}
	// If the host has not chosen an encoding, that of an existing question may be another one.
	define := func(s *state.State) (event.Change, error) { return defineQuestion(s, q, encoding != "") }
	return l.requests.Once(ctx, key, "", event.DefineRequest(q, encoding), define)
}

// defineQuestion returns the change that defines a question. It returns nil if the same question is
// already defined, and [api.ErrInvalid] if a different one has its name. The encoding is compared
// only if strict is true.
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
		err = errs.Invalid("question %q is already defined, with other values", q.Name)
	}
	if err == nil && strict && old.Encoding != q.Encoding {
		err = errs.Invalid("question %q is already defined, in %s encoding", q.Name, old.Encoding)
	}
	if err == nil && !event.SameBehaviour(old.Mechanism, q.Mechanism) {
		err = errs.Invalid("question %q is already defined, with another mechanism", q.Name)
	}
	return nil, err
}

// Questions yields all questions in the order of their definition. If a record cannot be read, it
// yields the error, and ends.
func (l *Ledger) Questions(ctx context.Context) iter.Seq2[api.Question, error] {
	read := func(ctx context.Context, p api.Page) (some []api.Question, next uint64, err error) {
		err = l.engine.View(ctx, func(s *state.State) error {
			end := min(uint64(s.Counters.Questions), p.After+scanSize)
			if next = end; end == uint64(s.Counters.Questions) {
				next = 0
			}
			for number := uint32(p.After) + 1; uint64(number) <= end; number++ {
				// The question is decoded again, because the host may change what it gets, and the
				// state's own copy is shared.
				q, found, err := state.Lookup(s, state.BucketQuestions, state.NumberKey(number), event.DecodeQuestion)
				if err != nil || !found || q.Number != number {
					return errs.Corrupt(err, "question %d: its record is missing or has another number", number)
				}
				some = append(some, q.Public())
			}
			return nil
		})
		return some, next, err
	}
	return request.EachInPages(ctx, api.Page{}, read)
}

// CheckName returns nil if a text may be the name of an object, a question, a value, a buyer or an
// idempotency key. Otherwise it returns the [api.ErrInvalid] that every request with that name
// returns, usually a [*api.NameError]. The error describes the text as what. A host calls it where
// people enter names, for example in a sign-up form.
func CheckName(what, name string) error { return event.CheckName(what, name) }
