//go:build unix

package serving

import "syscall"

// makePipe creates a named pipe.
func makePipe(path string) error { return syscall.Mkfifo(path, 0o600) }
