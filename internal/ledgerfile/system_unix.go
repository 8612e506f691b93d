//go:build unix

package ledgerfile

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives a file f the owner and the group of another one, if they differ. It does nothing
// if the system does not report them.
func keepOwner(f *os.File, of fs.FileInfo) error {
	now, err := f.Stat()
	if err != nil {
		return err
	}
	is, known := now.Sys().(*syscall.Stat_t)
	want, wanted := of.Sys().(*syscall.Stat_t)
	if !known || !wanted || is.Uid == want.Uid && is.Gid == want.Gid {
		return nil
	}
	if err := f.Chown(int(want.Uid), int(want.Gid)); err != nil {
		return fmt.Errorf("its owner %d:%d cannot be kept: %w", want.Uid, want.Gid, cause(err))
	}
	return nil
}

// links returns the number of hard links of a file, or 1 if the system does not report it.
func links(info fs.FileInfo) uint64 {
	if s, known := info.Sys().(*syscall.Stat_t); known {
		return uint64(s.Nlink)
	}
	return 1
}

// statIdentity returns the identity of a file ([Identity]) made of its device and inode numbers, or
// "" if the system does not report them.
func statIdentity(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	s, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return "", nil
	}
	return fmt.Sprintf("%d:%d", s.Dev, s.Ino), nil
}
