//go:build unix && !solaris && !aix

package serving

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// A server holds the lock while it looks for another server at its path and takes the path, which
// takes some milliseconds.
const (
	lockWait = 10 * time.Second
	lockPoll = 5 * time.Millisecond
)

// lock locks the directory of a socket, so that no other server takes or leaves a path in it
// concurrently. Nothing is written.
func lock(path string) (unlock func(), err error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(lockWait); ; time.Sleep(lockPoll) {
		err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return func() { _ = dir.Close() }, nil // which unlocks it
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return nil, errors.Join(err, dir.Close())
		case time.Now().After(deadline):
			_ = dir.Close() // it was only locked
			return nil, inUse("another process has locked the directory of the socket, as a server does that "+
				"starts: try again, or listen in a directory that only this user can read", path)
		}
	}
}
