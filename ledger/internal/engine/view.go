package engine

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// To read one object takes a few microseconds. A third of that would be spent to allocate a
// snapshot and to decode the same counters again. So both are kept for the next reader.

// View runs fn on a snapshot of the durable state. fn must not keep the state, because the next
// reader reuses it. The error is that of ctx, of a stopped or closed queue, of reading the
// snapshot, or of fn. View stops the ledger if the error says that the file was overwritten.
func (l *Engine) View(ctx context.Context, fn func(*state.State) error) error {
	if err := errs.Context(ctx); err != nil {
		return err
	}
	if err := l.Queue.Check(); err != nil {
		return err
	}
	// The clock is read before the snapshot is taken, because the host's clock may block, panic, or
	// call the ledger.
	now := l.Clock()
	v := l.views.take(l)
	v.fn, v.now = fn, now
	v.reading.Begin(ctx)
	err := l.Store.View(v.run)
	v.reading.End()
	l.views.giveBack(v)
	if err != nil {
		err = l.stopIfUncertain(err)
		if closed := l.Queue.Check(); errors.Is(closed, errs.ErrClosed) {
			return closed // the store was closed before the snapshot was taken
		}
	}
	return err
}

// Read returns what fn reads in a snapshot. With an error it returns the zero value, because the
// file may have been overwritten during the read.
func Read[T any](ctx context.Context, l *Engine, fn func(*state.State) (T, error)) (T, error) {
	var read, none T
	err := l.View(ctx, func(s *state.State) (err error) {
		read, err = fn(s)
		return err
	})
	if err != nil {
		return none, err
	}
	return read, nil
}

// views keeps memory and decoded counters for later readers. The zero value is ready to use.
type views struct {
	idle     sync.Pool // of *viewing
	counters atomic.Pointer[storedCounters]
}

// viewing is a state for one reader at a time.
type viewing struct {
	engine  *Engine
	state   state.State
	reading state.Reading            // what the reader reads, with its context
	now     time.Time                // time by the host's clock
	fn      func(*state.State) error // function of the caller
	run     func(kv.Reader) error    // runOn as a function value, created once
}

// storedCounters are decoded counters, with the bytes of their record, including its checksum.
type storedCounters struct {
	record []byte
	state.Counters
}

// take returns a viewing for one reader: an idle one, or a new one whose run is its runOn. The
// reader must return it with giveBack.
func (p *views) take(l *Engine) *viewing {
	v, _ := p.idle.Get().(*viewing)
	if v == nil {
		v = &viewing{engine: l}
		v.run = v.runOn
	}
	return v
}

// giveBack clears a viewing, so that it keeps no snapshot in memory, and stores it for a later
// reader. Only the memory of its buffer is kept.
func (p *views) giveBack(v *viewing) {
	v.fn, v.state = nil, state.State{Buffer: v.state.Buffer.Again()}
	p.idle.Put(v)
}

// runOn prepares v.state to read the snapshot r, and calls v.fn with it. It returns the error of
// v.fn, or [errs.ErrCorrupt] if the counters are damaged or missing.
func (v *viewing) runOn(r kv.Reader) (err error) {
	s, l := &v.state, v.engine
	s.Reader, s.Reading = r, &v.reading
	if s.Counters, err = l.views.readCounters(s); err != nil {
		return err
	}
	s.Durable = s.Counters // a snapshot contains durable events only
	if err := s.CheckBegun(); err != nil {
		return err
	}
	s.Known = &l.Known
	s.SetClock(v.now)
	s.ClockErr = l.leap.check(s)
	return v.fn(s)
}

// readCounters reads the counters of a snapshot. If their record has the same bytes as in an
// earlier snapshot, it returns the counters that were checked and decoded then.
func (p *views) readCounters(s *state.State) (state.Counters, error) {
	k := s.Buffer.Key()
	k.Buf = append(k.Buf, state.KeyCounters...)
	record, err := s.Get(state.BucketMeta, k.Buf)
	if err != nil {
		return state.Counters{}, err
	}
	last := p.counters.Load()
	if last == nil || !bytes.Equal(last.record, record) {
		if last, err = decodeStored(record, k.Buf); err != nil {
			return state.Counters{}, err
		}
		p.counters.Store(last)
	}
	return last.Counters, nil
}

// decodeStored decodes the stored record of the counters, which is at key in the meta bucket. The
// result has a copy of the record, because the record itself is valid only during the snapshot.
func decodeStored(record, key []byte) (*storedCounters, error) {
	c, _, err := state.DecodeRecord(state.BucketMeta, key, record, state.DecodeCounters)
	return &storedCounters{bytes.Clone(record), c}, err
}

// Inspect runs fn on a snapshot, even if the file is damaged. Damage is reported to fault, if the
// store can inspect ([kv.Inspector]). The error is that of ctx, of a stopped or closed queue, of
// the store, or of fn.
func (l *Engine) Inspect(ctx context.Context, fault func(kv.Fault), fn func(kv.Reader) error) error {
	if err := errors.Join(errs.Context(ctx), l.Queue.Check()); err != nil {
		return err
	}
	var err error
	if from, ok := l.Store.(kv.Inspector); ok {
		err = from.Inspect(fault, fn)
	} else {
		err = l.Store.View(fn)
	}
	err = l.stopIfUncertain(err)
	if stopped := l.Queue.Check(); err != nil && stopped != nil {
		return stopped // the store was closed before the snapshot was taken
	}
	return err
}
