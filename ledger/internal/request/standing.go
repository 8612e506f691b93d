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
// transactions settles (a part of) it: it records the key, a digest of the request and what came of
// it. The same key with the same request then returns the recorded outcome, and with another
// request [ErrKeyConflict]. A request over many objects is carried out in parts of bounded size;
// one that was interrupted goes on after its last part when it comes again.

// Outcome is what came of a request.
type Outcome struct {
	Counts  event.Counts                    // of all parts
	Left    int                             // how many objects were left out
	Refused []api.Refusal                   // the first of them who are not forgotten; not of a sweep
	Swept   map[uint32]*event.SweptQuestion // by question, of a sweep
	listed  int                             // the refusals in refused and swept, at most MaxPanel
	First   uint64                          // the first event
	Last    uint64                          // the last event
}

// unlisted returns how many refused objects are not in Refused.
func (o *Outcome) unlisted() int { return o.Left - len(o.Refused) }

// Standing is how far a request has come.
type Standing struct {
	settled []uint64 // the events that settled its parts
	parts   int      // how many these are, with those of this call
	Done    bool     // its last part is settled
	Through uint64   // objects enrolled by later events do not belong to it
	dealt   uint64   // how many of the objects that it names are dealt with
	Cursor  string   // the last object of the last part, of a request for all
	Last    uint64   // the last of its events
}

// StandingOf returns how far the request with this key has come, or [ErrKeyConflict]; or
// [ErrForgotten], if nobody can tell any more which request it was. What is not done is not begun,
// nor gone on with, by a clock that nobody has confirmed: it would be refused for reasons of that
// time.
func StandingOf(s *state.State, key string, id event.Identity) (Standing, error) {
	r, part, err := s.LastPart(key)
	if err == nil && (part == nil || !part.Final) {
		err = s.Far
	}
	if err != nil || part == nil {
		return Standing{Through: s.Counters.Events}, err
	}
	if part.Digest == [sha256.Size]byte{} {
		const text = "key %q: %w: the request that it was used for was about an object"
		return Standing{}, fmt.Errorf(text, key, errs.ErrForgotten)
	}
	first := part
	if len(r.Settled) > 1 {
		if first, err = s.Settlement(r.Settled[0]); err != nil {
			return Standing{}, err
		}
	}
	if err := checkSame(s, first, &id); err != nil {
		return Standing{}, err
	}
	st := Standing{
		settled: r.Settled, parts: len(r.Settled), Last: r.Settled[len(r.Settled)-1],
		Done: part.Final, Through: part.Through, dealt: part.Done,
	}
	if !st.Done && st.dealt == 0 {
		st.Cursor, err = cursor(s, r.Settled)
	}
	return st, err
}

// checkSame returns [ErrKeyConflict] if a request is not the one whose first part an event settles.
// Where an object was forgotten, what the request says of several objects is erased, and not
// compared.
func checkSame(s *state.State, first *event.Settled, id *event.Identity) error {
	conflict := &api.KeyConflictError{Key: first.Key}
	names := first.Names
	switch {
	case first.Digest != id.Digest:
		conflict.Field = id.Differs(event.Sum{Digest: first.Digest, Marks: first.Marks}, names)
		return conflict
	case id.Panel != event.PanelSum{}:
		ev, err := s.Event(first.Answer)
		if err != nil {
			return err
		}
		if made, is := ev.Change.(*event.Answered); ev.Erased == nil && !(is && id.Panel.IsAskedFor(made.Panel)) {
			conflict.Field = "Objects"
			return conflict
		}
	case first.Named && names == event.Sum{}: // erased
	case names.Digest != id.Objects.Digest:
		conflict.Field = id.Differs(event.Sum{Digest: first.Digest, Marks: first.Marks}, names)
		return conflict
	}
	return nil
}

// cursor returns the object at which a request for all stands, whose parts were settled by these
// events. If it was forgotten, that is the last one that an event of the part still names: those
// behind it have nothing coming, or are looked at, and counted, again.
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

// outcomeOf returns what came of the parts of a request that events settled.
func outcomeOf(s *state.State, settled []uint64) (o Outcome, err error) {
	for _, number := range settled {
		part, err := s.Settlement(number)
		if err != nil {
			return o, err
		}
		if err := state.CheckRefused(number, part.Refused); err != nil {
			return o, err
		}
		var left []*event.ObjectRefused
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

// RefusalsOf returns whom a request left out, without those forgotten since.
func RefusalsOf(s *state.State, number uint64, end *event.Settled) (left []api.Refusal, err error) {
	all, err := s.RefusedBefore(number, end.Refused)
	for _, c := range all {
		if c.Object != "" {
			left = append(left, c.Refusal)
		}
	}
	return left, err
}

// Settling adds the events of those a request about a question left out, and the one that settles
// it.
func Settling(changes []event.Change, question uint32, left []api.Refusal, end *event.Settled) []event.Change {
	end.Refused += uint64(len(left))
	for _, r := range left {
		changes = append(changes, &event.ObjectRefused{Question: question, Refusal: r})
	}
	return append(changes, end)
}

// partly tells the refusal of a whole request from that of the rest of one.
func (st Standing) partly(err error) error {
	var refused *api.RefusedError
	if st.parts > 0 && errors.As(err, &refused) {
		return fmt.Errorf("%w: %w", errs.ErrPartlyDone, err)
	}
	return err
}

// Add adds a part, with the refusals whose events stand before it, as far as they are wanted.
func (o *Outcome) Add(part *event.Settled, left []*event.ObjectRefused) {
	o.Left += int(part.Refused)
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
			continue // it was forgotten
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

// settle adds a part that has just been carried out by these changes.
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

// SweptOf returns what a sweep did in a question, to be added to.
func (o *Outcome) SweptOf(question uint32) *event.SweptQuestion {
	if o.Swept == nil {
		o.Swept = map[uint32]*event.SweptQuestion{}
	}
	if o.Swept[question] == nil {
		o.Swept[question] = &event.SweptQuestion{SweptCount: event.SweptCount{Question: question}}
	}
	return o.Swept[question]
}
