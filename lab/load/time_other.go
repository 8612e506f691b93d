//go:build !unix

package main

import "time"

// ownTime returns 0, because the processor time is unknown on this system.
func ownTime() time.Duration { return 0 }
