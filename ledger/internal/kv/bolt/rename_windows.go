package bolt

import "syscall"

// renameNew renames a file, unless there is one with the new name.
func renameNew(from, to string) error {
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
