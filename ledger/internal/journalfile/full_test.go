package journalfile

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/journal"
)

// fullTable is a folder in which no file can be made or opened while the table of file descriptors is full.
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

func (f *fullTable) open(name string, write bool) (handle, error) {
	if f.full {
		return nil, &fs.PathError{Op: "openat", Path: name, Err: syscall.ENFILE}
	}
	return f.anyFolder.open(name, write)
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
		check.Must(t, j.Append(noLimit, g))
	}
	add(false)
	through := j.end
	add(true) // a new segment is wanted
	check.That(t, len(j.segments) == segments, "%d segments, want %d", len(j.segments), segments)
	err := j.Trim(t.Context(), through)
	check.That(t, errors.Is(err, errs.ErrTooManyFiles) && errors.Is(err, journal.ErrRejected), "Trim: %v", err)
	add(false)
	table.full = false
	check.Must(t, j.Trim(t.Context(), through))
	add(true)
}

// gone lists the files of a directory that are no segments any more.
func gone(t *testing.T, dir string) []string {
	t.Helper()
	names := check.Value(filepath.Glob(filepath.Join(dir, "*"+asGone)))(t)
	return names
}

// What cannot be opened cannot be overwritten: Trim says so, and the next one does it.
func TestTrim_TooManyOpenFilesToDestroy_IsRejectedAndDoneLater(t *testing.T) {
	dir := scratch(t)
	j, l, term := begun(t, dir)
	table := &fullTable{anyFolder: j.dir}
	j.dir = table
	add := func() {
		g := l.Group(term, []byte("secret"))
		g.Cut = true
		check.Must(t, j.Append(noLimit, g))
	}
	for range 3 {
		add()
	}
	through := j.segments[len(j.segments)-1].begin
	for range 2 { // the second finds no segment to discard, and what the first has left
		table.full = true
		err := j.Trim(t.Context(), through)
		check.Need(t, errors.Is(err, errs.ErrTooManyFiles) && errors.Is(err, journal.ErrRejected) &&
			!errors.Is(err, journal.ErrStopped), "Trim: %v", err)
		if text := err.Error(); !strings.Contains(text, j.path) || strings.Contains(text, asGone) || !strings.Contains(text, asSegment) {
			t.Errorf("%v; want the journal and the segment, not the temporary name", err)
		}
		check.That(t, len(gone(t, j.path)) != 0, "nothing is left to destroy")
		table.full = false
		add()
	}
	check.Must(t, j.Trim(t.Context(), through))
	left := gone(t, j.path)
	check.That(t, len(left) == 0, "left: %v", left)
	add()

	// A claim destroys what a Trim has left, and Trim does not look for it after that.
	through = j.segments[len(j.segments)-1].begin
	table.full = true
	check.WantErr(t, j.Trim(t.Context(), through), errs.ErrTooManyFiles, "Trim")
	table.full = false
	_, end, err := j.Claim(t.Context())
	check.Must(t, err)
	left = gone(t, j.path)
	check.That(t, len(left) == 0, "left by Claim: %v", left)
	check.Must(t, j.Trim(t.Context(), end))
}

// brokenFolder is a folder in which one kind of call fails.
type brokenFolder struct {
	anyFolder
	call string
}

func (f brokenFolder) fails(call, name string) error {
	if f.call != call {
		return nil
	}
	return &fs.PathError{Op: call, Path: name, Err: syscall.ENOSPC}
}

func (f brokenFolder) create(name string) (handle, error) {
	if err := f.fails("create", name); err != nil {
		return nil, err
	}
	return f.anyFolder.create(name)
}

func (f brokenFolder) rename(from, to string) error {
	return errors.Join(f.fails("rename", from), f.anyFolder.rename(from, to))
}

func TestJournal_FileUnderATemporaryNameFails_TheErrorNamesTheSegment(t *testing.T) {
	for _, call := range []string{"create", "rename"} {
		j, l, term := begun(t, scratch(t))
		check.Must(t, j.Append(noLimit, l.Group(term, []byte("a"))))
		j.dir = brokenFolder{j.dir, call}
		g := l.Group(term, []byte("b"))
		g.Cut = true
		err := j.Append(noLimit, g)
		want := call + " " + j.pathOf(j.segments[len(j.segments)-1].number+1) + ": no space"
		check.That(t, err != nil && strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), asNew),
			"%v; want %q", err, want)
	}
}

// brokenSystem is a system in whose folders one kind of call fails.
type brokenSystem struct {
	system
	call string
}

func (s brokenSystem) openFolder(path string) (folder, error) {
	f, err := s.system.openFolder(path)
	return brokenFolder{f, s.call}, err
}

func TestCreate_RenameFails_TheErrorNamesTheJournal(t *testing.T) {
	dir := scratch(t)
	_, err := create(brokenSystem{operatingSystem{}, "rename"}, usual, dir, [16]byte{1}, journal.Position{})
	check.That(t, err != nil && strings.Contains(err.Error(), "rename "+dir+": no space") &&
		!strings.Contains(err.Error(), asNew), "%v; want the path %s", err, dir)
}
