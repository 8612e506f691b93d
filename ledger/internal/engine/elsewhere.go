package engine

import (
	"context"
	"fmt"
	"os"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/journal"
)

// Elsewhere implements [Journals] for a journal that the host provides, instead of one in a
// directory beside the ledger's file.
type Elsewhere struct {
	// Open opens the journal, or creates it.
	Open   func(context.Context, journal.Wanted) (journal.Journal, error)
	Beside string                 // path that a journal beside the file would have
	File   func() (string, error) // returns the identity of the ledger's file
}

// Find implements [Journals]. It returns an error if there is also a journal beside the file,
// because that one may hold events that are stored nowhere else.
func (e Elsewhere) Find(ctx context.Context, w journal.Wanted) (journal.Journal, error) {
	if _, err := os.Stat(e.Beside); err == nil {
		return nil, fmt.Errorf("%w: there is %s, too: open the ledger once without another journal", errs.ErrJournal,
			e.Beside)
	}
	return e.open(ctx, w)
}

// Make implements [Journals]. It opens the journal, which was created when the ledger was opened.
func (e Elsewhere) Make(w journal.Wanted) (journal.Journal, error) {
	return e.open(context.Background(), w)
}

// open calls Open, and checks what it returns.
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

// Place implements [Journals]. It returns the identity of the ledger's file only, because the
// journal is not in a local file.
func (e Elsewhere) Place(bool) (string, error) { return e.File() }

// Lasting implements [Journals].
func (Elsewhere) Lasting() bool { return true }
