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

// Salt is the random salt of an event's commitment. It hides the content of the event.
type Salt [16]byte

// Commitment is the SHA-256 of an event's salt and hidden bytes.
type Commitment [sha256.Size]byte

// Version is the version of the event encoding. It is the first byte of every event.
const Version = 5

// The forms of the record of an event.
const (
	formWhole  = 1 // the hidden bytes are in the record
	formErased = 2 // the hidden bytes are erased, and the record has their commitment instead
)

// Entry is the record of an event: the event, and what follows from the earlier log.
type Entry struct {
	Event
	Previous uint64      // the previous event about the same object, or 0
	Hashes   []tlog.Hash // the tree hashes that the event completes: of its leaf and of nodes above it
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

// hidden appends the salt of an event and its hidden bytes. It returns how many of the last bytes
// are withheld from buyers: 0 if there are none, or if ev is already in the form for buyers.
func (ev *Event) hidden(e *wire.Encoder) (withheld int) {
	e.Raw(ev.Salt[:])
	ev.Change.Fields(wire.Writing(e))
	before := len(e.Buf)
	switch c, is := ev.Change.(withholding); {
	case ev.Withheld != nil: // the form for buyers has a commitment in place of the withheld part
		e.Raw(ev.Withheld[:])
	case is:
		c.withheld(wire.Writing(e))
		return len(e.Buf) - before
	}
	return 0
}

// Withhold returns an event in the form for buyers. It replaces the part that is withheld from
// buyers by a commitment, and the salt by one that does not reveal that part. The result has the
// same leaf. An event that is erased, or has no such part, is returned unchanged.
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

// shown returns the salt of an event in the form for buyers: the first 16 bytes of the SHA-256 of
// s. The part that is withheld has few possible values. With s itself, a buyer could try all of
// them and find the one that fits the commitment.
func (s Salt) shown() (out Salt) {
	sum := sha256.Sum256(s[:])
	copy(out[:], sum[:])
	return out
}

// Written is an encoded event. It can be reused for other events.
type Written struct {
	public   wire.Encoder
	hidden   wire.Encoder // empty if the event is erased
	withheld int          // number of the last hidden bytes that are withheld from buyers
	kept     *Commitment  // the commitment of an erased event; nil for a whole one
	bare     wire.Encoder // buffer of Bare
	shown    wire.Encoder // buffer for the form for buyers
}

// Write encodes an event in place of the previous one, and returns w.
func (w *Written) Write(ev *Event) *Written {
	w.public.Buf, w.hidden.Buf, w.withheld, w.kept = w.public.Buf[:0], w.hidden.Buf[:0], 0, ev.Erased
	ev.public(&w.public)
	if ev.Erased == nil {
		w.withheld = ev.hidden(&w.hidden)
	}
	return w
}

// Leaf returns the event's leaf in the tree, which is the hash of its public bytes and its
// commitment.
func (w *Written) Leaf() tlog.Hash {
	kept := w.commitment()
	return merkle.HashLeaf(w.public.Buf, kept[:])
}

// commitment returns the commitment to the hidden bytes. For an erased event it is the one that was
// kept, and otherwise SHA-256(salt ‖ fields).
//
// If some bytes are withheld from buyers, it is the commitment to the form for buyers:
// SHA-256(salt′ ‖ fields ‖ SHA-256(salt ‖ withheld)). salt′ is [Salt.shown]. So the leaf is the
// same for a reader who has only that form.
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
	// inner is SHA-256(salt ‖ withheld), and outer is salt′. The buffer has the input of the inner
	// hash, and then that of the result.
	w.shown.Buf = append(append(w.shown.Buf[:0], salt[:]...), withheld...)
	inner, outer := sha256.Sum256(w.shown.Buf), salt.shown()
	w.shown.Buf = append(append(append(w.shown.Buf[:0], outer[:]...), fields...), inner[:]...)
	return sha256.Sum256(w.shown.Buf)
}

// Record appends the event's record: whether it is whole or erased, previous, the public bytes, the
// hidden bytes or their commitment, and hashes.
//
// previous is the number of the previous event about the same object, or 0. hashes are the tree
// hashes that the event completes: that of its leaf, and those of subtrees that end with it.
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

// Bare returns the encoding of the event alone, without what follows from the earlier log. A
// journal stores this form. The event must be whole, because an erased one has no hidden bytes. The
// result is valid until the next call of Bare.
func (w *Written) Bare() []byte {
	e := &w.bare
	e.Buf = e.Buf[:0]
	e.Uvarint(uint64(len(w.public.Buf)))
	e.Raw(w.public.Buf)
	e.Raw(w.hidden.Buf)
	return e.Buf
}

