package journalfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"

	"github.com/sluicedp/sluice/internal/ledgerfile"
	"github.com/sluicedp/sluice/ledger/journal"
)

// system is the part of a file system that journals use. Tests replace it.
type system interface {
	openFolder(path string) (folder, error)
	stat(path string) (stamp, error)                // without a time; follows symbolic links
	lstat(path string, how withTime) (stamp, error) // does not follow a symbolic link at the end of the path
	resolve(path string) (string, error)            // follows links at the end of a path; its last part may be missing
}

// folder is an open directory. Its names stay valid if the directory is moved.
type folder interface {
	mkdir(name string) error
	folder(name string) (folder, error)
	create(name string) (handle, error) // fails if the file exists
	open(name string, write bool) (handle, error)
	rename(from, to string) error
	remove(name string) error // a file, or an empty directory
	list() ([]string, error)
	sync() error
	lock(exclusive bool) error // journal.ErrInUse; on failure, an earlier lock may be lost
	close() error              // unlocks
	stat() (stamp, error)      // without a time
}

// handle is an open file.
type handle interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	size() (int64, error)
	stat(withTime) (stamp, error)
	sync() error     // flushes the content and all metadata
	datasync() error // flushes the content of a file that has not grown
}

// directory implements folder on the operating system.
type directory struct {
	root *os.Root
	self *os.File
}

// operatingSystem implements system on the operating system.
type operatingSystem struct{}

func (operatingSystem) stat(path string) (stamp, error) { return stampPath(path) }

func (operatingSystem) lstat(path string, how withTime) (stamp, error) { return lstampPath(path, how) }

func (operatingSystem) resolve(path string) (string, error) { return ledgerfile.Resolve(path) }

func (operatingSystem) openFolder(path string) (folder, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return newDirectory(root)
}

// newDirectory returns a directory for root. If that fails, it closes root.
func newDirectory(root *os.Root) (folder, error) {
	self, err := root.Open(".")
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &directory{root, self}, nil
}

func (d *directory) mkdir(name string) error { return d.root.Mkdir(name, 0o700) }

func (d *directory) folder(name string) (folder, error) {
	root, err := d.root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return newDirectory(root)
}

func (d *directory) create(name string) (handle, error) {
	f, err := d.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// open opens a file, for reading or also for writing. It returns [journal.ErrForked] if the file is
// no regular file, such as a symbolic link.
func (d *directory) open(name string, write bool) (handle, error) {
	info, err := d.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is not a regular file", journal.ErrForked, name)
	}
	how := os.O_RDONLY
	if write {
		how = os.O_RDWR
	}
	f, err := d.root.OpenFile(name, how, 0)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (d *directory) rename(from, to string) error { return d.root.Rename(from, to) }
func (d *directory) remove(name string) error     { return d.root.Remove(name) }

func (d *directory) list() (names []string, err error) {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// sync makes the names in the directory durable. On Windows it does nothing.
func (d *directory) sync() error {
	if runtime.GOOS == "windows" {
		return nil // it cannot flush a directory
	}
	return d.self.Sync()
}

func (d *directory) stat() (stamp, error) { return stampFile(d.self, false) }

// lock locks the directory without waiting, as described at folder.
func (d *directory) lock(exclusive bool) error {
	return ledgerfile.Lock(d.self, exclusive, 0, journal.ErrInUse)
}
func (d *directory) close() error { return errors.Join(d.self.Close(), d.root.Close()) }

// osFile implements handle on the operating system.
type osFile struct{ *os.File }

func (f osFile) size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f osFile) stat(how withTime) (stamp, error) { return stampFile(f.File, how) }

func (f osFile) sync() error     { return f.Sync() }
func (f osFile) datasync() error { return fdatasync(f.File) }
