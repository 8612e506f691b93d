package model

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/ledgertest"
)

// T is a test of what any ledger must do, wherever it is kept.
type T struct {
	*testing.T
	file   bool // it is kept in a file; else in memory
	served bool // it is called over HTTP; see [Anywhere]
}

// Both runs a test on a ledger of package ledgertest, and on one in a file.
func Both(t *testing.T, test func(t *T)) {
	t.Helper()
	for name, file := range map[string]bool{"memory": false, "file": true} {
		t.Run(name, func(t *testing.T) { test(&T{T: t, file: file}) })
	}
}

// Anywhere runs a test as [Both] does and, in the deep form, on a ledger that is called over HTTP. Under the race detector games of the model
// are played over HTTP instead, which is faster.
func Anywhere(t *testing.T, test func(t *T)) {
	t.Helper()
	Both(t, test)
	if pace.Deep() && !pace.Hurried() {
		t.Run("served", func(t *testing.T) { test(&T{T: t, served: true}) })
	}
}

// Run runs a subtest of a test of what any ledger must do.
func (t *T) Run(name string, test func(t *T)) bool {
	return t.T.Run(name, func(inner *testing.T) { test(&T{inner, t.file, t.served}) })
}

// NewLedger opens a new ledger for a test, in a file if the test is one of [Both] and says so, and else in memory. Its clock
// begins at [ledgertest.Begin], and goes as fast as the machine's.
func NewLedger(t testing.TB) Book {
	t.Helper()
	return Open(t, ledger.Options{})
}

// Open is [NewLedger] with options.
func Open(t testing.TB, o ledger.Options) Book {
	t.Helper()
	return NewHouse(t).Open(t, o)
}

// House is where a ledger is kept between two times that it is open.
type House struct {
	memory *ledgertest.Memory
	path   string
	built  time.Time
}

// NewHouse returns a house with a new ledger, in a file if the test is one of [Both] and says so, and else in memory.
func NewHouse(t testing.TB) *House {
	t.Helper()
	origin := ledgertest.Origin{Currency: "EUR"}
	if both, ok := t.(*T); ok && both.file {
		path := filepath.Join(pace.Scratch(t), "ledger.db")
		Must(t, ledgertest.NewFile(path, origin))
		return &House{path: path, built: time.Now()}
	}
	memory, err := ledgertest.NewMemory(origin)
	Must(t, err)
	return &House{memory: memory, built: time.Now()}
}

// Open opens the ledger until the test ends, if it is not closed before.
func (h *House) Open(t testing.TB, o ledger.Options) Book {
	t.Helper()
	l, err := h.Try(o)
	Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	if both, ok := t.(*T); ok && both.served {
		return &served{Served(t, l), l}
	}
	return l
}

// Try opens the ledger, or says why it does not open.
func (h *House) Try(o ledger.Options) (*ledger.Ledger, error) {
	if o.Now == nil {
		o.Now = func() time.Time { return ledgertest.Begin().Add(time.Since(h.built)) }
	}
	if h.memory != nil {
		return h.memory.Open(o)
	}
	return ledger.Open(context.Background(), h.path, o)
}
