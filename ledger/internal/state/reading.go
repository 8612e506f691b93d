package state

import (
	"cmp"
	"context"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// CheckEvery is how many records a request reads at most after its context has ended.
const CheckEvery = 64

// Reading is the request that a state is read for. The records that it reads are counted, and once
// its context has ended every further read fails with the context's error. The zero value, and nil,
// observe nothing.
type Reading struct {
	ctx       context.Context // nil while no request is observed
	meter     *Meter
	read      int // how many records were read
	due       int // after how many the context is checked next
	recording int // how many calls record events, which is never interrupted

	// Of the innermost scan under way:
	visit func(key, value []byte) bool // what it passes records to
	ended error                        // why it was ended, or nil
	each  func(key, value []byte) bool // visitOne, as a value that is made once
}

// Begin observes a request from now on.
func (r *Reading) Begin(ctx context.Context) {
	r.ctx, r.meter, r.read, r.due = ctx, MeterOf(ctx), 0, CheckEvery
}

// End ends that, and counts the records that were read.
func (r *Reading) End() {
	r.meter.Add(r.read)
	r.ctx, r.meter = nil, nil
}

// Pause has reads succeed whatever becomes of the context, until [Reading.Resume]. An event that is
// half applied would be committed with what others of the same transaction record.
func (r *Reading) Pause() {
	if r != nil {
		r.recording++
	}
}

// Resume ends what [Reading.Pause] began.
func (r *Reading) Resume() {
	if r != nil {
		r.recording--
	}
}

// step counts one record, and now and then checks the context. Once that has ended, each further
// record fails.
func (r *Reading) step() error {
	if r == nil || r.ctx == nil {
		return nil
	}
	if r.read++; r.read < r.due || r.recording > 0 {
		return nil
	}
	if err := cmp.Or(r.ctx.Err(), r.meter.Check(r.read)); err != nil {
		return err
	}
	r.due = r.read + CheckEvery
	return nil
}

// scan is Scan of a reader, with each record counted.
func (r *Reading) scan(from kv.Reader, bucket string, key []byte, visit func(key, value []byte) bool) error {
	if r.each == nil {
		r.each = r.visitOne
	}
	outer, ended := r.visit, r.ended // visit may scan as well
	r.visit, r.ended = visit, nil
	err := from.Scan(bucket, key, r.each)
	err = cmp.Or(r.ended, err)
	r.visit, r.ended = outer, ended
	return err
}

func (r *Reading) visitOne(key, value []byte) bool {
	if r.ended = r.step(); r.ended != nil {
		return false
	}
	return r.visit(key, value)
}

// Get is that of [kv.Reader]. It fails once the context of the request has ended.
func (s *State) Get(bucket string, key []byte) ([]byte, error) {
	if err := s.Reading.step(); err != nil {
		return nil, err
	}
	return s.Reader.Get(bucket, key)
}

// Scan is that of [kv.Reader]. It fails once the context of the request has ended.
func (s *State) Scan(bucket string, from []byte, visit func(key, value []byte) bool) error {
	if s.Reading == nil || s.Reading.ctx == nil {
		return s.Reader.Scan(bucket, from, visit)
	}
	return s.Reading.scan(s.Reader, bucket, from, visit)
}
