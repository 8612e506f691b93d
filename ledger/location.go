package ledger

import (
	"context"
	"errors"
	"io/fs"

	"github.com/sluicedp/sluice/internal/ledgerfile"
	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/journalfile"
	"github.com/sluicedp/sluice/ledger/journal"
)

// besideFile is the resolved path of a ledger's file. Its journal is beside it, in a directory that
// is named like the file with .journal appended.
type besideFile string

// dir returns the path of the journal's directory.
func (f besideFile) dir() string { return ledgerfile.Companion(string(f), ledgerfile.Journal) }

// Find opens the journal. It returns nil if there is none.
func (f besideFile) Find(_ context.Context, w journal.Wanted) (journal.Journal, error) {
	j, err := journalfile.Open(f.dir(), w.Ledger)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return j, nil
}

// Make creates an empty journal.
func (f besideFile) Make(w journal.Wanted) (journal.Journal, error) {
	j, err := journalfile.Create(f.dir(), w.Ledger, w.At)
	if err != nil {
		return nil, err
	}
	return j, nil
}

// Sweep destroys what a crash left while a journal was created or removed.
func (f besideFile) Sweep() error { return journalfile.Sweep(f.dir()) }

// Place implements [engine.Journals]. It returns the identity of the file and, if journal is true,
// after a space that of the journal's directory.
func (f besideFile) Place(journal bool) (string, error) {
	file, err := ledgerfile.Identity(string(f))
	if err != nil || file == "" || !journal {
		return file, err
	}
	dir, err := ledgerfile.Identity(f.dir())
	return file + " " + dir, err
}

// newFile returns the resolved path for the file of a new ledger. The path must not be own, the
// path of the caller's ledger; own is "" if there is none. A path that another file of a ledger
// uses is [api.ErrInvalid].
func newFile(path, own string) (string, error) {
	resolved, err := ledgerfile.NewLedger(path, own)
	if errors.As(err, new(*ledgerfile.OccupiedError)) {
		err = errs.Invalid("%w", err)
	}
	return resolved, err
}

// Lasting implements [engine.Journals]. It returns false, because Close removes the journal.
func (besideFile) Lasting() bool { return false }

// Remove destroys a journal that Find or Make returned.
func (f besideFile) Remove(j journal.Journal) error { return j.(*journalfile.Journal).Remove() }

// journals returns where the journal of the ledger in the file at path is: where the host keeps it,
// or beside the file.
func journals(path string, o Options) engine.Journals {
	beside := besideFile(path)
	if o.Journal == nil {
		return beside
	}
	file := func() (string, error) { return beside.Place(false) }
	return engine.HostJournals{Open: o.Journal, Beside: beside.dir(), File: file}
}
