package state

import (
	"context"
	"errors"
	"sync/atomic"
)

// ErrLarge says that a request has read more records than its meter allows. The request has changed
// nothing and may be repeated.
var ErrLarge = errors.New("the request reads more records than a small request may")

// Meter counts the records that a request reads: of objects, of their chains, and of the log. Its
// methods may be called concurrently.
type Meter struct {
	records  atomic.Int64
	most     atomic.Int64 // 0 for any number
	exceeded atomic.Bool
}

// Allow makes reads fail with [ErrLarge] after about this number of records; 0 allows any number.
func (m *Meter) Allow(records int64) { m.most.Store(records) }

// Check returns [ErrLarge] if more records, in addition to the counted ones, would exceed the
// number that is allowed. It may be called on nil, and then allows everything.
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

// Exceeded reports whether Check has ever returned an error. The result of the request is then not
// used.
func (m *Meter) Exceeded() bool { return m.exceeded.Load() }

// Add counts records. It may be called on nil.
func (m *Meter) Add(records int) {
	if m != nil && records != 0 {
		m.records.Add(int64(records))
	}
}

// Records returns the number of counted records.
func (m *Meter) Records() int64 { return m.records.Load() }

// meterKey is the key of the meter in a context.
type meterKey struct{}

// WithMeter returns a context whose requests are counted by m.
func WithMeter(ctx context.Context, m *Meter) context.Context {
	return context.WithValue(ctx, meterKey{}, m)
}

// MeterOf returns the meter in a context, or nil if there is none.
func MeterOf(ctx context.Context) *Meter {
	m, _ := ctx.Value(meterKey{}).(*Meter)
	return m
}
