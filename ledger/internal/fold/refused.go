package fold

import (
	"errors"
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/privacy"
)

// applyRefused records whom a request left out, and why. What only an answer that is given again can say, or a sweep, is
// settled with the request.
func applyRefused(s *state.State, c *event.ObjectRefused, ev event.Event) error {
	if err := rules.CheckLargest(&c.Refusal); err != nil {
		return err
	}
	s.Counters.Refused++
	u := &s.Counters.Underway
	if err := noteRefusal(u, c); err != nil {
		return err
	}
	if again := s.Counters.Answer.Base != 0; !again && !u.Loose {
		err := checkRefusal(s, c, ev.Time)
		if err != nil && (!errors.Is(err, errs.ErrCorrupt) || s.Counters.Answer.Event != 0 || s.Counters.Unsettled != 0) {
			return err
		}
		if err != nil && u.Doubt == "" {
			u.Doubt = err.Error()
		}
	}
	return LinkName(s, c.Object, ev.Number, false)
}

// wanted is what a request that refuses an object wants of it.
type wanted struct {
	rules.Subject
	at     time.Time // of the event: the clock that decided was not ahead of it
	cost   privacy.Epsilon
	order  *rules.Bid // that the request is
	answer bool       // the request is for one

	question uint32 // by number
	reserves bool   // the request is for a reservation
}

// reserved tells whether the request carries a reservation out.
func (w *wanted) reserved() bool { return w.order != nil && w.order.Reserved != 0 }

// checkRefusal checks that an object was refused for what is true of it, as far as the state tells: the log has neither
// truths nor keys, nor what other requests held in memory, nor a clock that had gone back.
func checkRefusal(s *state.State, c *event.ObjectRefused, at time.Time) error {
	if isOfTerms(&c.Refusal) {
		return checkTermsRefusal(s, c)
	}
	w := wanted{at: at}
	q, err := wantedBy(s, c, &w)
	if err != nil {
		return err
	}
	want, err := rules.ReadSubject(s, q, c.Object, c.Asked, &w.Subject)
	if err == nil && want == nil && w.order != nil {
		want, err = w.order.CheckSale(s, &w.Subject)
	}
	if err != nil {
		return err
	}
	told := c.Refusal // but for what would do: what others held then may have been in the way
	if told.Largest = (privacy.Epsilon{}); told.Remedy == vocabulary.RemedyLess {
		told.Remedy = vocabulary.RemedyNothing
	}
	if want == nil {
		if want, err = checkDraw(s, &w, told); err != nil {
			return err
		}
	}
	if *want != told {
		return errs.Corrupt(nil, "a refusal says %v, where %v is so", c.Refusal, want)
	}
	return nil
}

// wantedBy finds out from the events before what the request wants.
func wantedBy(s *state.State, c *event.ObjectRefused, w *wanted) (*event.Question, error) {
	question, epsilon := c.Question, c.Asked
	switch a := s.Counters.Answer; {
	case a.Event != 0:
		w.answer, w.cost, question, epsilon = true, a.Cost, a.Question, a.Epsilon
	case s.Counters.Unsettled != 0:
		r, err := s.Sale(s.Counters.Unsettled)
		if err != nil {
			return nil, err
		}
		question, epsilon = r.Question, r.Epsilon
		name, err := s.BuyerName(r.Buyer)
		if err != nil {
			return nil, err
		}
		w.order = &rules.Bid{Client: name, Epsilon: epsilon, Buyer: r.Buyer, Granted: r.Granted}
		if r.Status == state.SaleSold && r.Granted != 0 {
			w.order.Reserved = s.Counters.Unsettled
		}
		w.reserves = r.Status == state.SaleReserved
	}
	w.question = question
	if question != c.Question || epsilon != c.Asked || question == 0 || question > s.Counters.Questions {
		return nil, errs.Corrupt(nil, "object %q is refused question %d at ε=%s by a request for question %d at ε=%s", c.Object, c.Question, c.Asked, question, epsilon)
	}
	q, err := s.Question(question)
	if err == nil && !w.answer {
		if bad := q.CheckLevel(epsilon); bad != nil {
			err = errs.Corrupt(nil, "object %q is refused: %v", c.Object, bad)
		}
	}
	if w.order != nil {
		w.order.Question = q
	}
	return q, err
}

