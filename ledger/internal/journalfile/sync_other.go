//go:build !linux

package journalfile

import "os"

// fdatasync flushes the content of a file.
func fdatasync(f *os.File) error { return f.Sync() }
