package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/ledger/journal"
)

// Journals is where the journal of a ledger is found, and made.
type Journals interface {
	// Find opens the journal that is there. It returns nil if there is none.
	Find(ledger [16]byte) (journal.Journal, error)
	// Make makes an empty journal that begins at a position.
	Make(ledger [16]byte, at journal.Position) (journal.Journal, error)
	// Remove destroys what a journal holds, and closes it.
	Remove(j journal.Journal) error
	// Sweep destroys what a crash has left of making or removing a journal.
	Sweep() error
}

// journaling is the journal of an open ledger. There is none before the first commit.
type journaling struct {
	from   Journals // nil for a store that needs no journal, since its own commits are durable
	ledger [16]byte
	frozen atomic.Uint64 // how many events the checkpoint has that began last

	mu      sync.Mutex // held while open changes, and while it is trimmed
	open    journal.Journal
	named   bool // by the file, durably; used by whoever commits
	term    uint64
	trimmed uint64 // how many events the journal does not hold any more
}

// cut tells whether a checkpoint of what stands before a group has begun.
func (j *journaling) cut(before uint64) bool { return before > 0 && j.frozen.Load() == before }

// startJournal sees to it that there is a journal, which the file names before anything is appended to it: without it the
// file would be opened short.
func (l *Engine) startJournal() error {
	if l.journal.named || l.journal.from == nil {
		return nil
	}
	if l.journal.open == nil {
		if err := l.makeJournal(); err != nil {
			return fmt.Errorf("make a journal: %w", err)
		}
	}
	// If this fails, the journal stays: the file may name it. The next commit tries again, unless the ledger has stopped.
	if err := l.nameJournal(l.journal.open.Name()); err != nil {
		return fmt.Errorf("name the journal: %w", err)
	}
	l.journal.named = true
	return nil
}

// makeJournal makes a journal that begins where the ledger ends, and claims it.
func (l *Engine) makeJournal() error {
	at, err := l.position()
	if err != nil {
		return err
	}
	j, err := l.journal.from.Make(l.journal.ledger, at)
	if err != nil {
		return err
	}
	term, end, err := j.Claim(context.Background())
	if err == nil && end != at {
		err = errs.Corrupt(nil, "a new journal begins at event %d, the ledger ends at event %d", end.Events, at.Events)
	}
	if err != nil {
		return errors.Join(err, l.journal.from.Remove(j))
	}
	l.journal.mu.Lock()
	defer l.journal.mu.Unlock()
	l.journal.open, l.journal.term, l.journal.trimmed = j, term, at.Events
	return nil
}

// nameJournal has the file name a journal; "" is none.
func (l *Engine) nameJournal(name string) error {
	err := l.Store.Update(func(w kv.Writer) error {
		key := []byte(state.KeyJournal)
		if name == "" {
			return w.Delete(state.BucketMeta, key)
		}
		return w.Put(state.BucketMeta, key, wire.Seal(state.BucketMeta, key, []byte(name)))
	})
	if err != nil {
		return err
	}
	return l.Checkpoint()
}

// position returns where the log ends.
func (l *Engine) position() (at journal.Position, err error) {
	err = l.Store.View(func(r kv.Reader) error {
		s, err := state.Snapshot(r)
		at = s.Counters.Position
		return err
	})
	return at, err
}

// Of says which ledger it is.
func (l *Engine) Of(ledger [16]byte) { l.journal.ledger = ledger }

// end makes one file of a ledger that is being closed: all is in it, and the journal is gone.
func (l *Engine) end() error {
	j := l.journal.open
	if j == nil {
		return nil
	}
	err := l.Queue.Stopped()
	if err != nil { // only the next Open can tell what is durable
		return j.Close()
	}
	if err := l.nameJournal(""); err != nil {
		return errors.Join(err, j.Close())
	}
	return l.journal.from.Remove(j)
}

// Close makes one file of the ledger, and lets go of it. The queue must be closed.
func (l *Engine) Close() error { return errors.Join(l.end(), l.Store.Close(), l.Claim.Release()) }
