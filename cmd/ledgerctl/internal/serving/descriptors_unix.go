//go:build unix

package serving

import (
	"math"
	"syscall"
)

// descriptors returns the limit of open files of this process, which Go has raised to the maximum.
func descriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || uint64(limit.Cur) > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(limit.Cur)
}
