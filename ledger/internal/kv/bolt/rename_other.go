//go:build !linux && !darwin && !windows

package bolt

import "errors"

// renameNew cannot rename a file here without overwriting another.
func renameNew(string, string) error { return errors.ErrUnsupported }
