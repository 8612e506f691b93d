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

// Reading one object takes few microseconds. To allocate what a snapshot needs, and to decode the
// same counters anew, would take a third of that; so both are kept for the next reader.

// View runs fn on a snapshot, of what is durable. fn must not keep the state: the next reader gets
// it.
func (l *Engine) View(ctx context.Context, fn func(*state.State) error) error {
	if err := errs.Context(ctx); err != nil {
		return err
	}
	if err := l.Queue.Check(); err != nil {
		return err
	}
	now := l.Clock() // before there is a snapshot: the host's clock may take its time, panic, or call the ledger
	v := l.views.take(l)
	v.fn, v.now = fn, now
	v.reading.Begin(ctx)
	err := l.Store.View(v.run)
	v.reading.End()
	l.views.giveBack(v)
	if err != nil {
		err = l.stopIfUnsure(err)
		if closed := l.Queue.Check(); errors.Is(closed, errs.ErrClosed) {
			return closed // the store was closed before the snapshot was taken
		}
	}
	return err
}

// Read returns what fn reads in a snapshot. With an error it returns the zero value: the file may
// have been overwritten while it was read.
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

// views are what readers leave for those after them. The zero value is ready.
type views struct {
	idle     sync.Pool // of *viewing
	counters atomic.Pointer[storedCounters]
}

// viewing is a state to read from.
type viewing struct {
	engine  *Engine
	state   state.State
	reading state.Reading            // whom it is read for
	now     time.Time                // by the host's clock
	fn      func(*state.State) error // what to do with it
	run     func(kv.Reader) error    // runOn, as a value that is made once
}

// storedCounters are counters with the record that they were read from, checksum and all.
type storedCounters struct {
	record []byte
	state.Counters
}

func (p *views) take(l *Engine) *viewing {
	v, _ := p.idle.Get().(*viewing)
	if v == nil {
		v = &viewing{engine: l}
		v.run = v.runOn
	}
	return v
}

func (p *views) giveBack(v *viewing) {
	v.fn, v.state = nil, state.State{Buffer: v.state.Buffer.Again()}
	p.idle.Put(v)
}

// runOn does on a snapshot what is to be done.
func (v *viewing) runOn(r kv.Reader) (err error) {
	s, l := &v.state, v.engine
	s.Reader, s.Reading = r, &v.reading
	if s.Counters, err = l.views.readCounters(s); err != nil {
		return err
	}
	s.Durable = s.Counters
	if err := s.CheckBegun(); err != nil {
		return err
	}
	s.Known = &l.Known
	s.SetClock(v.now)
	s.Far = l.leap.of(s)
	return v.fn(s)
}

// readCounters reads the counters of a snapshot. As long as their record has the same bytes as that
// of an earlier one, they were checked and decoded before.
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

func decodeStored(record, key []byte) (*storedCounters, error) {
	c, _, err := state.DecodeRecord(state.BucketMeta, key, record, state.DecodeCounters)
	return &storedCounters{bytes.Clone(record), c}, err
}

// Inspect runs fn on a snapshot, of a damaged file too.
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
	err = l.stopIfUnsure(err)
	if stopped := l.Queue.Check(); err != nil && stopped != nil {
		return stopped // the store was closed before the snapshot was taken
	}
	return err
}
