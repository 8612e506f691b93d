package request

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// A request that changes the ledger carries an idempotency key. The last event of each of its
// transactions settles the request or a part of it. That event records the key, a digest of the
// request and its outcome. Later calls with the same key and request return the recorded outcome.
// Calls with the same key and another request return a [*api.KeyConflictError]. A request over
// many objects is executed in parts of bounded size. If it is interrupted, a repeated call
// continues after its last part.

// Outcome is the result of a request.
type Outcome struct {
	Counts       event.Counts                    // sum of all parts
	RefusedCount int                             // number of refused objects
	Refused      []api.Refusal                   // the first refusals, without forgotten objects; empty for a sweep
	Swept        map[uint32]*event.SweptQuestion // for a sweep: results by question
	listed       int                             // number of refusals in Refused and Swept, at most MaxPanel
	First        uint64                          // the first event
	Last         uint64                          // the last event
}

// unlisted returns how many refused objects are not in Refused.
func (o *Outcome) unlisted() int { return o.RefusedCount - len(o.Refused) }

// Progress is the progress of a request: which of its parts are settled.
type Progress struct {
	settled     []uint64 // the events that settled parts before this call
	parts       int      // number of settled parts, including those of this call
	Done        bool     // the last part is settled, so there is nothing left to do
	Through     uint64   // objects enrolled by later events do not belong to the request
	doneObjects uint64   // number of the named objects that are done; 0 for a request for all
	Cursor      string   // the last object that is done; for named objects it is found from doneObjects
	Last        uint64   // the last event of the request
}

// ProgressOf returns the progress of the request id with this key. If no part is settled, it has no
// parts, and Through is the last event. ProgressOf returns a [*api.KeyConflictError] if the key was
// used for another request. It returns [errs.ErrForgotten] if the digest of that request was erased
// with an object.
//
// If the clock is too far ahead of the log and not confirmed, a request that is not done is not
// begun or continued. It would otherwise be refused for reasons of that time. The error is then the
// field ClockErr of the state.
func ProgressOf(s *state.State, key string, id event.Identity) (Progress, error) {
	r, part, err := s.LastPart(key)
	if err == nil && (part == nil || !part.Final) {
		err = s.ClockErr
	}
	if err != nil || part == nil {
		return Progress{Through: s.Counters.Events}, err
	}
	if part.Digest == [sha256.Size]byte{} {
		const text = "key %q: %w: an object of the request that it was used for was forgotten"
		return Progress{}, fmt.Errorf(text, key, errs.ErrForgotten)
	}
	first := part
	if len(r.Settled) > 1 {
		if first, err = s.Settlement(r.Settled[0]); err != nil {
			return Progress{}, err
		}
	}
	if err := checkSame(s, first, &id); err != nil {
		return Progress{}, err
	}
	st := Progress{
		settled: r.Settled, parts: len(r.Settled), Last: r.Settled[len(r.Settled)-1],
		Done: part.Final, Through: part.Through, doneObjects: part.Done,
	}
	if !st.Done && st.doneObjects == 0 {
		st.Cursor, err = cursor(s, r.Settled)
	}
	return st, err
}

// checkSame returns a [*api.KeyConflictError] unless id is the request whose first part is settled
// by the event first. Digests of the request's objects are not compared if they were erased with a
// forgotten object.
func checkSame(s *state.State, first *event.Settled, id *event.Identity) error {
	conflict := &api.KeyConflictError{Key: first.Key}
	names := first.Names
	switch {
	case first.Digest != id.Digest:
		conflict.Field = id.Differs(event.Sum{Digest: first.Digest, Marks: first.Marks}, names)
		return conflict
	case id.Panel != event.PanelSum{}: // a panel query over several objects: its answer has their digest
		ev, err := s.Event(first.Answer)
		if err != nil {
			return err
		}
		if made, is := ev.Change.(*event.Answered); ev.Erased == nil && !(is && id.Panel.IsAskedFor(made.Panel)) {
			conflict.Field = "Objects"
			return conflict
		}
	case first.Named && names == event.Sum{}: // the digests of the objects were erased
	case names.Digest != id.Objects.Digest:
		conflict.Field = id.Differs(event.Sum{Digest: first.Digest, Marks: first.Marks}, names)
		return conflict
	}
	return nil
}

