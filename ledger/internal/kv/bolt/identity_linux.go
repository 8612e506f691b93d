package bolt

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// identity tells a file by its inode and by when that was made, where the file system knows: numbers of devices change when a machine starts.
func identity(path string) (string, error) {
	var s unix.Statx_t
	const wanted = unix.STATX_INO | unix.STATX_BTIME
	if err := unix.Statx(unix.AT_FDCWD, path, 0, wanted, &s); err != nil || s.Mask&wanted != wanted {
		return statIdentity(path) // it is an old kernel, or file system
	}
	return fmt.Sprintf("%d@%d.%09d", s.Ino, s.Btime.Sec, s.Btime.Nsec), nil
}
