package ledger

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
)

// The log is a Merkle tree whose leaves are the events. An event is public bytes and hidden ones; its leaf
// holds the public bytes and a commitment to the hidden ones, which is a hash over a random salt and them.
// Without the salt nobody can guess what was hidden, however few possibilities there are; and when salt and
// hidden bytes are destroyed, leaf and tree stay what they were.

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
func (ev *event) public(e *encoder) {
	e.u8(eventVersion)
	e.u8(uint8(ev.change.kind()))
	e.time(ev.time)
	if c, ok := ev.change.(lasting); ok {
		c.encodePublic(e)
	}
}

// hidden appends the salt of an event and the bytes that it hides.
func (ev *event) hidden(e *encoder) {
	e.raw(ev.salt[:])
	ev.change.encode(e)
}

// written is an event in bytes. It can be used for one event after another.
type written struct {
	public encoder
	hidden encoder     // empty if it is erased
	kept   *commitment // to what is erased; nil for a whole event
}

func (w *written) write(ev *event) *written {
	w.public.buf, w.hidden.buf, w.kept = w.public.buf[:0], w.hidden.buf[:0], ev.erased
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
		kept = sha256.Sum256(w.hidden.buf)
	} else {
		kept = *w.kept
	}
	return merkle.HashLeaf(w.public.buf, kept[:])
}

// record appends the event's record.
func (w *written) record(e *encoder, previous uint64, hashes []tlog.Hash) {
	if w.kept == nil {
		e.u8(formWhole)
	} else {
		e.u8(formErased)
	}
	e.uvarint(previous)
	e.uvarint(uint64(len(w.public.buf)))
	e.raw(w.public.buf)
	if w.kept == nil {
		e.uvarint(uint64(len(w.hidden.buf)))
		e.raw(w.hidden.buf)
	} else {
		e.raw(w.kept[:])
	}
	for _, hash := range hashes {
		e.raw(hash[:])
	}
}

// leaf returns the event's leaf in the tree.
func (ev *event) leaf() tlog.Hash { return new(written).write(ev).leaf() }

func (n logged) encode() []byte {
	e := &encoder{}
	new(written).write(&n.event).record(e, n.previous, n.hashes)
	return e.buf
}

func decodeEntry(number uint64, payload []byte) (logged, error) {
	n := logged{}
	if err := n.read(number, payload, nil); err != nil {
		return logged{}, err
	}
	return n, nil
}

// read reads the record of an event. It uses the memory of the hashes that n had before, and of its change.
func (n *logged) read(number uint64, payload []byte, t *texts) error {
	d := &decoder{rest: payload}
	before := n.change
	*n = logged{event: event{number: number}, hashes: n.hashes[:0]}
	form := d.u8()
	n.previous = d.uvarint()
	public := &decoder{rest: d.take(d.uvarint())}
	var hidden *decoder
	switch form {
	case formWhole:
		hidden = &decoder{rest: d.take(d.uvarint()), texts: t}
		hidden.array(n.salt[:])
	case formErased:
		n.erased = &commitment{}
		d.array(n.erased[:])
	default:
		d.fail("form %d of an event", form)
	}
	n.hashes = decodeHashes(d, number, n.hashes)
	if err := d.done(); err != nil {
		return fmt.Errorf("event %d: %w", number, err)
	}
	n.change = before
	if err := n.decode(public, hidden); err != nil {
		return fmt.Errorf("event %d: %w", number, err)
	}
	return nil
}

// decodeHashes reads the hashes of the tree that an event completes, into the memory of into if they fit.
func decodeHashes(d *decoder, number uint64, into []tlog.Hash) []tlog.Hash {
	if number == 0 {
		d.fail("an event without a number")
		return nil
	}
	count := merkle.Completes(number - 1)
	hashes := slices.Grow(into[:0], count)[:count]
	for i := range hashes {
		d.array(hashes[i][:])
	}
	return hashes
}

