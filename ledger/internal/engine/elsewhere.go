package engine

import (
	"context"
	"fmt"
	"os"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/journal"
)

// Elsewhere is where a host keeps the journal of the ledger in a file, if that is not beside the
// file.
type Elsewhere struct {
	// Open opens the journal, or makes it.
	Open   func(context.Context, journal.Wanted) (journal.Journal, error)
	Beside string                 // where a journal beside the file would be
	File   func() (string, error) // returns which file it is
}

// Find implements [Journals]. A journal beside the file may hold what is nowhere else.
func (e Elsewhere) Find(ctx context.Context, w journal.Wanted) (journal.Journal, error) {
	if _, err := os.Stat(e.Beside); err == nil {
		return nil, fmt.Errorf("%w: there is %s, too: open the ledger once without another journal", errs.ErrJournal,
			e.Beside)
	}
	return e.open(ctx, w)
}

// Make implements [Journals]. The journal was made when the ledger was opened.
func (e Elsewhere) Make(w journal.Wanted) (journal.Journal, error) {
	return e.open(context.Background(), w)
}

func (e Elsewhere) open(ctx context.Context, w journal.Wanted) (journal.Journal, error) {
	j, err := e.Open(ctx, w)
	if err == nil && j == nil {
		err = errs.Invalid("Options.Journal returned neither a journal nor an error")
	}
	if err == nil {
		err = errs.NilPointers("", "what Options.Journal returned", j)
	}
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	return j, nil
}

// Remove implements [Journals].
func (e Elsewhere) Remove(j journal.Journal) error { return j.Close() }

// Sweep implements [Journals].
func (Elsewhere) Sweep() error { return nil }

// Place implements [Journals]: the journal is in no file.
func (e Elsewhere) Place(bool) (string, error) { return e.File() }

// Lasting implements [Journals].
func (Elsewhere) Lasting() bool { return true }
