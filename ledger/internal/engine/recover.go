package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sluicedp/sluice/ledger/internal/callback"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/journal"
)

// Checks are the checks of a ledger that is being opened.
type Checks struct {
	// Audit checks whether the file is consistent by itself. It is called if the file may be a
	// copy, because a copy may have pages of two different times.
	Audit func(context.Context) error
	// Admit checks the state after the journal is folded, before the opening is completed.
	Admit func(*state.State) error
}

// Recover folds the journal, if a process has left one or the host keeps it elsewhere. If the
// ledger is open for writing, everything is then in the file, and a journal beside the file is
// removed. If it is open for reading only, the folded events are in memory.
func (l *Engine) Recover(ctx context.Context, c Checks) error {
	audit := func() error { return c.Audit(ctx) }
	admit := func() error { return l.View(ctx, c.Admit) }
	if l.journal.from == nil {
		return admit()
	}
	j, named, err := l.findJournal(ctx)
	if err != nil {
		return err
	}
	if j == nil && named {
		return l.readAlone(audit, admit)
	}
	if j == nil {
		if !l.isReader() { // a reader sees the file as it is
			err = l.auditCopy(false, false, audit)
		}
		if err == nil {
			err = admit()
		}
		if err == nil && !l.isReader() { // an earlier checkpoint may still be in the staging area
			err = l.Checkpoint()
		}
		return err
	}
	run := func() error { return l.continueWith(ctx, j, named, audit, admit) }
	return callback.OrClean(run, func() { _ = closeJournal(j, nil) })
}

// readAlone reads a file whose journal is missing. Like a file with its journal, the file is
// audited if it is a copy.
func (l *Engine) readAlone(audit, admit func() error) error {
	err := l.auditCopy(false, true, audit)
	if err == nil {
		err = admit()
	}
	if err != nil {
		return err
	}
	l.MissingJournal, err = l.storedText(state.KeyJournal)
	return err
}

// continueWith folds the journal, and continues with it depending on how the ledger was opened: as
// reader, standby or leader. named is whether the file names the journal.
func (l *Engine) continueWith(ctx context.Context, j journal.Journal, named bool, audit, admit func() error) error {
	term, err := l.readJournal(ctx, j, named, audit)
	if err == nil {
		err = admit()
	}
	switch {
	case err != nil || l.isReader():
		return closeJournal(j, err)
	case l.Standby:
		f, err := follower(j)
		if err == nil {
			err = l.beginFollowing(f)
		}
		if err != nil {
			return closeJournal(j, err)
		}
		return nil
	case l.journal.from.Lasting():
		return l.keepJournal(j, term)
	}
	return l.dropJournal(j)
}

// findJournal returns the existing journal, or nil, and whether the file names a journal. It
// returns an error if the journal does not belong to the file, or if the journal that the file
// names is missing. With l.WithoutJournal, a missing journal is no error: findJournal returns nil
// and true.
func (l *Engine) findJournal(ctx context.Context) (j journal.Journal, named bool, err error) {
	name, err := l.storedText(state.KeyJournal)
	if err != nil {
		return nil, false, err
	}
	at, err := l.position()
	if err != nil {
		return nil, false, err
	}
	if !l.isReader() {
		if err := l.journal.from.Sweep(); err != nil {
			return nil, false, asMismatch(err)
		}
	}
	w := journal.Wanted{Ledger: l.journal.ledger, Name: name, At: at, Standby: l.Standby}
	j, err = l.journal.from.Find(ctx, w)
	if err == nil && j != nil {
		err = checkName(j)
	}
	switch {
	case err != nil:
		return nil, false, asMismatch(err)
	case j == nil && name != "" && !l.WithoutJournal:
		return nil, false, missing(name)
	case j != nil && name != "" && name != j.Name():
		return nil, false, closeJournal(j, mismatch("the journal is %s, but the file names %s", j.Name(), name))
	}
	return j, name != "", nil
}

// checkName closes a journal whose name cannot be stored in the file, and returns the error.
// Without the name, the file could be opened with any journal, or with none.
func checkName(j journal.Journal) error {
	err := callback.Call("Journal.Name", func() error { return event.CheckName("name of the journal", j.Name()) })
	if err != nil {
		err = closeJournal(j, err)
	}
	return err
}

// mismatch returns an [errs.ErrJournal] that says how to repair the mismatch of file and journal.
func mismatch(format string, args ...any) error {
	return fmt.Errorf("%w: "+format+"; put back the file and the journal that were used together, or restore a backup",
		append([]any{errs.ErrJournal}, args...)...)
}

