package bolt

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// renameNew renames a file, unless there is one with the new name.
func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) { // which a file system says that cannot do it
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	return err
}
