package engine

import (
	"context"
	"fmt"
	"os"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/journal"
)

// HostJournals implements [Journals] for a journal that the host provides, instead of one in a
// directory beside the ledger's file.
type HostJournals struct {
	// Open opens the journal, or creates it.
	Open   func(context.Context, journal.Wanted) (journal.Journal, error)
	Beside string                 // path that a journal beside the file would have
	File   func() (string, error) // returns the identity of the ledger's file
}

// Find implements [Journals]. It calls h.Open, which opens the host's journal, or creates it if
// there is none. It returns an [errs.ErrJournal] if there is also a journal beside the file,
// because that one may hold events that are stored nowhere else.
func (h HostJournals) Find(ctx context.Context, w journal.Wanted) (journal.Journal, error) {
	if _, err := os.Stat(h.Beside); err == nil {
		const text = "%w: a journal is also beside the file, %s; open the ledger once without the other journal"
		return nil, fmt.Errorf(text, errs.ErrJournal, h.Beside)
	}
	return h.open(ctx, w)
}

// Make implements [Journals]. It only opens the journal, because Find has created it when the
// ledger was opened.
func (h HostJournals) Make(w journal.Wanted) (journal.Journal, error) {
	return h.open(context.Background(), w)
}

// open calls h.Open, and returns an error if the host's function returned a nil journal, or a nil
// pointer in one.
func (h HostJournals) open(ctx context.Context, w journal.Wanted) (journal.Journal, error) {
	j, err := h.Open(ctx, w)
	if err == nil && j == nil {
		err = errs.Invalid("Options.Journal returned neither a journal nor an error")
	}
	if err == nil {
		err = errs.NilPointers("", "the result of Options.Journal", j)
	}
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	return j, nil
}

// Remove implements [Journals]. It only closes the journal, because its contents belong to the
// host.
func (h HostJournals) Remove(j journal.Journal) error { return j.Close() }

// Sweep implements [Journals]. It does nothing: a crash leaves nothing beside the file.
func (HostJournals) Sweep() error { return nil }

// Place implements [Journals]. It ignores the argument and returns the identity of the ledger's
// file only, because the journal is not in a local file.
func (h HostJournals) Place(bool) (string, error) { return h.File() }

// Lasting implements [Journals]. The host's journal outlives the process.
func (HostJournals) Lasting() bool { return true }
