package request

import (
	"context"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// Backend replaces the file, the clock and the random source of a ledger in tests. The zero value
// replaces nothing. It is passed in the context with which the ledger is created or opened, so that
// it is not part of the public API.
type Backend struct {
	Store   kv.Store  // holds the ledger; nil for a file
	Apart   bool      // open the file as if on another machine
	Created time.Time // creation time of the ledger; zero for now
	Draws   Draws     // the samplers that the ledger uses
}

// Draws holds the samplers of a ledger. A nil field means that the ledger uses its own sampler.
type Draws struct {
	Values  *rrchain.Sampler   // for questions without a mechanism of their own
	Outputs *finite.Sampler    // for questions in finite encoding
	Queries *mechanism.Sampler // for answers to panel queries
}

type backendKey struct{}

// WithBackend returns a context that makes a ledger use b when it is created or opened.
func WithBackend(ctx context.Context, b Backend) context.Context {
	return context.WithValue(ctx, backendKey{}, b)
}

// BackendOf returns the backend in a context, or the zero value if there is none.
func BackendOf(ctx context.Context) Backend {
	b, _ := ctx.Value(backendKey{}).(Backend)
	return b
}

// Now returns the creation time of the ledger: Created, or the current time if Created is zero.
func (b Backend) Now() time.Time {
	if b.Created.IsZero() {
		return time.Now()
	}
	return b.Created
}

// DrawBy replaces the samplers of the ledger by those that are set in d.
func (e *Executor) DrawBy(d Draws) {
	if d.Values != nil {
		e.Engine.Chances.Values = d.Values
	}
	if d.Outputs != nil {
		e.Engine.Chances.Outputs = d.Outputs
	}
	if d.Queries != nil {
		e.Sampler = d.Queries
	}
}