// tooOld returns an [errs.ErrJournal] if err says that the file ends before the beginning of a
// shared journal. Otherwise it returns nil.
func (l *Engine) tooOld(err error) error {
	if !l.journal.from.Lasting() || !errors.Is(err, journal.ErrLost) {
		return nil
	}
	return fmt.Errorf("%w: %w; if the file is older than the beginning of the journal, replace it by a copy that "+
		"\"backup\" makes on the leading host; if the journal has lost its end, use the database that still has it",
		errs.ErrJournal, err)
}

// asMismatch converts an error about damage in the journal to an [errs.ErrJournal].
func asMismatch(err error) error {
	if errors.Is(err, errs.ErrCorrupt) && !errors.Is(err, errs.ErrJournal) {
		return mismatch("%w", err)
	}
	return err
}

// isBeside reports whether a name is that of a journal beside the file.
func isBeside(name string) bool { return strings.HasPrefix(name, "file:") }

// missing returns the error for a file whose journal is missing.
func missing(name string) error {
	if isBeside(name) {
		return mismatch("the journal %s is missing; it is beside the file while the ledger is open, and must be moved "+
			"and copied with it", name)
	}
	return fmt.Errorf("%w: the journal of this ledger is %s; open the ledger with that journal", errs.ErrJournal, name)
}

// auditCopy audits the file if it is a copy, because a copy may have been made while the file was
// written to.
func (l *Engine) auditCopy(named, alone bool, audit func() error) error {
	copied, err := l.isCopy(named, alone)
	if err == nil && copied {
		err = audit()
	}
	return err
}

// readJournal checks and folds a journal, and claims it if the ledger is open for writing.
//
// A journal that the file does not name was left by a crash during Close, or the file is an older
// copy that was restored. Both are rare, so the file is audited in both cases.
func (l *Engine) readJournal(
	ctx context.Context, j journal.Journal, named bool, audit func() error,
) (term uint64, err error) {
	if named {
		err = l.auditCopy(true, false, audit)
		// A standby needs no checkFolded: it continues from any copy whose end is in the journal.
	} else if err = audit(); err == nil && !l.Standby {
		err = l.checkFolded(ctx, j)
	}
	switch {
	case err != nil:
		return 0, err
	case l.ReadOnly:
		// Settle first, so that readers see nothing that a power cut could still undo.
		if err = j.Settle(ctx); err == nil {
			err = l.foldJournal(ctx, j)
		}
	default:
		term, err = l.takeOver(ctx, j)
	}
	if old := l.tooOld(err); old != nil {
		return 0, old
	}
	return term, asMismatch(err)
}

// takeOver claims a journal and folds it. After the claim everything in the journal is durable, and
// no other process can append. takeOver does not claim the journal from its owner if the journal
// does not lead on from the end of the file.
func (l *Engine) takeOver(ctx context.Context, j journal.Journal) (term uint64, err error) {
	if _, _, err := l.hasMore(ctx, j); err != nil {
		return 0, err
	}
	term, end, err := j.Claim(ctx)
	if err == nil {
		err = l.foldJournal(ctx, j)
	}
	if err != nil {
		return 0, err
	}
	if at, err := l.position(); err != nil || at != end {
		return 0, errs.Corrupt(err, "the journal ends at event %d, its groups lead to event %d", end.Events, at.Events)
	}
	return term, nil
}

// checkFolded returns an error if the journal continues after the end of a file that was closed
// without a journal: then the file is an older copy.
func (l *Engine) checkFolded(ctx context.Context, j journal.Journal) error {
	at, more, err := l.hasMore(ctx, j)
	if errors.Is(err, journal.ErrLost) {
		return fmt.Errorf("%w: the file was closed without a journal at event %d, but the journal beside it does not "+
			"contain that event; move the journal away if this file is the one that was closed last: %w",
			errs.ErrJournal, at.Events, err)
	}
	if err == nil && more {
		err = fmt.Errorf("%w: the journal continues after event %d, where this file was closed without it: the file "+
			"is an older copy; remove the journal only if its events may be lost, and drawn a second time",
			errs.ErrJournal, at.Events)
	}
	return asMismatch(err)
}

// hasMore returns the end of the file, and whether the journal has events after it. It returns an
// error if the journal does not contain that position.
func (l *Engine) hasMore(ctx context.Context, j journal.Journal) (at journal.Position, more bool, err error) {
	if at, err = l.position(); err != nil {
		return at, false, err
	}
	for _, err := range j.Read(ctx, at) {
		return at, err == nil, err
	}
	return at, false, nil
}

// closeJournal closes a journal, and returns err, or if that is nil the error of closing. It
// catches a panic of the journal, because the file and the claim must still be released.
func closeJournal(j journal.Journal, err error) error {
	if closed := callback.Call("Journal.Close", j.Close); err == nil {
		err = closed
	}
	return err
}
