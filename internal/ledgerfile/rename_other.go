//go:build unix && !linux && !darwin

package ledgerfile

import "errors"

// RenameNew cannot rename a file here without overwriting another.
func RenameNew(string, string) error { return errors.ErrUnsupported }
