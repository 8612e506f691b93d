package file

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"github.com/sluicedp/sluice/ledger/journal"
)

// fullTable is a folder in which no file can be made while the table of file descriptors is full.
type fullTable struct {
	anyFolder
	full bool
}

// anyFolder lets a type embed a folder, which has a method of that name.
type anyFolder = folder

func (f *fullTable) create(name string) (handle, error) {
	if f.full {
		return nil, &fs.PathError{Op: "openat", Path: name, Err: syscall.EMFILE}
	}
	return f.anyFolder.create(name)
}

// A full table of file descriptors postpones a new segment, and what it is made for. Nothing is lost, and the journal does not stop.
func TestJournal_TooManyOpenFiles_GoesOn(t *testing.T) {
	j, l, term := begun(t, scratch(t))
	table := &fullTable{anyFolder: j.dir, full: true}
	j.dir = table
	segments := len(j.segments)
	add := func(cut bool) {
		g := l.Group(term, []byte("secret"))
		g.Cut = cut
		must(t, j.Append(noLimit, g))
	}
	add(false)
	through := j.end
	add(true) // a new segment is wanted
	if len(j.segments) != segments {
		t.Errorf("%d segments, want %d", len(j.segments), segments)
	}
	if err := j.Trim(t.Context(), through); !errors.Is(err, syscall.EMFILE) || !errors.Is(err, journal.ErrRejected) {
		t.Errorf("Trim: %v", err)
	}
	add(false)
	table.full = false
	must(t, j.Trim(t.Context(), through))
	add(true)
}
