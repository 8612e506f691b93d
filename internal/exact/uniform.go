package exact

import "math/bits"

// lemire maps a word of width bits to a value below m, or refuses it. The width is a parameter so
// that a test can iterate over all words of a small width.
func lemire(word uint64, width uint, m uint64) (value uint64, ok bool) {
	value, rest := bits.Mul64(word<<(64-width), m)
	if m <<= 64 - width; rest < m { // rare, and the check avoids the division
		surplus := -m % m // 2^width mod m, in the top bits
		return value, rest >= surplus
	}
	return value, true
}

// Lemire maps a uniform word to a value below m, each with exactly the same probability. It refuses
// at most m of all 2⁶⁴ words, with ok false (Lemire, "Fast Random Integer Generation in an
// Interval", 2019).
func Lemire(word, m uint64) (value uint64, ok bool) { return lemire(word, 64, m) }
