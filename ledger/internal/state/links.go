package state

import (
	"fmt"
	"iter"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// Links refers to the events about an object in the log. Events that say something about the object
// have one list, and settled events that only name it (see [event.Settled]) have another. A
// statement lists only the first.
type Links struct {
	Latest  uint64 `audit:"the last event"`         // the last event about the object that is not erased, or 0
	Events  uint64 `audit:"the number of events"`   // number of these events
	Settled uint64 `audit:"the last request"`       // the last such settled event that names it, or 0
	Settles uint64 `audit:"the number of requests"` // number of these settled events
}

// Total returns the number of events that name the object.
func (l Links) Total() uint64 { return l.Events + l.Settles }

// fields encodes or decodes the links.
func (l *Links) fields(x wire.Codec) { x.Uvarint(&l.Latest, &l.Events, &l.Settled, &l.Settles) }

// Linked describes how the event applied last is linked to other events. The fields after Previous
// are set only by a forgotten event. Each is where a list of events to erase begins, from the last
// to the first.
type Linked struct {
	Previous uint64 // the event before it in its list, or 0
	Erase    uint64 // the last event about the forgotten object, or 0
	// EraseRequests is the last settled event that only names the object, or 0.
	EraseRequests uint64
	// EraseNamed is the last open request that may name the object, or 0. See
	// [event.Settled.IsOpen].
	EraseNamed uint64
}

// Link makes the event ev the last one about an object. It stores the number of the event before it
// in s.Linked. The caller writes l.
func (s *State) Link(l *Links, ev uint64) {
	s.Linked.Previous, l.Latest = l.Latest, ev
	l.Events++
}

// LinkName makes an event the last one about an object, or about a name that was never enrolled,
// and writes the record. settled reports whether it is a settled event that only names the object.
func (s *State) LinkName(name string, ev uint64, settled bool) error {
	o, known, err := s.Object(name)
	if err != nil {
		return err
	}
	if known {
		s.linkNamed(&o.Links, ev, settled)
		return s.PutObject(name, o)
	}
	stranger, _, err := s.Stranger(name)
	if err != nil {
		return err
	}
	s.linkNamed(&stranger.Links, ev, settled)
	return s.Put(BucketStrangers, []byte(name), wire.Encode(&stranger))
}

// linkNamed adds an event to one of the two lists in l: settled events, or events about the object.
func (s *State) linkNamed(l *Links, ev uint64, settled bool) {
	if !settled {
		s.Link(l, ev)
		return
	}
	s.Linked.Previous, l.Settled = l.Settled, ev
	l.Settles++
}

// EventsAbout returns the numbers of the events about an object that are not erased, in rising
// order. It reads each of them.
func (s *State) EventsAbout(o Object) (numbers []uint64, err error) {
	for n, err := range s.backward(o.Latest) {
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, n.Number)
	}
	slices.Reverse(numbers)
	if uint64(len(numbers)) != o.Events {
		return nil, errs.Corrupt(nil, "an object has %d linked events, its record counts %d", len(numbers), o.Events)
	}
	return numbers, nil
}

// Statement returns the change that lists all events about an object, or [errs.ErrUnknown] if there
// is no such object.
func (s *State) Statement(name string) (*event.Stated, error) {
	o, known, err := s.Object(name)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, fmt.Errorf("object %q: %w", name, errs.ErrUnknown)
	}
	events, err := s.EventsAbout(o)
	return &event.Stated{Object: name, Forgotten: o.Forgotten, Events: events, Account: o.Account()}, err
}

// TermsChangedSince returns the numbers of the questions in which the terms of an object changed
// after the event since. The last change is first, and a question may be repeated.
func (s *State) TermsChangedSince(o Object, since uint64) (questions []uint32, err error) {
	for n, err := range s.backward(o.Latest) {
		if err != nil {
			return nil, err
		}
		if n.Number <= since {
			break
		}
		if c, is := n.Change.(*event.TermsChanged); is {
			questions = append(questions, c.Question)
		}
	}
	return questions, nil
}

// backward yields the event with a number and those linked before it, from last to first. It yields
// nothing for 0, and stops after an error.
func (s *State) backward(number uint64) iter.Seq2[event.Entry, error] {
	return func(yield func(event.Entry, error) bool) {
		for number != 0 {
			n, err := s.Entry(number)
			if err == nil && n.Previous >= number {
				err = errs.Corrupt(nil, "event %d is linked to event %d, which is not before it", number, n.Previous)
			}
			if !yield(n, err) || err != nil {
				return
			}
			number = n.Previous
		}
	}
}

// Stranger has the links of a name that requests named and refused and that was never enrolled.
type Stranger struct{ Links }

// Fields implements [wire.Record].
func (st *Stranger) Fields(c wire.Codec) { st.Links.fields(c) }

// Encode returns the payload of the record.
func (st Stranger) Encode() []byte { return wire.Encode(&st) }

// DecodeStranger decodes what [Stranger.Encode] returns.
func DecodeStranger(payload []byte) (Stranger, error) { return wire.Decode[Stranger](payload) }

// Stranger returns the links of a name that was never enrolled. The bool is false if no event names
// it.
func (s *State) Stranger(name string) (Stranger, bool, error) {
	return Lookup(s, BucketStrangers, append(s.Buffer.Lookup(), name...), DecodeStranger)
}

// RemoveStranger removes the links of a name that is now enrolled or forgotten, and returns them.
// If there are none, it returns the zero value.
func (s *State) RemoveStranger(name string) (Links, error) {
	stranger, found, err := s.Stranger(name)
	if err == nil && found {
		err = s.Writer.Delete(BucketStrangers, []byte(name))
	}
	return stranger.Links, err
}
