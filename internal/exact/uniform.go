package exact

import "math/bits"

// lemire maps a word of width bits to a value below m, or returns ok = false to refuse the word.
// The value is the integer part of word·m/2^width. The words with the smallest fractions are
// refused, so that the same number of words remains for each value. The width is a parameter so
// that a test can iterate over all words of a small width.
func lemire(word uint64, width uint, m uint64) (value uint64, ok bool) {
	value, rest := bits.Mul64(word<<(64-width), m) // rest is the fraction, as are m and surplus below: in the top bits
	if m <<= 64 - width; rest < m {                // rare, and the check avoids the division
		surplus := -m % m // 2^width mod m, in the top bits
		return value, rest >= surplus
	}
	return value, true
}

// Lemire maps a uniform word to a value below m, each with exactly the same probability. It refuses
// at most m of all 2⁶⁴ words: then ok is false, and the caller tries another word (Lemire, "Fast
// Random Integer Generation in an Interval", 2019).
func Lemire(word, m uint64) (value uint64, ok bool) { return lemire(word, 64, m) }
