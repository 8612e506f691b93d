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

// Journals finds and creates the journal of a ledger, in the place where this ledger has it: beside
// its file, or where the host keeps it ([HostJournals]).
type Journals interface {
	// Find opens the existing journal. If there is none, and the journal would be beside the file,
	// Find returns nil and no error: the first commit creates one by Make. A journal of the host is
	// created by Find, unless the file names one.
	Find(context.Context, journal.Wanted) (journal.Journal, error)
	// Make creates an empty journal.
	Make(journal.Wanted) (journal.Journal, error)
	// Remove destroys the contents of a journal, and closes it.
	Remove(j journal.Journal) error
	// Sweep destroys what a crash left while a journal was created or removed.
	Sweep() error
	// Lasting reports whether the journal outlives the process. Then the file names it permanently.
	Lasting() bool
	// Place returns the identity of the ledger's file, and, if journal is true and the journal is
	// in local files, also that of the journal. A copy has another identity. "" means that the
	// system cannot identify files.
	Place(journal bool) (string, error)
}

// journaling is the state of the journal of an open ledger. Before the first commit there is no
// journal.
type journaling struct {
	from   Journals // nil for a store whose own commits are durable, so that it needs no journal
	ledger [16]byte
	frozen atomic.Uint64 // number of events in the checkpoint that began last

	mu      sync.Mutex                       // held while open changes, and during a trim
	open    journal.Journal                  // claimed by this process; nil before the first commit
	named   bool                             // the file names it, durably; used only by the goroutine that commits
	term    uint64                           // of the claim
	trimmed atomic.Pointer[journal.Position] // the journal holds nothing up to this position
	wanted  atomic.Pointer[journal.Position] // position of the trim in the background; nil if none is in progress
	trims   sync.WaitGroup                   // waits for the goroutine that trims
	// shared is the handle of a journal that several hosts share; nil if only this host has it.
	shared atomic.Pointer[journal.Follower]

	replaced atomic.Bool // the journal is not the one that this process left
	// save writes to the file everything that was acknowledged. The first call does it; concurrent
	// calls wait for the first.
	save func()
}

// cut reports whether the checkpoint that began last contains exactly the events before a group;
// the argument is their number. Then the group begins a new segment of the journal, so that all
// earlier segments can be trimmed after the checkpoint.
func (j *journaling) cut(before uint64) bool { return before > 0 && j.frozen.Load() == before }

// startJournal creates a journal if there is none, and writes its name to the file before anything
// is appended. Without the name in the file, the file could be opened without the journal's events.
// It does nothing if the name is in the file already, or if the store needs no journal.
func (l *Engine) startJournal() error {
	if l.journal.named || l.journal.from == nil {
		return nil
	}
	if l.journal.open == nil {
		if err := l.makeJournal(); err != nil {
			return fmt.Errorf("create the journal: %w", err)
		}
	}
	// After a failure the journal stays, because the file may already name it, or may name it
	// later. The next commit tries again, unless the ledger has stopped.
	if err := l.nameJournal(l.journal.open.Name()); err != nil {
		return fmt.Errorf("write the name of the journal to the file: %w", l.removeIfReplaced(err))
	}
	l.journal.named = true
	return nil
}

// removeIfReplaced removes the new journal if the error why wraps [kv.ErrReplaced] and not
// [kv.ErrUncertain]. In this case the file was replaced, so nothing is written to it any more, and
// it cannot name the journal. removeIfReplaced returns why, with the error of the removal if there
// is one.
func (l *Engine) removeIfReplaced(why error) error {
	if !errors.Is(why, kv.ErrReplaced) || errors.Is(why, kv.ErrUncertain) {
		return why
	}
	j := l.journal.open
	l.appendTo(nil, 0, journal.Position{})
	return errors.Join(why, closeJournal(j, l.journal.from.Remove(j)))
}

// makeJournal creates a journal that begins at the end of the log, claims it, and makes it the one
// that commits are appended to. If the claim fails, it removes the journal again.
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
	// No context is needed: this journal is beside the file. A journal of the host is opened
	// earlier.
	term, end, err := j.Claim(context.Background())
	if err == nil && end != at {
		err = errs.Corrupt(nil, "a new journal begins at event %d, the ledger ends at event %d", end.Events, at.Events)
	}
	if err != nil {
		return errors.Join(err, closeJournal(j, l.journal.from.Remove(j)))
	}
	l.appendTo(j, term, at)
	return nil
}

