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

// Recover completes the opening of a ledger. It folds the journal, if a process has left one or the
// host keeps it elsewhere. If the ledger is open for writing, everything is then in the file, and a
// journal beside the file is removed. If it is open for reading only, the folded events are in
// memory. A standby begins to follow the journal.
//
// After an error the journal is closed. If a function of the host panics, it is closed, too.
func (l *Engine) Recover(ctx context.Context, c Checks) error {
	audit := func() error { return c.Audit(ctx) }
	admit := func() error { return l.View(ctx, c.Admit) }
	if l.journal.from == nil {
		return admit()
	}
	j, named, err := l.findJournal(ctx) // named: the file names a journal
	if err != nil {
		return err
	}
	if j == nil && named { // l.WithoutJournal permits this
		return l.readAlone(audit, admit)
	}
	if j == nil {
		if !l.isReader() { // a reader sees the file as it is
			err = l.auditCopy(false, false, audit) // the file names no journal
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

// readAlone completes the opening of a file whose journal is missing, for reading only. It sets
// l.MissingJournal to the name of that journal. Like a file with its journal, the file is audited
// if it is a copy.
func (l *Engine) readAlone(audit, admit func() error) error {
	err := l.auditCopy(false, true, audit) // only the file can be compared
	if err == nil {
		err = admit()
	}
	if err != nil {
		return err
	}
	l.MissingJournal, err = l.storedText(state.KeyJournal)
	return err
}

// continueWith folds the journal, and then depends on how the ledger was opened. A reader closes
// the journal. A standby begins to follow it. A leader appends to it from now on if it outlives the
// process; otherwise it removes the journal, and the first commit creates another.
//
// named is whether the file names the journal. After an error the journal is closed.
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

// findJournal returns the existing journal, or nil if there is none, and whether the file names a
// journal. Journals.Find may create a journal of the host. If the ledger is open for writing,
// findJournal first destroys what a crash left while a journal was created or removed.
//
// It returns an [errs.ErrJournal] if the file names another journal than the one found, or if the
// journal that the file names is missing. With l.WithoutJournal, a missing journal is no error:
// findJournal returns nil and true.
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

// checkName returns nil if the name of a journal can be stored in the file. Otherwise it closes the
// journal and returns the error. Without the name in it, the file could be opened with any journal,
// or with none.
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

// tooOld returns an [errs.ErrJournal] with instructions if err is a [journal.ErrLost] of a journal
// that the host keeps: the file ends before its beginning, or after its end. Otherwise it returns
// nil.
func (l *Engine) tooOld(err error) error {
	if !l.journal.from.Lasting() || !errors.Is(err, journal.ErrLost) {
		return nil
	}
	return fmt.Errorf("%w: %w; if the file is older than the beginning of the journal, replace it by a copy that "+
		"\"backup\" makes on the leading host; if the journal has lost its end, use the database that still has it",
		errs.ErrJournal, err)
}

// asMismatch converts an [errs.ErrCorrupt] of a journal to an [errs.ErrJournal] that says how to
// repair it. It returns all other errors, and nil, unchanged.
func asMismatch(err error) error {
	if errors.Is(err, errs.ErrCorrupt) && !errors.Is(err, errs.ErrJournal) {
		return mismatch("%w", err)
	}
	return err
}

// isBeside reports whether a name is that of a journal beside the file, as package journalfile
// names it.
func isBeside(name string) bool { return strings.HasPrefix(name, "file:") }

// missing returns the [errs.ErrJournal] for a file whose journal, of this name, is missing. It says
// what to do.
func missing(name string) error {
	if isBeside(name) {
		return mismatch("the journal %s is missing; it is beside the file while the ledger is open, and must be moved "+
			"and copied with it", name)
	}
	return fmt.Errorf("%w: the journal of this ledger is %s; open the ledger with that journal", errs.ErrJournal, name)
}

// auditCopy audits the file if it is a copy, because a copy may have been made while the file was
// written to. named and alone are those of [Engine.isCopy].
func (l *Engine) auditCopy(named, alone bool, audit func() error) error {
	copied, err := l.isCopy(named, alone)
	if err == nil && copied {
		err = audit()
	}
	return err
}

// readJournal checks and folds a journal, and claims it if the ledger is open for writing. It
// returns the term of the claim, or 0 without a claim.
//
// A journal that the file does not name was left by a crash during Close, or the file is an older
// copy that was restored. Both are rare, so the file is audited in both cases.
func (l *Engine) readJournal(
	ctx context.Context, j journal.Journal, named bool, audit func() error,
) (term uint64, err error) {
	if named {
		err = l.auditCopy(true, false, audit) // the file and its journal are compared
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

// takeOver claims a journal and folds it, and returns the term of the claim. After the claim
// everything in the journal is durable, and no other process can append. If the journal does not
// contain the position at which the file ends, takeOver returns an error before it claims anything,
// so that the present owner can continue.
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

// checkFolded returns an error unless a journal that the file does not name ends where the file
// ends. Such a file was closed after it had all events of its journal. If the journal continues
// after its end, the file is an older copy. If the journal does not contain that end, it belongs to
// another copy, or the file has events that the journal lacks.
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

// hasMore returns the end of the log in the file, and whether the journal has events after it. It
// returns an error if the journal does not contain that position.
func (l *Engine) hasMore(ctx context.Context, j journal.Journal) (at journal.Position, more bool, err error) {
	if at, err = l.position(); err != nil {
		return at, false, err
	}
	for _, err := range j.Read(ctx, at) { // the first group decides
		return at, err == nil, err
	}
	return at, false, nil
}

// closeJournal closes a journal. It returns err if that is not nil, and otherwise the error of
// closing. It catches a panic of the journal, because the file and the claim must still be
// released.
func closeJournal(j journal.Journal, err error) error {
	if closed := callback.Call("Journal.Close", j.Close); err == nil {
		err = closed
	}
	return err
}
