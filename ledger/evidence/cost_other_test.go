//go:build !linux

package evidence

import "time"

// processorTime is known on Linux only; elsewhere memory is checked, and not time.
func processorTime() time.Duration { return 0 }
