package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/ledger/journal"
)

// Journals is where the journal of a ledger is found, and made.
type Journals interface {
	// Find opens the journal that is there. It returns nil if there is none, where none is made
	// before it is needed; else it makes one, unless the file names one.
	Find(context.Context, journal.Wanted) (journal.Journal, error)
	// Make makes an empty journal.
	Make(journal.Wanted) (journal.Journal, error)
	// Remove destroys what a journal holds, and closes it.
	Remove(j journal.Journal) error
	// Sweep destroys what a crash has left of making or removing a journal.
	Sweep() error
	// Lasting tells whether the journal outlives the process: then the file names it for good.
	Lasting() bool
	// Place says in which files the ledger is, so that a copy is told from them; the journal's are
	// among them if it has one there. "" says that it cannot be told.
	Place(journal bool) (string, error)
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
	trimmed atomic.Pointer[journal.Position] // up to where nothing is held any more
	wanted  atomic.Pointer[journal.Position] // up to where it is trimmed in the background; nil if it is not
	trims   sync.WaitGroup                   // the goroutine that does so
	// the handle of a journal that several hosts have; nil if this host alone has it
	shared atomic.Pointer[journal.Follower]

	replaced atomic.Bool // the journal is not what this process left
	// writes to the file what was acknowledged then; the first call does it, and others wait for
	// that
	save func()
}

// cut tells whether a checkpoint of what stands before a group has begun.
func (j *journaling) cut(before uint64) bool { return before > 0 && j.frozen.Load() == before }

// startJournal sees to it that there is a journal, which the file names before anything is appended
// to it: without it the file would be opened short.
func (l *Engine) startJournal() error {
	if l.journal.named || l.journal.from == nil {
		return nil
	}
	if l.journal.open == nil {
		if err := l.makeJournal(); err != nil {
			return fmt.Errorf("make a journal: %w", err)
		}
	}
	// If this fails, the journal stays: the file may name it, or come to. The next commit tries
	// again, unless the ledger has stopped.
	if err := l.nameJournal(l.journal.open.Name()); err != nil {
		return fmt.Errorf("name the journal: %w", l.giveUp(err))
	}
	l.journal.named = true
	return nil
}

// giveUp removes a journal that could not be named in a file which somebody has replaced: nothing
// is written to that any more. It returns why.
func (l *Engine) giveUp(why error) error {
	if !errors.Is(why, kv.ErrReplaced) || errors.Is(why, kv.ErrUncertain) {
		return why
	}
	j := l.journal.open
	l.appendTo(nil, 0, journal.Position{})
	return errors.Join(why, closing(j, l.journal.from.Remove(j)))
}

// makeJournal makes a journal that begins where the ledger ends, and claims it.
func (l *Engine) makeJournal() error {
	at, err := l.position()
	if err != nil {
		return err
	}
	j, err := l.journal.from.Make(journal.Wanted{Ledger: l.journal.ledger, At: at})
	if err == nil {
		err = checkName(j)
	}
	if err != nil {
		return err
	}
	term, end, err := j.Claim(context.Background()) // it is one beside the file: the host opens its own before
	if err == nil && end != at {
		err = errs.Corrupt(nil, "a new journal begins at event %d, the ledger ends at event %d", end.Events, at.Events)
	}
	if err != nil {
		return errors.Join(err, closing(j, l.journal.from.Remove(j)))
	}
	l.appendTo(j, term, at)
	return nil
}

// appendTo has events appended to a journal from now on.
func (l *Engine) appendTo(j journal.Journal, term uint64, trimmed journal.Position) {
	l.journal.mu.Lock()
	defer l.journal.mu.Unlock()
	l.journal.open, l.journal.term = j, term
	l.journal.trimmed.Store(&trimmed)
	l.journal.sharedBy(j)
}

// gone returns up to where the journal holds nothing any more.
func (j *journaling) gone() (at journal.Position) {
	if trimmed := j.trimmed.Load(); trimmed != nil {
		at = *trimmed
	}
	return at
}

// nameJournal has the file name a journal, "" is none, and where both are.
func (l *Engine) nameJournal(name string) error {
	err := l.Store.Update(func(w kv.Writer) error {
		return errors.Join(l.notePlace(w, name != ""), note(w, state.KeyJournal, name))
	})
	if err != nil {
		return err
	}
	return l.Checkpoint()
}

// note puts a text under a key; "" is none.
func note(w kv.Writer, key, text string) error {
	if text == "" {
		return w.Delete(state.BucketMeta, []byte(key))
	}
	return w.Put(state.BucketMeta, []byte(key), wire.Seal(state.BucketMeta, []byte(key), []byte(text)))
}

