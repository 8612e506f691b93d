//go:build !linux

package evidence

import "time"

// processorTime returns 0: on other systems than Linux only memory is checked.
func processorTime() time.Duration { return 0 }
