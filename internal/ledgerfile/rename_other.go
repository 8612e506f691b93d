//go:build unix && !linux && !darwin

package ledgerfile

import "errors"

// RenameNew returns [errors.ErrUnsupported], because this system cannot rename a file without
// overwriting another one.
func RenameNew(string, string) error { return errors.ErrUnsupported }
