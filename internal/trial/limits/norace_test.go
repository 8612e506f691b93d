//go:build !race

package limits

// raceFactor is how many times more memory a copy may take: the race detector keeps a shadow of it.
const raceFactor = 1
