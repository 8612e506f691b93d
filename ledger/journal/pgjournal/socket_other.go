//go:build !linux

package pgjournal

import "syscall"

// controlSocket does nothing: the operating system decides when a connection fails.
func controlSocket(string, string, syscall.RawConn) error { return nil }
