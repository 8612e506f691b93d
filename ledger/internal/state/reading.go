package state

import (
	"cmp"
	"context"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// CheckEvery is how many records a request reads at most after its context has ended.
const CheckEvery = 64

// Reading is the request that a state is read for. It counts the records that are read. After the
// context of the request has ended, every read fails with the error of the context. A zero or nil
// Reading neither counts nor fails.
type Reading struct {
	ctx       context.Context // nil if no request is observed
	meter     *Meter
	read      int // number of records read
	due       int // the number of records at which the context is checked next
	recording int // number of calls that are recording events; reads for them never fail

	// Of the innermost running scan:
	visit func(key, value []byte) bool // receives the records
	ended error                        // why the scan was ended, or nil
	each  func(key, value []byte) bool // visitOne, stored to allocate it once
}

// Begin begins to observe a request. From now on, records are counted, and reads fail after ctx has
// ended.
func (r *Reading) Begin(ctx context.Context) {
	r.ctx, r.meter, r.read, r.due = ctx, MeterOf(ctx), 0, CheckEvery
}

// End ends the observation and adds the records read to the meter.
func (r *Reading) End() {
	r.meter.Add(r.read)
	r.ctx, r.meter = nil, nil
}

// Pause makes reads succeed even if the context has ended, until [Reading.Resume]. Otherwise a
// half-applied event could be committed with the events of other requests in the same transaction.
func (r *Reading) Pause() {
	if r != nil {
		r.recording++
	}
}

// Resume ends the effect of one call of [Reading.Pause].
func (r *Reading) Resume() {
	if r != nil {
		r.recording--
	}
}

// step counts one record. Every [CheckEvery] records it checks the context and the meter, and
// returns the first error. Each further record then fails as well, because r.due stays the same.
// While events are recorded, it only counts.
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

// scan is [kv.Reader.Scan] of the store from, with each record counted. If the context has ended,
// it stops and returns that error.
func (r *Reading) scan(from kv.Reader, bucket string, key []byte, visit func(key, value []byte) bool) error {
	// The method value is created once, because each creation allocates.
	if r.each == nil {
		r.each = r.visitOne
	}
	// visit may scan as well, so the fields of the outer scan are restored afterwards.
	outer, ended := r.visit, r.ended
	r.visit, r.ended = visit, nil
	err := from.Scan(bucket, key, r.each)
	err = cmp.Or(r.ended, err)
	r.visit, r.ended = outer, ended
	return err
}

// visitOne counts a record and passes it to the visit function of the current scan.
func (r *Reading) visitOne(key, value []byte) bool {
	if r.ended = r.step(); r.ended != nil {
		return false
	}
	return r.visit(key, value)
}

// Get is [kv.Reader.Get] with the record counted. It fails after the context of the request has
// ended.
func (s *State) Get(bucket string, key []byte) ([]byte, error) {
	if err := s.Reading.step(); err != nil {
		return nil, err
	}
	return s.Reader.Get(bucket, key)
}

// Scan is [kv.Reader.Scan] with the records counted. It fails after the context of the request has
// ended.
func (s *State) Scan(bucket string, from []byte, visit func(key, value []byte) bool) error {
	if s.Reading == nil || s.Reading.ctx == nil {
		return s.Reader.Scan(bucket, from, visit)
	}
	return s.Reading.scan(s.Reader, bucket, from, visit)
}
