package ledgerfile

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// keepOwner does nothing, because ownership works differently on Windows.
func keepOwner(*os.File, fs.FileInfo) error { return nil }

// links returns 1, because hard links are not counted here.
func links(fs.FileInfo) uint64 { return 1 }

// Identity returns a text that distinguishes a file or a directory from its copies: the time of its
// creation. "" means that this system has no such text. A copy that is written over the file has
// the identity of the file.
func Identity(path string) (string, error) {
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

// RenameNew renames a file without replacing another one. It returns an error if the new name
// exists.
func RenameNew(from, to string) error {
	source, err := syscall.UTF16PtrFromString(from)
	if err != nil {
		return err
	}
	target, err := syscall.UTF16PtrFromString(to)
	if err != nil {
		return err
	}
	return syscall.MoveFile(source, target)
}
