package fold

import (
	"sort"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// checkDropped checks that of the objects of a reservation no more are neither sold nor refused than are forgotten: those
// are named no more.
func checkDropped(s *state.State, number uint64, r state.Sale, c *event.SaleMade) error {
	left := r.Objects - c.Objects
	if c.Refused == left {
		return nil
	}
	if c.Refused > left || erasedHeld(s, r.Granted, r.Objects) < left-c.Refused {
		return errs.Corrupt(nil, "sale %d names %d objects sold and %d refused, of %d reserved", number, c.Objects, c.Refused, r.Objects)
	}
	return nil
}

// checkReserved checks that a sale that was reserved refuses nobody else. Who was forgotten while it was decided may be named, and
// is reserved no more.
func checkReserved(s *state.State, r state.Sale, c *event.Settled, number uint64) error {
	begun, err := s.Event(r.Granted)
	made, is := begun.Change.(*event.Reserved)
	if err != nil || !is {
		return nil // an audit has found that it is missing
	}
	refused, err := s.RefusedBefore(number, r.Refused)
	if err != nil {
		return err
	}
	others := uint64(0)
	for _, one := range refused {
		if one.Object != "" && !isHeld(s, r.Granted, made.Objects, one.Object) {
			others++
		}
	}
	if others > 0 && erasedHeld(s, r.Granted, made.Objects)+r.Objects+r.Refused < made.Objects+others {
		return errs.Corrupt(nil, "request %q refuses %d objects that were not reserved for sale %d", c.Key, others, c.Sale)
	}
	return nil
}

// erasedHeld counts the objects of a reservation, which follow the event that granted it, that cannot be told any more.
func erasedHeld(s *state.State, granted, objects uint64) (erased uint64) {
	for at := granted + 1; at <= granted+objects; at++ {
		if _, whole := heldBy(s, at); !whole {
			erased++
		}
	}
	return erased
}

// isHeld looks for an object among those of a reservation, which stand in order. Those that are erased stand for whoever is next.
func isHeld(s *state.State, granted, objects uint64, object string) bool {
	next := func(i int) (name string, found bool) {
		for at := granted + 1 + uint64(i); at <= granted+objects && !found; at++ {
			name, found = heldBy(s, at)
		}
		return name, found
	}
	name, found := next(sort.Search(int(objects), func(i int) bool {
		name, found := next(i)
		return !found || name >= object
	}))
	return found && name == object
}

// heldBy returns the object that an event reserves, if it does and is not erased.
func heldBy(s *state.State, number uint64) (object string, whole bool) {
	ev, err := s.Event(number)
	c, is := ev.Change.(*event.Held)
	if err != nil || !is || ev.Erased != nil {
		return "", false
	}
	return c.Object, true
}
