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

// disturbed is the operating system, with faults.
type disturbed struct {
	operatingSystem
	faults  map[string]error // of the folder, not of those in it, by call
	flushed func()           // after each flush of a file
}

func (d *disturbed) openFolder(path string) (folder, error) {
	f, err := d.operatingSystem.openFolder(path)
	return disturbedFolder{f, d}, err
}

// fullTable are the faults while the table of file descriptors is full.
var fullTable = map[string]error{"create": syscall.EMFILE, "open": syscall.ENFILE}

type disturbedFolder struct {
	anyFolder
	in *disturbed
}

// anyFolder lets a type embed a folder, which has a method of that name.
type anyFolder = folder

// fault returns the error of a call, or nil.
func (f disturbedFolder) fault(call, name string) error {
	if err := f.in.faults[call]; err != nil {
		return &fs.PathError{Op: call, Path: name, Err: err}
	}
	return nil
}

func (f disturbedFolder) folder(name string) (folder, error) {
	inner, err := f.anyFolder.folder(name)
	return disturbedFolder{inner, &disturbed{flushed: f.in.flushed}}, err
}

func (f disturbedFolder) create(name string) (handle, error) {
	if err := f.fault("create", name); err != nil {
		return nil, err
	}
	h, err := f.anyFolder.create(name)
	return disturbedFile{h, f.in}, err
}

func (f disturbedFolder) open(name string, write bool) (handle, error) {
	if err := f.fault("open", name); err != nil {
		return nil, err
	}
	return f.anyFolder.open(name, write)
}

func (f disturbedFolder) rename(from, to string) error {
	if err := f.fault("rename", from); err != nil {
		return err
	}
	return f.anyFolder.rename(from, to)
}

type disturbedFile struct {
	handle
	in *disturbed
}

func (f disturbedFile) datasync() error {
	err := f.handle.datasync()
	if f.in.flushed != nil {
		f.in.flushed()
	}
	return err
}

// A full table of file descriptors postpones a new segment, and what it is made for. Nothing is
// lost, and the journal does not stop.
func TestJournal_TooManyOpenFiles_GoesOn(t *testing.T) {
	j, l, term := begun(t, scratch(t))
	d := &disturbed{faults: fullTable}
	j.dir = disturbedFolder{j.dir, d}
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
	d.faults = nil
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
	d := &disturbed{}
	j.dir = disturbedFolder{j.dir, d}
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
		d.faults = fullTable
		err := j.Trim(t.Context(), through)
		check.Need(t, errors.Is(err, errs.ErrTooManyFiles) && errors.Is(err, journal.ErrRejected) &&
			!errors.Is(err, journal.ErrStopped), "Trim: %v", err)
		if text := err.Error(); !strings.Contains(text, j.path) || strings.Contains(text, asGone) || !strings.Contains(text, asSegment) {
			t.Errorf("%v; want the journal and the segment, not the temporary name", err)
		}
		check.That(t, len(gone(t, j.path)) != 0, "nothing is left to destroy")
		d.faults = nil
		add()
	}
	check.Must(t, j.Trim(t.Context(), through))
	left := gone(t, j.path)
	check.That(t, len(left) == 0, "left: %v", left)
	add()

	// A claim destroys what a Trim has left, and Trim does not look for it after that.
	through = j.segments[len(j.segments)-1].begin
	d.faults = fullTable
	check.WantErr(t, j.Trim(t.Context(), through), errs.ErrTooManyFiles, "Trim")
	d.faults = nil
	_, end, err := j.Claim(t.Context())
	check.Must(t, err)
	left = gone(t, j.path)
	check.That(t, len(left) == 0, "left by Claim: %v", left)
	check.Must(t, j.Trim(t.Context(), end))
}

func TestJournal_FileUnderATemporaryNameFails_TheErrorNamesTheSegment(t *testing.T) {
	for _, call := range []string{"create", "rename"} {
		j, l, term := begun(t, scratch(t))
		check.Must(t, j.Append(noLimit, l.Group(term, []byte("a"))))
		j.dir = disturbedFolder{j.dir, &disturbed{faults: map[string]error{call: syscall.ENOSPC}}}
		g := l.Group(term, []byte("b"))
		g.Cut = true
		err := j.Append(noLimit, g)
		want := call + " " + j.pathOf(j.segments[len(j.segments)-1].number+1) + ": no space"
		check.That(t, err != nil && strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), asNew),
			"%v; want %q", err, want)
	}
}

func TestCreate_RenameFails_TheErrorNamesTheJournal(t *testing.T) {
	dir := scratch(t)
	broken := &disturbed{faults: map[string]error{"rename": syscall.ENOSPC}}
	_, err := create(broken, usual, dir, [16]byte{1}, journal.Position{})
	check.That(t, err != nil && strings.Contains(err.Error(), "rename "+dir+": no space") &&
		!strings.Contains(err.Error(), asNew), "%v; want the path %s", err, dir)
}
