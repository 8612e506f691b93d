//go:build !unix || solaris || aix

package ledgerfile

import (
	"errors"
	"os"
)

func tryLock(*os.File, bool) (locked bool, err error) { return false, errors.ErrUnsupported }

// Unlock closes a file, and its lock goes with it.
func Unlock(f *os.File) error { return f.Close() }
