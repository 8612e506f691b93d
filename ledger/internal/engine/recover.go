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

// Checks are what a ledger is held against when it is opened.
type Checks struct {
	// Audit looks whether the file holds together by itself. It is called if the file may be a
	// copy, which may have pages of two instants.
	Audit func(context.Context) error
	// Admit looks at what is there with the journal, before anything of that is settled.
	Admit func(*state.State) error
}

// Recover brings the ledger to where its journal ends, if a process has left one behind, or it is
// kept elsewhere. If the ledger is open for writing, all of it is in the file then, and a journal
// beside the file is gone; else it is in memory.
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
		if !l.untouched() { // who only reads is shown what is there
			err = l.auditCopy(false, false, audit)
		}
		if err == nil {
			err = admit()
		}
		if err == nil && !l.untouched() { // a checkpoint may have been written aside, and not into its place
			err = l.Checkpoint()
		}
		return err
	}
	return callback.OrClean(func() error { return l.goOn(ctx, j, named, audit, admit) }, func() { _ = closing(j, nil) })
}

// readAlone reads a file whose journal is missing. Like any file with a journal it is audited if it
// is a copy.
func (l *Engine) readAlone(audit, admit func() error) error {
	err := l.auditCopy(false, true, audit)
	if err == nil {
		err = admit()
	}
	if err != nil {
		return err
	}
	l.Missing, err = l.noted(state.KeyJournal)
	return err
}

// goOn brings the ledger to where a journal ends, and goes on with it as the ledger was opened.
func (l *Engine) goOn(ctx context.Context, j journal.Journal, named bool, audit, admit func() error) error {
	term, err := l.readJournal(ctx, j, named, audit)
	if err == nil {
		err = admit()
	}
	switch {
	case err != nil || l.untouched():
		return closing(j, err)
	case l.Standby:
		f, err := follower(j)
		if err == nil {
			err = l.beginFollowing(f)
		}
		if err != nil {
			return closing(j, err)
		}
		return nil
	case l.journal.from.Lasting():
		return l.keep(j, term)
	}
	return l.drop(j)
}

// findJournal returns the journal that is there, and whether the file names one. A journal that
// does not belong to the file is refused, and so is a file whose journal is missing, unless it is
// read alone: then there is none, and the file names one.
func (l *Engine) findJournal(ctx context.Context) (j journal.Journal, named bool, err error) {
	name, err := l.noted(state.KeyJournal)
	if err != nil {
		return nil, false, err
	}
	at, err := l.position()
	if err != nil {
		return nil, false, err
	}
	if !l.untouched() {
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
	case j == nil && name != "" && !l.Alone:
		return nil, false, missing(name)
	case j != nil && name != "" && name != j.Name():
		return nil, false, closing(j, mismatch("the journal is %s, the file's is %s", j.Name(), name))
	}
	return j, name != "", nil
}

// checkName closes a journal whose name cannot be noted in the file: it would be opened with any
// journal, or with none.
func checkName(j journal.Journal) error {
	err := callback.Call("Journal.Name", func() error { return event.CheckName("name of the journal", j.Name()) })
	if err != nil {
		err = closing(j, err)
	}
	return err
}

// mismatch returns an [errs.ErrJournal], with what to do.
func mismatch(format string, args ...any) error {
	return fmt.Errorf("%w: "+format+"; put file and journal back as they were together, or restore a backup",
		append([]any{errs.ErrJournal}, args...)...)
}

// tooOld returns the [errs.ErrJournal] of a file that ends before the part of a shared journal that
// is left, or nil.
func (l *Engine) tooOld(err error) error {
	if !l.journal.from.Lasting() || !errors.Is(err, journal.ErrLost) {
		return nil
	}
	return fmt.Errorf("%w: %w; if this file is too old, because the journal begins after it, give this host a copy "+
		"that is made by \"backup\" on the host that "+
		"has the ledger; if the journal has lost its end, find the database that has it", errs.ErrJournal, err)
}

// asMismatch makes of damage that a journal shows an [errs.ErrJournal].
func asMismatch(err error) error {
	if errors.Is(err, errs.ErrCorrupt) && !errors.Is(err, errs.ErrJournal) {
		return mismatch("%w", err)
	}
	return err
}

// isBeside reports whether a name is that of a journal beside the file.
func isBeside(name string) bool { return strings.HasPrefix(name, "file:") }

func missing(name string) error {
	if isBeside(name) {
		return mismatch("the journal %s is missing, which lies beside the file as long as the ledger is open, and is "+
			"moved and copied with it", name)
	}
	return fmt.Errorf("%w: the file is one of a ledger whose journal is %s, and is opened with that one only",
		errs.ErrJournal, name)
}

// auditCopy has the file audited if it is a copy, which may have been made while the file was
// written to.
func (l *Engine) auditCopy(named, alone bool, audit func() error) error {
	copied, err := l.copied(named, alone)
	if err == nil && copied {
		err = audit()
	}
	return err
}

// readJournal folds a journal. One that the file does not name is left by a crash within Close, or
// by somebody who has put back a copy: that is seldom, so the file is audited whichever it was.
func (l *Engine) readJournal(
	ctx context.Context, j journal.Journal, named bool, audit func() error,
) (term uint64, err error) {
	if named {
		err = l.auditCopy(true, false, audit)
	} else if err = audit(); err == nil && !l.Standby { // which goes on from where any copy ends that the journal has
		err = l.checkFolded(ctx, j)
	}
	switch {
	case err != nil:
		return 0, err
	case l.ReadOnly:
		if err = j.Settle(ctx); err == nil { // no power cut undoes what is shown
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

// takeOver claims a journal, so that all there is is durable and nobody else goes on with it, and
// folds it. It takes nothing from whoever has it if the file cannot go on with it.
func (l *Engine) takeOver(ctx context.Context, j journal.Journal) (term uint64, err error) {
	if _, _, err := l.ahead(ctx, j); err != nil {
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
		return 0, errs.Corrupt(err, "the journal ends at event %d, and holds what leads to event %d", end.Events,
			at.Events)
	}
	return term, nil
}

// checkFolded refuses a journal that holds more than a file which was closed without it.
func (l *Engine) checkFolded(ctx context.Context, j journal.Journal) error {
	at, more, err := l.ahead(ctx, j)
	if errors.Is(err, journal.ErrLost) {
		return fmt.Errorf("%w: the file was closed without a journal, at event %d, and a journal is beside it that "+
			"does not lead there: "+
			"move that journal away if the file is the one that was closed last: %w", errs.ErrJournal, at.Events, err)
	}
	if err == nil && more {
		err = fmt.Errorf("%w: the journal goes on behind event %d, where this file was closed without it: the file "+
			"is an older copy; "+
			"remove the journal only if what it holds may be lost, and drawn a second time", errs.ErrJournal, at.Events)
	}
	return asMismatch(err)
}

// ahead returns where the file ends, and whether the journal goes on from there. It is an error if
// the journal does not lead there.
func (l *Engine) ahead(ctx context.Context, j journal.Journal) (at journal.Position, more bool, err error) {
	if at, err = l.position(); err != nil {
		return at, false, err
	}
	for _, err := range j.Read(ctx, at) {
		return at, err == nil, err
	}
	return at, false, nil
}

// closing closes a journal after err, which is returned if it is not nil. A panic of the journal
// must not keep the file and the claim.
func closing(j journal.Journal, err error) error {
	if closed := callback.Call("Journal.Close", j.Close); err == nil {
		err = closed
	}
	return err
}
