package ledgerfile

import (
	"os"
	"time"
)

// lockPoll is the interval between two attempts to lock a file.
const lockPoll = 5 * time.Millisecond

// Lock locks a file or a directory until its handle is closed, alone or together with other handles
// that share the lock. It returns inUse if a lock of another handle, of any process, excludes this
// one for the whole of wait. A lock that f has already may be lost then. Without [CanLock] it does
// nothing.
func Lock(f *os.File, exclusive bool, wait time.Duration, inUse error) error {
	if !CanLock {
		return nil
	}
	for begun := time.Now(); ; time.Sleep(lockPoll) {
		locked, err := tryLock(f, exclusive)
		if locked || err != nil {
			return err
		}
		if time.Since(begun) >= wait {
			return inUse
		}
	}
}
