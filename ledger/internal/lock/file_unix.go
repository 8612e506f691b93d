//go:build unix && !solaris && !aix

package lock

import (
	"errors"
	"os"
	"syscall"
)

// File locks a file or a directory for all other processes and handles, until it is closed. It does
// not wait: it returns inUse if another handle has a lock that excludes this one. A lock that f has
// already may be lost then.
func File(f *os.File, exclusive bool, inUse error) error {
	how := syscall.LOCK_SH
	if exclusive {
		how = syscall.LOCK_EX
	}
	for {
		switch err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); {
		case errors.Is(err, syscall.EWOULDBLOCK):
			return inUse
		case !errors.Is(err, syscall.EINTR):
			return os.NewSyscallError("flock", err)
		}
	}
}
