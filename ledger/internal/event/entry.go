package event

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// Salt hides what an event says from those who see its commitment.
type Salt [16]byte

// Commitment is the SHA-256 of an event's salt and hidden bytes.
type Commitment [sha256.Size]byte

// Version is the version of the event encoding. It is the first byte of every event.
const Version = 5

// The forms of an event's record.
const (
	formWhole  = 1
	formErased = 2
)

// Entry is the record of an event: the event with what follows from the log before it.
type Entry struct {
	Event
	Previous uint64      // the event about the same object before this one, or 0
	Hashes   []tlog.Hash // of the tree, that the event completes: its leaf's and those above it
}

// public appends the bytes of an event that are never erased.
func (ev *Event) public(e *wire.Encoder) {
	e.U8(Version)
	e.U8(uint8(ev.Change.Kind()))
	e.Time(ev.Time)
	if c, ok := ev.Change.(lasting); ok {
		c.public(wire.Writing(e))
	}
}

// hidden appends the salt of an event and the bytes that it hides. Of these the last are withheld
// from buyers.
func (ev *Event) hidden(e *wire.Encoder) (withheld int) {
	e.Raw(ev.Salt[:])
	ev.Change.Fields(wire.Writing(e))
	before := len(e.Buf)
	switch c, is := ev.Change.(withholding); {
	case ev.Withheld != nil:
		e.Raw(ev.Withheld[:])
	case is:
		c.withheld(wire.Writing(e))
		return len(e.Buf) - before
	}
	return 0
}

// Withhold returns an event without what is withheld from buyers, and with a salt that does not
// give it away. It has the same leaf.
func Withhold(ev Event) Event {
	c, is := ev.Change.(withholding)
	if !is || ev.Erased != nil {
		return ev
	}
	e := &wire.Encoder{}
	e.Raw(ev.Salt[:])
	c.withheld(wire.Writing(e))
	sum := Commitment(sha256.Sum256(e.Buf))
	ev.Salt, ev.Withheld = ev.Salt.shown(), &sum
	return ev
}

// shown returns the salt that a buyer is shown of an event with a part that is withheld: the
// beginning of the salt's SHA-256. What is withheld has few values, and would be found by trying
// them with the salt itself.
func (s Salt) shown() (out Salt) {
	sum := sha256.Sum256(s[:])
	copy(out[:], sum[:])
	return out
}

// Written is an event in bytes. It can be used for one event after another.
type Written struct {
	public   wire.Encoder
	hidden   wire.Encoder // empty if it is erased
	withheld int          // how many of the last hidden bytes are withheld from buyers
	kept     *Commitment  // to what is erased; nil for a whole event
	bare     wire.Encoder
	shown    wire.Encoder // what a buyer sees of the hidden bytes
}

// Write puts an event in bytes, in place of the one before, and returns w.
func (w *Written) Write(ev *Event) *Written {
	w.public.Buf, w.hidden.Buf, w.withheld, w.kept = w.public.Buf[:0], w.hidden.Buf[:0], 0, ev.Erased
	ev.public(&w.public)
	if ev.Erased == nil {
		w.withheld = ev.hidden(&w.hidden)
	}
	return w
}

// Leaf returns the event's leaf in the tree: the hash of its public bytes and the commitment.
func (w *Written) Leaf() tlog.Hash {
	kept := w.commitment()
	return merkle.HashLeaf(w.public.Buf, kept[:])
}

// commitment returns that to the hidden bytes. If some are withheld from buyers, it is the one to
// what a buyer is shown, which has a commitment to them at its end.
func (w *Written) commitment() Commitment {
	switch {
	case w.kept != nil:
		return *w.kept
	case w.withheld == 0:
		return sha256.Sum256(w.hidden.Buf)
	}
	var salt Salt
	copy(salt[:], w.hidden.Buf)
	shown := len(w.hidden.Buf) - w.withheld
	fields, withheld := w.hidden.Buf[len(salt):shown], w.hidden.Buf[shown:]
	w.shown.Buf = append(append(w.shown.Buf[:0], salt[:]...), withheld...)
	inner, outer := sha256.Sum256(w.shown.Buf), salt.shown()
	w.shown.Buf = append(append(append(w.shown.Buf[:0], outer[:]...), fields...), inner[:]...)
	return sha256.Sum256(w.shown.Buf)
}

