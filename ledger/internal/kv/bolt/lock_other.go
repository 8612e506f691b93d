//go:build !unix || solaris || aix

package bolt

import (
	"errors"
	"os"
)

// lock leaves it to bbolt to lock the file.
func lock(*os.File, bool) error { return errors.ErrUnsupported }

func tryLock(*os.File, bool) error { return errors.ErrUnsupported }

// unlock lets go of a file that bbolt has mapped and cannot unmap any more. Here the lock goes with
// the file.
func unlock(file *os.File) error { return file.Close() }