// cursor returns the object after which a request for all continues, given the events that settled
// its parts. That is the last object of the last part, which its settling event names. If that
// object was forgotten, it is the last object that an event of the part still names. Objects after
// that one have no events in the part, or are read and counted again.
func cursor(s *state.State, settled []uint64) (name string, err error) {
	for _, number := range slices.Backward(settled) {
		part, err := s.Settlement(number)
		if err != nil || part.Object != "" {
			return part.Object, err
		}
		for at := part.First; at < number; at++ {
			ev, err := s.Event(at)
			if err != nil {
				return "", err
			}
			if c, ok := ev.Change.(event.Personal); ok {
				name = max(name, c.About())
			}
		}
		if name != "" {
			break
		}
	}
	return name, nil
}

// outcomeOf returns the outcome of some parts of a request, given the events that settled them. It
// reads refusals only until [api.MaxPanel] are listed.
func outcomeOf(s *state.State, settled []uint64) (o Outcome, err error) {
	for _, number := range settled {
		part, err := s.Settlement(number)
		if err != nil {
			return o, err
		}
		if err := state.CheckRefused(number, part.Refused); err != nil {
			return o, err
		}
		var left []*event.ObjectRefused // the refused objects of the part
		if o.listed < api.MaxPanel {
			if left, err = s.RefusedBefore(number, part.Refused); err != nil {
				return o, err
			}
		}
		if o.First == 0 {
			o.First = part.First
		}
		o.Add(part, left)
		o.Last = number
	}
	return o, nil
}

// RefusalsOf returns the refusals of the part that the event with this number, end, has settled.
// Forgotten objects are left out.
func RefusalsOf(s *state.State, number uint64, end *event.Settled) (left []api.Refusal, err error) {
	all, err := s.RefusedBefore(number, end.Refused)
	for _, c := range all {
		if c.Object != "" {
			left = append(left, c.Refusal)
		}
	}
	return left, err
}

// AppendSettled appends to the changes the events of the refusals in a question (left), and then
// end, the event that settles the request. It adds the number of refusals to end.
func AppendSettled(changes []event.Change, question uint32, left []api.Refusal, end *event.Settled) []event.Change {
	end.Refused += uint64(len(left))
	for _, r := range left {
		changes = append(changes, &event.ObjectRefused{Question: question, Refusal: r})
	}
	return append(changes, end)
}

// wrapPartlyDone wraps the refusal of a request in [errs.ErrPartlyDone] if parts of the request are
// settled, because these are not undone. It returns other errors as they are.
func (st Progress) wrapPartlyDone(err error) error {
	var refused *api.RefusedError
	if st.parts > 0 && errors.As(err, &refused) {
		return fmt.Errorf("%w: %w", errs.ErrPartlyDone, err)
	}
	return err
}

// Add adds the counts of a part, and the refusals that its events record (left). It lists no more
// than [api.MaxPanel] refusals in total. left may be empty if the refusals are not needed.
func (o *Outcome) Add(part *event.Settled, left []*event.ObjectRefused) {
	o.RefusedCount += int(part.Refused)
	for i, n := range part.Counts {
		o.Counts[i] += n
	}
	for _, one := range part.Swept {
		sum := o.SweptOf(one.Question)
		sum.Raised += one.Raised
		sum.Unchanged += one.Unchanged
		sum.Refused += one.Refused
	}
	for _, c := range left {
		if o.listed == api.MaxPanel {
			return
		}
		if c.Object == "" {
			continue // the object was forgotten
		}
		o.listed++
		if len(part.Swept) == 0 {
			o.Refused = append(o.Refused, c.Refusal)
			continue
		}
		sum := o.SweptOf(c.Question)
		sum.Refusals = append(sum.Refusals, c.Refusal)
	}
}

// settle adds a part that this call has just committed with these changes. end is the event that
// settled it, and last the number of that event.
func (o *Outcome) settle(end *event.Settled, last uint64, changes []event.Change) {
	if o.First == 0 {
		o.First = end.First
	}
	var refused []*event.ObjectRefused
	for _, c := range changes {
		if one, is := c.(*event.ObjectRefused); is {
			refused = append(refused, one)
		}
	}
	o.Add(end, refused)
	o.Last = last
}

// SweptOf returns the results of a sweep in a question, which the caller adds to. It creates them
// at the first call.
func (o *Outcome) SweptOf(question uint32) *event.SweptQuestion {
	if o.Swept == nil {
		o.Swept = map[uint32]*event.SweptQuestion{}
	}
	if o.Swept[question] == nil {
		o.Swept[question] = &event.SweptQuestion{SweptCount: event.SweptCount{Question: question}}
	}
	return o.Swept[question]
}
