package ledger

import (
	"errors"
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/privacy"
)

// applyRefused records whom a request left out, and why. What only an answer that is given again can say, or a sweep, is
// settled with the request.
func applyRefused(s *state, c *event.ObjectRefused, ev event.Event) error {
	if err := check(&c.Refusal); err != nil {
		return err
	}
	s.counters.refused++
	u := &s.counters.underway
	if err := u.refuse(c); err != nil {
		return err
	}
	if again := s.counters.answer.base != 0; !again && !u.loose {
		err := s.checkRefusal(c, ev.Time)
		if err != nil && (!errors.Is(err, ErrCorrupt) || s.counters.answer.event != 0 || s.counters.unsettled != 0) {
			return err
		}
		if err != nil && u.doubt == "" {
			u.doubt = err.Error()
		}
	}
	return s.linkName(c.Object, ev.Number, s.link)
}

// refuse notes an object that is refused. A request goes through them in order.
func (u *underway) refuse(c *event.ObjectRefused) error {
	if !u.loose && (c.Question < u.refused.question || c.Question == u.refused.question && c.Object <= u.refused.name) {
		return errs.Corrupt(nil, "object %q is refused behind %q in one request", c.Object, u.refused.name)
	}
	u.refused = recordID{c.Question, c.Object}
	u.want(c.Question, c.Asked)
	return nil
}

// want notes what the request is about. Only a sweep is about several ε, or questions.
func (u *underway) want(question uint32, epsilon privacy.Epsilon) {
	if u.question == 0 {
		u.question, u.asked = question, epsilon
	}
	u.sweep = u.sweep || u.question != question || u.asked != epsilon
}

// wanted is what a request that refuses an object wants of it.
type wanted struct {
	subject
	at     time.Time // of the event: the clock that decided was not ahead of it
	cost   privacy.Epsilon
	order  *bid // that the request is
	answer bool // the request is for one
}

// reserved tells whether the request carries a reservation out.
func (w *wanted) reserved() bool { return w.order != nil && w.order.reserved != 0 }

// checkRefusal checks that an object was refused for what is true of it, as far as the state tells: the log has neither
// truths nor keys, nor what other requests held in memory, nor a clock that had gone back.
func (s *state) checkRefusal(c *event.ObjectRefused, at time.Time) error {
	w := wanted{at: at}
	q, err := s.wanted(c, &w)
	if err != nil {
		return err
	}
	want, err := s.readSubject(q, c.Object, c.Asked, &w.subject)
	if err == nil && want == nil && w.order != nil {
		want, err = w.order.checkSale(s, &w.subject)
	}
	if err != nil {
		return err
	}
	told := c.Refusal // but for what would do: what others held then may be in the way, see check
	if told.Largest = (privacy.Epsilon{}); told.Helps == HelpsLess {
		told.Helps = HelpsNothing
	}
	if want == nil {
		if want, err = s.checkDraw(&w, told); err != nil {
			return err
		}
	}
	if *want != told {
		return errs.Corrupt(nil, "a refusal says %v, where %v is so", c.Refusal, want)
	}
	return nil
}

// wanted finds out from the events before what the request wants.
func (s *state) wanted(c *event.ObjectRefused, w *wanted) (*event.Question, error) {
	question, epsilon := c.Question, c.Asked
	switch a := s.counters.answer; {
	case a.event != 0:
		w.answer, w.cost, question, epsilon = true, a.cost, a.question, a.epsilon
	case s.counters.unsettled != 0:
		r, err := s.sale(s.counters.unsettled)
		if err != nil {
			return nil, err
		}
		question, epsilon = r.question, r.epsilon
		name, err := s.buyerName(r.buyer)
		if err != nil {
			return nil, err
		}
		w.order = &bid{client: name, epsilon: epsilon, buyer: r.buyer, granted: r.granted}
		if r.status == saleSold && r.granted != 0 {
			w.order.reserved = s.counters.unsettled
		}
	}
	if question != c.Question || epsilon != c.Asked || question == 0 || question > s.counters.questions {
		return nil, errs.Corrupt(nil, "object %q is refused question %d at ε=%s by a request for question %d at ε=%s", c.Object, c.Question, c.Asked, question, epsilon)
	}
	q, err := s.question(question)
	if err == nil && !w.answer {
		if bad := q.CheckLevel(epsilon); bad != nil {
			err = errs.Corrupt(nil, "object %q is refused: %v", c.Object, bad)
		}
	}
	if w.order != nil {
		w.order.question = q
	}
	return q, err
}

