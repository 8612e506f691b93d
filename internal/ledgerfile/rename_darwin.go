package ledgerfile

import "golang.org/x/sys/unix"

// RenameNew renames a file, unless there is a file with the new name.
func RenameNew(from, to string) error { return unix.RenamexNp(from, to, unix.RENAME_EXCL) }
