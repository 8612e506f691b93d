//go:build !unix

package bolt

import "io/fs"

// own leaves the owner as it is, where the system has other rules.
func own(string, fs.FileInfo) error { return nil }
