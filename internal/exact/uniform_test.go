package exact

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// For every m, each value has the same number of words of a small width, and exactly the surplus of
// 2^width mod m words is refused.
func TestLemire_AllWordsOfSmallWidths_AreUniform(t *testing.T) {
	for width := uint(8); width <= 14; width++ {
		size := uint64(1) << width
		counts := make([]uint64, size)
		for m := uint64(1); m < size; m++ {
			refused := countWords(width, m, counts[:m])
			check.Need(t, refused == size%m,
				"width %d, m=%d: %d words were refused, want %d", width, m, refused, size%m)
			for value, n := range counts[:m] {
				if n != size/m { // a call for each of 10⁸ values would take a minute
					t.Fatalf("width %d, m=%d: value %d has %d words, want %d", width, m, value, n, size/m)
				}
			}
		}
	}
}

// countWords counts the words of each value and the words that are refused.
func countWords(width uint, m uint64, counts []uint64) (refused uint64) {
	clear(counts)
	for word := range uint64(1) << width {
		if value, ok := lemire(word, width, m); ok {
			counts[value]++
		} else {
			refused++
		}
	}
	return refused
}

// The test checks the words around the border between two values, where the products overflow into
// the next value. With 2⁶⁴ = s + ⌊2⁶⁴/m⌋·m, value v owns the words from ⌈v·2⁶⁴/m⌉ on. The first of
// them is refused where m·word mod 2⁶⁴ is below s.
func TestLemire_FullWidth_EachValueHasEqualWords(t *testing.T) {
	for _, c := range []struct{ m, each, surplus uint64 }{
		{3, 6148914691236517205, 1},
		{10, 1844674407370955161, 6},
		{1<<20 - 1, 17592202821648, 16},
		{1 << 20, 1 << 44, 0},
	} {
		if c.surplus+c.each*c.m != 0 { // in arithmetic modulo 2⁶⁴
			t.Fatalf("m=%d: the test is wrong", c.m)
		}
		for _, v := range []uint64{0, 1, c.m / 2, c.m - 1} {
			start, end := firstWord(v, c.each, c.surplus, c.m), firstWord(v+1, c.each, c.surplus, c.m)-1
			accepted := end - start + 1
			for _, word := range []uint64{start, start + 1, end - 1, end} {
				value, ok := lemire(word, 64, c.m)
				if refuse := word*c.m < c.surplus; value != v || ok == refuse {
					t.Errorf("m=%d: word %#x gives %d, %v; want %d, %v", c.m, word, value, ok, v, !refuse)
				}
				if !ok {
					accepted--
				}
			}
			check.That(t, accepted == c.each, "m=%d: value %d has %d words, want %d", c.m, v, accepted, c.each)
		}
	}
}

// firstWord returns ⌈v·2⁶⁴/m⌉ = v·each + ⌈v·surplus/m⌉, which is 0 modulo 2⁶⁴ for v = m.
func firstWord(v, each, surplus, m uint64) uint64 { return v*each + (v*surplus+m-1)/m }

// By definition the value is ⌊word·m/2⁶⁴⌋, and a word is refused if the remainder is below 2⁶⁴ mod
// m.
func TestLemire_AgreesWithBigIntegers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	all := new(big.Int).Lsh(big.NewInt(1), 64)
	refusals := 0
	compare := func(word, m uint64) {
		divisor := new(big.Int).SetUint64(m)
		product := new(big.Int).Mul(new(big.Int).SetUint64(word), divisor)
		want, rest := product.DivMod(product, all, new(big.Int))
		refused := rest.Cmp(new(big.Int).Mod(all, divisor)) < 0
		if value, fits := Lemire(word, m); value != want.Uint64() || fits == refused {
			t.Errorf("word %#x, m=%d: %d, %v; want %d, %v", word, m, value, fits, want, !refused)
		}
		if refused {
			refusals++
		}
	}
	for _, m := range []uint64{1, 2, 3, 4, 5, 7, 1000, 1<<20 - 1, 1 << 20, 1<<32 - 1, 1 << 32, 1<<63 - 1, 1 << 63, 1<<63 + 1, ones} {
		for _, word := range []uint64{0, 1, 2, 1 << 32, 1 << 63, ones - 1, ones} {
			compare(word, m)
		}
		for range 100 {
			compare(random.Uint64(), m)
			// The first word of a value, which may be refused, and its neighbours.
			value := new(big.Int).SetUint64(random.Uint64N(m))
			word := value.Quo(value.Lsh(value, 64), new(big.Int).SetUint64(m)).Uint64()
			compare(word-1, m)
			compare(word, m)
			compare(word+1, m)
		}
	}
	check.That(t, refusals >= 100, "only %d words were refused", refusals)
}
