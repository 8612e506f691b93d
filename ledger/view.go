package ledger

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// Reading one object takes few microseconds. To allocate what a snapshot needs, and to decode the same counters anew,
// would take a third of that; so both are kept for the next reader.

// view runs fn on a snapshot. fn must not keep the state: the next reader gets it.
func (l *Ledger) view(ctx context.Context, fn func(*state) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := l.commits.check(); err != nil {
		return err
	}
	v := l.views.take(l)
	v.fn, v.from = fn, l.last.Load()
	err := l.store.View(v.run)
	seen := v.state.counters.events
	l.views.giveBack(v)
	if err != nil {
		l.stopIfOverwritten(err)
		if closed := l.commits.check(); errors.Is(closed, ErrClosed) {
			return closed // the store was closed before the snapshot was taken
		}
	}
	// What fn found may rest on a commit under way, its refusals too.
	if waited := l.commits.awaitDurable(ctx, seen); waited != nil {
		return waited
	}
	return err
}

// views are what readers leave for those after them. The zero value is ready.
type views struct {
	idle     sync.Pool // of *viewing
	objects  sync.Pool // of *objectReader
	counters atomic.Pointer[storedCounters]
}

// viewing is a state to read from.
type viewing struct {
	ledger *Ledger
	state  state
	from   *mark                 // the last one before it began; nil while the ledger is being opened
	fn     func(*state) error    // what to do with it
	run    func(kv.Reader) error // runOn, as a value that is made once
}

// storedCounters are counters with the record that they were read from, checksum and all.
type storedCounters struct {
	record []byte
	counters
}

func (p *views) take(l *Ledger) *viewing {
	v, _ := p.idle.Get().(*viewing)
	if v == nil {
		v = &viewing{ledger: l}
		v.run = v.runOn
	}
	return v
}

func (p *views) giveBack(v *viewing) {
	keys := v.state.draft.Buf
	v.fn, v.from, v.state = nil, nil, state{}
	v.state.draft.Buf = keys // it is used again
	p.idle.Put(v)
}

// runOn begins at a snapshot, and does what is to be done with it.
func (v *viewing) runOn(r kv.Reader) (err error) {
	s, l := &v.state, v.ledger
	s.Reader = r
	if s.counters, err = l.views.readCounters(s); err != nil {
		return err
	}
	s.durable = s.counters
	if err := s.checkBegun(); err != nil {
		return err
	}
	if v.from != nil {
		if err := v.from.check(s.counters.position); err != nil {
			return err
		}
	}
	s.known = &l.known
	s.tell(l.clock())
	s.far = l.leap.of(s)
	err = v.fn(s)
	if changed := l.checkSame(s); changed != nil {
		return changed // whatever fn has met
	}
	return err
}

// readCounters reads the counters of a snapshot. As long as their record has the same bytes as that of an earlier one,
// they were checked and decoded before.
func (p *views) readCounters(s *state) (counters, error) {
	k := s.draft.key()
	k.Buf = append(k.Buf, keyCounters...)
	record, err := s.Get(bucketMeta, k.Buf)
	if err != nil {
		return counters{}, err
	}
	last := p.counters.Load()
	if last == nil || !bytes.Equal(last.record, record) {
		if last, err = decodeStored(record, k.Buf); err != nil {
			return counters{}, err
		}
		p.counters.Store(last)
	}
	return last.counters, nil
}

func decodeStored(record, key []byte) (*storedCounters, error) {
	c, _, err := decodeRecord(bucketMeta, key, record, decodeCounters)
	return &storedCounters{bytes.Clone(record), c}, err
}

func (p *views) takeObject() *objectReader {
	r, _ := p.objects.Get().(*objectReader)
	if r == nil {
		r = &objectReader{}
		r.read, r.visit = r.readFrom, r.add
	}
	return r
}

func (p *views) giveBackObject(r *objectReader) {
	*r = objectReader{key: r.key, read: r.read, visit: r.visit}
	p.objects.Put(r)
}
