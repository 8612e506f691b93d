//go:build unix && !solaris && !aix

package file

import (
	"errors"
	"os"
	"syscall"

	"github.com/sluicedp/sluice/ledger/journal"
)

// flock locks a directory for all other processes and handles, until it is closed.
func flock(dir *os.File, exclusive bool) error {
	how := syscall.LOCK_SH
	if exclusive {
		how = syscall.LOCK_EX
	}
	for {
		switch err := syscall.Flock(int(dir.Fd()), how|syscall.LOCK_NB); {
		case errors.Is(err, syscall.EWOULDBLOCK):
			return journal.ErrInUse
		case !errors.Is(err, syscall.EINTR):
			return os.NewSyscallError("flock", err)
		}
	}
}
