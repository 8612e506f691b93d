//go:build !unix

package serving

import "os"

// makePipe makes a directory, which is no regular file either, where there are no named pipes.
func makePipe(path string) error { return os.Mkdir(path, 0o700) }
