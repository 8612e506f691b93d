package rrchain

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/privacy"
)

const tiniest = math.SmallestNonzeroFloat64

// roundings are numbers in ranges. Their shares of the range have finite or infinite binary
// expansions, and their exponents may be far apart.
var roundings = []struct{ low, high, x float64 }{
	{0, 1, 0.5}, {0, 1, 0.1}, {0, 1, math.Nextafter(1, 0)}, {0, 3, 1}, {-3, 7, 0.25}, {0.1, 0.7, 0.3}, {-1, 1, tiniest},
	{0, 3 * tiniest, tiniest}, {-tiniest, tiniest, 0}, {5 * tiniest, 12 * tiniest, 10 * tiniest}, {1, math.Nextafter(1, 2), 1},
	{-math.MaxFloat64 / 2, math.MaxFloat64 / 2, 1e300}, {0, math.MaxFloat64, 12345.678}, {0, math.MaxFloat64, tiniest},
	{20, 2500, 603.7}, {-7, -2, -3.3}, {math.Copysign(0, -1), 1, 1e-30},
}

// exactShare returns (x−low)/(high−low), with x moved into the range.
func exactShare(low, high, x float64) *big.Rat {
	at := func(x float64) *big.Rat { return new(big.Rat).SetFloat64(x) }
	share := new(big.Rat).Quo(at(0).Sub(at(x), at(low)), at(0).Sub(at(high), at(low)))
	if share.Sign() < 0 {
		return big.NewRat(0, 1)
	}
	if one := big.NewRat(1, 1); share.Cmp(one) > 0 {
		return one
	}
	return share
}

// The end must change at U = (x−low)/(high−low), which is checked to 2,304 bits. The quotient of
// two float64 that is above 0 has a bit within that length.
func TestRound_HasItsExactProbability(t *testing.T) {
	const words = 36
	for _, c := range roundings {
		r := Range{c.low, c.high}
		scaled := new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), 64*words))
		scaled.Mul(scaled, exactShare(c.low, c.high, c.x))
		cell := new(big.Int).Div(scaled.Num(), scaled.Denom()) // the share, rounded down to so many bits
		for off, want := range map[int64]int{-1: 1, +1: 0} {
			u := new(big.Int).Add(cell, big.NewInt(off))
			if u.Sign() < 0 || u.BitLen() > 64*words {
				continue // U is in [0,1), so the end is certain
			}
			if got, err := r.Round(replay(wordsOf(u, words)...), c.x); err != nil || got != want {
				t.Errorf("%v in [%v, %v], %d beside its share: end %d, %v; want %d", c.x, c.low, c.high, off, got, err, want)
			}
		}
	}
}

// wordsOf returns the n words of a number, the highest first.
func wordsOf(x *big.Int, n int) []uint64 {
	list := make([]uint64, n)
	packed := x.FillBytes(make([]byte, 8*n))
	for i := range list {
		list[i] = binary.BigEndian.Uint64(packed[8*i:])
	}
	return list
}

// A number at or outside an end of the range is rounded to this end, for any random bits.
func TestRound_AtOrOutsideTheEnds_ReturnsThem(t *testing.T) {
	for _, r := range []Range{Range{-2, 6}, Range{0, tiniest}, Range{-1e300, 1e300}} {
		for want, numbers := range [][]float64{
			{r.Low, math.Nextafter(r.Low, math.Inf(-1)), -math.MaxFloat64, math.Inf(-1)},
			{r.High, math.Nextafter(r.High, math.Inf(1)), math.MaxFloat64, math.Inf(1)},
		} {
			for _, x := range numbers {
				for _, word := range []uint64{1, 1 << 63, ^uint64(0)} {
					if got, err := r.Round(replay(word), x); err != nil || got != want {
						t.Errorf("%v in [%v, %v] with U=%#x…: end %d, %v; want %d", x, r.Low, r.High, word, got, err, want)
					}
				}
				if got, err := r.RoundKeyed(key, "q", "o", x); err != nil || got != want {
					t.Errorf("%v in [%v, %v] with a key: end %d, %v; want %d", x, r.Low, r.High, got, err, want)
				}
			}
		}
	}
}

