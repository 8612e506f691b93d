package ledgerfile

import (
	"os"
	"time"
)

// lockPoll is the interval between two attempts to lock a file.
const lockPoll = 5 * time.Millisecond

// Lock locks a file or a directory until its handle f is closed. The lock is exclusive, or shared
// with other handles. If a lock of another handle, of any process, excludes this one for the whole
// of wait, Lock returns the error inUse. Then f may have lost a lock that it had before. Lock tries
// at least once, also if wait is 0. Without [CanLock], Lock does nothing.
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