// noted returns the text under a key, or "".
func (l *Engine) noted(key string) (text string, err error) {
	err = l.Store.View(func(r kv.Reader) error {
		payload, err := (&state.State{Reader: r}).Payload(state.BucketMeta, []byte(key))
		text = string(payload)
		return err
	})
	return text, err
}

// Moved notes that the ledger is in another file now. Should the process die before the next
// checkpoint, the file counts as a copy.
func (l *Engine) Moved() error {
	if l.journal.from == nil {
		return nil
	}
	return l.Store.Update(func(w kv.Writer) error {
		named, err := w.Get(state.BucketMeta, []byte(state.KeyJournal))
		if err != nil {
			return err
		}
		return l.notePlace(w, named != nil)
	})
}

// notePlace notes where the file is, and its journal if it has one.
func (l *Engine) notePlace(w kv.Writer, journal bool) error {
	place, err := l.journal.from.Place(journal)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", kv.ErrReplaced, err)
	}
	return errors.Join(err, note(w, state.KeyPlace, place))
}

// copied tells whether the file, or the journal that it names, is not the one which was written to
// last. Where a file is read without its journal, only the file is compared.
func (l *Engine) copied(named, alone bool) (bool, error) {
	now, err := l.journal.from.Place(named)
	if err != nil || now == "" {
		return false, err
	}
	place, err := l.noted(state.KeyPlace)
	return place != now && !(alone && strings.HasPrefix(place, now+" ")), err
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

// end brings the file of a ledger that is being closed up to date. A journal beside it is gone
// then.
func (l *Engine) end() error {
	if l.Standby {
		return l.endStandby()
	}
	j := l.journal.open
	if j == nil {
		return nil
	}
	err := l.Queue.Stopped()
	switch {
	case err != nil: // only the next Open can tell what is durable
		l.saveIfReplaced()
		return closing(j, nil)
	case l.journal.from.Lasting():
		err = l.Checkpoint()
		l.logTrim(l.trim(l.following.base()))
		return closing(j, err)
	}
	return l.drop(j)
}

// endStandby brings the file of a standby that is being closed up to date.
func (l *Engine) endStandby() error {
	err := l.endFollowing()
	if l.Queue.Stopped() != nil {
		return err
	}
	return errors.Join(err, l.Checkpoint())
}

// drop has the file name no journal, and removes the one that it had.
func (l *Engine) drop(j journal.Journal) error {
	l.appendTo(nil, 0, journal.Position{}) // the checkpoint need not trim what is removed
	if err := l.nameJournal(""); err != nil {
		return closing(j, err)
	}
	return closing(j, l.journal.from.Remove(j))
}

// saveIfReplaced sees to it that nothing that was acknowledged depends on a journal which was
// replaced: the file gets all of it, and names no journal. The queue must be stopped. Nothing is
// done about a journal that outlives the process, which the file names for good.
func (l *Engine) saveIfReplaced() {
	if l.journal.replaced.Load() && !l.journal.from.Lasting() {
		l.journal.save()
	}
}

// saveAll is save, done once.
func (l *Engine) saveAll() {
	if err := l.nameJournal(""); err != nil {
		l.Log.Say(zerolog.ErrorLevel, err,
			"the journal was replaced, and what was committed last cannot be written to the file")
		return
	}
	l.Log.Say(zerolog.WarnLevel, nil,
		"the journal was replaced: all that was acknowledged is in the file, which does not need that journal any more")
}

// noteReplaced notes that an error of the journal says that it was replaced.
func (l *Engine) noteReplaced(err error) {
	if errors.Is(err, errs.ErrReplaced) {
		l.journal.replaced.Store(true)
	}
}

// keep goes on with a journal that outlives the process, after a checkpoint of what was folded.
func (l *Engine) keep(j journal.Journal, term uint64) error {
	l.appendTo(j, term, journal.Position{})
	if err := l.nameJournal(j.Name()); err != nil {
		return closing(j, err)
	}
	l.journal.named = true
	return nil
}

// Close brings the file up to date, and lets go of it. The queue must be closed.
func (l *Engine) Close() error {
	defer l.Log.Flush()
	err := errors.Join(l.end(), l.Store.Close())
	l.journal.trims.Wait() // the journal is closed, and no checkpoint begins another one
	return errors.Join(err, l.Claim.Release())
}

// LetGo lets go of the journal and of the claim of a ledger that could not be opened. Both stay as
// they are.
func (l *Engine) LetGo() error {
	var err error
	if j := l.journal.open; j != nil {
		err = closing(j, nil)
	}
	l.journal.trims.Wait()
	return errors.Join(err, l.endFollowing(), l.Claim.Release())
}
