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

// faultyDisk is the operating system with simulated faults.
type faultyDisk struct {
	operatingSystem
	faults  map[string]error // errors of the folder by call; folders in it have none
	flushed func()           // after each flush of a file
}

func (d *faultyDisk) openFolder(path string) (folder, error) {
	f, err := d.operatingSystem.openFolder(path)
	return faultyFolder{f, d}, err
}

// fullTable are the faults while the table of file descriptors is full.
var fullTable = map[string]error{"create": syscall.EMFILE, "open": syscall.ENFILE}

type faultyFolder struct {
	anyFolder
	in *faultyDisk
}

// anyFolder lets a type embed a folder, which has a method of that name.
type anyFolder = folder

// fault returns the error of a call, or nil.
func (f faultyFolder) fault(call, name string) error {
	if err := f.in.faults[call]; err != nil {
		return &fs.PathError{Op: call, Path: name, Err: err}
	}
	return nil
}

func (f faultyFolder) folder(name string) (folder, error) {
	inner, err := f.anyFolder.folder(name)
	return faultyFolder{inner, &faultyDisk{flushed: f.in.flushed}}, err
}

func (f faultyFolder) create(name string) (handle, error) {
	if err := f.fault("create", name); err != nil {
		return nil, err
	}
	h, err := f.anyFolder.create(name)
	return faultyFile{h, f.in}, err
}

func (f faultyFolder) open(name string, write bool) (handle, error) {
	if err := f.fault("open", name); err != nil {
		return nil, err
	}
	return f.anyFolder.open(name, write)
}

func (f faultyFolder) rename(from, to string) error {
	if err := f.fault("rename", from); err != nil {
		return err
	}
	return f.anyFolder.rename(from, to)
}

type faultyFile struct {
	handle
	in *faultyDisk
}

func (f faultyFile) datasync() error {
	err := f.handle.datasync()
	if f.in.flushed != nil {
		f.in.flushed()
	}
	return err
}

// A full table of file descriptors postpones a new segment, and what it is made for. Nothing is
// lost, and the journal does not stop.
func TestJournal_TooManyOpenFiles_Continues(t *testing.T) {
	j, l, term := createdJournal(t, journalDir(t))
	d := &faultyDisk{faults: fullTable}
	j.dir = faultyFolder{j.dir, d}
	segments := len(j.segments)
	add := func(cut bool) {
		g := l.Group(term, []byte("secret"))
		g.Cut = cut
		check.Must(t, j.Append(noLimit, g))
	}
	add(false)
	through := j.end
	add(true) // needs a new segment
	check.That(t, len(j.segments) == segments, "%d segments, want %d", len(j.segments), segments)
	err := j.Trim(t.Context(), through)
	check.That(t, errors.Is(err, errs.ErrTooManyFiles) && errors.Is(err, journal.ErrRejected), "Trim: %v", err)
	add(false)
	d.faults = nil
	check.Must(t, j.Trim(t.Context(), through))
	add(true)
}

// gone lists the files of a directory that are no longer segments.
func gone(t *testing.T, dir string) []string {
	t.Helper()
	names := check.Value(filepath.Glob(filepath.Join(dir, "*"+goneExt)))(t)
	return names
}

// A file that cannot be opened cannot be overwritten. Trim returns an error, and the next Trim
// destroys the file.
func TestTrim_TooManyOpenFilesToDestroy_IsRejectedAndDoneLater(t *testing.T) {
	dir := journalDir(t)
	j, l, term := createdJournal(t, dir)
	d := &faultyDisk{}
	j.dir = faultyFolder{j.dir, d}
	add := func() {
		g := l.Group(term, []byte("secret"))
		g.Cut = true
		check.Must(t, j.Append(noLimit, g))
	}
	for range 3 {
		add()
	}
	through := j.segments[len(j.segments)-1].begin
	for range 2 { // the second call finds no segment to discard, but the files that the first has left
		d.faults = fullTable
		err := j.Trim(t.Context(), through)
		check.Need(t, errors.Is(err, errs.ErrTooManyFiles) && errors.Is(err, journal.ErrRejected) &&
			!errors.Is(err, journal.ErrStopped), "Trim: %v", err)
		if text := err.Error(); !strings.Contains(text, j.path) || strings.Contains(text, goneExt) || !strings.Contains(text, segmentExt) {
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

	// A claim destroys the files that a Trim has left, and the next Trim does not expect them.
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
		j, l, term := createdJournal(t, journalDir(t))
		check.Must(t, j.Append(noLimit, l.Group(term, []byte("a"))))
		j.dir = faultyFolder{j.dir, &faultyDisk{faults: map[string]error{call: syscall.ENOSPC}}}
		g := l.Group(term, []byte("b"))
		g.Cut = true
		err := j.Append(noLimit, g)
		want := call + " " + j.pathOf(j.segments[len(j.segments)-1].number+1) + ": no space"
		check.That(t, err != nil && strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), newExt),
			"%v; want %q", err, want)
	}
}

func TestCreate_RenameFails_TheErrorNamesTheJournal(t *testing.T) {
	dir := journalDir(t)
	broken := &faultyDisk{faults: map[string]error{"rename": syscall.ENOSPC}}
	_, err := create(broken, defaultSizes, dir, [16]byte{1}, journal.Position{})
	check.That(t, err != nil && strings.Contains(err.Error(), "rename "+dir+": no space") &&
		!strings.Contains(err.Error(), newExt), "%v; want the path %s", err, dir)
}
