package fold

import (
	"unicode/utf8"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
)

// applyTerms puts a chain, and its object, under other terms. Also those of who has withdrawn can change: so nobody comes back under terms
// that were given up.
func applyTerms(s *state.State, c *event.TermsChanged, ev event.Event) error {
	ch, found, err := s.Chain(c.Question, c.Object)
	if err != nil || !found {
		return errs.Corrupt(err, "the terms of object %q change in question %d, in which it was never enrolled", c.Object, c.Question)
	}
	o, found, err := s.Object(c.Object)
	if err != nil || !found {
		return errs.Corrupt(err, "object %q has a chain but no budget", c.Object)
	}
	if c.Policy > s.Counters.Policies || c.Cap.IsZero() || c.Policy == ch.Policy && c.Cap == o.Cap {
		return errs.Corrupt(nil, "object %q comes under policy %d and the cap %s in question %d, which cannot be, or changes nothing", c.Object, c.Policy, c.Cap, c.Question)
	}
	if err := checkConsent(s, c, ch, o, ev); err != nil {
		return err
	}
	if err := noteMember(&s.Counters.Underway, c.Question, c.Object); err != nil {
		return err
	}
	ch.Policy, o.Cap = c.Policy, c.Cap
	return putBoth(s, c.Question, c.Object, ch, o, ev.Number)
}

// checkConsent refuses a change without consent that may allow more than was agreed to.
func checkConsent(s *state.State, c *event.TermsChanged, ch state.Chain, o state.Object, ev event.Event) error {
	if c.Consent != "" {
		if err := names.CheckText("consent", c.Consent); err != nil {
			return errs.Corrupt(nil, "%v", err)
		}
		return nil
	}
	now, to := rules.Agreed{Cap: o.Cap}, rules.Agreed{Cap: c.Cap}
	var err error
	if now.Policy, err = s.Policy(ch.Policy); err != nil {
		return err
	}
	if to.Policy, err = s.Policy(c.Policy); err != nil {
		return err
	}
	if more := now.More(s.Known, to, ev.Time); more != nil {
		return errs.Corrupt(nil, "object %q in question %d, without consent: %v", c.Object, c.Question, more)
	}
	return nil
}

// TermsChangedSince returns the questions in which the terms of an object changed after an event.
func TermsChangedSince(s *state.State, o state.Object, since uint64) (questions []uint32, err error) {
	for number := o.Latest; number > since; {
		n, err := s.Entry(number)
		if err != nil || n.Previous >= number {
			return nil, errs.Corrupt(err, "event %d follows on event %d", number, n.Previous)
		}
		if c, is := n.Change.(*event.TermsChanged); is {
			questions = append(questions, c.Question)
		}
		number = n.Previous
	}
	return questions, nil
}

// isOfTerms tells whether a refusal is one of an enrolment, or of a change of terms: not about a level that is asked for.
func isOfTerms(r *vocabulary.Refusal) bool {
	switch r.Reason {
	case vocabulary.CapDiffers, vocabulary.PolicyDiffers, vocabulary.NeedsConsent:
		return true
	case vocabulary.NotEnrolled:
		return r.Asked.IsZero()
	}
	return false
}

// refusing returns the sorts of requests that refuse an object for a reason.
func refusing(r *vocabulary.Refusal) state.Requests {
	switch {
	case r.Reason == vocabulary.CapDiffers, r.Reason == vocabulary.PolicyDiffers:
		return state.OfEnrolment
	case isOfTerms(r):
		return state.OfTerms
	}
	return state.OfRaise | state.OfAnswer | state.OfSale | state.OfReservation
}

// checkTermsRefusal checks that an enrolment, or a change of terms, left an object out for what is true of it. Which policy was wanted, and
// so whether it is another one or allows more, no event says.
func checkTermsRefusal(s *state.State, c *event.ObjectRefused) error {
	ch, enrolled, err := s.Chain(c.Question, c.Object)
	if err != nil {
		return err
	}
	o, known, err := s.Object(c.Object)
	if err != nil {
		return err
	}
	want := vocabulary.Refusal{Object: c.Object, Reason: c.Reason, Remedy: vocabulary.RemedyTerms}
	possible := enrolled
	switch c.Reason {
	case vocabulary.NotEnrolled:
		want.Remedy = vocabulary.RemedyEnrolling
		possible = !enrolled
	case vocabulary.CapDiffers:
		want.Ceiling, want.Spent, want.Asked = o.Cap, o.Spent, c.Asked
		possible = known && !c.Asked.IsZero() && c.Asked != o.Cap
	case vocabulary.PolicyDiffers:
		want.Spent = ch.Current()
	case vocabulary.NeedsConsent:
		want.Remedy, want.Why = vocabulary.RemedyConsent, c.Why
		if o.Cap.Less(c.Asked) {
			want.Ceiling, want.Asked = o.Cap, c.Asked
		}
		possible = enrolled && c.Why != "" && len(c.Why) <= vocabulary.MaxWhy && utf8.ValidString(c.Why)
	}
	if !possible || want != c.Refusal || c.Question == 0 || c.Question > s.Counters.Questions {
		return errs.Corrupt(nil, "a refusal says %v, where %v is so", c.Refusal, want)
	}
	return nil
}
