//go:build !unix || solaris || aix

package boltstore

import "os"

// unlock lets go of a file that bbolt has mapped and cannot unmap any more. Here the lock goes with
// the file.
func unlock(file *os.File) error { return file.Close() }
