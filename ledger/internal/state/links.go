package state

import (
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// Links lead to what the log has about an object. Events that say something of it, and settled events that only
// name it (see [event.Settled]), are linked apart: a statement lists the first.
type Links struct {
	Latest  uint64 `audit:"the last event"`         // the last event about it that is not destroyed, or 0
	Events  uint64 `audit:"the number of events"`   // how many there are
	Settled uint64 `audit:"the last request"`       // the last settled event that names it, likewise
	Settles uint64 `audit:"the number of requests"` // how many there are
}

// Total is how many events name the object.
func (l Links) Total() uint64 { return l.Events + l.Settles }

func (l *Links) fields(x wire.Codec) { x.Uvarint(&l.Latest, &l.Events, &l.Settled, &l.Settles) }

// Linked tells what applying an event found out about the other events of its object.
type Linked struct {
	Previous uint64 // the last one before it, or 0
	Erase    uint64 // the last one of those it destroys, or 0
	// EraseRequests is the last of the settled events that it destroys, or 0.
	EraseRequests uint64
	// EraseNamed is the last of the open requests whose names it destroys, or 0.
	EraseNamed uint64
}

// Link makes an event the last one about the object, and notes the one before it in Linked.
func (s *State) Link(l *Links, ev uint64) {
	s.Linked.Previous, l.Latest = l.Latest, ev
	l.Events++
}

// LinkNamed is [State.Link] for an event that may be a settled one, which only names the object.
func (s *State) LinkNamed(l *Links, ev uint64, settled bool) {
	if !settled {
		s.Link(l, ev)
		return
	}
	s.Linked.Previous, l.Settled = l.Settled, ev
	l.Settles++
}

// Stranger is somebody whom requests named, and refused, and who was never enrolled.
type Stranger struct{ Links }

// Fields implements [wire.Record].
func (x *Stranger) Fields(c wire.Codec) { x.Links.fields(c) }

// Encode returns the payload of the record.
func (x Stranger) Encode() []byte { return wire.Encode(&x) }

// DecodeStranger reads what [Stranger.Encode] writes.
func DecodeStranger(payload []byte) (Stranger, error) { return wire.Decode[Stranger](payload) }

// Stranger returns what the log has about somebody who was never enrolled.
func (s *State) Stranger(name string) (Stranger, bool, error) {
	return Lookup(s, BucketStrangers, append(s.Buffer.Lookup(), name...), DecodeStranger)
}
