package bolt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluicedp/sluice/internal/ledgerfile"
)

// naming is how a new file gets its name.
type naming struct {
	link    func(from, to string) error
	rename  func(from, to string) error // spares a file that is there
	syncDir func(dir string) error
}

func system() naming { return naming{os.Link, ledgerfile.RenameNew, ledgerfile.SyncDir} }

// place makes a new file at path. write writes and syncs it under another name.
func (n naming) place(path, kind string, write func(temp string) error) error {
	if _, err := os.Lstat(path); err == nil {
		return fs.ErrExist
	}
	return unnamed(path, kind, func(temp string) error {
		if err := write(temp); err != nil {
			return err
		}
		if err := n.give(temp, path); err != nil {
			return err
		}
		if err := n.syncDir(filepath.Dir(path)); err != nil {
			return errors.Join(err, os.Remove(path))
		}
		return nil
	})
}

// unnamed makes an empty file beside path, which only its owner may use, for somebody who gives it
// its name. Nothing is left of it else. Errors name path.
func unnamed(path, kind string, use func(temp string) error) error {
	defer enter(filepath.Dir(path))()
	temp, err := createTemp(path, kind)
	if err != nil {
		return ledgerfile.Renamed(err, path)
	}
	defer os.Remove(temp)
	return ledgerfile.Renamed(use(temp), path, temp)
}

// give moves a file to a path where somebody else may have made one meanwhile: that one stays. Not
// every file system has links, and not every system a rename that spares a file.
func (n naming) give(temp, path string) error {
	linked := n.link(temp, path)
	if errors.Is(linked, fs.ErrExist) {
		return linked
	}
	if linked == nil {
		if err := os.Remove(temp); err != nil {
			return errors.Join(err, os.Remove(path))
		}
		return nil
	}
	if err := n.rename(temp, path); err != nil {
		return fmt.Errorf("%w; nor a rename: %w", linked, err)
	}
	return nil
}

// createTemp makes an empty file.
func createTemp(path, kind string) (name string, err error) {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"."+kind+"-*"+unfinished)
	if err != nil {
		return "", err
	}
	return temp.Name(), temp.Close()
}
