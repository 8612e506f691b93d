//go:build unix && !solaris && !aix

package keyholder

import (
	"errors"
	"os"
	"syscall"

	"github.com/sluicedp/sluice/ledger/journal"
)

// flock locks a file for all other processes and handles, until it is closed.
func flock(f *os.File) error {
	for {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case errors.Is(err, syscall.EWOULDBLOCK):
			return journal.ErrInUse
		case !errors.Is(err, syscall.EINTR):
			return os.NewSyscallError("flock", err)
		}
	}
}
