package ledger

import (
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Engine keeps a ledger: it has requests decided one after the other, commits what they come to, and lets others read.
type Engine struct {
	store   kv.Store
	log     zerolog.Logger
	clock   func() time.Time
	leap    leap
	only    bool // read-only
	commits committer
	last    atomic.Pointer[mark] // of the last commit, or where the log ended when the file was opened
	known   state.Cache
	views   views
	claim   *claim       // on the id, so that no copy is open for writing too; nil if this one is not, or has no file
	salts   func([]byte) // fills memory for some salts; nil for random bytes

	// The rest is used by the one goroutine that commits.
	chances state.Chances
	desk    state.Desk
	recent  *state.Recency
	edge    *merkle.Edge // of the log as committed last; nil if not known
}

// begin makes an engine over a store. Nothing is read but the version of the format.
func (l *Engine) begin(s kv.Store, log zerolog.Logger, clock func() time.Time, only bool, p leap) error {
	if clock == nil {
		clock = time.Now
	}
	l.store, l.log, l.clock, l.leap, l.only = s, log, clock, p, only
	l.chances, l.recent = state.NewChances(), state.NewRecency()
	l.commits.durable = math.MaxUint64 // nothing is being committed yet
	return errors.Join(p.check(), s.View(state.CheckVersion))
}

// found tells where the log ended when the ledger was opened.
func (l *Engine) found(at state.Position) {
	l.commits.durable = at.Events
	l.last.Store(&mark{Position: at})
}
