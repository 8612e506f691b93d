package bolt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluicedp/sluice/internal/ledgerfile"
)

// naming is the set of functions by which a new file gets its name.
type naming struct {
	link    func(from, to string) error
	rename  func(from, to string) error // fails if to exists
	syncDir func(dir string) error
}

// system returns the functions of the operating system.
func system() naming { return naming{os.Link, ledgerfile.RenameNew, ledgerfile.SyncDir} }

// create creates a new file at path. write writes and syncs it under a temporary name. create
// returns [fs.ErrExist] if anything exists at path, even if that was created concurrently. If the
// directory cannot be synced, it removes the file again.
func (n naming) create(path, kind string, write func(temp string) error) error {
	if _, err := os.Lstat(path); err == nil {
		return fs.ErrExist
	}
	return withTemp(path, kind, func(temp string) error {
		if err := write(temp); err != nil {
			return err
		}
		if err := n.setName(temp, path); err != nil {
			return err
		}
		if err := n.syncDir(filepath.Dir(path)); err != nil {
			return errors.Join(err, os.Remove(path))
		}
		return nil
	})
}

// withTemp creates an empty temporary file beside path, which only its owner may use. It calls use
// with the temporary name, and use gives the file its final name. If use does not, withTemp removes
// the file. Errors contain path instead of the temporary name.
func withTemp(path, kind string, use func(temp string) error) error {
	defer enterDir(filepath.Dir(path))() // enters now, and leaves when withTemp returns
	temp, err := createTemp(path, kind)
	if err != nil {
		return ledgerfile.Renamed(err, path)
	}
	defer os.Remove(temp) // fails if the file has its final name, which does no harm
	return ledgerfile.Renamed(use(temp), path, temp)
}

// setName renames a file to path without replacing another file, which another process may have
// created there. It tries a hard link and then a rename that fails if path exists. Not every file
// system has hard links, and not every system has such a rename.
func (n naming) setName(temp, path string) error {
	linkErr := n.link(temp, path)
	if errors.Is(linkErr, fs.ErrExist) {
		return linkErr
	}
	if linkErr == nil {
		if err := os.Remove(temp); err != nil {
			return errors.Join(err, os.Remove(path))
		}
		return nil
	}
	if err := n.rename(temp, path); err != nil {
		return fmt.Errorf("%w; the rename failed, too: %w", linkErr, err)
	}
	return nil
}

// createTemp creates an empty temporary file, and returns its name:
// .NAME.KIND-NUMBER.sluice-unfinished in the directory of path, whose last element is NAME.
func createTemp(path, kind string) (name string, err error) {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"."+kind+"-*"+unfinished)
	if err != nil {
		return "", err
	}
	return temp.Name(), temp.Close()
}
