package state

import (
	"strings"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
)

// Object is the budget of one object.
type Object struct {
	Cap    privacy.Epsilon // over all chains
	Spent  privacy.Epsilon `audit:"spent"`                // by all chains, including forgotten ones
	Chains uint64          `audit:"the number of chains"` // number of chains, without closed epochs
	// Withdrawn is the event by which the object last withdrew, or 0. Enrolments after it are
	// valid.
	Withdrawn uint64 `audit:"the event of the withdrawal"`
	// Forgotten is the event that last destroyed what was released of the object, or 0.
	Forgotten uint64 `audit:"the event by which it was forgotten"`
	Earned    uint64 `audit:"earned"` // by sales, in minor units of the currency
	Links
	Held []uint64 `audit:"the reservations"` // numbers of the reservations that may hold some of its budget, rising
}

// Withdrew reports whether the object has withdrawn since it was enrolled in a chain.
func (o Object) Withdrew(c Chain) bool { return o.Withdrawn > c.Enrolled }

// Account returns what the object has spent and earned, in the form of events.
func (o *Object) Account() event.Account {
	return event.Account{Cap: o.Cap, Spent: o.Spent, Earned: o.Earned}
}

// Encode returns the payload of the record.
func (o Object) Encode() []byte {
	e := &wire.Encoder{}
	o.encodeTo(e)
	return e.Buf
}

// encodeTo appends the payload of the record to e.
func (o *Object) encodeTo(e *wire.Encoder) {
	e.Buf = wire.AppendNumbers(e.Buf, uint64(o.Cap.Nano()), uint64(o.Spent.Nano()), o.Chains, o.Withdrawn,
		o.Forgotten, o.Earned,
		o.Latest, o.Events, o.Settled, o.Settles)
	e.Numbers(o.Held)
}

// DecodeObject decodes what [Object.Encode] returns.
func DecodeObject(payload []byte) (o Object, err error) {
	d := wire.Decoder{Rest: payload}
	var n [10]uint64
	d.Uvarints(n[:])
	o.Cap, o.Spent = d.AsEpsilon(n[0]), d.AsEpsilon(n[1])
	o.Chains, o.Withdrawn, o.Forgotten, o.Earned = n[2], n[3], n[4], n[5]
	o.Links = Links{n[6], n[7], n[8], n[9]}
	o.Held = d.Numbers()
	return o, d.Done()
}

// Object returns the object with a name. found is false if no object with this name was ever
// enrolled.
func (s *State) Object(name string) (o Object, found bool, err error) {
	found, err = s.ReadObject(name, &o)
	return o, found, err
}

// ReadObject is [State.Object] into memory of the caller. It uses the record cache if that has the
// object. If there is no object, *o becomes the zero value or is not changed.
func (s *State) ReadObject(name string, o *Object) (found bool, err error) {
	if len(name) > event.MaxNameBytes {
		return false, nil // no object has such a long name
	}
	if m := s.recordCache.member(name); m != nil && m.Known {
		*o = m.Object
		return true, nil
	}
	*o, found, err = Lookup(s, BucketObjects, AppendObjectKey(s.Buffer.Lookup(), name), DecodeObject)
	if found && !s.Plain {
		m := s.recordCache.memberFor(name)
		m.Object, m.Known = *o, true
	}
	return found, err
}

// PutObject writes an object, and keeps it in the record cache.
func (s *State) PutObject(name string, o Object) error {
	if !s.Plain {
		m := s.recordCache.memberFor(name)
		m.Object, m.Known = o, true
	}
	k := s.Buffer.Key()
	k.Buf = AppendObjectKey(k.Buf, name)
	o.encodeTo(s.Buffer.Value())
	return s.Write(BucketObjects)
}

// ScanObjects calls visit for the names of all objects after a name, in rising order, until visit
// returns false.
func (s *State) ScanObjects(after string, visit func(name string) bool) error {
	from := []byte(after)
	if after != "" {
		from = append(from, 1) // all keys of an object continue with a zero byte
	}
	return s.Scan(BucketObjects, from, func(key, _ []byte) bool {
		name, member, _ := strings.Cut(string(key), "\x00")
		// Records of memberships, which follow that of their object, are skipped.
		return member != "" || visit(name)
	})
}