// checkDraw returns a refusal by one who takes part, where what it says can be so: its figures are as they follow from
// the state, or within what they can have been.
func (s *state) checkDraw(w *wanted, r Refusal) (*Refusal, error) {
	_, recorded := w.chain.at(r.Asked)
	if !w.answer {
		w.cost = less(r.Asked, w.chain.current())
	}
	keyed, err := s.hasTruthKey()
	if err != nil {
		return nil, err
	}
	want := Refusal{Object: r.Object, Reason: r.Reason, Asked: r.Asked, Helps: HelpsKey}
	possible := !w.cost.IsZero()
	switch r.Reason {
	case NoNoiseKey:
		possible = !w.answer && !recorded && w.chain.noise != 0
	case NoTruthKey:
		possible = possible && keyed
	case NoTruth:
		want.Helps = HelpsTruth
	case ChainCeiling, ObjectCap:
		if possible {
			return s.checkShort(w, r)
		}
	default:
		possible = false
	}
	if !possible || w.order != nil && !w.reserved() && slices.Contains(w.object.held, s.counters.unsettled) {
		return nil, errs.Corrupt(nil, "a refusal says %v, which cannot be", r)
	}
	return &want, nil
}

// checkShort returns a refusal for lack of budget, where it can be so. The ceiling was that of a clock which may have gone
// back, and what remained may have been held by requests that were running; the sweep that refuses an object may have
// charged it after that.
func (s *state) checkShort(w *wanted, r Refusal) (*Refusal, error) {
	buyers := w.chain.buyers
	if w.order != nil && w.chain.heldBy(w.order.buyer).IsZero() {
		buyers++
	}
	highest, lowest := w.policy.Ceiling(w.at, buyers), w.policy.Ceiling(time.Time{}, buyers)
	if w.reserved() {
		lowest = highest // it goes by the log's time
	}
	spent, charged := w.object.spent, privacy.Epsilon{}
	if r.Reason == ObjectCap && w.order == nil && !w.answer {
		charged = s.counters.underway.charged(less(spent, r.Spent))
	}
	w.object.spent = less(spent, charged)
	capFree := less(w.object.cap, w.object.spent)
	want := r
	want.Cost, want.Helps = w.cost, HelpsNothing
	var waiting bool
	if r.Reason == ChainCeiling {
		want.Ceiling, want.Spent = lower(higher(r.Ceiling, lowest), highest), w.chain.spent()
		possible := !less(r.Ceiling, r.Spent).Less(w.cost) || !less(w.policy.Limit(), want.Spent).Less(w.cost)
		waiting = possible && !capFree.Less(w.cost)
	} else {
		want.Ceiling, want.Spent = w.object.cap, w.object.spent
		waiting = !capFree.Less(w.cost)
		if less(highest, w.chain.spent()).Less(w.cost) {
			return nil, errs.Corrupt(nil, "a refusal says %v, where the chain's ceiling of %s binds", r, highest)
		}
	}
	if waiting {
		want.Helps = HelpsWaiting
	}
	want.Remaining = lower(r.Remaining, less(want.Ceiling, want.Spent))
	if w.reserved() {
		want.Remaining = less(want.Ceiling, want.Spent) // nothing that others hold stands in its way
	}
	if !want.Remaining.Less(w.cost) {
		return nil, errs.Corrupt(nil, "a refusal says %v, where %s is enough", r, want.Remaining)
	}
	return &want, nil
}

// charged returns as much of what an object has spent as its own request, if that is a sweep, may have charged behind the
// step that it was refused.
func (u *underway) charged(more privacy.Epsilon) privacy.Epsilon {
	if more.IsZero() || uint64(more.Nano()) > u.spent {
		return privacy.Epsilon{}
	}
	u.sweep = true
	return more
}
