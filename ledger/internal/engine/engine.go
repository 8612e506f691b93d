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

// Engine runs a ledger: it decides requests one after the other, commits their events, and serves
// readers.
type Engine struct {
	Store          kv.Store // committed state: the memtable over base, or base itself
	base           kv.Store
	Log            callback.Log     // of failures and commits
	Clock          func() time.Time // of the host
	leap           ClockLeap
	ReadOnly       bool        // no request is accepted
	Standby        bool        // follows what another host appends to the journal; ReadOnly is also set
	WithoutJournal bool        // reads the file without its journal if that is missing; ReadOnly is also set
	MissingJournal string      // name of the missing journal without which the file is read, or ""
	Queue          Queue       // of proposals that wait for a commit
	Known          state.Cache // caches decoded records
	views          views
	// Claim prevents that a copy of the ledger is open for writing at the same time. It is nil if
	// the engine is not open for writing, or has no file.
	Claim    *Claim
	Room     int64            // approximate limit in bytes of committed data that is in memory only; 0 for the default
	Salts    func([]byte)     // fills memory for some salts; nil for random bytes
	Observer observe.Observer // receives reports of commits; may be nil

	// Only the one goroutine that commits or folds uses the fields below, unless their types say
	// otherwise.
	Chances   state.Samplers
	frontier  *merkle.Frontier // frontier of the Merkle tree after the last commit; nil if not known
	journal   journaling
	following following
	table     *memtable.Table // over base; nil if there is no journal
	lines     []logLine       // log lines of the batch that is being committed, if requests are logged
}

// Begin prepares an engine over a store. If j is not nil, the journal makes commits durable;
// otherwise the commits of the store must be durable by themselves. A nil clock is time.Now. Begin
// reads nothing but the format version. readOnly sets ReadOnly.
func (l *Engine) Begin(
	base kv.Store, j Journals, log zerolog.Logger, clock func() time.Time, readOnly bool, leap ClockLeap,
) error {
	if clock == nil {
		clock = time.Now
	}
	l.base = base
	l.Log.Use(log)
	l.Store, l.Clock, l.leap, l.ReadOnly = base, clock, leap, readOnly
	l.journal.save = sync.OnceFunc(l.saveAll)
	if l.journal.from = j; j != nil {
		if err := l.overTable(base); err != nil {
			return err
		}
	}
	l.Chances = state.NewSamplers()
	// Until SetDurable is called, all stored events count as durable: no commit is in progress.
	l.Queue.Durable = math.MaxUint64
	return errors.Join(leap.validate(), l.Store.View(state.CheckVersion))
}

// Size returns the size of the file in bytes.
func (l *Engine) Size() (int64, error) { return l.base.Size() }

// Sizes returns the size of the file in bytes, and how many of these bytes are unused. free is 0 if
// the store cannot report it.
func (l *Engine) Sizes() (size, free int64, err error) {
	if size, err = l.base.Size(); err != nil {
		return 0, 0, err
	}
	if s, can := l.base.(kv.Spacious); can {
		free = s.Free()
	}
	return size, free, nil
}

// Backlog returns how many durable events are not in the file yet, approximately how many bytes
// they take in memory, and the capacity (room) in bytes. All are 0 if there is no journal. events
// is also 0 if the file is damaged.
func (l *Engine) Backlog() (events uint64, memory, room int64) {
	if l.table == nil {
		return 0, 0, 0
	}
	mark, memory, room := l.table.Backlog() // mark is the record of the counters that is in the file
	// An error means that the file is damaged, which its readers report.
	if at, err := markedPosition(mark); err == nil {
		durable := l.Queue.DurableEvents()
		events = durable - min(at.Events, durable)
	}
	return events, memory, room
}

// Observe passes the observer to call, if there is one. A panic of the observer is logged. The
// caller must hold no lock and no transaction, because the observer may be slow or use the ledger.
func (l *Engine) Observe(call func(observe.Observer)) {
	if l.Observer != nil {
		l.Log.Guard("Observer", func() { call(l.Observer) })
	}
}

// SetDurable sets the last durable event to the end of the log that was found when the ledger was
// opened.
func (l *Engine) SetDurable(at state.Position) { l.Queue.Durable = at.Events }

// Load describes the current work of an engine.
type Load struct {
	Waiting    int  // requests in the queue
	Committing bool // a commit is in progress, or about to begin
	Watched    bool // a caller waits for new events, or for the engine to close
}

// Load returns the current work of the engine.
func (l *Engine) Load() Load {
	c := &l.Queue // its fields are read together under its lock
	c.mu.Lock()
	defer c.mu.Unlock()
	return Load{Waiting: len(c.queue), Committing: c.leading, Watched: c.changed != nil}
}

// DefaultClockLeap is the default of [ClockLeap].Allowed: how long a ledger may be idle before a
// person must confirm the clock.
const DefaultClockLeap = 366 * 24 * time.Hour

// ClockLeap limits how far the clock may be ahead of the last event of the log.
type ClockLeap struct {
	Allowed   time.Duration // 0 for DefaultClockLeap
	Confirmed time.Time     // a person has confirmed that the clock is right up to this time
}

// validate returns an error if the leap is negative.
func (c ClockLeap) validate() error {
	if c.Allowed < 0 {
		return errs.Invalid("Options.ClockLeap is %v, must not be negative", c.Allowed)
	}
	return nil
}

// check returns a [*api.ClockError] if the clock of a state is more than c.Allowed after the last
// event, and after the time that a person has confirmed. The last event is the one at the beginning
// of the transaction, so the events of a batch do not hide a leap from each other.
func (c ClockLeap) check(s *state.State) error {
	if c.Allowed == 0 {
		c.Allowed = DefaultClockLeap
	}
	last := s.Durable.Last
	if s.Clock.Sub(last) <= c.Allowed || !s.Clock.After(c.Confirmed) {
		return nil
	}
	return &api.ClockError{Clock: s.Clock, Last: last, Leap: c.Allowed}
}
