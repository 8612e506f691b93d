//go:build unix && !solaris && !aix

package boltstore

import (
	"errors"
	"os"
	"syscall"
)

// unlock lets go of a file that bbolt has mapped and cannot unmap any more. The mapping would keep the
// lock although the file is closed.
func unlock(file *os.File) error {
	return errors.Join(syscall.Flock(int(file.Fd()), syscall.LOCK_UN), file.Close())
}
