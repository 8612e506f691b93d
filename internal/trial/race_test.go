//go:build race

package trial

// hurry is how many times fewer the quick forms try under the race detector. It makes everything some eight times slower, and
// sees in one host what it would see in a hundred.
const hurry = 8
