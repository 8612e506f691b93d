//go:build !unix

package serving

import "os"

// makePipe creates a directory, which is also not a regular file, because this system has no named
// pipes.
func makePipe(path string) error { return os.Mkdir(path, 0o700) }
