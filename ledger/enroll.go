package ledger

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/batch"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/rules"
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
	Cap privacy.Epsilon
	// Terms, if set, says what Policy and Cap are for each object; the fields of these names are empty then. It is asked once
	// about each, in the order of their names, before anything happens. Asked again for the same key it must say the same.
	Terms    func(object string) (policy.Policy, privacy.Epsilon)
	Partial  bool     // leave refused objects out, rather than refuse the request
	Progress Progress // optional
}

// EnrollResult tells what an enrolment did.
type EnrollResult struct {
	Enrolled int // newly enrolled, or again after they had withdrawn
	Already  int // enrolled in the question before, with the same policy
	// Refused were left out, only if the request was partial: the first [MaxPanel] of them. [Ledger.Refusals] yields all.
	Refused  []Refusal
	Unlisted int    // how many more were left out, or were and are forgotten since
	First    uint64 // first and last event; other requests' events may lie between
	Last     uint64 // as First
}

// Enroll enrols objects in a question. Those enrolled already are left as they are; one that has
// withdrawn takes part again, with everything it has spent. If an object is
// known with another cap than the one given, or enrolled with another policy, it is refused ([CapDiffers], [PolicyDiffers]): what
// somebody has agreed to does not change in passing, but by [Ledger.ChangeTerms]. If any object is refused, nobody is enrolled and
// the [*RefusedError] says who, unless the request is partial. If it gives no cap and somebody is new to
// the ledger, nobody is enrolled and the error is [ErrNoCap].
//
// A host that has a table of its own brings the ledger in line with it by [Ledger.Reconcile].
func (l *Ledger) Enroll(ctx context.Context, r EnrollRequest) (EnrollResult, error) {
	all, err := names.CheckObjects(r.Objects)
	if err != nil {
		return EnrollResult{}, err
	}
	if err := names.Check("idempotency key", r.Key); err != nil {
		return EnrollResult{}, err
	}
	if r.Terms != nil && (!r.Policy.IsZero() || !r.Cap.IsZero()) {
		return EnrollResult{}, errs.Invalid("a policy or a cap for all, and terms for each")
	}
	x := &enrollment{ledger: l, key: r.Key, partial: r.Partial}
	if x.question, err = l.findQuestion(ctx, r.Question); err != nil {
		return EnrollResult{}, err
	}
	x.terms.ask(all, &r)
	for _, p := range x.terms.policies {
		if err := l.admitTerms(ctx, p.Terms()); err != nil {
			return EnrollResult{}, err
		}
	}
	if err := l.admitObjects(ctx, all); err != nil {
		return EnrollResult{}, err
	}
	done, err := x.run(ctx, r.form(&x.terms), r.Progress)
	if err != nil {
		return EnrollResult{}, err
	}
	return EnrollResult{
		Enrolled: int(done.Counts[enrolledNow]), Already: int(done.Counts[enrolledBefore]),
		Refused: done.Refused, Unlisted: done.Left - len(done.Refused), First: done.First, Last: done.Last,
	}, nil
}

func (r *EnrollRequest) form(terms *enrolledTerms) event.Identity {
	f := event.NewForm("enroll")
	f.Field("Question").Text(r.Question)
	f.Field("Policy").Text(r.Policy.String())
	f.Field("Cap").Epsilon(r.Cap)
	f.Objects(terms.names, false)
	f.Field("Partial").Flag(r.Partial)
	e := f.Field("Terms")
	if e.Flag(r.Terms != nil); r.Terms != nil {
		for _, p := range terms.policies {
			e.Text(p.String())
		}
		for _, one := range terms.each {
			e.U32(one.policy)
			e.Epsilon(one.cap)
		}
	}
	return f.Finish()
}

// enrolledTerms are the terms of each object of an enrolment.
type enrolledTerms struct {
	names    []string // in order
	policies []policy.Policy
	each     []oneEnrolled // by the places of the names; the first is that of all if there is no other
}

// oneEnrolled are the terms of one object.
type oneEnrolled struct {
	policy uint32 // the place of its policy
	cap    privacy.Epsilon
}

// ask finds out the terms of each object.
func (t *enrolledTerms) ask(objects []string, r *EnrollRequest) {
	t.names = objects
	if r.Terms == nil {
		t.policies, t.each = []policy.Policy{r.Policy}, []oneEnrolled{{0, r.Cap}}
		return
	}
	places := map[string]uint32{}
	t.each = make([]oneEnrolled, len(objects))
	for i, name := range objects {
		p, limit := r.Terms(name)
		place, known := places[p.String()]
		if !known {
			place = uint32(len(t.policies))
			places[p.String()], t.policies = place, append(t.policies, p)
		}
		t.each[i] = oneEnrolled{place, limit}
	}
}

