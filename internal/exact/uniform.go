package exact

import "math/bits"

// lemire maps a word of width bits to a value below m, or refuses it. The width is a parameter so
// that a test can go through all words of a small one.
func lemire(word uint64, width uint, m uint64) (value uint64, ok bool) {
	value, rest := bits.Mul64(word<<(64-width), m)
	if m <<= 64 - width; rest < m { // seldom, and it saves the division
		surplus := -m % m // 2^width mod m, in the top bits
		return value, rest >= surplus
	}
	return value, true
}

// Lemire maps a uniform word to a value below m, each with the same probability exactly, or refuses
// it: m words at most of all 2⁶⁴ (Lemire, "Fast Random Integer Generation in an Interval", 2019).
func Lemire(word, m uint64) (value uint64, ok bool) { return lemire(word, 64, m) }