// checkDraw returns a refusal by one who takes part, where what it says can be so: its figures are as they follow from
// the state, or within what they can have been.
func checkDraw(s *state.State, w *wanted, r vocabulary.Refusal) (*vocabulary.Refusal, error) {
	_, recorded := w.Chain.At(r.Asked)
	if !w.answer {
		w.cost = state.Minus(r.Asked, w.Chain.Current())
	}
	keyed, err := s.HasTruthKey()
	if err != nil {
		return nil, err
	}
	want := vocabulary.Refusal{Object: r.Object, Reason: r.Reason, Asked: r.Asked, Remedy: vocabulary.RemedyKey}
	possible := !w.cost.IsZero()
	switch r.Reason {
	case vocabulary.NoNoiseKey:
		possible = !w.answer && !recorded && w.Chain.Noise != 0
	case vocabulary.NoTruthKey:
		possible = possible && keyed
	case vocabulary.NoTruth:
		want.Remedy = vocabulary.RemedyTruth
	case vocabulary.ChainCeiling, vocabulary.ObjectCap:
		if possible {
			return checkShort(s, w, r)
		}
	case vocabulary.Full:
		return checkFull(s, w, r)
	default:
		possible = false
	}
	if !possible || w.order != nil && !w.reserved() && slices.Contains(w.Object.Held, s.Counters.Unsettled) {
		return nil, errs.Corrupt(nil, "a refusal says %v, which cannot be", r)
	}
	return &want, nil
}

// checkShort returns a refusal for lack of budget, where it can be so. The ceiling was that of a clock which may have gone
// back, and what remained may have been held by requests that were running; the sweep that refuses an object may have
// charged it after that.
func checkShort(s *state.State, w *wanted, r vocabulary.Refusal) (*vocabulary.Refusal, error) {
	buyers := w.Chain.Buyers
	if w.order != nil && w.Chain.HeldBy(w.order.Buyer).IsZero() {
		buyers++
	}
	highest, lowest := w.Policy.Ceiling(w.at, buyers), w.Policy.Ceiling(time.Time{}, buyers)
	if w.reserved() {
		lowest = highest // it goes by the log's time
	}
	spent, charged := w.Object.Spent, privacy.Epsilon{}
	if r.Reason == vocabulary.ObjectCap && w.order == nil && !w.answer {
		charged = chargedInSweep(&s.Counters.Underway, state.Minus(spent, r.Spent))
	}
	w.Object.Spent = state.Minus(spent, charged)
	capFree := state.Minus(w.Object.Cap, w.Object.Spent)
	want := r
	want.Cost, want.Remedy = w.cost, vocabulary.RemedyNothing
	var waiting bool
	if r.Reason == vocabulary.ChainCeiling {
		want.Ceiling, want.Spent = state.Lower(state.Higher(r.Ceiling, lowest), highest), w.Chain.Spent()
		possible := !state.Minus(r.Ceiling, r.Spent).Less(w.cost) || !state.Minus(w.Policy.Limit(), want.Spent).Less(w.cost)
		if possible && r.Remedy == vocabulary.RemedyWaiting && w.order == nil && !w.answer { // the rest of the cap may have gone to another question since
			capFree = state.Plus(capFree, chargedInSweep(&s.Counters.Underway, state.Minus(w.cost, capFree)))
		}
		waiting = possible && !capFree.Less(w.cost)
	} else {
		want.Ceiling, want.Spent = w.Object.Cap, w.Object.Spent
		waiting = !capFree.Less(w.cost)
		if state.Minus(highest, w.Chain.Spent()).Less(w.cost) {
			return nil, errs.Corrupt(nil, "a refusal says %v, where the chain's ceiling of %s binds", r, highest)
		}
	}
	if waiting {
		want.Remedy = vocabulary.RemedyWaiting
	}
	want.Remaining = state.Lower(r.Remaining, state.Minus(want.Ceiling, want.Spent))
	if w.reserved() {
		want.Remaining = state.Minus(want.Ceiling, want.Spent) // nothing that others hold stands in its way
	}
	if !want.Remaining.Less(w.cost) {
		return nil, errs.Corrupt(nil, "a refusal says %v, where %s is enough", r, want.Remaining)
	}
	return &want, nil
}

// chargedInSweep returns as much of what an object has spent as its own request, if that is a sweep, may have charged behind the
// step that it was refused.
func chargedInSweep(u *state.Underway, more privacy.Epsilon) privacy.Epsilon {
	if more.IsZero() || uint64(more.Nano()) > u.Spent {
		return privacy.Epsilon{}
	}
	u.Sweep = true
	return more
}
