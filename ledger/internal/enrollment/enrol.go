package enrollment

import (
	"context"
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/policy"
)

// Enrolment enrols objects in a question. It does not change the terms of who is there.
type Enrolment struct {
	Request
	List
	Strangers bool // only those who were never enrolled in the question; who has withdrawn from all stays so
	New       bool // an object that the ledger knows already is an error
	DryRun    bool // return what would be done, and do nothing
}

// The tallies of an enrolment.
const (
	EnrolledNow = iota
	EnrolledBefore
)

// Run carries it out.
func (x *Enrolment) Run(ctx context.Context) (request.Outcome, error) {
	if x.DryRun {
		return x.dryRun(ctx)
	}
	return x.run(ctx, x.Names, x.plan)
}

// dryRun returns what would be done.
func (x *Enrolment) dryRun(ctx context.Context) (out request.Outcome, err error) {
	refused := request.NewRefusals(x.Partial)
	p := request.Panel{Names: x.Names, Question: x.Question.Number}
	err = x.EachPart(ctx, &p, "", func(s *state.State, names []string) error {
		part, err := x.plan(s, names)
		for i, n := range part.Counts {
			out.Counts[i] += n
		}
		refused.Add(part.Refused...)
		return err
	})
	if err == nil && len(refused.Listed) > 0 && !x.Partial {
		err = refused.Error(x.Question)
	}
	out.Refused, out.Left = refused.Listed, refused.Count()
	return out, err
}

// plan says what to do with each object.
func (x *Enrolment) plan(s *state.State, names []string) (request.Part, error) {
	p := request.Part{Question: x.Question.Number}
	numbers := policyNumbers{state: s}
	for _, name := range names {
		c, refusal, err := x.enrol(s, &numbers, name)
		switch {
		case err != nil:
			return p, err
		case refusal != nil:
			p.Refused = append(p.Refused, *refusal)
		case c == nil:
			p.Counts[EnrolledBefore]++
		default:
			p.Counts[EnrolledNow]++
			p.Changes = append(p.Changes, c)
		}
	}
	p.Changes = append(numbers.defined, p.Changes...)
	return p, nil
}

// enrol returns the change that enrols an object, or nil if it takes part already, or why it cannot
// be enrolled.
func (x *Enrolment) enrol(s *state.State, numbers *policyNumbers, name string) (event.Change, *vocabulary.Refusal, error) {
	c, already, err := s.Chain(x.Question.Number, name)
	if err != nil {
		return nil, nil, err
	}
	o, known, err := s.Object(name)
	if err != nil {
		return nil, nil, err
	}
	if known && x.New {
		return nil, nil, fmt.Errorf("object %q: %w", name, errs.ErrNotNew)
	}
	if x.Strangers {
		left, err := hasLeft(s, name, o)
		if err != nil || left || already {
			return nil, nil, err
		}
	}
	terms := x.of(name)
	limit := terms.Cap
	switch {
	case limit.IsZero() && !known:
		return nil, nil, fmt.Errorf("object %q: %w", name, errs.ErrNoCap)
	case limit.IsZero():
		limit = o.Cap
	}
	if known && o.Cap != limit {
		return nil, &vocabulary.Refusal{Object: name, Reason: vocabulary.CapDiffers, Ceiling: o.Cap, Spent: o.Spent, Asked: limit, Remedy: vocabulary.RemedyTerms}, nil
	}
	under := policy.Policy{}
	if terms.Policy != nil {
		under = *terms.Policy
	}
	number, defined, err := numbers.find(under)
	if err != nil {
		return nil, nil, err
	}
	noise := c.Noise
	switch {
	case !already:
		if noise, err = x.Rules.Noise.Of(x.Question); err != nil {
			return nil, nil, err
		}
	case !defined || number != c.Policy:
		return nil, &vocabulary.Refusal{Object: name, Reason: vocabulary.PolicyDiffers, Spent: c.Current(), Remedy: vocabulary.RemedyTerms}, nil
	case !o.Withdrew(c):
		return nil, nil, nil
	case o.Forgotten > c.Enrolled:
		noise = 0 // see ledger.NoiseKeys
	}
	if !defined {
		number = numbers.define(under)
	}
	return &event.Enrolled{Object: name, Question: x.Question.Number, Policy: number, Noise: noise, Cap: limit}, nil, nil
}
