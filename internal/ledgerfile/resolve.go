package ledgerfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// maxLinks is the maximum number of dangling links in a row that are followed, which is the same as
// on Linux.
const maxLinks = 40

// Resolve returns the absolute path, without symbolic links, of the file that path names. The file
// need not exist: a link to a missing file resolves to its target. The directory must exist.
// Resolve returns an error for a link that the system does not follow for this process, such as
// another user's link in /tmp.
func Resolve(path string) (string, error) {
	for range maxLinks {
		if path == "" {
			return "", &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		}
		info, err := os.Stat(path)
		if err == nil {
			return resolveExisting(path, info)
		}
		// The file is missing, so path is a link to a missing file, or a new name in a directory.
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		dir, name := filepath.Split(path) // not cleaned, because dir/.. is not . if dir is a link
		if dir == "" {
			dir = "."
		}
		if name == "" { // path ends with a separator: it names a directory
			return "", err
		}
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			return "", err
		}
		if dir, err = absolute(dir); err != nil {
			return "", err
		}
		target, err := os.Readlink(filepath.Join(dir, name))
		if err != nil {
			return filepath.Join(dir, name), nil // it is not a link
		}
		path = target
		if !filepath.IsAbs(target) {
			path = dir + string(filepath.Separator) + target
		}
	}
	return "", &fs.PathError{Op: "open", Path: path, Err: errors.New("too many symbolic links")}
}

// resolveExisting returns the absolute path, without symbolic links, of the existing file at path.
// info is what [os.Stat] returned for path. It returns an error for a file without a name of its
// own, such as the pipe of /dev/stdout. The resolved path of such a file leads to no file, or to
// another one.
func resolveExisting(path string, info fs.FileInfo) (string, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	if resolved, err = absolute(resolved); err != nil {
		return "", err
	}
	if now, err := os.Stat(resolved); err != nil || !os.SameFile(now, info) {
		return "", fmt.Errorf("%q does not name the file that it opens, which may be a pipe", path)
	}
	return resolved, nil
}

// absolute returns the absolute and clean form of a path that has no symbolic links.
func absolute(path string) (string, error) {
	path, err := Absolute(path)
	return filepath.Clean(path), err
}

// Absolute returns the absolute form of a path, with its symbolic links. The result leads to the
// same file from any working directory.
func Absolute(path string) (string, error) {
	if runtime.GOOS == "windows" {
		return filepath.Abs(path)
	}
	if filepath.IsAbs(path) {
		return path, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	// The environment may contain another name of the working directory.
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", err
	}
	return dir + string(filepath.Separator) + path, nil // not cleaned: link/.. is not the current directory
}

// SyncDir makes the names in a directory durable, such as that of a file that was just created or
// renamed. Not every file system supports this. On Windows, SyncDir does nothing.
func SyncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil // a directory cannot be opened for syncing there
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// TrySyncDir is [SyncDir], but returns nil if the file system does not support or permit syncing
// the directory. It returns other errors of syncing, and an error if the directory cannot be
// opened.
func TrySyncDir(path string) error {
	err := SyncDir(path)
	at, is := errors.AsType[*fs.PathError](err)
	if is && at.Op == "sync" && (errors.Is(err, errors.ErrUnsupported) ||
		errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EINVAL)) {
		return nil
	}
	return err
}
