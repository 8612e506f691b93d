package evidence

import (
	"syscall"
	"time"
)

// processorTime returns the processor time that this process has used. It does not depend on the
// load of the machine.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
