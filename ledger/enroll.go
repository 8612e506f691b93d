package ledger

import (
	"context"
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/batch"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// EnrollRequest puts objects under the ledger's care for one question.
type EnrollRequest struct {
	Key      string   // idempotency key, 1 to 256 bytes
	Question string   // by its name
	Objects  []string // 1 to 256 bytes each; see [NameError]
	// Policy is the ceiling of each object's chain. The zero value sets none: only the cap binds.
	Policy policy.Policy
	// Cap is the largest ε each object may spend over all its chains. 0 leaves the cap of an object that
	// is known already as it is; for a new one it is [ErrNoCap].
	Cap      privacy.Epsilon
	Progress Progress // optional
}

// EnrollResult tells what an enrolment did.
type EnrollResult struct {
	Enrolled int    // newly enrolled, or again after they had withdrawn
	Already  int    // enrolled in the question before, with the same policy
	First    uint64 // first and last event; other requests' events may lie between
	Last     uint64 // as First
}

// Enroll enrols objects in a question. Those enrolled already are left as they are; one that has
// withdrawn takes part again, with everything it has spent. If an object is
// known with another cap than the one given, or enrolled with another policy, nobody is enrolled and
// the [*RefusedError] says who: budgets do not change in passing. If it gives no cap and somebody is new to
// the ledger, nobody is enrolled and the error is [ErrNoCap].
func (l *Ledger) Enroll(ctx context.Context, r EnrollRequest) (EnrollResult, error) {
	all, err := names.CheckObjects(r.Objects)
	if err != nil {
		return EnrollResult{}, err
	}
	if err := names.Check("idempotency key", r.Key); err != nil {
		return EnrollResult{}, err
	}
	x := &enrollment{ledger: l, request: r, panel: batch.Panel{Names: all}}
	if x.question, err = l.findQuestion(ctx, r.Question); err != nil {
		return EnrollResult{}, err
	}
	if err := l.admitEnrolled(ctx, all, r.Policy.Terms()); err != nil {
		return EnrollResult{}, err
	}
	x.panel.Question = x.question.Number
	b := &batch.Bulk{Engine: &l.engine, Holds: &l.rules.Holds, Work: x, Key: r.Key, Id: x.form(), Panel: x.panel, Progress: r.Progress}
	result, err := b.Run(ctx)
	if err != nil {
		return EnrollResult{}, err
	}
	return EnrollResult{int(result.Counts[enrolledNow]), int(result.Counts[enrolledBefore]), result.First, result.Last}, nil
}

// The tallies of an enrolment.
const (
	enrolledNow = iota
	enrolledBefore
)

// enrollment is an EnrollRequest being carried out.
type enrollment struct {
	ledger   *Ledger
	request  EnrollRequest
	question *event.Question
	panel    batch.Panel
}

func (x *enrollment) form() event.Identity {
	f := event.NewForm("enroll")
	f.Field("Question").Text(x.request.Question)
	f.Field("Policy").Text(x.request.Policy.String())
	f.Field("Cap").Epsilon(x.request.Cap)
	f.Objects(x.panel.Names, false)
	return f.Finish()
}

// Precheck refuses, before anybody is enrolled, if anybody cannot be.
func (x *enrollment) Precheck(ctx context.Context, p batch.Panel, behind string) (total int, err error) {
	var refused batch.RefusalList
	err = batch.EachPart(ctx, &x.ledger.engine, &p, behind, func(s *state.State, names []string) error {
		total += len(names)
		p, err := x.plan(s, names, 0)
		refused.Add(p.Refused...)
		return err
	})
	if err == nil && len(refused.Listed) > 0 {
		err = refused.Error(x.question)
	}
	return total, err
}

// Truths has nothing to do: to enrol takes no true values.
func (x *enrollment) Truths(context.Context, string) error { return nil }

// Decide enrols the objects of a part.
func (x *enrollment) Decide(s *state.State, names []string) (batch.Part, error) {
	number, known, err := x.policyNumber(s)
	if err != nil {
		return batch.Part{}, err
	}
	p, err := x.plan(s, names, number)
	if err == nil && len(p.Refused) > 0 {
		err = batch.RefusalList{Listed: p.Refused}.Error(x.question)
	}
	if !known && len(p.Changes) > 0 {
		p.Changes = append([]event.Change{&event.PolicyDefined{Number: number, JSON: x.request.Policy.String()}}, p.Changes...)
	}
	return p, err
}

// policyNumber returns the number of the request's policy, or the next free one.
func (x *enrollment) policyNumber(s *state.State) (number uint32, known bool, err error) {
	if x.request.Policy.IsZero() {
		return 0, true, nil
	}
	number, known, err = s.PolicyNumber(x.request.Policy)
	if !known {
		number = s.Counters.Policies + 1
	}
	return number, known, err
}

// plan says what to do with each object.
func (x *enrollment) plan(s *state.State, names []string, policyNumber uint32) (p batch.Part, err error) {
	for _, name := range names {
		c, already, err := s.Chain(x.question.Number, name)
		if err != nil {
			return p, err
		}
		o, known, err := s.Object(name)
		if err != nil {
			return p, err
		}
		limit := x.request.Cap
		switch {
		case limit.IsZero() && !known:
			return p, fmt.Errorf("object %q: %w", name, ErrNoCap)
		case limit.IsZero():
			limit = o.Cap
		}
		if known && o.Cap != limit {
			p.Refused = append(p.Refused, Refusal{Object: name, Reason: CapDiffers, Ceiling: o.Cap, Spent: o.Spent, Asked: limit, Remedy: vocabulary.RemedyNothing})
			continue
		}
		noise := uint32(0)
		if !already {
			if noise, err = x.ledger.rules.Noise.Of(x.question); err != nil {
				return p, err
			}
		} else {
			if noise = c.Noise; o.Forgotten > c.Enrolled {
				noise = 0 // see NoiseKeys
			}
			same, err := x.samePolicy(s, c)
			if err != nil {
				return p, err
			}
			if !same {
				p.Refused = append(p.Refused, Refusal{Object: name, Reason: PolicyDiffers, Spent: c.Current(), Remedy: vocabulary.RemedyNothing})
				continue
			}
			if !o.Withdrew(c) {
				p.Counts[enrolledBefore]++
				continue
			}
		}
		p.Counts[enrolledNow]++
		p.Changes = append(p.Changes, &event.Enrolled{Object: name, Question: x.question.Number, Policy: policyNumber, Noise: noise, Cap: limit})
	}
	return p, nil
}

func (x *enrollment) samePolicy(s *state.State, c state.Chain) (bool, error) {
	if c.Policy == 0 || x.request.Policy.IsZero() {
		return c.Policy == 0 && x.request.Policy.IsZero(), nil
	}
	p, err := s.Policy(c.Policy)
	return p.Equal(x.request.Policy), err
}
