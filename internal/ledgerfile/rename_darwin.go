package ledgerfile

import "golang.org/x/sys/unix"

// RenameNew renames a file without replacing another one. It returns [os.ErrExist] if the new name
// exists.
func RenameNew(from, to string) error { return unix.RenamexNp(from, to, unix.RENAME_EXCL) }