// appendTo sets the journal that commits are appended to from now on, under the term of its claim.
// Nil means none. trimmed is the position up to which the journal is known to hold nothing; the
// zero position means that this is not known.
func (l *Engine) appendTo(j journal.Journal, term uint64, trimmed journal.Position) {
	l.journal.mu.Lock()
	defer l.journal.mu.Unlock()
	l.journal.open, l.journal.term = j, term
	l.journal.trimmed.Store(&trimmed)
	l.journal.sharedBy(j)
}

// trimmedTo returns the position up to which the journal is known to hold nothing any more, or the
// zero position.
func (j *journaling) trimmedTo() (at journal.Position) {
	if trimmed := j.trimmed.Load(); trimmed != nil {
		at = *trimmed
	}
	return at
}

// nameJournal writes to the file the name of the journal and the identities of file and journal,
// together with everything committed. They are durable when it returns nil. The name "" means that
// there is no journal.
func (l *Engine) nameJournal(name string) error {
	err := l.Store.Update(func(w kv.Writer) error {
		return errors.Join(l.putPlace(w, name != ""), putText(w, state.KeyJournal, name))
	})
	if err != nil {
		return err
	}
	return l.Checkpoint()
}

// putText stores a text under a key of the meta bucket. It deletes the key if the text is "".
func putText(w kv.Writer, key, text string) error {
	if text == "" {
		return w.Delete(state.BucketMeta, []byte(key))
	}
	return w.Put(state.BucketMeta, []byte(key), wire.Seal(state.BucketMeta, []byte(key), []byte(text)))
}

// storedText returns the text under a key of the meta bucket, or "" if the key is not there.
func (l *Engine) storedText(key string) (text string, err error) {
	err = l.Store.View(func(r kv.Reader) error {
		payload, err := (&state.State{Reader: r}).Payload(state.BucketMeta, []byte(key))
		text = string(payload)
		return err
	})
	return text, err
}

// RecordMove records that the ledger is now in another file: it stores the identity of that file.
// If the process dies before the next checkpoint, the file still has the old identity. Then it
// counts as a copy when it is opened, and is audited.
func (l *Engine) RecordMove() error {
	if l.journal.from == nil {
		return nil
	}
	return l.Store.Update(func(w kv.Writer) error {
		named, err := w.Get(state.BucketMeta, []byte(state.KeyJournal))
		if err != nil {
			return err
		}
		return l.putPlace(w, named != nil)
	})
}

// putPlace stores the identity of the file, and also that of the journal if the argument journal is
// true. [Engine.isCopy] compares them later. The error wraps [kv.ErrReplaced] if the file or the
// journal is not at its path any more.
func (l *Engine) putPlace(w kv.Writer, journal bool) error {
	place, err := l.journal.from.Place(journal)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", kv.ErrReplaced, err)
	}
	return errors.Join(err, putText(w, state.KeyPlace, place))
}

// isCopy reports whether the file or its journal is a copy: not the very file or directory that the
// ledger was written to last. It compares their present identities with the stored ones
// ([Engine.putPlace]), and returns false if the system cannot identify files.
//
// named means that the file names a journal, so that both are compared. alone means that the file
// is read without the journal that it names, so that only the file is compared.
func (l *Engine) isCopy(named, alone bool) (bool, error) {
	now, err := l.journal.from.Place(named)
	if err != nil || now == "" {
		return false, err
	}
	place, err := l.storedText(state.KeyPlace)
	// If the file names a journal, the stored text is the identity of the file, a blank, and that
	// of the journal.
	return place != now && !(alone && strings.HasPrefix(place, now+" ")), err
}

// position returns the end of the log in the store, including what is in memory only.
func (l *Engine) position() (at journal.Position, err error) {
	err = l.Store.View(func(r kv.Reader) error {
		s, err := state.Snapshot(r)
		at = s.Counters.Position
		return err
	})
	return at, err
}

// SetLedger sets the id of the ledger, with which its journal is found or created.
func (l *Engine) SetLedger(ledger [16]byte) { l.journal.ledger = ledger }

