package ledgerfile

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Identity returns what tells a file or a directory from its copies. It is the same, under whatever
// name, until the file is removed. "" says that nothing does. A copy that is written over the file
// has the identity of the file.
//
// It is the inode and its time of birth, if the file system has that: numbers of devices change
// when a machine starts.
func Identity(path string) (string, error) {
	var s unix.Statx_t
	const wanted = unix.STATX_INO | unix.STATX_BTIME
	if err := unix.Statx(unix.AT_FDCWD, path, 0, wanted, &s); err != nil || s.Mask&wanted != wanted {
		return statIdentity(path) // it is an old kernel, or file system
	}
	return fmt.Sprintf("%d@%d.%09d", s.Ino, s.Btime.Sec, s.Btime.Nsec), nil
}

// RenameNew renames a file, unless there is a file with the new name.
func RenameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) { // a file system without such a rename
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	return err
}