// Record appends the event's record, with the number of the event about the same object before it,
// or 0, and the hashes of the tree that it completes.
func (w *Written) Record(e *wire.Encoder, previous uint64, hashes []tlog.Hash) {
	if w.kept == nil {
		e.U8(formWhole)
	} else {
		e.U8(formErased)
	}
	e.Uvarint(previous)
	e.Uvarint(uint64(len(w.public.Buf)))
	e.Raw(w.public.Buf)
	if w.kept == nil {
		e.Uvarint(uint64(len(w.hidden.Buf)))
		e.Raw(w.hidden.Buf)
	} else {
		e.Raw(w.kept[:])
	}
	for _, hash := range hashes {
		e.Raw(hash[:])
	}
}

// Bare returns what the event itself is, without what follows from the log before it: the form in
// which a journal keeps it. It holds until the next call.
func (w *Written) Bare() []byte {
	e := &w.bare
	e.Buf = e.Buf[:0]
	e.Uvarint(uint64(len(w.public.Buf)))
	e.Raw(w.public.Buf)
	e.Raw(w.hidden.Buf)
	return e.Buf
}

// ReadBare reads what [Written.Bare] returned for the event with a number, and puts texts where t
// says, nil for memory of their own. The event is returned also as it is written, in the memory of
// bare: there is one way to write it, and no other can be read.
func ReadBare(number uint64, bare []byte, t *wire.Texts) (ev Event, w Written, err error) {
	d := &wire.Decoder{Rest: bare}
	w.public.Buf = slices.Clip(d.Take(d.Uvarint()))
	w.hidden.Buf = slices.Clip(d.Rest)
	public, hidden := &wire.Decoder{Rest: w.public.Buf}, &wire.Decoder{Rest: w.hidden.Buf, Texts: t}
	ev.Number = number
	hidden.Array(ev.Salt[:])
	if err = d.Err; err == nil {
		w.withheld, err = ev.decode(public, hidden)
	}
	if err != nil {
		return Event{}, Written{}, fmt.Errorf("event %d: %w", number, err)
	}
	return ev, w, nil
}

// Leaf returns the event's leaf in the tree.
func (ev *Event) Leaf() tlog.Hash { return new(Written).Write(ev).Leaf() }

// Encode returns the payload of the record.
func (n Entry) Encode() []byte {
	e := &wire.Encoder{}
	new(Written).Write(&n.Event).Record(e, n.Previous, n.Hashes)
	return e.Buf
}

// DecodeEntry reads the record of the event with a number.
func DecodeEntry(number uint64, payload []byte) (Entry, error) {
	n := Entry{}
	if err := n.Read(number, payload, new(Reader)); err != nil {
		return Entry{}, err
	}
	return n, nil
}

// KindOf returns the kind of an event by its record, without decoding the event. It is 0 for no
// record of an event.
func KindOf(record []byte) Kind {
	d := &wire.Decoder{Rest: record}
	_, _, _, _ = d.U8(), d.Uvarint(), d.Uvarint(), d.U8() // form, previous event, length, version
	if k := Kind(d.U8()); d.Err == nil {
		return k
	}
	return 0
}

// Reader is memory for reading one event after another.
type Reader struct {
	Texts          *wire.Texts // where texts are put, nil for memory of their own
	public, hidden wire.Decoder
	read           Written // as it was read
}

// Leaf returns the leaf in the tree of the event read last.
func (r *Reader) Leaf() tlog.Hash { return r.read.Leaf() }

