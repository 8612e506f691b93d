//go:build unix && !solaris && !aix

package bolt

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// lock locks a file in the way bbolt does, before bbolt does. It waits as long for it.
func lock(file *os.File, exclusive bool) error {
	for begun := time.Now(); ; time.Sleep(lockWait / 10) {
		err := tryLock(file, exclusive)
		if !errors.Is(err, kv.ErrInUse) || time.Since(begun) >= lockWait {
			return err
		}
	}
}

// tryLock is lock that does not wait.
func tryLock(file *os.File, exclusive bool) error {
	how := syscall.LOCK_SH
	if exclusive {
		how = syscall.LOCK_EX
	}
	err := syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return kv.ErrInUse
	}
	return err
}

// unlock lets go of a file that bbolt has mapped and cannot unmap any more. The mapping would keep the
// lock although the file is closed.
func unlock(file *os.File) error {
	return errors.Join(syscall.Flock(int(file.Fd()), syscall.LOCK_UN), file.Close())
}
