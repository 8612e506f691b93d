package request

import (
	"context"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// Backend is what tests put in the place of a file, a clock and chance. The zero value replaces
// nothing. It reaches the ledger in the context that it is created or opened with, so that no
// public name mentions it.
type Backend struct {
	Store   kv.Store  // that holds the ledger; nil for the file
	Apart   bool      // the file is opened as on another machine
	Created time.Time // when the ledger is created; zero for now
	Draws   Draws     // that the ledger draws with
}

// Draws are what a ledger draws with; nil stands for samplers of its own.
type Draws struct {
	Values  *rrchain.Sampler   // of questions without a mechanism of their own
	Outputs *finite.Sampler    // of questions in finite encoding
	Queries *mechanism.Sampler // answers about panels
}

type backendKey struct{}

// WithBackend returns a context with which a ledger is created or opened on a backend.
func WithBackend(ctx context.Context, b Backend) context.Context {
	return context.WithValue(ctx, backendKey{}, b)
}

// BackendOf returns the backend of a context, or the zero value.
func BackendOf(ctx context.Context) Backend {
	b, _ := ctx.Value(backendKey{}).(Backend)
	return b
}

// Now returns when the ledger is created.
func (b Backend) Now() time.Time {
	if b.Created.IsZero() {
		return time.Now()
	}
	return b.Created
}

// DrawBy has the ledger draw with samplers.
func (e *Executor) DrawBy(d Draws) {
	if d.Values != nil {
		e.Engine.Chances.Sampler = d.Values
	}
	if d.Outputs != nil {
		e.Engine.Chances.Outputs = d.Outputs
	}
	if d.Queries != nil {
		e.Sampler = d.Queries
	}
}
