package fold

import (
	"fmt"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// applyStated checks that a statement lists every event about its object.
func applyStated(s *state.State, c *event.Stated, number uint64) error {
	o, known, err := s.Object(c.Object)
	if err != nil || !known {
		return errs.Corrupt(err, "a statement about object %q, which is not there", c.Object)
	}
	events, err := EventsAbout(s, o)
	if err != nil {
		return err
	}
	if !slices.Equal(events, c.Events) || c.Forgotten != o.Forgotten || c.Account != AccountOf(o) {
		return errs.Corrupt(nil, "the statement about object %q leaves something out", c.Object)
	}
	return putObject(s, c.Object, o, number)
}

// AccountOf returns what an object has spent and earned, as events tell it.
func AccountOf(o state.Object) event.Account {
	return event.Account{Cap: o.Cap, Spent: o.Spent, Earned: o.Earned}
}

// EventsAbout returns the numbers of the events about an object that are not destroyed, in order. It reads each of them.
func EventsAbout(s *state.State, o state.Object) (numbers []uint64, err error) {
	for number := o.Latest; number != 0; {
		n, err := s.Entry(number)
		if err != nil {
			return nil, err
		}
		if n.Previous >= number {
			return nil, errs.Corrupt(nil, "event %d follows on event %d", number, n.Previous)
		}
		numbers = append(numbers, number)
		number = n.Previous
	}
	slices.Reverse(numbers)
	if uint64(len(numbers)) != o.Events {
		return nil, errs.Corrupt(nil, "%d events about an object where there should be %d", len(numbers), o.Events)
	}
	return numbers, nil
}

// LinkName makes an event the last one about an object, or about somebody who is not enrolled.
func LinkName(s *state.State, name string, event uint64, settled bool) error {
	o, known, err := s.Object(name)
	if err != nil {
		return err
	}
	if known {
		s.LinkNamed(&o.Links, event, settled)
		return s.PutObject(name, o)
	}
	if err := names.Check("object", name); err != nil {
		return errs.Corrupt(nil, "%v", err)
	}
	x, _, err := s.Stranger(name)
	if err != nil {
		return err
	}
	s.LinkNamed(&x.Links, event, settled)
	return s.Put(state.BucketStrangers, []byte(name), x.Encode())
}

// StatementOf returns the change that lists all events about an object, or [errs.ErrUnknown].
func StatementOf(s *state.State, name string) (event.Change, error) {
	o, known, err := s.Object(name)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, fmt.Errorf("object %q: %w", name, errs.ErrUnknown)
	}
	events, err := EventsAbout(s, o)
	return &event.Stated{Object: name, Forgotten: o.Forgotten, Events: events, Account: AccountOf(o)}, err
}