// decode reads what an event says; hidden is nil if that is erased. Most events are responses and enrolments: one that was
// there before is overwritten by the next.
func (ev *event) decode(public, hidden *decoder) error {
	spare := ev.change
	ev.change = nil
	if version := public.u8(); public.err == nil && version != eventVersion {
		return fmt.Errorf("%w (event version %d)", ErrVersion, version)
	}
	k := kind(public.u8())
	ev.time = public.time()
	if hidden == nil || !decodeOver(spare, hidden, k) {
		spare = decodeChange(public, hidden, k)
	}
	ev.change = spare
	if err := public.done(); err != nil {
		return err
	}
	if hidden == nil {
		return nil
	}
	return hidden.done()
}

// decodeOver decodes a change over another one of its kind, if it knows how to.
func decodeOver(spare change, hidden *decoder, k kind) bool {
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
	e := &encoder{}
	n.hidden(e)
	sum := commitment(sha256.Sum256(e.buf))
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
	return decodeNothing(&decoder{}, c.kind())
}

// ReadHashes implements [tlog.HashReader] over the records of the events, which hold the hashes they
// complete: so a hash costs no record of its own.
func (s *state) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		leaf, at := merkle.Locate(index)
		if at < 0 {
			return nil, errs.Corrupt(nil, "no tree has a hash %d", index)
		}
		payload, err := s.get(bucketEvents, eventKey(leaf+1))
		if err != nil || payload == nil {
			return nil, errs.Corrupt(err, "event %d is missing", leaf+1)
		}
		start := len(payload) - tlog.HashSize*(merkle.Completes(leaf)-at)
		if start < 0 {
			return nil, errs.Corrupt(nil, "event %d is cut off", leaf+1)
		}
		copy(hashes[i][:], payload[start:])
	}
	return hashes, nil
}

// entry returns the record of an event.
func (s *state) entry(number uint64) (logged, error) {
	payload, err := s.get(bucketEvents, eventKey(number))
	if err != nil {
		return logged{}, err
	}
	if payload == nil {
		return logged{}, fmt.Errorf("%w: event %d is missing", ErrCorrupt, number)
	}
	return decodeEntry(number, payload)
}

func (s *state) event(number uint64) (event, error) {
	n, err := s.entry(number)
	return n.event, err
}

func (s *state) putEntry(n logged) error {
	return s.put(bucketEvents, eventKey(n.number), n.encode())
}

// append applies an event and adds it to the log.
func (s *state) append(ev event) error {
	if s.edge == nil {
		edge, err := merkle.LoadEdge(s.counters.events, s)
		if err != nil {
			return err
		}
		s.edge = edge
	}
	if err := apply(s, ev); err != nil {
		return fmt.Errorf("event %d (%s): %w", ev.number, ev.change.kind(), err)
	}
	bytes := s.written.write(&ev)
	hashes, err := s.edge.Append(bytes.leaf())
	if err != nil {
		return err
	}
	s.draft.key().u64(ev.number)
	bytes.record(s.draft.value(), s.linked.previous, hashes)
	if err := s.write(bucketEvents); err != nil {
		return err
	}
	if err := s.eraseFrom(s.linked.erase); err != nil {
		return err
	}
	return s.eraseFrom(s.linked.eraseRequests)
}

// eraseFrom erases an event and those about the same object before it. The state is then again the fold of the
// log: what is left of an object's events makes nothing but what its forgotten event says, and requests whose
// digest nobody knows.
func (s *state) eraseFrom(number uint64) error {
	for number != 0 {
		n, err := s.entry(number)
		if err != nil {
			return err
		}
		if n.erased != nil || n.previous >= number {
			return errs.Corrupt(nil, "event %d was erased before, or follows on event %d", number, n.previous)
		}
		if err := s.putEntry(n.erase()); err != nil {
			return err
		}
		if c, ok := n.change.(*settled); ok && c.alone {
			if err := s.eraseDigest(c.key); err != nil {
				return err
			}
		}
		number = n.previous
	}
	return nil
}

// eraseDigest makes a key one of which nobody can tell any more what was asked with it.
func (s *state) eraseDigest(key string) error {
	r, found, err := s.request(key)
	if err != nil || !found {
		return errs.Corrupt(err, "request %q is missing", key)
	}
	r.digest = [sha256.Size]byte{}
	return s.putRequest(key, r)
}
