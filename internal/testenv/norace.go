//go:build !race

package testenv

// Race is 1 under the race detector, and 0 otherwise. It is a number so that constants can use it.
const Race = 0
