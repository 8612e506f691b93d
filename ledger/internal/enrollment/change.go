package enrollment

import (
	"context"
	"slices"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// TermsChange is a request that changes the terms of objects that are enrolled in a question.
type TermsChange struct {
	Request
	List
	// AsOf is the number of an event, or 0. If it is not 0, an object keeps its terms in the
	// question if a later event has changed them.
	AsOf uint64
}

// Run executes the change.
func (tc *TermsChange) Run(ctx context.Context) (request.Outcome, error) {
	return tc.run(ctx, tc.Names, tc.decide)
}

// decide returns the change of the terms of an object, or its refusal. It returns neither if the
// terms are as wanted, or if they were changed after AsOf. An object is refused if it is not
// enrolled, or if it must first consent to terms that may allow more.
func (tc *TermsChange) decide(
	s *state.State, numbers *policyNumbers, name string,
) (event.Change, *api.Refusal, error) {
	c, enrolled, err := s.Chain(tc.Question.Number, name)
	if err != nil {
		return nil, nil, err
	}
	if !enrolled {
		const reason, remedy = api.NotEnrolled, event.RemedyEnrolling
		return nil, &api.Refusal{Object: name, Reason: reason, Remedy: remedy}, nil
	}
	o, known, err := s.Object(name)
	if err != nil || !known {
		return nil, nil, errs.Corrupt(err, "object %q has a chain but no budget", name)
	}
	if tc.AsOf != 0 && o.Latest > tc.AsOf { // Latest is the last event about the object
		changed, err := s.TermsChangedSince(o, tc.AsOf)
		if err != nil || slices.Contains(changed, tc.Question.Number) {
			return nil, nil, err
		}
	}
	want := tc.of(name)
	if !want.Was.IsZero() && o.Cap != want.Was {
		want.Cap = o.Cap // the cap was changed after the comparison, so it stays as it is
	}
	m, err := want.moveFrom(numbers, c.Policy, o.Cap)
	if err != nil || !m.isChange {
		return nil, nil, err
	}
	if more := m.more(s, want); more != nil {
		r := m.now.Refuse(name, m.to, more)
		return nil, &r, nil
	}
	number := m.number
	if !m.defined {
		number = numbers.define(*want.Policy) // the policy is new to the ledger
	}
	return &event.TermsChanged{
		Object: name, Question: tc.Question.Number, Policy: number, Cap: m.to.Cap, Consent: want.Consent,
	}, nil, nil
}