func TestRound_SystemRandomness_HasItsProbability(t *testing.T) {
	const n = 20_000 / (coarser * coarser)
	r, s := Range{20, 2500}, new(Sampler)
	for _, number := range []float64{25, 392, 1260, 2490} {
		upper := 0
		for range n {
			end := must(r.Round(s, number))
			upper += end
		}
		p := (number - 20) / 2480
		stattest.Share(upper, n, p, p).Holds(t, "%v became the upper end", number)
	}
}

func TestRange_Invalid_IsRefused(t *testing.T) {
	const huge = math.MaxFloat64
	inf, nan := math.Inf(1), math.NaN()
	for _, r := range []Range{
		{}, {1, 1}, {2, 1}, {0, math.Copysign(0, -1)}, {math.Copysign(0, -1), 0}, {nan, 1}, {0, nan}, {nan, nan}, {0, inf},
		{-inf, 0}, {-inf, inf}, {inf, inf}, {-huge, huge}, {-huge, huge / 2},
	} {
		_, err := r.Round(new(Sampler), 0)
		_, err2 := r.RoundKeyed(key, "q", "o", 0)
		check.That(t, errors.Is(err, privacy.ErrInvalid) && errors.Is(err2, privacy.ErrInvalid), "%v: %v, %v", r, err, err2)
	}
	for _, r := range []Range{{0, tiniest}, {-tiniest, 0}, {-huge / 2, huge / 2}, {0, huge}, {-huge, 0}, {1, math.Nextafter(1, 2)}} {
		must(r.Round(new(Sampler), 0))
	}
}

// The error does not contain the number.
func TestRound_NaNOrShortKey_IsRefused(t *testing.T) {
	r := Range{0, 1}
	_, err := r.Round(new(Sampler), math.NaN())
	check.That(t, errors.Is(err, privacy.ErrInvalid), "NaN: %v", err)
	check.Is(t, check.Err(r.RoundKeyed(key, "q", "o", math.NaN())), privacy.ErrInvalid, "NaN with a key")
	for length := range 16 {
		_, err := r.RoundKeyed(key[:length], "q", "o", 0.777)
		if !errors.Is(err, privacy.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprintf("a key of %d bytes", length)) || strings.Contains(err.Error(), "777") {
			t.Errorf("a key of %d bytes: %v", length, err)
		}
	}
}

var (
	key     = []byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f")
	longKey = []byte("another key, of more than sixty-four bytes, which HMAC hashes before it uses it")
)

// The ends of the objects "object 0" to "object 31" come from a program in another language. If
// this test fails, the true value changes for every chain of a mean whose ends are computed from a
// key.
func TestRoundKeyed_GoldenEnds_NeverChange(t *testing.T) {
	for _, c := range []struct {
		key          []byte
		question     string
		low, high, x float64
		want         string
	}{
		{key, "wage", 0, 1, 0.5, "01100110011010001100000101100011"},
		{key, "wage", -10, 30, 0.25, "01100100011000001100000001000001"},
		{longKey, "", 0, 1, 0.9, "01110111111111111111111111111111"},
		{key, "Zähne", 0, 1, 0.3, "00000110000100100000000000011110"},
	} {
		for range 2 {
			ends := ""
			for i := range len(c.want) {
				ends += fmt.Sprint(keyed(Range{c.low, c.high}, c.key, c.question, fmt.Sprintf("object %d", i), c.x))
			}
			check.That(t, ends == c.want,
				"%q in [%v, %v] at %v: %s, want %s", c.question, c.low, c.high, c.x, ends, c.want)
		}
	}
}

