package fold

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// eraseForgotten erases the events that the event applied last destroys. It does nothing after an
// event that is not a forgotten event. Then the state is again the fold of the log. The remaining
// public parts of the events yield only what the forgotten event says, and requests whose contents
// no event has any more.
func eraseForgotten(s *state.State) error {
	// No request has been handled yet: all events to erase are before the forgotten event.
	e := eraser{State: s, first: s.Counters.Events}
	none := func(event.Entry) error { return nil }
	if err := e.eraseFrom(s.Linked.EraseNamed, none); err != nil {
		return err
	}
	if err := e.eraseFrom(s.Linked.Erase, e.eraseNames); err != nil {
		return err
	}
	return e.eraseFrom(s.Linked.EraseRequests, none)
}

// eraser erases the events about an object, from the last to the first.
type eraser struct {
	*state.State
	first uint64 // the first event of the request that eraseNames handled last
}

// eraseFrom erases the event with a number and those linked before it; 0 is none. It calls visit
// with each event before it is erased, and stops at the first error.
func (e *eraser) eraseFrom(number uint64, visit func(event.Entry) error) error {
	for number != 0 {
		n, err := e.Entry(number)
		if err != nil {
			return err
		}
		if n.Erased != nil || n.Previous >= number {
			return errs.Corrupt(nil, "event %d was erased before, or is linked to event %d, which is not before it",
				number, n.Previous)
		}
		if err := visit(n); err != nil {
			return err
		}
		if err := e.PutEntry(n.Erase()); err != nil {
			return err
		}
		number = n.Previous
	}
	return nil
}

// eraseNames erases the names and digests of several objects in the request that the event about
// belongs to. Otherwise the names of the other objects and a guess would suffice to find out that
// the object was one of them. For a request with an answer, it erases the panel of the answer
// instead. The names in open requests were erased before.
func (e *eraser) eraseNames(about event.Entry) error {
	// Events are erased from the last to the first, so the events of one request follow each other.
	if about.Number >= e.first {
		return nil // it is an event of the request handled last
	}
	settled, err := e.settledAt(&about.Event)
	if err != nil {
		return err
	}
	n, err := e.Entry(settled)
	if err != nil {
		return err
	}
	end, is := n.Change.(*event.Settled)
	if !is || end.First > about.Number {
		return errs.Corrupt(nil, "no request settled event %d", about.Number)
	}
	e.first = end.First
	if end.Answer != 0 {
		return e.eraseAnswers(end.Answer)
	}
	if end.Named && n.Erased == nil {
		return e.PutEntry(n.Erase())
	}
	return nil
}

// settledAt returns the number of the event that settles the request of an event. For an object of
// a sale or reservation it computes the number, because there may be very many events in between.
// The request has its first event, one for each object, one for each refusal, and the settled
// event.
func (e *eraser) settledAt(ev *event.Event) (uint64, error) {
	sale, is := event.ShareOf(ev.Change)
	if !is {
		return e.SettledAfter(ev.Number)
	}
	r, err := e.Sale(sale)
	if err != nil {
		return 0, err
	}
	begun := r.Event
	// A captured reservation has two requests, and r.Event is that of the sale.
	if ev.Change.Kind() == event.KindHeld {
		begun = r.Granted
	}
	first, err := e.Event(begun)
	if err != nil {
		return 0, err
	}
	switch c := first.Change.(type) {
	case *event.Reserved:
		return begun + c.Objects + c.Refused + 1, nil
	case *event.SaleMade:
		return begun + c.Objects + c.Refused + 1, nil
	}
	return 0, errs.Corrupt(nil, "sale %d does not begin with event %d", sale, begun)
}

// eraseAnswers erases the panel of the answer that an event recorded, and of all other recorded
// answers to the same query about that panel. It also deletes their record. It does nothing if the
// answer is erased already.
func (e *eraser) eraseAnswers(number uint64) error {
	ev, err := e.Event(number)
	made, is := ev.Change.(*event.Answered)
	if err != nil || !is {
		return errs.Corrupt(err, "event %d is not an answer", number)
	}
	if ev.Erased != nil {
		return nil
	}
	key := state.AnswerKey(made.Question, made.Query, made.Panel)
	all, _, err := e.Answers(key)
	if err != nil {
		return err
	}
	for _, a := range all {
		n, err := e.Entry(a.Event)
		if err != nil {
			return err
		}
		if err := e.PutEntry(n.Erase()); err != nil {
			return err
		}
	}
	return e.Writer.Delete(state.BucketAnswers, key)
}
