package evidence

import (
	"syscall"
	"time"
)

// processorTime is what this process has used of all processors. Others that wait for them do not
// count.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
