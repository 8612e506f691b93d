package fold

import (
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// checkNamed checks whether what a request says of several objects is erased as it should be: together with
// the events about any of them. before is the part of the request that was settled before, if there is one.
func checkNamed(s *state.State, c, before *event.Settled, ev event.Event) error {
	isErased := ev.Erased != nil
	if !c.Named {
		return nil
	}
	if c.Alone || before != nil || c.Answer != 0 || len(c.Swept) > 0 || !isErased && c.Names == (event.Sum{}) {
		return errs.Corrupt(nil, "request %q is settled as one of several objects, which it is not", c.Key)
	}
	if s.Counters.Underway.Loose {
		return nil
	}
	if !isErased && s.Counters.Underway.Gone > 0 {
		return errs.Corrupt(nil, "request %q: an object is forgotten, but what the request says of all is not erased", c.Key)
	}
	if isErased && !c.IsOpen() {
		return checkGone(s, ev.Number, c.Key)
	}
	return nil
}

// linkNamed makes a request the last one that may name objects for which it has no event. If its names are
// erased already, an object must be forgotten later.
func linkNamed(s *state.State, c *event.Settled, ev event.Event) {
	switch {
	case !c.Named || !c.IsOpen():
	case ev.Erased != nil:
		s.Counters.Erased.Named++
	default:
		s.Linked.Previous, s.Counters.Named = s.Counters.Named, ev.Number
	}
}

// checkGone checks that an event of the request that is settled by another one is erased. What an audit has
// folded may be erased since.
func checkGone(s *state.State, settled uint64, key string) error {
	if s.Counters.Underway.Gone > 0 {
		return nil
	}
	for at := settled - min(settled, s.Counters.Underway.Events); at < settled; at++ {
		ev, err := s.Event(at)
		if err != nil {
			return err
		}
		if _, is := ev.Change.(event.Personal); is && ev.Erased != nil {
			return nil
		}
	}
	return errs.Corrupt(nil, "request %q: what it says of several objects is erased, and no event about one of them is", key)
}
