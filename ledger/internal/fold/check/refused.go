package check

import (
	"errors"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// Refused checks that a request can have refused an object as the event says. It returns
// [errs.ErrCorrupt] if not. The kind of the request may not be known yet. Then a fault that a
// recorded answer or a sweep may explain is kept in InProgress.ImplausibleRefusal, and the settled
// event is checked against it.
func Refused(s *state.State, c *event.ObjectRefused, ev event.Event) error {
	if err := rules.CheckLargest(&c.Refusal); err != nil {
		return err
	}
	n := &s.Counters
	n.Refused++
	if err := noteRefusal(&n.InProgress, c); err != nil {
		return err
	}
	// An answer derived from a recorded one repeats its refusals. [checkLeftOutAgain] compares
	// them.
	if again := n.Answer.Base != 0; !again && !n.InProgress.IsIncomplete {
		err := checkRefusal(s, c, ev.Time)
		if err != nil && (!errors.Is(err, errs.ErrCorrupt) || n.Answer.Event != 0 || n.Unsettled != 0) {
			return err
		}
		if err != nil && n.InProgress.ImplausibleRefusal == "" {
			n.InProgress.ImplausibleRefusal = err.Error()
		}
	}
	return checkName("object", c.Object)
}

// wanted is what a request wants of an object that it refuses, as far as the events before the
// refusal show.
type wanted struct {
	rules.Subject
	at     time.Time       // time of the event; the clock that was used to decide was not later
	cost   privacy.Epsilon // what the object would be charged
	order  *rules.Bid      // the order, if the request is one
	answer bool            // the request is for an answer

	question *event.Question // of the request
	reserves bool            // the request is for a reservation
}

// isReserved reports whether the request captures a reservation.
func (w *wanted) isReserved() bool { return w.order != nil && w.order.Reserved != 0 }

// isPart reports whether the object is part of the reservation that the request creates. Such an
// object cannot be refused as well.
func (w *wanted) isPart(s *state.State) bool {
	return w.order != nil && slices.Contains(w.Object.Held, s.Counters.Unsettled)
}

// mismatch returns the error for a refusal r that differs from want, which follows from the state.
func mismatch(r, want api.Refusal) error {
	return fault("a refusal is %v, but the state requires %v", r, &want)
}

// impossible returns the error of a refusal that is not possible.
func impossible(r api.Refusal) error {
	return fault("a refusal is %v, which is not possible", r)
}

// checkRefusal checks that the reason of a refusal applies, as far as it follows from the state. It
// first derives the refusal want that the state requires, and compares it with that of the event.
// The log does not have true values, keys, holds in memory, or the time of a clock that had gone
// back. What depends on these is only limited to possible values.
func checkRefusal(s *state.State, c *event.ObjectRefused, at time.Time) error {
	if isOfTerms(&c.Refusal) {
		return checkTermsRefusal(s, c)
	}
	w := wanted{at: at}
	if err := w.read(s, c); err != nil {
		return err
	}
	// want stays nil if the object is enrolled and may be sold. Then the reason must be about its
	// budget, entries, true value or keys.
	want, err := rules.ReadSubject(s, w.question, c.Object, c.Asked, &w.Subject)
	if err == nil && want == nil && w.order != nil {
		want, err = w.order.CheckSale(s, &w.Subject)
	}
	if err != nil {
		return err
	}
	// The largest ε is not compared, because other requests may have held budget. The remedy of a
	// lower ε goes with it.
	r := c.Refusal
	if r.Largest = (privacy.Epsilon{}); r.Remedy == event.RemedyLess {
		r.Remedy = event.RemedyNothing
	}
	if want == nil {
		if want, err = w.checkDraw(s, r); err != nil {
			return err
		}
	}
	if *want != r {
		return mismatch(c.Refusal, *want)
	}
	return nil
}

// read sets what the request wants, from the events before its refusals: an answer, or a sale or
// reservation. Otherwise it is a raise. It returns [errs.ErrCorrupt] if the refusal is about
// another question or ε than the request.
func (w *wanted) read(s *state.State, c *event.ObjectRefused) (err error) {
	number, epsilon := c.Question, c.Asked
	switch a := s.Counters.Answer; {
	case a.Event != 0:
		w.answer, w.cost, number, epsilon = true, a.Cost, a.Question, a.Epsilon
	case s.Counters.Unsettled != 0:
		r, err := s.Sale(s.Counters.Unsettled)
		if err != nil {
			return err
		}
		number, epsilon = r.Question, r.Epsilon
		// The question of the bid is set below, once it was read.
		bid, err := bidOf(s, &r, nil)
		if err != nil {
			return err
		}
		w.order = &bid
		if r.Status == state.SaleSold && r.Granted != 0 {
			w.order.Reserved = s.Counters.Unsettled
		}
		w.reserves = r.Status == state.SaleReserved
	}
	if number != c.Question || epsilon != c.Asked || number == 0 || number > s.Counters.Questions {
		return fault("object %q is refused in question %d at ε=%s by a request for question %d at ε=%s",
			c.Object, c.Question, c.Asked, number, epsilon)
	}
	if w.question, err = s.Question(number); err != nil {
		return err
	}
	if w.order != nil {
		w.order.Question = w.question
	}
	if w.answer {
		return nil
	}
	if bad := w.question.CheckLevel(epsilon); bad != nil {
		return fault("object %q is refused: %v", c.Object, bad)
	}
	return nil
}

// checkDraw returns the refusal of an enrolled object that r should be equal to. It returns
// [errs.ErrCorrupt] if r is not possible. Figures of the result follow from the state, or are those
// of r, limited to possible values.
func (w *wanted) checkDraw(s *state.State, r api.Refusal) (*api.Refusal, error) {
	_, recorded := w.Chain.At(r.Asked)
	if !w.answer {
		w.cost = state.Minus(r.Asked, w.Chain.Current())
	}
	keyed, err := s.HasTruthKey()
	if err != nil {
		return nil, err
	}
	want := api.Refusal{Object: r.Object, Reason: r.Reason, Asked: r.Asked, Remedy: event.RemedyKey}
	// Only a draw that costs something needs budget, a true value or its key.
	possible := !w.cost.IsZero()
	switch r.Reason {
	case api.NoNoiseKey:
		possible = !w.answer && !recorded && w.Chain.Noise != 0
	case api.NoTruthKey:
		possible = possible && keyed
	case api.NoTruth:
		want.Remedy = event.RemedyTruth
	case api.ChainCeiling, api.ObjectCap:
		if possible {
			return w.checkShort(s, r)
		}
	case api.Full:
		return w.checkFull(s, r)
	default:
		possible = false
	}
	if !possible || !w.isReserved() && w.isPart(s) {
		return nil, impossible(r)
	}
	return &want, nil
}

// checkShort returns the refusal for lack of budget that r should be equal to. It returns
// [errs.ErrCorrupt] if the budget is enough, or if r names the cap although the ceiling is the
// limit. Some figures of r are accepted within limits. The ceiling may have been that of a clock
// that had gone back. Requests that were running may have held budget. A sweep may have charged the
// object after it refused it.
func (w *wanted) checkShort(s *state.State, r api.Refusal) (*api.Refusal, error) {
	buyers := w.Chain.Buyers
	if w.order != nil && w.Chain.HeldBy(w.order.Buyer).IsZero() {
		buyers++
	}
	u, mayBeSwept := &s.Counters.InProgress, w.order == nil && !w.answer
	// The object may have spent less when it was refused.
	if r.Reason == api.ObjectCap && mayBeSwept {
		w.Object.Spent = state.Minus(w.Object.Spent, chargedInSweep(u, state.Minus(w.Object.Spent, r.Spent)))
	}
	h := rules.HeadroomOf(&w.Subject, w.at, buyers, rules.Held{})
	// The clock may have shown any earlier time, so the ceiling was between lowest and that of this
	// time.
	lowest := w.Policy.Ceiling(time.Time{}, buyers)
	if w.isReserved() {
		lowest = h.Ceiling // a capture uses the time of the log
	}
	capFree, possible := h.CapFree, true
	want := r
	want.Cost, want.Remedy = w.cost, event.RemedyNothing
	if r.Reason == api.ChainCeiling {
		want.Ceiling, want.Spent = state.Lower(state.Higher(r.Ceiling, lowest), h.Ceiling), h.Spent
		// possible: waiting can help, because the budget under the ceiling was only held, or
		// because the ceiling will rise.
		possible = !state.Minus(r.Ceiling, r.Spent).Less(w.cost) || !state.Minus(w.Policy.Limit(),
			want.Spent).Less(w.cost)
		if possible && r.Remedy == event.RemedyWaiting && mayBeSwept {
			// The rest of the cap may have been charged for another question since then.
			capFree = state.Plus(capFree, chargedInSweep(u, state.Minus(w.cost, capFree)))
		}
	} else if want.Ceiling, want.Spent = w.Object.Cap, w.Object.Spent; h.Free.Less(w.cost) {
		return nil, fault("a refusal is %v, but the chain's ceiling of %s is the limit", r, h.Ceiling)
	}
	if possible && !capFree.Less(w.cost) {
		want.Remedy = event.RemedyWaiting
	}
	want.Remaining = state.Minus(want.Ceiling, want.Spent)
	if !w.isReserved() { // a capture is not limited by budget that others hold
		want.Remaining = state.Lower(r.Remaining, want.Remaining)
	}
	if !want.Remaining.Less(w.cost) {
		return nil, fault("a refusal is %v, but the remaining %s is enough", r, want.Remaining)
	}
	return &want, nil
}

// chargedInSweep returns more if the request may be a sweep that has charged that much to the
// object after it refused the object. In this case it marks the request as one that must be a
// sweep. Otherwise it returns 0.
func chargedInSweep(u *state.InProgress, more privacy.Epsilon) privacy.Epsilon {
	if more.IsZero() || uint64(more.Nano()) > u.Spent {
		return privacy.Epsilon{}
	}
	u.MustBeSweep = true
	return more
}

// checkFull returns the refusal for lack of entries or of reservations that r should be equal to.
// It returns [errs.ErrCorrupt] if the request cannot be refused for this reason. Requests that were
// running may have held entries in memory, so a full chain cannot be proven. The entries in the
// state only decide whether waiting helps.
func (w *wanted) checkFull(s *state.State, r api.Refusal) (*api.Refusal, error) {
	var to rules.Recipient
	if w.order != nil {
		to = rules.Recipient{Buys: true, Buyer: w.order.Buyer}
	}
	added := rules.Added(w.question, &w.Chain, r.Asked, to)
	possible := added > 0
	if w.reserves && !possible {
		held, err := s.StillHeld(w.Object, 0)
		if err != nil {
			return nil, err
		}
		possible = len(held) >= event.MaxReservations
	}
	if w.answer || w.isReserved() || w.isPart(s) || !possible {
		return nil, impossible(r)
	}
	return rules.RefuseFull(r.Object, r.Asked, w.Chain.Entries(w.question)+added <= event.MaxEntries), nil
}

// checkTermsRefusal checks that the reason of a refusal by an enrolment or a change of terms
// applies. It returns [errs.ErrCorrupt] if not. The requested policy is in no event, so it is not
// checked whether that policy differs or allows more.
func checkTermsRefusal(s *state.State, c *event.ObjectRefused) error {
	ch, enrolled, err := s.Chain(c.Question, c.Object)
	if err != nil {
		return err
	}
	o, known, err := s.Object(c.Object)
	if err != nil {
		return err
	}
	want := api.Refusal{Object: c.Object, Reason: c.Reason, Remedy: event.RemedyTerms}
	possible := enrolled
	switch c.Reason {
	case api.NotEnrolled:
		want.Remedy = event.RemedyEnrolling
		possible = !enrolled
	case api.CapDiffers:
		want.Ceiling, want.Spent, want.Asked = o.Cap, o.Spent, c.Asked
		possible = known && !c.Asked.IsZero() && c.Asked != o.Cap
	case api.PolicyDiffers:
		want.Spent = ch.Current()
	case api.NeedsConsent:
		want.Remedy, want.Why = event.RemedyConsent, c.Why
		if o.Cap.Less(c.Asked) {
			want.Ceiling, want.Asked = o.Cap, c.Asked
		}
		possible = enrolled && c.Why != "" && len(c.Why) <= event.MaxWhy && utf8.ValidString(c.Why)
	}
	if !possible || want != c.Refusal || c.Question == 0 || c.Question > s.Counters.Questions {
		return mismatch(c.Refusal, want)
	}
	return nil
}
