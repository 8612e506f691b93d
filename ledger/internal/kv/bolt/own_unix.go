//go:build unix

package bolt

import (
	"io/fs"
	"os"
	"syscall"
)

// own gives a file the owner and the group of another: whoever compacts it, the same may open it
// afterwards.
func own(path string, as fs.FileInfo) error {
	now, err := os.Stat(path)
	if err != nil {
		return err
	}
	is, known := now.Sys().(*syscall.Stat_t)
	want, wanted := as.Sys().(*syscall.Stat_t)
	if !known || !wanted || is.Uid == want.Uid && is.Gid == want.Gid {
		return nil
	}
	return os.Chown(path, int(want.Uid), int(want.Gid))
}
