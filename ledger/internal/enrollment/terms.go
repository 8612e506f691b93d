package enrollment

import (
	"context"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/privacy"
)

// TermsChange puts objects under other terms.
type TermsChange struct {
	Request
	List
	// AsOf, if it is not 0, is an event: who was put under other terms by a later one is left so.
	AsOf uint64
}

// The tallies of a change of terms.
const (
	TermsChanged = iota
	TermsUnchanged
)

// Run carries it out.
func (x *TermsChange) Run(ctx context.Context) (request.Outcome, error) {
	return x.run(ctx, x.Names, x.plan)
}

// plan says what to do with each object.
func (x *TermsChange) plan(s *state.State, names []string) (request.Part, error) {
	p := request.Part{Question: x.Question.Number}
	numbers := policyNumbers{state: s}
	for _, name := range names {
		c, refusal, err := x.changeOf(s, &numbers, name)
		switch {
		case err != nil:
			return p, err
		case refusal != nil:
			p.Refused = append(p.Refused, *refusal)
		case c == nil:
			p.Counts[TermsUnchanged]++
		default:
			p.Counts[TermsChanged]++
			p.Changes = append(p.Changes, c)
		}
	}
	p.Changes = append(numbers.defined, p.Changes...)
	return p, nil
}

// changeOf returns the change of an object's terms, or nil if they are as they should be, or why
// they are not changed.
func (x *TermsChange) changeOf(s *state.State, numbers *policyNumbers, name string) (event.Change, *vocabulary.Refusal, error) {
	c, enrolled, err := s.Chain(x.Question.Number, name)
	if err != nil {
		return nil, nil, err
	}
	if !enrolled {
		return nil, &vocabulary.Refusal{Object: name, Reason: vocabulary.NotEnrolled, Remedy: vocabulary.RemedyEnrolling}, nil
	}
	o, known, err := s.Object(name)
	if err != nil || !known {
		return nil, nil, errs.Corrupt(err, "object %q has a chain but no budget", name)
	}
	if x.AsOf != 0 && o.Latest > x.AsOf {
		if changed, err := s.TermsChangedSince(o, x.AsOf); err != nil || slices.Contains(changed, x.Question.Number) {
			return nil, nil, err
		}
	}
	want := x.of(name)
	if !want.Was.IsZero() && o.Cap != want.Was {
		want.Cap = o.Cap
	}
	m, err := want.moveFrom(numbers, c, o.Cap)
	if err != nil || !m.is {
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
	return &event.TermsChanged{Object: name, Question: x.Question.Number, Policy: number, Cap: m.to.Cap, Consent: want.Consent}, nil, nil
}

// move is what takes a chain, and its object, from the terms that it is under to others.
type move struct {
	is      bool // the terms are others
	now, to rules.Agreed
	number  uint32 // of the policy; if it is defined
	defined bool
}

// moveFrom returns what takes a chain, whose object has a cap, to these terms.
func (t Terms) moveFrom(numbers *policyNumbers, c state.Chain, limit privacy.Epsilon) (m move, err error) {
	m.now.Cap, m.to.Cap = limit, limit
	if !t.Cap.IsZero() {
		m.to.Cap = t.Cap
	}
	m.number, m.defined = c.Policy, true
	if t.Policy != nil {
		if m.number, m.defined, err = numbers.find(*t.Policy); err != nil {
			return m, err
		}
	}
	if m.is = !m.defined || m.number != c.Policy || m.to.Cap != limit; !m.is {
		return m, nil
	}
	if m.now.Policy, err = numbers.state.Policy(c.Policy); err != nil {
		return m, err
	}
	if m.to.Policy = m.now.Policy; t.Policy != nil {
		m.to.Policy = state.PolicyOrNone(*t.Policy)
	}
	return m, nil
}

// more says what may be more, if it is not agreed to. Ceilings are those of the clock: if it has
// gone back, what policies had allowed until then counts for nothing.
func (m *move) more(s *state.State, wanted Terms) error {
	if wanted.Consent != "" {
		return nil
	}
	return m.now.More(s.Known, m.to, rules.Earlier(s.Clock, s.Now))
}
