package bolt

import (
	"fmt"
	"os"
	"syscall"
)

// identity tells a file by when it was made.
func identity(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	s, known := info.Sys().(*syscall.Win32FileAttributeData)
	if !known {
		return "", nil
	}
	return fmt.Sprint(s.CreationTime.Nanoseconds()), nil
}
