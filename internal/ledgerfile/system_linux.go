package ledgerfile

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Identity returns a text that distinguishes a file or a directory from its copies. It stays the
// same until the file is removed, even if the file is renamed. "" means that this system has no
// such text. A copy that is written over the file has the identity of the file.
//
// The text is the inode and, if the file system has it, the birth time. Device numbers are not part
// of it, because they change when a machine starts.
func Identity(path string) (string, error) {
	var s unix.Statx_t
	const wanted = unix.STATX_INO | unix.STATX_BTIME
	if err := unix.Statx(unix.AT_FDCWD, path, 0, wanted, &s); err != nil || s.Mask&wanted != wanted {
		return statIdentity(path) // the kernel or the file system has no birth times
	}
	return fmt.Sprintf("%d@%d.%09d", s.Ino, s.Btime.Sec, s.Btime.Nsec), nil
}

// RenameNew renames a file without replacing another one. It returns an [os.ErrExist] if the new
// name exists, and an [errors.ErrUnsupported] if the file system has no such rename.
func RenameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) { // the file system does not support such a rename
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	return err
}
