//go:build !unix

package serving

import "math"

// descriptors returns the limit of open files of this process. This system has no such limit.
func descriptors() int { return math.MaxInt32 }