// endJournal brings the file up to date when the ledger is closed, and closes the journal. A
// journal beside the file is removed. If the ledger has stopped after a failure, endJournal only
// closes the journal, so that the next Open can fold it.
func (l *Engine) endJournal() error {
	if l.Standby {
		return l.endStandby()
	}
	j := l.journal.open
	if j == nil {
		return nil
	}
	err := l.Queue.Stopped()
	switch {
	case err != nil: // only the next Open can find out what is durable
		l.saveIfReplaced() // the next Open could not read a journal that was replaced
		return closeJournal(j, nil)
	case l.journal.from.Lasting():
		err = l.Checkpoint()
		// A trim in the background ([Engine.trimLater]) may not have begun yet, and cannot after
		// the journal is closed.
		l.logTrim(l.trim(l.following.base()))
		return closeJournal(j, err)
	}
	return l.dropJournal(j)
}

// endStandby ends following, and brings the file of a standby up to date when it is closed. It does
// not write the file if the standby has stopped after a failure.
func (l *Engine) endStandby() error {
	err := l.endFollowing()
	if l.Queue.Stopped() != nil {
		return err
	}
	return errors.Join(err, l.Checkpoint())
}

// dropJournal removes the journal, after the file has been written with all its events and without
// its name. If the file cannot be written, the journal is only closed, because its events may be
// nowhere else.
func (l *Engine) dropJournal(j journal.Journal) error {
	l.appendTo(nil, 0, journal.Position{}) // the checkpoint need not trim a journal that is removed
	if err := l.nameJournal(""); err != nil {
		return closeJournal(j, err)
	}
	return closeJournal(j, l.journal.from.Remove(j))
}

// saveIfReplaced makes sure that nothing that was acknowledged depends on a journal that was
// replaced. If the journal was replaced, it writes everything to the file, without the name of the
// journal. The queue must be stopped. It does nothing if the journal is Lasting, because the file
// names such a journal permanently.
func (l *Engine) saveIfReplaced() {
	if l.journal.replaced.Load() && !l.journal.from.Lasting() {
		l.journal.save()
	}
}

// saveAll does what [journaling.save] says: it writes all that is committed to the file, without
// the name of the journal, and logs the result.
func (l *Engine) saveAll() {
	if err := l.nameJournal(""); err != nil {
		l.Log.Say(zerolog.ErrorLevel, err,
			"the journal was replaced, and the last commits cannot be written to the file")
		return
	}
	l.Log.Say(zerolog.WarnLevel, nil,
		"the journal was replaced: everything acknowledged is now in the file, which no longer needs that journal")
}

// recordReplaced sets l.journal.replaced if err wraps [errs.ErrReplaced], which means that the
// journal, or a part of it, was replaced, removed or overwritten.
func (l *Engine) recordReplaced(err error) {
	if errors.Is(err, errs.ErrReplaced) {
		l.journal.replaced.Store(true)
	}
}

// keepJournal makes a claimed journal that outlives the process the one that commits are appended
// to. It writes the folded events and the name of the journal to the file first. On an error it
// closes the journal.
func (l *Engine) keepJournal(j journal.Journal, term uint64) error {
	l.appendTo(j, term, journal.Position{}) // how far an earlier process has trimmed it is not known
	if err := l.nameJournal(j.Name()); err != nil {
		return closeJournal(j, err)
	}
	l.journal.named = true
	return nil
}

// Close brings the file up to date, closes the journal and the file, and releases the claim. All of
// this is done even if a step fails; the error joins those of the steps. The queue must be closed.
func (l *Engine) Close() error {
	defer l.Log.Flush()
	err := errors.Join(l.endJournal(), l.Store.Close())
	l.journal.trims.Wait() // no new trim can begin, because the journal is closed and there are no more checkpoints
	return errors.Join(err, l.Claim.Release())
}

// Abort closes the journal and releases the claim after the ledger could not be opened. It does not
// close the file. The contents of the journal do not change.
func (l *Engine) Abort() error {
	var err error
	if j := l.journal.open; j != nil {
		err = closeJournal(j, nil)
	}
	l.journal.trims.Wait()
	return errors.Join(err, l.endFollowing(), l.Claim.Release())
}
