//go:build race

package logtree

// raceEnabled tells whether the race detector is on, under which a long test is a short one.
const raceEnabled = true
