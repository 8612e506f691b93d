package report

import (
	"os"
	"syscall"
)

// syncData waits until what was written to a file is on disk.
func syncData(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
