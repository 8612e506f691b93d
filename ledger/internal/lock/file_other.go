//go:build !unix || solaris || aix

package lock

import "os"

// File does nothing: the caller must keep others away.
func File(*os.File, bool, error) error { return nil }
