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

// TermsChange is a request that puts objects under other terms.
type TermsChange struct {
	Request
	List
	// AsOf, if it is not 0, is an event. Objects that got other terms in the question by a later
	// event keep those terms.
	AsOf uint64
}

// Run executes the change.
func (tc *TermsChange) Run(ctx context.Context) (request.Outcome, error) {
	return tc.run(ctx, tc.Names, tc.decide)
}

// decide returns the change of terms of an object, or nil if its terms are as wanted.
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
	if tc.AsOf != 0 && o.Latest > tc.AsOf {
		changed, err := s.TermsChangedSince(o, tc.AsOf)
		if err != nil || slices.Contains(changed, tc.Question.Number) {
			return nil, nil, err
		}
	}
	want := tc.of(name)
	if !want.Was.IsZero() && o.Cap != want.Was {
		want.Cap = o.Cap
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
		number = numbers.define(*want.Policy)
	}
	return &event.TermsChanged{
		Object: name, Question: tc.Question.Number, Policy: number, Cap: m.to.Cap, Consent: want.Consent,
	}, nil, nil
}
