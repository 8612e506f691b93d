package request

import (
	"time"

	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/mechanism"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// Backend is where a ledger is: in a store, or if that is nil in the file at Path.
type Backend struct {
	Store kv.Store // nil for a file
	Path  string   // of the file
	Apart bool     // the file is as on another machine
}

// Origin is what a ledger is created with.
type Origin struct {
	At       time.Time // of the first event
	Currency string    // "" for USD
	LogKey   string    // "" for none
}

// Draws are what a ledger draws with; nil stands for samplers of its own.
type Draws struct {
	Values  *rrchain.Sampler   // of questions without a mechanism of their own
	Outputs *finite.Sampler    // of questions in finite encoding
	Queries *mechanism.Sampler // answers about panels
}
