// Package work counts what a request reads from a ledger, so that a server can bound it.
package work

import (
	"context"
	"sync/atomic"
)

// Meter counts the records that a request reads: of objects, of their chains, of the log. It may be used concurrently.
type Meter struct{ records atomic.Int64 }

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

// With returns a context whose requests are counted by a meter.
func With(ctx context.Context, m *Meter) context.Context {
	return context.WithValue(ctx, meterKey{}, m)
}

// Of returns the meter of a context, or nil if it has none.
func Of(ctx context.Context) *Meter {
	m, _ := ctx.Value(meterKey{}).(*Meter)
	return m
}
