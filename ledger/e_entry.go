package ledger

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// salt hides what an event says from those who see its commitment.
type salt [16]byte

// commitment is the SHA-256 of an event's salt and hidden bytes.
type commitment [sha256.Size]byte

// eventVersion is the version of the event encoding.
const eventVersion = 4

// The forms of an event's record.
const (
	formWhole  = 1
	formErased = 2
)

// logged is the record of an event: the event with what follows from the log before it.
type logged struct {
	event
	previous uint64      // the event about the same object before this one, or 0
	hashes   []tlog.Hash // of the tree, that the event completes: its leaf's and those above it
}

// public appends the bytes of an event that are never erased.
func (ev *event) public(e *wire.Encoder) {
	e.U8(eventVersion)
	e.U8(uint8(ev.change.kind()))
	e.Time(ev.time)
	if c, ok := ev.change.(lasting); ok {
		c.encodePublic(e)
	}
}

// hidden appends the salt of an event and the bytes that it hides.
func (ev *event) hidden(e *wire.Encoder) {
	e.Raw(ev.salt[:])
	ev.change.encode(e)
}

// written is an event in bytes. It can be used for one event after another.
type written struct {
	public wire.Encoder
	hidden wire.Encoder // empty if it is erased
	kept   *commitment  // to what is erased; nil for a whole event
}

func (w *written) write(ev *event) *written {
	w.public.Buf, w.hidden.Buf, w.kept = w.public.Buf[:0], w.hidden.Buf[:0], ev.erased
	ev.public(&w.public)
	if ev.erased == nil {
		ev.hidden(&w.hidden)
	}
	return w
}

// leaf returns the event's leaf in the tree.
func (w *written) leaf() tlog.Hash {
	var kept commitment
	if w.kept == nil {
		kept = sha256.Sum256(w.hidden.Buf)
	} else {
		kept = *w.kept
	}
	return merkle.HashLeaf(w.public.Buf, kept[:])
}

// record appends the event's record.
func (w *written) record(e *wire.Encoder, previous uint64, hashes []tlog.Hash) {
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

// leaf returns the event's leaf in the tree.
func (ev *event) leaf() tlog.Hash { return new(written).write(ev).leaf() }

func (n logged) Encode() []byte {
	e := &wire.Encoder{}
	new(written).write(&n.event).record(e, n.previous, n.hashes)
	return e.Buf
}

func decodeEntry(number uint64, payload []byte) (logged, error) {
	n := logged{}
	if err := n.read(number, payload, nil); err != nil {
		return logged{}, err
	}
	return n, nil
}

// read reads the record of an event. It uses the memory of the hashes that n had before, and of its change.
func (n *logged) read(number uint64, payload []byte, t *wire.Texts) error {
	d := &wire.Decoder{Rest: payload}
	before := n.change
	*n = logged{event: event{number: number}, hashes: n.hashes[:0]}
	form := d.U8()
	n.previous = d.Uvarint()
	public := &wire.Decoder{Rest: d.Take(d.Uvarint())}
	var hidden *wire.Decoder
	switch form {
	case formWhole:
		hidden = &wire.Decoder{Rest: d.Take(d.Uvarint()), Texts: t}
		hidden.Array(n.salt[:])
	case formErased:
		n.erased = &commitment{}
		d.Array(n.erased[:])
	default:
		d.Fail("form %d of an event", form)
	}
	n.hashes = decodeHashes(d, number, n.hashes)
	if err := d.Done(); err != nil {
		return fmt.Errorf("event %d: %w", number, err)
	}
	n.change = before
	if err := n.decode(public, hidden); err != nil {
		return fmt.Errorf("event %d: %w", number, err)
	}
	return nil
}

// decodeHashes reads the hashes of the tree that an event completes, into the memory of into if they fit.
func decodeHashes(d *wire.Decoder, number uint64, into []tlog.Hash) []tlog.Hash {
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

// decode reads what an event says; hidden is nil if that is erased. Most events are responses and enrolments: one that was
// there before is overwritten by the next.
func (ev *event) decode(public, hidden *wire.Decoder) error {
	spare := ev.change
	ev.change = nil
	if version := public.U8(); public.Err == nil && version != eventVersion {
		return fmt.Errorf("%w (event version %d)", ErrVersion, version)
	}
	k := kind(public.U8())
	ev.time = public.Time()
	if hidden == nil || !decodeOver(spare, hidden, k) {
		spare = decodeChange(public, hidden, k)
	}
	ev.change = spare
	if err := public.Done(); err != nil {
		return err
	}
	if hidden == nil {
		return nil
	}
	return hidden.Done()
}

// decodeOver decodes a change over another one of its kind, if it knows how to.
func decodeOver(spare change, hidden *wire.Decoder, k kind) bool {
	switch c := spare.(type) {
	case *released:
		if k == kindReleased {
			c.decode(hidden)
			return true
		}
	case *enrolled:
		if k == kindEnrolled {
			c.decode(hidden)
			return true
		}
	}
	return false
}

// erase returns the entry without what it hides, and without the way to other events about the object.
func (n logged) erase() logged {
	e := &wire.Encoder{}
	n.hidden(e)
	sum := commitment(sha256.Sum256(e.Buf))
	erased := logged{event: n.event, hashes: n.hashes}
	erased.salt, erased.erased, erased.change = salt{}, &sum, withoutHidden(n.change)
	return erased
}

// withoutHidden returns what is left of a change when it is erased.
func withoutHidden(c change) change {
	switch c := c.(type) {
	case *held:
		return &held{sale: c.sale, price: c.price}
	case *sold:
		return &sold{sale: c.sale, price: c.price}
	case *settled:
		kept := *c
		if kept.object = ""; kept.alone {
			kept.digest, kept.marks = [sha256.Size]byte{}, marks{}
		}
		return &kept
	}
	return decodeNothing(&wire.Decoder{}, c.kind())
}
