//go:build unix && !solaris && !aix

package ledgerfile

import (
	"errors"
	"os"
	"syscall"
)

// CanLock reports whether this system has locks of files.
const CanLock = true

// tryLock locks a file without waiting. It returns false and nil if the lock of another handle
// excludes this one.
func tryLock(f *os.File, exclusive bool) (locked bool, err error) {
	how := syscall.LOCK_SH | syscall.LOCK_NB
	if exclusive {
		how = syscall.LOCK_EX | syscall.LOCK_NB
	}
	err = syscall.Flock(int(f.Fd()), how)
	for errors.Is(err, syscall.EINTR) {
		err = syscall.Flock(int(f.Fd()), how)
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, os.NewSyscallError("flock", err)
}

// Unlock unlocks a file and closes it. Closing alone does not unlock a file that is mapped.
func Unlock(f *os.File) error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
}
