//go:build unix

package bolt

import (
	"fmt"
	"os"
	"syscall"
)

// statIdentity tells a file by its device and inode.
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
