package ledger

import (
	"errors"
	"io/fs"

	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/journal/file"
)

// besideFile keeps the journal of a ledger beside its file, in a directory with the same name and .journal behind it.
type besideFile string

func (f besideFile) dir() string { return string(f) + ".journal" }

// Find opens the journal that is there. It returns nil if there is none.
func (f besideFile) Find(ledger [16]byte) (journal.Journal, error) {
	j, err := file.Open(f.dir(), ledger)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return j, nil
}

// Make makes an empty journal.
func (f besideFile) Make(ledger [16]byte, at journal.Position) (journal.Journal, error) {
	j, err := file.Create(f.dir(), ledger, at)
	if err != nil {
		return nil, err
	}
	return j, nil
}

// Sweep destroys what a crash has left of making or removing a journal.
func (f besideFile) Sweep() error { return file.Sweep(f.dir()) }

// Remove destroys a journal.
func (f besideFile) Remove(j journal.Journal) error { return j.(*file.Journal).Remove() }
