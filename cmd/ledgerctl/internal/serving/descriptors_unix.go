//go:build unix

package serving

import (
	"math"
	"syscall"
)

// descriptors is how many files this process may have open: Go has raised the limit as far as it
// can.
func descriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || uint64(limit.Cur) > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(limit.Cur)
}
