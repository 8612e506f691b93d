//go:build unix

package main

import (
	"syscall"
	"time"
)

// ownTime returns how much of the processor's time this process has taken.
func ownTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
