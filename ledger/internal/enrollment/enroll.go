package enrollment

import (
	"context"
	"fmt"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// Enrolment is a request that enrols objects in a question. It does not change the terms of objects
// that are enrolled already.
type Enrolment struct {
	Request
	List
	// SkipFormer leaves two kinds of objects unchanged: those that were ever enrolled in the
	// question, and those that have withdrawn and are enrolled nowhere.
	SkipFormer bool
	New        bool // an object that the ledger knows already is an error
}

// Run executes the enrolment.
func (e *Enrolment) Run(ctx context.Context) (request.Outcome, error) {
	return e.run(ctx, e.Names, e.decide)
}

// decide returns the enrolment of an object, or its refusal. It returns neither if the object is
// enrolled already, or is skipped by SkipFormer. An object that was ever enrolled in the question
// is refused if its policy there differs, even if it has withdrawn. An object is also refused if
// the ledger has another cap of it.
func (e *Enrolment) decide(
	s *state.State, numbers *policyNumbers, name string,
) (event.Change, *api.Refusal, error) {
	c, already, err := s.Chain(e.Question.Number, name) // already: it is or was enrolled in the question
	if err != nil {
		return nil, nil, err
	}
	o, known, err := s.Object(name)
	if err != nil {
		return nil, nil, err
	}
	if known && e.New {
		return nil, nil, fmt.Errorf("object %q: %w", name, errs.ErrNotNew)
	}
	if e.SkipFormer {
		left, err := hasLeft(s, name, o)
		if err != nil || left || already {
			return nil, nil, err
		}
	}
	terms := e.of(name)
	limit, refusal, err := capOf(name, terms, o, known)
	if err != nil || refusal != nil {
		return nil, refusal, err
	}
	under := policy.Policy{} // the zero value is no policy
	if terms.Policy != nil {
		under = *terms.Policy
	}
	number, defined, err := numbers.find(under)
	if err != nil {
		return nil, nil, err
	}
	noise := c.Noise // the key of a chain that continues
	switch {
	case !already:
		if noise, err = e.Rules.Noise.Of(e.Question); err != nil {
			return nil, nil, err
		}
	case !defined || number != c.Policy:
		return nil, &api.Refusal{
			Object: name, Reason: api.PolicyDiffers, Spent: c.Current(), Remedy: event.RemedyTerms,
		}, nil
	case !o.Withdrew(c):
		return nil, nil, nil
	case o.Forgotten > c.Enrolled:
		noise = 0 // random draws, so that the new responses do not share noise with those that were forgotten
	}
	if !defined {
		number = numbers.define(under)
	}
	return &event.Enrolled{
		Object: name, Question: e.Question.Number, Policy: number, Noise: noise, Cap: limit,
	}, nil, nil
}

// capOf returns the cap for the enrolment of an object: that of t, or else that of the ledger. It
// returns a refusal if both have one and they differ. It returns [errs.ErrNoCap] if neither has
// one. known reports whether the ledger has o.
func capOf(name string, t Terms, o state.Object, known bool) (privacy.Epsilon, *api.Refusal, error) {
	switch {
	case t.Cap.IsZero() && !known:
		return t.Cap, nil, fmt.Errorf("object %q: %w", name, errs.ErrNoCap)
	case t.Cap.IsZero():
		return o.Cap, nil, nil
	case known && o.Cap != t.Cap:
		return t.Cap, &api.Refusal{
			Object: name, Reason: api.CapDiffers, Ceiling: o.Cap, Spent: o.Spent, Asked: t.Cap,
			Remedy: event.RemedyTerms,
		}, nil
	}
	return t.Cap, nil, nil
}

// hasLeft reports whether an object has withdrawn or was forgotten, and is now enrolled in no
// question.
func hasLeft(s *state.State, name string, o state.Object) (bool, error) {
	if o.Withdrawn == 0 {
		return false, nil
	}
	return s.IsOut(name, o)
}
