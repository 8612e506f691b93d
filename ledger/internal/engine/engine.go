package engine

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
	Store    kv.Store
	Log      zerolog.Logger
	Clock    func() time.Time
	leap     Leap
	ReadOnly bool // read-only
	Queue    Queue
	Last     atomic.Pointer[mark] // of the last commit, or where the log ended when the file was opened
	Known    state.Cache
	views    views
	Claim    *Claim       // on the id, so that no copy is open for writing too; nil if this one is not, or has no file
	Salts    func([]byte) // fills memory for some salts; nil for random bytes

	// The rest is used by the one goroutine that commits.
	Chances state.Chances
	Desk    state.Desk
	recent  *state.Recency
	edge    *merkle.Edge // of the log as committed last; nil if not known
}

// Begin makes an engine over a store. Nothing is read but the version of the format.
func (l *Engine) Begin(s kv.Store, log zerolog.Logger, clock func() time.Time, only bool, p Leap) error {
	if clock == nil {
		clock = time.Now
	}
	l.Store, l.Log, l.Clock, l.leap, l.ReadOnly = s, log, clock, p, only
	l.Chances, l.recent = state.NewChances(), state.NewRecency()
	l.Queue.Durable = math.MaxUint64 // nothing is being committed yet
	return errors.Join(p.check(), s.View(state.CheckVersion))
}

// Found tells where the log ended when the ledger was opened.
func (l *Engine) Found(at state.Position) {
	l.Queue.Durable = at.Events
	l.Last.Store(&mark{Position: at})
}

// Load is what an engine has to do.
type Load struct {
	Waiting    int  // requests in the queue
	Committing bool // a commit is under way, or about to begin
	Watched    bool // somebody waits for events to come, or for the engine to close
}

// Load returns what the engine has to do now.
func (l *Engine) Load() Load {
	c := &l.Queue
	c.mu.Lock()
	defer c.mu.Unlock()
	return Load{Waiting: len(c.queue), Committing: c.leading, Watched: c.changed != nil}
}