// keyedWord returns a word of the uniform number by definition: HMAC-SHA256 of three texts with
// their lengths, and of the word's number.
func keyedWord(key []byte, question, object string, number uint64) uint64 {
	var message []byte
	for _, text := range []string{"sluice rounding", question, object} {
		message = append(binary.BigEndian.AppendUint64(message, uint64(len(text))), text...)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(binary.BigEndian.AppendUint64(message, number))
	return binary.BigEndian.Uint64(mac.Sum(nil))
}

// If the share of a number has the same first 64 bits as the object's uniform number, the second
// word decides. Both words are those of Python's hmac.
func TestRoundKeyed_FirstWordEqual_SecondDecides(t *testing.T) {
	first, second := keyedWord(key, "wage", "edge", 0), keyedWord(key, "wage", "edge", 1)
	check.Need(t, first == 0xa2b13b1302ab97c8 && second == 0x9914c9ddbb53a8e8, "words %#x, %#x", first, second)
	uniform := wordsRat(first, second)
	found := map[int]int{}
	for high := 1.0; found[0] < 3 || found[1] < 3; high = math.Nextafter(high, 2) {
		x := float64(first) / 0x1p64 * high
		if !startsWith(x, high, first) {
			continue
		}
		want := 0
		if uniform.Cmp(exactShare(0, high, x)) < 0 {
			want = 1
		}
		found[want]++
		check.Equal(t, keyed(Range{0, high}, key, "wage", "edge", x), want, "%v of %v: end", x, high)
	}
}

// wordsRat returns the number in [0,1) with two given words.
func wordsRat(first, second uint64) *big.Rat {
	n := new(big.Int).SetUint64(first)
	n.Lsh(n, 64).Add(n, new(big.Int).SetUint64(second))
	return new(big.Rat).SetFrac(n, new(big.Int).Lsh(big.NewInt(1), 128))
}

// startsWith returns whether the first 64 bits of x/high are this word, for 1/2 ≤ x < 1 ≤ high < 2.
func startsWith(x, high float64, word uint64) bool {
	numerator, denominator := uint64(x*0x1p53), uint64(high*0x1p52) // exact; the quotient is twice x/high
	cell, _ := bits.Div64(numerator>>1, numerator<<63, denominator)
	return cell == word
}

// uniform finds by bisection the number in [0,1) from which on an object's number is rounded up.
// This requires that the end changes only once as the number rises.
func uniform(key []byte, question, object string) float64 {
	low, high := 0.0, 1.0
	for high-low > 0x1p-50 {
		mid := (low + high) / 2
		if keyed(Range{0, 1}, key, question, object, mid) == 1 {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// A change of question, object or key changes the uniform number, also if the concatenated texts
// are the same.
func TestRoundKeyed_OtherNamesOrKey_GiveOtherNumbers(t *testing.T) {
	other := slices.Clone(key)
	other[15]++
	seen := map[float64]string{}
	for _, c := range []struct {
		key              []byte
		question, object string
	}{
		{key, "a", "bc"}, {key, "ab", "c"}, {key, "abc", ""}, {key, "", "abc"}, {key, "bc", "a"}, {key, "c", "ab"},
		{key, "", ""}, {key, "\x00", ""}, {key, "", "\x00"}, {key, "a", "bc\x00"}, {other, "a", "bc"},
		{key, "a", "b"}, {longKey, "a", "bc"},
	} {
		name := fmt.Sprintf("%x %q %q", c.key, c.question, c.object)
		u := uniform(c.key, c.question, c.object)
		twin, ok := seen[u]
		check.That(t, !ok, "%s and %s are rounded alike", name, twin)
		seen[u] = name
		want := float64(keyedWord(c.key, c.question, c.object, 0)) / 0x1p64
		check.That(t, math.Abs(u-want) <= 0x1p-49, "%s is rounded up from %v on, want %v", name, u, want)
	}
}

// The key is fixed, so that the test is deterministic.
func TestRoundKeyed_ManyObjects_HasItsProbability(t *testing.T) {
	const n = 20_000 / (coarser * coarser)
	r := Range{0, 10}
	for _, p := range []float64{0.03, 0.5, 0.8} {
		upper := 0
		for i := range n {
			upper += keyed(r, key, fmt.Sprint("question ", i%7), fmt.Sprint(i/7), 10*p)
		}
		stattest.Share(upper, n, p, p).Holds(t, "the upper end for the share %v", p)
	}
}

func keyed(r Range, key []byte, question, object string, x float64) int {
	return must(r.RoundKeyed(key, question, object, x))
}
