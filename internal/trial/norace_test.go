//go:build !race

package trial

// hurry is for runs under the race detector.
const hurry = 1
