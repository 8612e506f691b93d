package ledger

import (
	"context"
	"errors"

	"github.com/sluicedp/sluice/ledger/internal/batch"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/terms"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// ChangeTermsRequest puts objects under other terms.
type ChangeTermsRequest struct {
	Key      string   // idempotency key, 1 to 256 bytes
	Question string   // by its name
	Objects  []string // that are, or were, enrolled in the question
	// Policy is that of each object's chain from now on. nil leaves each as it is; a pointer to the zero value sets none, so that
	// only the cap binds.
	Policy *policy.Policy
	// Cap is the largest ε each object may spend over all its chains, from now on. 0 leaves each as it is.
	Cap privacy.Epsilon
	// Consent is the host's word that the objects have agreed to the new terms: 1 to 1,024 bytes of UTF-8 without control
	// characters, that tell an auditor where to look. It is needed if anything is more than before. The log keeps it until the
	// object is forgotten, and the object's statement shows it.
	Consent  string
	Partial  bool     // leave refused objects out, rather than refuse the request
	Progress Progress // optional
}

// ChangeTermsResult tells what a change of terms did.
type ChangeTermsResult struct {
	Changed   int // under other terms now
	Unchanged int // under these before
	// Refused were left out, only if the request was partial: the first [MaxPanel] of them. [Ledger.Refusals] yields all.
	Refused  []Refusal
	Unlisted int    // how many more were left out, or were and are forgotten since
	First    uint64 // first and last event; other requests' events may lie between
	Last     uint64 // as First
}

// ChangeTerms puts objects under another policy, or another cap, from now on. Less always works, at once: a lower cap, also below
// what is spent, so that nothing remains; a lower ceiling, higher prices, fewer buyers, an earlier end. Whatever may be more needs the
// consent of the objects, which the host states ([ChangeTermsRequest.Consent]): without it, an object is refused ([NeedsConsent])
// unless [policy.AtMost] proves that, at every later instant and after any number of buyers, the new policy allows nothing that the
// old one does not, and the cap is not higher. What it cannot prove needs consent, too.
//
// What was released stays released, and what was paid stays paid. Who upgrades pays the new price less what that buyer has paid for
// the object, never less than nothing. A reservation keeps its price, and its place among those who may hold a level; but not the budget:
// whoever has too little left when it is captured is refused, or left out. Levels that were released stay on sale as the new terms say.
//
// Who has withdrawn is put under the new terms as well, and takes part under them when enrolled again. Objects that were never enrolled in
// the question are refused ([NotEnrolled]). If any object is refused, nothing happens, unless the request is partial. Many are dealt with
// in transactions of bounded size, as by [Ledger.Raise]; nothing holds what others change meanwhile ([ErrPartlyDone]).
//
// Other errors: [ErrUnknown] for the question; [ErrInvalid]; [ErrKeyConflict]; [ErrReadOnly]; and [ErrForgotten] if the only object was
// forgotten since the key was used.
func (l *Ledger) ChangeTerms(ctx context.Context, r ChangeTermsRequest) (ChangeTermsResult, error) {
	all, err := names.CheckObjects(r.Objects)
	if err != nil {
		return ChangeTermsResult{}, err
	}
	if err := r.check(); err != nil {
		return ChangeTermsResult{}, err
	}
	x := &termsChange{ledger: l, key: r.Key, to: func(string) change { return change{r.Policy, r.Cap, r.Consent} }, partial: r.Partial}
	if r.Policy != nil {
		if err := l.admitTerms(ctx, r.Policy.Terms()); err != nil {
			return ChangeTermsResult{}, err
		}
	}
	if x.question, err = l.findQuestion(ctx, r.Question); err != nil {
		return ChangeTermsResult{}, err
	}
	done, err := x.run(ctx, all, r.form(all), r.Progress)
	if err != nil {
		return ChangeTermsResult{}, err
	}
	return ChangeTermsResult{
		Changed: int(done.Counts[termsChanged]), Unchanged: int(done.Counts[termsUnchanged]),
		Refused: done.Refused, Unlisted: done.Left - len(done.Refused), First: done.First, Last: done.Last,
	}, nil
}

func (r *ChangeTermsRequest) check() error {
	if r.Policy == nil && r.Cap.IsZero() {
		return errs.Invalid("neither a policy nor a cap is given")
	}
	err := names.Check("idempotency key", r.Key)
	if r.Consent != "" {
		err = errors.Join(err, names.CheckText("consent", r.Consent))
	}
	return err
}

func (r *ChangeTermsRequest) form(objects []string) event.Identity {
	f := event.NewForm("terms")
	f.Field("Question").Text(r.Question)
	p := f.Field("Policy")
	if p.Flag(r.Policy != nil); r.Policy != nil {
		p.Text(r.Policy.String())
	}
	f.Field("Cap").Epsilon(r.Cap)
	f.Field("Consent").Text(r.Consent)
	f.Objects(objects, false)
	f.Field("Partial").Flag(r.Partial)
	return f.Finish()
}

// The tallies of a change of terms.
const (
	termsChanged = iota
	termsUnchanged
)

// change is what becomes of the terms of an object.
type change struct {
	policy  *policy.Policy  // nil leaves it as it is
	cap     privacy.Epsilon // likewise 0
	consent string          // "" for none
}

// termsChange is a change of terms being carried out.
type termsChange struct {
	ledger   *Ledger
	key      string
	question *event.Question
	to       func(object string) change
	partial  bool
}

// run carries the change out for objects that are in order.
func (x *termsChange) run(ctx context.Context, objects []string, id event.Identity, progress Progress) (batch.Outcome, error) {
	b := &batch.Bulk{
		Engine: &x.ledger.engine, Holds: &x.ledger.rules.Holds, Work: x, Key: x.key, Id: id,
		Panel: batch.Panel{Names: objects, Question: x.question.Number}, Progress: progress,
	}
	return b.Run(ctx)
}

// Precheck refuses, before anything changes, if anybody must be refused.
func (x *termsChange) Precheck(ctx context.Context, p batch.Panel, behind string) (total int, err error) {
	var refused batch.RefusalList
	err = batch.EachPart(ctx, &x.ledger.engine, &p, behind, func(s *state.State, names []string) error {
		total += len(names)
		if x.partial {
			return nil // the parts refuse
		}
		part, err := x.plan(s, names)
		refused.Add(part.Refused...)
		return err
	})
	if err == nil {
		err = x.refuse(refused)
	}
	return total, err
}

// Truths has nothing to do: a change of terms takes no true values.
func (x *termsChange) Truths(context.Context, string) error { return nil }

// Decide changes the terms of a part.
func (x *termsChange) Decide(s *state.State, names []string) (batch.Part, error) {
	p, err := x.plan(s, names)
	if err == nil && !x.partial {
		err = x.refuse(batch.RefusalList{Listed: p.Refused})
	}
	return p, err
}

// refuse returns that the request is refused, if anybody is.
func (x *termsChange) refuse(refused batch.RefusalList) error {
	if len(refused.Listed) == 0 {
		return nil
	}
	return x.ledger.refuse(asker{key: x.key}, x.question, privacy.Epsilon{}, refused, &rules.ChangedTruths{})
}

// plan says what to do with each object.
func (x *termsChange) plan(s *state.State, names []string) (batch.Part, error) {
	p := batch.Part{Question: x.question.Number}
	numbers := policyNumbers{state: s}
	for _, name := range names {
		c, refusal, err := x.changeOf(s, &numbers, name)
		switch {
		case err != nil:
			return p, err
		case refusal != nil:
			p.Refused = append(p.Refused, *refusal)
		case c == nil:
			p.Counts[termsUnchanged]++
		default:
			p.Counts[termsChanged]++
			p.Changes = append(p.Changes, c)
		}
	}
	p.Changes = append(numbers.defined, p.Changes...)
	return p, nil
}

// changeOf returns the change of an object's terms, or nil if they are as they should be, or why they are not changed.
func (x *termsChange) changeOf(s *state.State, numbers *policyNumbers, name string) (event.Change, *Refusal, error) {
	c, enrolled, err := s.Chain(x.question.Number, name)
	if err != nil {
		return nil, nil, err
	}
	if !enrolled {
		return nil, &Refusal{Object: name, Reason: NotEnrolled, Remedy: vocabulary.RemedyEnrolling}, nil
	}
	o, known, err := s.Object(name)
	if err != nil || !known {
		return nil, nil, errs.Corrupt(err, "object %q has a chain but no budget", name)
	}
	now := terms.Agreed{Cap: o.Cap}
	if now.Policy, err = s.Policy(c.Policy); err != nil {
		return nil, nil, err
	}
	want, to := x.to(name), now
	if !want.cap.IsZero() {
		to.Cap = want.cap
	}
	number, defined := c.Policy, true
	if want.policy != nil {
		to.Policy = state.PolicyOrNone(*want.policy)
		if number, defined, err = numbers.find(*want.policy); err != nil {
			return nil, nil, err
		}
	}
	if defined && number == c.Policy && to.Cap == now.Cap {
		return nil, nil, nil
	}
	if want.consent == "" {
		if more := now.More(s.Known, to, rules.Earlier(s.Clock, s.Now)); more != nil {
			r := now.Refuse(name, to, more)
			return nil, &r, nil
		}
	}
	if !defined {
		number = numbers.define(*want.policy)
	}
	return &event.TermsChanged{Object: name, Question: x.question.Number, Policy: number, Cap: to.Cap, Consent: want.consent}, nil, nil
}

// policyNumbers finds the numbers of policies, and gives those that are new to the ledger the next ones. The zero value of one has the number 0.
type policyNumbers struct {
	state   *state.State
	given   map[string]uint32 // by their texts
	defined []event.Change    // that give them
}

// find returns the number of a policy, if it has one.
func (n *policyNumbers) find(p policy.Policy) (number uint32, defined bool, err error) {
	if p.IsZero() {
		return 0, true, nil
	}
	if number, defined = n.given[p.String()]; defined {
		return number, true, nil
	}
	number, defined, err = n.state.PolicyNumber(p)
	if defined {
		n.note(p, number)
	}
	return number, defined, err
}

// define gives a policy the next number.
func (n *policyNumbers) define(p policy.Policy) uint32 {
	number := n.state.Counters.Policies + uint32(len(n.defined)) + 1
	n.defined = append(n.defined, &event.PolicyDefined{Number: number, JSON: p.String()})
	n.note(p, number)
	return number
}

func (n *policyNumbers) note(p policy.Policy, number uint32) {
	if n.given == nil {
		n.given = map[string]uint32{}
	}
	n.given[p.String()] = number
}
