//go:build race

package pace

// Race is 1 under the race detector, and else 0: a number, for constants to be made of.
const Race = 1