// ReadBare decodes the output of [Written.Bare]. number is the number of the event, which the bytes
// do not contain. It allocates texts in t; if t is nil, each text is allocated alone.
//
// It also returns the encoded event w, for its leaf and its record. w uses the memory of bare
// instead of encoding ev again. The bytes would be the same, because only the canonical encoding
// can be decoded.
func ReadBare(number uint64, bare []byte, t *wire.Texts) (ev Event, w Written, err error) {
	d := &wire.Decoder{Rest: bare}
	// clipped, so that an append cannot overwrite the bytes that follow in memory
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

// Encode returns the encoded record of the event. [DecodeEntry] decodes it.
func (n Entry) Encode() []byte {
	e := &wire.Encoder{}
	new(Written).Write(&n.Event).Record(e, n.Previous, n.Hashes)
	return e.Buf
}

// DecodeEntry decodes the record of an event. number is the number of the event, which the record
// does not contain. It returns [errs.ErrCorrupt] for other bytes, and [errs.ErrVersion] for an
// event of another version.
func DecodeEntry(number uint64, payload []byte) (Entry, error) {
	n := Entry{}
	if err := n.Read(number, payload, new(Reader)); err != nil {
		return Entry{}, err
	}
	return n, nil
}

// KindOf returns the kind of an event from its record, without decoding the event. It returns 0 if
// the bytes are not the record of an event.
func KindOf(record []byte) Kind {
	d := &wire.Decoder{Rest: record}
	_, _, _, _ = d.U8(), d.Uvarint(), d.Uvarint(), d.U8() // skip form, previous event, length and version
	if k := Kind(d.U8()); d.Err == nil {
		return k
	}
	return 0
}

// Reader is reusable memory for decoding events one after another.
type Reader struct {
	Texts          *wire.Texts // where texts are allocated; nil allocates each alone
	public, hidden wire.Decoder
	read           Written // the encoded event
}

// Leaf returns the leaf of the event that was read last.
func (r *Reader) Leaf() tlog.Hash { return r.read.Leaf() }

// Read is [DecodeEntry] with reused memory. It overwrites the hashes of n. If the change of n and
// the new one are both of the same frequent kind, it overwrites the change, too: see
// [Event.decode]. After an error, n must not be used.
func (n *Entry) Read(number uint64, payload []byte, r *Reader) error {
	d := &wire.Decoder{Rest: payload}
	before := n.Change
	*n = Entry{Event: Event{Number: number}, Hashes: n.Hashes[:0]}
	form := d.U8()
	n.Previous = d.Uvarint()
	r.read = Written{public: wire.Encoder{Buf: d.Take(d.Uvarint())}, shown: r.read.shown} // a buffer
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
		d.Fail("unknown form %d of an event", form)
	}
	n.Hashes = DecodeHashes(d, number, n.Hashes)
	if err := d.Done(); err != nil {
		return fmt.Errorf("event %d: %w", number, err)
	}
	// decode reuses the memory of this change if the kind is the same
	n.Change = before
	var err error
	if r.read.withheld, err = n.decode(&r.public, hidden); err != nil {
		return fmt.Errorf("event %d: %w", number, err)
	}
	return nil
}

// DecodeHashes decodes the tree hashes that an event completes. Their count follows from the number
// of the event. It uses the memory of into if that is large enough. It fails for the number 0.
func DecodeHashes(d *wire.Decoder, number uint64, into []tlog.Hash) []tlog.Hash {
	if number == 0 {
		d.Fail("the number of an event is 0")
		return nil
	}
	count := merkle.Completes(number - 1)
	hashes := slices.Grow(into[:0], count)[:count]
	for i := range hashes {
		d.Array(hashes[i][:])
	}
	return hashes
}

// decode decodes the change of an event. hidden has the bytes after the salt; it is nil if the
// event is erased. decode returns how many of the hidden bytes are withheld from buyers.
//
// If ev already has a change, it is only spare memory. decode overwrites it if both changes are
// responses or both are enrolments, the most frequent kinds. This saves an allocation.
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

// isOver reports whether a change of kind k can be decoded into the memory of spare. It must be of
// one of two kinds that have no public and no withheld fields, and no lists. Their Fields method
// alone then overwrites the whole change.
func isOver(spare Change, k Kind) bool {
	switch spare.(type) {
	case *Released:
		return k == KindReleased
	case *Enrolled:
		return k == KindEnrolled
	}
	return false
}

// Erase returns the entry as it is stored once its object is forgotten. It has a commitment instead
// of the salt and the hidden bytes, and no reference to the previous event about the object. Its
// leaf and its tree hashes are the same.
func (n Entry) Erase() Entry {
	sum := new(Written).Write(&n.Event).commitment()
	erased := Entry{Event: n.Event, Hashes: n.Hashes}
	erased.Salt, erased.Erased, erased.Change = Salt{}, &sum, withoutHidden(n.Change)
	return erased
}

// withoutHidden returns a copy of a change with its public fields only. It copies them by encoding
// and decoding them, so that no kind needs a second list of its public fields.
func withoutHidden(c Change) Change {
	left := newChange(c.Kind())
	if l, is := c.(lasting); is {
		e := &wire.Encoder{}
		l.public(wire.Writing(e))
		left.(lasting).public(wire.Reading(&wire.Decoder{Rest: e.Buf}))
	}
	return left
}