// of returns the terms of an object.
func (t *enrolledTerms) of(object string) (policy.Policy, privacy.Epsilon) {
	one := t.each[0]
	if len(t.each) > 1 {
		at, _ := slices.BinarySearch(t.names, object)
		one = t.each[at]
	}
	return t.policies[one.policy], one.cap
}

// The tallies of an enrolment.
const (
	enrolledNow = iota
	enrolledBefore
)

// enrollment is an EnrollRequest being carried out.
type enrollment struct {
	ledger   *Ledger
	key      string
	question *event.Question
	terms    enrolledTerms
	partial  bool
}

func (x *enrollment) run(ctx context.Context, id event.Identity, progress Progress) (batch.Outcome, error) {
	b := &batch.Bulk{
		Engine: &x.ledger.engine, Holds: &x.ledger.rules.Holds, Work: x, Key: x.key, Id: id,
		Panel: batch.Panel{Names: x.terms.names, Question: x.question.Number}, Progress: progress,
	}
	return b.Run(ctx)
}

// Precheck refuses, before anybody is enrolled, if anybody cannot be.
func (x *enrollment) Precheck(ctx context.Context, p batch.Panel, behind string) (total int, err error) {
	var refused batch.RefusalList
	err = batch.EachPart(ctx, &x.ledger.engine, &p, behind, func(s *state.State, names []string) error {
		total += len(names)
		p, err := x.plan(s, names)
		refused.Add(p.Refused...)
		return err
	})
	if err == nil && !x.partial {
		err = x.refuse(refused)
	}
	return total, err
}

// Truths has nothing to do: to enrol takes no true values.
func (x *enrollment) Truths(context.Context, string) error { return nil }

// Decide enrols the objects of a part.
func (x *enrollment) Decide(s *state.State, names []string) (batch.Part, error) {
	p, err := x.plan(s, names)
	if err == nil && !x.partial {
		err = x.refuse(batch.RefusalList{Listed: p.Refused})
	}
	return p, err
}

// refuse returns that the request is refused, if anybody is.
func (x *enrollment) refuse(refused batch.RefusalList) error {
	if len(refused.Listed) == 0 {
		return nil
	}
	return x.ledger.refuse(asker{key: x.key}, x.question, privacy.Epsilon{}, refused, &rules.ChangedTruths{})
}

// plan says what to do with each object.
func (x *enrollment) plan(s *state.State, names []string) (batch.Part, error) {
	p := batch.Part{Question: x.question.Number}
	numbers := policyNumbers{state: s}
	for _, name := range names {
		c, refusal, err := x.enrol(s, &numbers, name)
		switch {
		case err != nil:
			return p, err
		case refusal != nil:
			p.Refused = append(p.Refused, *refusal)
		case c == nil:
			p.Counts[enrolledBefore]++
		default:
			p.Counts[enrolledNow]++
			p.Changes = append(p.Changes, c)
		}
	}
	p.Changes = append(numbers.defined, p.Changes...)
	return p, nil
}

// enrol returns the change that enrols an object, or nil if it takes part already, or why it cannot be enrolled.
func (x *enrollment) enrol(s *state.State, numbers *policyNumbers, name string) (event.Change, *Refusal, error) {
	c, already, err := s.Chain(x.question.Number, name)
	if err != nil {
		return nil, nil, err
	}
	o, known, err := s.Object(name)
	if err != nil {
		return nil, nil, err
	}
	under, limit := x.terms.of(name)
	switch {
	case limit.IsZero() && !known:
		return nil, nil, fmt.Errorf("object %q: %w", name, ErrNoCap)
	case limit.IsZero():
		limit = o.Cap
	}
	if known && o.Cap != limit {
		return nil, &Refusal{Object: name, Reason: CapDiffers, Ceiling: o.Cap, Spent: o.Spent, Asked: limit, Remedy: vocabulary.RemedyTerms}, nil
	}
	number, defined, err := numbers.find(under)
	if err != nil {
		return nil, nil, err
	}
	noise := c.Noise
	switch {
	case !already:
		if noise, err = x.ledger.rules.Noise.Of(x.question); err != nil {
			return nil, nil, err
		}
	case !defined || number != c.Policy:
		return nil, &Refusal{Object: name, Reason: PolicyDiffers, Spent: c.Current(), Remedy: vocabulary.RemedyTerms}, nil
	case !o.Withdrew(c):
		return nil, nil, nil
	case o.Forgotten > c.Enrolled:
		noise = 0 // see NoiseKeys
	}
	if !defined {
		number = numbers.define(under)
	}
	return &event.Enrolled{Object: name, Question: x.question.Number, Policy: number, Noise: noise, Cap: limit}, nil, nil
}
