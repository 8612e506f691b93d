//go:build race

package hostile

// hurry is how many times fewer files there are under the race detector, which makes everything some eight times slower.
const hurry = 10
