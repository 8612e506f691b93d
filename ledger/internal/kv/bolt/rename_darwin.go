package bolt

import "golang.org/x/sys/unix"

// renameNew renames a file, unless there is one with the new name.
func renameNew(from, to string) error { return unix.RenamexNp(from, to, unix.RENAME_EXCL) }
