package engine

import (
	"errors"
	"math"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/callback"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/memtable"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/observe"
)

// Engine keeps a ledger: it has requests decided one after the other, commits what they come to,
// and lets others read.
type Engine struct {
	Store    kv.Store // what is committed: a table over the base, or the base
	base     kv.Store
	Log      callback.Log     // where failures and commits are logged
	Clock    func() time.Time // the host's
	leap     Leap
	ReadOnly bool        // nothing is decided
	Standby  bool        // what another host appends to the journal is folded; ReadOnly is set, too
	Alone    bool        // the file is read without its journal if that is missing; ReadOnly is set, too
	Missing  string      // the name of the journal without which the file is read, or ""
	Queue    Queue       // of those who wait for a commit
	Known    state.Cache // records that were decoded before
	views    views
	// on the id, so that no copy is open for writing too; nil if this one is not, or has no file
	Claim    *Claim
	Room     int64            // how many bytes of what is committed may be in memory only, about; 0 for what is usual
	Salts    func([]byte)     // fills memory for some salts; nil for random bytes
	Observer observe.Observer // is told what is committed; nil tells nobody

	// The rest is used by the one goroutine that commits.
	Chances   state.Chances
	edge      *merkle.Edge // of the log as committed last; nil if not known
	journal   journaling
	following following
	table     *memtable.Table // over the file; nil if there is no journal
	lines     []logLine       // of the requests of the batch that is being committed, if they are logged
}

// Begin makes an engine over a store, whose commits a journal makes durable; without one, its own
// must be. Nothing is read but the version of the format.
func (l *Engine) Begin(base kv.Store, j Journals, log zerolog.Logger, clock func() time.Time, only bool, p Leap) error {
	if clock == nil {
		clock = time.Now
	}
	l.base = base
	l.Log.Use(log)
	l.Store, l.Clock, l.leap, l.ReadOnly = base, clock, p, only
	l.journal.save = sync.OnceFunc(l.saveAll)
	if l.journal.from = j; j != nil {
		if err := l.overTable(base); err != nil {
			return err
		}
	}
	l.Chances = state.NewChances()
	l.Queue.Durable = math.MaxUint64 // nothing is being committed yet
	return errors.Join(p.check(), l.Store.View(state.CheckVersion))
}

// Size returns how many bytes the file has.
func (l *Engine) Size() (int64, error) { return l.base.Size() }

// Sizes returns how many bytes the file has, and how many of them hold nothing.
func (l *Engine) Sizes() (size, free int64, err error) {
	if size, err = l.base.Size(); err != nil {
		return 0, 0, err
	}
	if s, can := l.base.(kv.Spacious); can {
		free = s.Free()
	}
	return size, free, nil
}

// Backlog returns how many events the file does not have yet, about how many bytes they take in
// memory, and with how many commits wait.
func (l *Engine) Backlog() (events uint64, memory, room int64) {
	if l.table == nil {
		return 0, 0, 0
	}
	mark, memory, room := l.table.Backlog()
	if at, err := markedPosition(mark); err == nil { // else the file is damaged, and whoever reads it is told
		durable := l.Queue.DurableEvents()
		events = durable - min(at.Events, durable)
	}
	return events, memory, room
}

// Observe calls the observer, if there is one. A panic of it is logged. It is called where nothing
// is held.
func (l *Engine) Observe(call func(observe.Observer)) {
	if l.Observer != nil {
		l.Log.Guard("Observer", func() { call(l.Observer) })
	}
}

// Found tells where the log ended when the ledger was opened.
func (l *Engine) Found(at state.Position) { l.Queue.Durable = at.Events }

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

// UsualLeap is how far the clock may be ahead of the log unless the host says otherwise: as long as
// a ledger may lie idle without that anybody is asked.
const UsualLeap = 366 * 24 * time.Hour

// Leap is how far the clock may be ahead of the log.
type Leap struct {
	Allowed   time.Duration // 0 for the usual one
	Confirmed time.Time     // up to which a person has confirmed the clock
}

func (p Leap) check() error {
	if p.Allowed < 0 {
		return errs.Invalid("a clock that may be %v ahead of the log", p.Allowed)
	}
	return nil
}

// of returns a [*ClockError] if the clock of a state is too far ahead of its log, as it was when
// the transaction began.
func (p Leap) of(s *state.State) error {
	if p.Allowed == 0 {
		p.Allowed = UsualLeap
	}
	last := s.Durable.Last
	if s.Clock.Sub(last) <= p.Allowed || !s.Clock.After(p.Confirmed) {
		return nil
	}
	return &api.ClockError{Clock: s.Clock, Last: last, Leap: p.Allowed}
}
