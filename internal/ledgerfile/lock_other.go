//go:build !unix || solaris || aix

package ledgerfile

import "os"

// CanLock reports whether this system has locks of files.
const CanLock = false

// tryLock is not called on systems without locks.
func tryLock(*os.File, bool) (locked bool, err error) { return false, nil }

// Unlock closes a file, which also releases its lock.
func Unlock(f *os.File) error { return f.Close() }
