package journalfile

import (
	"errors"
	"os"
	"syscall"
)

// fdatasync flushes the content of a file.
func fdatasync(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
