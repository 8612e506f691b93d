package state

import (
	"context"
	"errors"
	"sync/atomic"
)

// ErrLarge says that a request has read more than its meter allows. Nothing has happened, and it
// may be made again.
var ErrLarge = errors.New("the request reads more than a small one may")

// Meter counts the records that a request reads: of objects, of their chains, of the log. It may be
// used concurrently.
type Meter struct {
	records  atomic.Int64
	most     atomic.Int64 // 0 is any number
	exceeded atomic.Bool
}

// Allow has reads fail with [ErrLarge] after so many records, about; 0 allows any number.
func (m *Meter) Allow(records int64) { m.most.Store(records) }

// Check returns [ErrLarge] if what was counted, and so many records more, are too many. It may be
// called on nil.
func (m *Meter) Check(more int) error {
	if m == nil {
		return nil
	}
	if most := m.most.Load(); most == 0 || m.Records()+int64(more) <= most {
		return nil
	}
	m.exceeded.Store(true)
	return ErrLarge
}

// Exceeded reports whether Check has ever returned an error: what came of the request does not
// count then.
func (m *Meter) Exceeded() bool { return m.exceeded.Load() }

// Add counts records. It may be called on nil.
func (m *Meter) Add(records int) {
	if m != nil && records != 0 {
		m.records.Add(int64(records))
	}
}

// Records returns how many records were counted.
func (m *Meter) Records() int64 { return m.records.Load() }

// meterKey is the key of the meter in a context.
type meterKey struct{}

// WithMeter returns a context whose requests are counted by a meter.
func WithMeter(ctx context.Context, m *Meter) context.Context {
	return context.WithValue(ctx, meterKey{}, m)
}

// MeterOf returns the meter of a context, or nil if it has none.
func MeterOf(ctx context.Context) *Meter {
	m, _ := ctx.Value(meterKey{}).(*Meter)
	return m
}