// Read is [DecodeEntry] for one of many. It uses the memory of the hashes that n had before, and of
// its change.
func (n *Entry) Read(number uint64, payload []byte, r *Reader) error {
	d := &wire.Decoder{Rest: payload}
	before := n.Change
	*n = Entry{Event: Event{Number: number}, Hashes: n.Hashes[:0]}
	form := d.U8()
	n.Previous = d.Uvarint()
	r.read = Written{public: wire.Encoder{Buf: d.Take(d.Uvarint())}, shown: r.read.shown}
	r.public = wire.Decoder{Rest: r.read.public.Buf}
	var hidden *wire.Decoder
	switch form {
	case formWhole:
		r.read.hidden.Buf = d.Take(d.Uvarint())
		r.hidden = wire.Decoder{Rest: r.read.hidden.Buf, Texts: r.Texts}
		hidden = &r.hidden
		hidden.Array(n.Salt[:])
	case formErased:
		n.Erased = &Commitment{}
		d.Array(n.Erased[:])
		r.read.kept = n.Erased
	default:
		d.Fail("form %d of an event", form)
	}
	n.Hashes = DecodeHashes(d, number, n.Hashes)
	if err := d.Done(); err != nil {
		return fmt.Errorf("event %d: %w", number, err)
	}
	n.Change = before
	var err error
	if r.read.withheld, err = n.decode(&r.public, hidden); err != nil {
		return fmt.Errorf("event %d: %w", number, err)
	}
	return nil
}

// DecodeHashes reads the hashes of the tree that the event with a number completes, into the memory
// of into if they fit.
func DecodeHashes(d *wire.Decoder, number uint64, into []tlog.Hash) []tlog.Hash {
	if number == 0 {
		d.Fail("an event without a number")
		return nil
	}
	count := merkle.Completes(number - 1)
	hashes := slices.Grow(into[:0], count)[:count]
	for i := range hashes {
		d.Array(hashes[i][:])
	}
	return hashes
}

// decode reads what an event says; hidden is nil if that is erased. It returns how many of the
// hidden bytes are withheld from buyers. Most events are responses and enrolments: one that was
// there before is overwritten by the next.
func (ev *Event) decode(public, hidden *wire.Decoder) (withheld int, err error) {
	spare := ev.Change
	ev.Change = nil
	if version := public.U8(); public.Err == nil && version != Version {
		return 0, fmt.Errorf("%w (event version %d)", errs.ErrVersion, version)
	}
	k := Kind(public.U8())
	ev.Time = public.Time()
	if hidden != nil && isOver(spare, k) {
		spare.Fields(wire.Reading(hidden))
	} else {
		spare, withheld = decodeChange(public, hidden, k)
	}
	ev.Change = spare
	if err := public.Done(); err != nil || hidden == nil {
		return 0, err
	}
	return withheld, hidden.Done()
}

// isOver tells whether a change of a kind is read over another one.
func isOver(spare Change, k Kind) bool {
	switch spare.(type) {
	case *Released:
		return k == KindReleased
	case *Enrolled:
		return k == KindEnrolled
	}
	return false
}

// Erase returns the entry without what it hides, and without the way to other events about the
// object.
func (n Entry) Erase() Entry {
	sum := new(Written).Write(&n.Event).commitment()
	erased := Entry{Event: n.Event, Hashes: n.Hashes}
	erased.Salt, erased.Erased, erased.Change = Salt{}, &sum, withoutHidden(n.Change)
	return erased
}

// withoutHidden returns what is left of a change when it is erased.
func withoutHidden(c Change) Change {
	left := newChange(c.Kind())
	if l, is := c.(lasting); is {
		e := &wire.Encoder{}
		l.public(wire.Writing(e))
		left.(lasting).public(wire.Reading(&wire.Decoder{Rest: e.Buf}))
	}
	return left
}
