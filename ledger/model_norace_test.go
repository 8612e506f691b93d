//go:build !race

package ledger

// raceEnabled tells whether the race detector is on, under which a long test is a short one.
const raceEnabled = false
