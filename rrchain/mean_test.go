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
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/privacy"
)

const tiniest = math.SmallestNonzeroFloat64

// roundings are numbers in ranges whose share of the range has a finite binary expansion or not, and
// far apart exponents.
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

// TestRoundHasItsExactProbability rounds with the real numbers closest to (x−low)/(high−low) on both sides,
// to 2,304 bits, which is more than the quotient of any two float64 needs to be above 0.
func TestRoundHasItsExactProbability(t *testing.T) {
	const words = 36
	for _, c := range roundings {
		r := newRange(t, c.low, c.high)
		scaled := new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), 64*words))
		scaled.Mul(scaled, exactShare(c.low, c.high, c.x))
		cell := new(big.Int).Div(scaled.Num(), scaled.Denom()) // the U of so many bits that holds the share
		for off, want := range map[int64]int{-1: 1, +1: 0} {
			u := new(big.Int).Add(cell, big.NewInt(off))
			if u.Sign() < 0 || u.BitLen() > 64*words {
				continue // no such U: the end is sure
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

// TestRoundAtTheEnds moves numbers outside of the range to its ends, which they never leave.
func TestRoundAtTheEnds(t *testing.T) {
	for _, r := range []Range{newRange(t, -2, 6), newRange(t, 0, tiniest), newRange(t, -1e300, 1e300)} {
		for want, numbers := range [][]float64{
			{r.Low(), math.Nextafter(r.Low(), math.Inf(-1)), -math.MaxFloat64, math.Inf(-1)},
			{r.High(), math.Nextafter(r.High(), math.Inf(1)), math.MaxFloat64, math.Inf(1)},
		} {
			for _, x := range numbers {
				for _, word := range []uint64{1, 1 << 63, ^uint64(0)} {
					if got, err := r.Round(replay(word), x); err != nil || got != want {
						t.Errorf("%v in [%v, %v] with U=%#x…: end %d, %v; want %d", x, r.Low(), r.High(), word, got, err, want)
					}
				}
				if got, err := r.RoundKeyed(key, "q", "o", x); err != nil || got != want {
					t.Errorf("%v in [%v, %v] with a key: end %d, %v; want %d", x, r.Low(), r.High(), got, err, want)
				}
			}
		}
	}
}

// TestRoundDraws uses the randomness of the operating system. By Bernstein's inequality a right count is
// further off than the bound with a probability of 10⁻¹⁰.
func TestRoundDraws(t *testing.T) {
	const n, x = 20_000 / (coarser * coarser), 23.02585 + 0.69315 // ln(2·10¹⁰)
	r, s := newRange(t, 20, 2500), NewSampler()
	for _, number := range []float64{25, 392, 1260, 2490} {
		upper := 0
		for range n {
			end, err := r.Round(s, number)
			if err != nil {
				t.Fatal(err)
			}
			upper += end
		}
		p := (number - 20) / 2480
		if bound := x/3 + math.Sqrt(x*x/9+2*x*n*p*(1-p)); math.Abs(float64(upper)-n*p) > bound {
			t.Errorf("%v became the upper end %d times of %d, want %v ± %.0f", number, upper, n, n*p, bound)
		}
	}
}

func TestRangeRefuses(t *testing.T) {
	const huge = math.MaxFloat64
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range [][2]float64{
		{1, 1}, {2, 1}, {0, math.Copysign(0, -1)}, {math.Copysign(0, -1), 0}, {nan, 1}, {0, nan}, {nan, nan}, {0, inf}, {-inf, 0},
		{-inf, inf}, {inf, inf}, {-huge, huge}, {-huge, huge / 2},
	} {
		if r, err := NewRange(c[0], c[1]); r != (Range{}) || !errors.Is(err, ErrInvalid) {
			t.Errorf("NewRange(%v, %v): %v, %v", c[0], c[1], r, err)
		}
	}
	for _, c := range [][2]float64{{0, tiniest}, {-tiniest, 0}, {-huge / 2, huge / 2}, {0, huge}, {-huge, 0}, {1, math.Nextafter(1, 2)}} {
		if r := newRange(t, c[0], c[1]); r.Low() != c[0] || r.High() != c[1] {
			t.Errorf("NewRange(%v, %v) is from %v to %v", c[0], c[1], r.Low(), r.High())
		}
	}
}

// TestTheZeroRangeIsRefused rounds to and averages over a range that [NewRange] did not make, or made with an error.
func TestTheZeroRangeIsRefused(t *testing.T) {
	for name, use := range map[string]func(Range) error{
		"Round":      func(r Range) error { _, err := r.Round(NewSampler(), 1); return err },
		"RoundKeyed": func(r Range) error { _, err := r.RoundKeyed(key, "q", "o", 1); return err },
		"Mean":       func(r Range) error { _, err := r.Mean(0.9, Counts{eps(t, "1"), []int64{1, 2}}); return err },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("panic: %v", p)
				}
			}()
			if err := use(Range{}); !errors.Is(err, ErrInvalid) {
				t.Errorf("no ErrInvalid but %v", err)
			}
		})
	}
}

// TestRoundRefuses goes through what cannot be rounded. The error does not contain the number.
func TestRoundRefuses(t *testing.T) {
	r := newRange(t, 0, 1)
	if _, err := r.Round(NewSampler(), math.NaN()); !errors.Is(err, ErrInvalid) {
		t.Errorf("NaN: %v", err)
	}
	if _, err := r.RoundKeyed(key, "q", "o", math.NaN()); !errors.Is(err, ErrInvalid) {
		t.Errorf("NaN with a key: %v", err)
	}
	for length := range 16 {
		_, err := r.RoundKeyed(key[:length], "q", "o", 0.777)
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprintf("a key of %d bytes", length)) || strings.Contains(err.Error(), "777") {
			t.Errorf("a key of %d bytes: %v", length, err)
		}
	}
}

var (
	key     = []byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f")
	longKey = []byte("another key, of more than sixty-four bytes, which HMAC hashes before it uses it")
)

// TestRoundKeyedIsTheSameForEver compares with the ends that a program in another language gives for the objects
// "object 0" to "object 31". If this test fails, every chain of a mean whose truth is kept by its key alone
// has got a changed truth.
func TestRoundKeyedIsTheSameForEver(t *testing.T) {
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
				ends += fmt.Sprint(keyed(t, newRange(t, c.low, c.high), c.key, c.question, fmt.Sprintf("object %d", i), c.x))
			}
			if ends != c.want {
				t.Errorf("%q in [%v, %v] at %v: %s, want %s", c.question, c.low, c.high, c.x, ends, c.want)
			}
		}
	}
}

// keyedWord is the uniform number's word by the definition at [Range.RoundKeyed]: HMAC-SHA256 of three texts
// with their lengths, and of the word's number.
func keyedWord(key []byte, question, object string, number uint64) uint64 {
	var message []byte
	for _, text := range []string{"sluice rounding", question, object} {
		message = append(binary.BigEndian.AppendUint64(message, uint64(len(text))), text...)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(binary.BigEndian.AppendUint64(message, number))
	return binary.BigEndian.Uint64(mac.Sum(nil))
}

// TestRoundKeyedReadsOn finds numbers whose share has the very first 64 bits of the object's uniform number:
// then its second word decides. Both words are those of Python's hmac.
func TestRoundKeyedReadsOn(t *testing.T) {
	first, second := keyedWord(key, "wage", "edge", 0), keyedWord(key, "wage", "edge", 1)
	if first != 0xa2b13b1302ab97c8 || second != 0x9914c9ddbb53a8e8 {
		t.Fatalf("words %#x, %#x", first, second)
	}
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
		if got := keyed(t, newRange(t, 0, high), key, "wage", "edge", x); got != want {
			t.Errorf("%v of %v: end %d, want %d", x, high, got, want)
		}
	}
}

// wordsRat is the number in [0,1) of two words.
func wordsRat(first, second uint64) *big.Rat {
	n := new(big.Int).SetUint64(first)
	n.Lsh(n, 64).Add(n, new(big.Int).SetUint64(second))
	return new(big.Rat).SetFrac(n, new(big.Int).Lsh(big.NewInt(1), 128))
}

// startsWith tells whether the first 64 bits of x/high are this word, for 1/2 ≤ x < 1 ≤ high < 2.
func startsWith(x, high float64, word uint64) bool {
	numerator, denominator := uint64(x*0x1p53), uint64(high*0x1p52) // exact; the quotient is twice x/high
	cell, _ := bits.Div64(numerator>>1, numerator<<63, denominator)
	return cell == word
}

// uniform finds the number in [0,1) from which on an object's number is rounded up, by halving. RoundKeyed must be
// consistent for that: as the number rises the end changes once.
func uniform(t *testing.T, key []byte, question, object string) float64 {
	low, high := 0.0, 1.0
	for high-low > 0x1p-50 {
		mid := (low + high) / 2
		if keyed(t, newRange(t, 0, 1), key, question, object, mid) == 1 {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// TestRoundKeyedTellsNamesApart checks that question, object and key each give another number, also where
// the texts run together to the same.
func TestRoundKeyedTellsNamesApart(t *testing.T) {
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
		u := uniform(t, c.key, c.question, c.object)
		if twin, ok := seen[u]; ok {
			t.Errorf("%s and %s are rounded alike", name, twin)
		}
		seen[u] = name
		if want := float64(keyedWord(c.key, c.question, c.object, 0)) / 0x1p64; math.Abs(u-want) > 0x1p-49 {
			t.Errorf("%s is rounded up from %v on, want %v", name, u, want)
		}
	}
}

// TestRoundKeyedOverObjects rounds one number for many objects and questions. The key is fixed, so that the
// test either always passes or never; a right function would fail for one key in 10¹⁰.
func TestRoundKeyedOverObjects(t *testing.T) {
	const n, x = 20_000 / (coarser * coarser), 23.02585 + 0.69315
	r := newRange(t, 0, 10)
	for _, p := range []float64{0.03, 0.5, 0.8} {
		upper := 0
		for i := range n {
			upper += keyed(t, r, key, fmt.Sprint("question ", i%7), fmt.Sprint(i/7), 10*p)
		}
		if bound := x/3 + math.Sqrt(x*x/9+2*x*n*p*(1-p)); math.Abs(float64(upper)-n*p) > bound {
			t.Errorf("share %v: the upper end %d times of %d, want ± %.0f", p, upper, n, bound)
		}
	}
}

// TestMeanIsEquation70 compares with l + (h−l)·((e^ε+1)λ_h − 1)/(e^ε−1) from mpmath. The standard errors are
// (h−l)·√(o(1−o)/n)/(p−q), o = q + (p−q)·share with the share of the estimate in the range, at most 1.
func TestMeanIsEquation70(t *testing.T) {
	for _, c := range []struct {
		low, high      float64
		epsilon        string
		ends           []int64
		mean, standard string
	}{
		{0, 1, "1", []int64{600, 400}, "0.2836046586261347151229996", "0.03352382213351396222604957"},
		{-3, 7, "0.25", []int64{510, 490}, "1.195837667162440307153023", "1.271237966247590716819941"},
		{20, 2500, "3", []int64{930, 70}, "81.85045852344930563411969", "22.10662566196980056415863"},
		{0, 1, "0.000000001", []int64{1, 2}, "333333333.8333333333611111", "577350269.1896257644850925"},
	} {
		f := mean(t, newRange(t, c.low, c.high), 0.95, Counts{eps(t, c.epsilon), c.ends})
		if off, _ := sub(f.Estimate, c.mean).Float64(); math.Abs(off) > 1e-13*f.StdErr+1e-14*(c.high-c.low) {
			t.Errorf("ε=%s, %v: mean %.20g, want %s", c.epsilon, c.ends, f.Estimate, c.mean)
		}
		wantNear(t, fmt.Sprintf("ε=%s, %v: standard error", c.epsilon, c.ends), f.StdErr, c.standard, 1e-12)
		const z = 1.95996398454005405 // from mpmath
		wantNear(t, "half the interval", (f.High-f.Low)/2, z*f.StdErr, 1e-12)
		wantNear(t, "middle of the interval", add(f.High, f.Low), mul(2, f.Estimate), 1e-12)
	}
}

// TestMeanIsTheShareOfTheUpperEnd compares with the reference estimates of shares for two values.
func TestMeanIsTheShareOfTheUpperEnd(t *testing.T) {
	rows := 0
	for _, row := range vectors[estimatorRow](t, "estimator.json") {
		if len(row.Observed) != 2 {
			continue
		}
		rows++
		f := mean(t, newRange(t, -20, 60), 0.9, Counts{eps(t, row.Epsilon), row.Observed})
		wantNear(t, "mean at ε="+row.Epsilon, f.Estimate, add(-20, mul(80, row.Frequency[1])), 1e-12)
	}
	if rows == 0 {
		t.Error("no row has two values")
	}
}

// numbers is a small population of numbers, as shares of a range, parted at random into levels.
type numbers struct {
	shares []float64
	levels []sized
}

var someNumbers = []numbers{
	{[]float64{0.3}, []sized{{"1", 1}}},
	{[]float64{0, 1, 0.25, 0.5, 0.9, 0.9}, []sized{{"0.7", 6}}},
	{[]float64{0, 0, 1, 1}, []sized{{"5", 4}}},
	{[]float64{0.4, 0.4, 0.4, 0.4, 0.4}, []sized{{"3", 5}}},
	{[]float64{0.1, 0.2, 0.7, 1, 0.05, 0}, []sized{{"0.5", 2}, {"2", 4}}},
	{[]float64{0.1, 0.2, 0.7, 0, 0}, []sized{{"0.5", 1}, {"1", 3}, {"6", 1}}},
	{[]float64{1, 1, 1, 0, 0, 0}, []sized{{"8", 3}, {"9", 3}}},
}

// TestMeanIsUnbiased sums over all partitions, roundings and responses: the mean of the estimates is that of the
// numbers. The square of the standard error, with the true mean in the place of its estimate, is above the
// variance by Var(x)/n for one level; for several it is by Var(x)·(1−ΣW²/n_l)/(n−1), which is less.
func TestMeanIsUnbiased(t *testing.T) {
	r := newRange(t, -3, 5)
	for _, x := range someNumbers {
		n, center, variance := float64(len(x.shares)), 0.0, 0.0
		for _, share := range x.shares {
			center += share / n
		}
		for _, share := range x.shares {
			variance += (share - center) * (share - center) / n
		}
		average, square, total := 0.0, 0.0, 0.0
		x.enumerate(t, func(probability float64, levels []Counts) {
			f := mean(t, r, 0.9, levels...)
			total += probability
			average += probability * f.Estimate
			square += probability * (f.Estimate - (-3 + 8*center)) * (f.Estimate - (-3 + 8*center))
			if want := 8 * math.Sqrt(x.stated(t, min(max((f.Estimate+3)/8, 0), 1))); math.Abs(f.StdErr-want) > 1e-12*want {
				t.Errorf("%v with %v: standard error %v, want %v", x, levels, f.StdErr, want)
			}
		})
		wantNear(t, "the sum of all probabilities", total, 1, 1e-12)
		if math.Abs(average-(-3+8*center)) > 1e-11 {
			t.Errorf("%v: the mean estimate is %v, want %v", x, average, -3+8*center)
		}
		above := x.stated(t, center) - square/64
		want := variance / n
		if len(x.levels) > 1 {
			want = variance * (1 - x.concentration(t)) / (n - 1)
			if want > variance/n+1e-15 {
				t.Errorf("%v: %v is above Var(x)/n = %v", x, want, variance/n)
			}
		}
		if math.Abs(above-want) > 1e-11*square/64 {
			t.Errorf("%v: the squared standard error is above the variance by %v, want %v", x, above, want)
		}
	}
}

// weights returns the share of each level in the estimate, W, with 1/λ² of its ε.
func (x numbers) weights(t *testing.T) (weights, inverse []float64) {
	total := 0.0
	for _, level := range x.levels {
		λ := math.Tanh(eps(t, level.epsilon).Float64() / 2)
		weights, inverse = append(weights, float64(level.objects)*λ*λ), append(inverse, 1/(λ*λ))
		total += float64(level.objects) * λ * λ
	}
	for i := range weights {
		weights[i] /= total
	}
	return weights, inverse
}

// stated is the square of the standard error of the mean share, if that is the given one: λ is p − q, and
// o = q + λ·share, so o(1−o)/λ² = (1/λ² − (2·share−1)²)/4.
func (x numbers) stated(t *testing.T, share float64) float64 {
	sum := 0.0
	weights, inverse := x.weights(t)
	for i, w := range weights {
		sum += w * w / float64(x.levels[i].objects) * (inverse[i] - (2*share-1)*(2*share-1)) / 4
	}
	return sum
}

// concentration is ΣW²/n_l.
func (x numbers) concentration(t *testing.T) float64 {
	sum := 0.0
	weights, _ := x.weights(t)
	for i, w := range weights {
		sum += w * w / float64(x.levels[i].objects)
	}
	return sum
}

// enumerate calls visit with all counts that can be observed.
func (x numbers) enumerate(t *testing.T, visit func(probability float64, levels []Counts)) {
	partitions := experiment{truths: make([]int, len(x.shares)), levels: x.levels}.partitions(nil)
	for _, levelOf := range partitions {
		for code := range 1 << len(x.shares) {
			probability := 1 / float64(len(partitions))
			levels := make([]Counts, len(x.levels))
			for i, level := range x.levels {
				levels[i] = Counts{eps(t, level.epsilon), make([]int64, 2)}
			}
			for i, share := range x.shares {
				e, end := math.Exp(levels[levelOf[i]].Epsilon.Float64()), code>>i&1
				upper := (share*e + 1 - share) / (e + 1) // rounded up and told, or down and not told
				if end == 0 {
					upper = 1 - upper
				}
				probability *= upper
				levels[levelOf[i]].ByValue[end]++
			}
			visit(probability, levels)
		}
	}
}

// TestMeanIntervalCovers draws 10,000 surveys of 500 numbers at mixed levels, with a fixed seed, for small ε, where
// the standard error is the right one, and for large ones, where it is too large. The slack is that of
// TestIntervalCoversAsOftenAsItSays.
func TestMeanIntervalCovers(t *testing.T) {
	const surveys, objects, slack = 10_000 / (coarser * coarser), 500, 0.005 + 0.016*coarser
	random := rand.New(rand.NewPCG(22, 23))
	r, x, center := newRange(t, 10, 110), make([]float64, objects), 0.0
	for i := range x {
		x[i] = 10 + 100*random.Float64()*random.Float64()
		center += x[i] / objects
	}
	for _, c := range []struct {
		levels []string
		least  float64
		most   float64
	}{
		{[]string{"0.2", "0.4", "0.8"}, 0.95 - slack, 0.95 + slack},
		{[]string{"3", "6"}, 0.97 - 0.016*(coarser-1), 1},
	} {
		covered, short := 0.0, 0.0
		for range surveys {
			f := mean(t, r, 0.95, meanSurvey(t, random, r, x, c.levels)...)
			off, half := math.Abs(f.Estimate-center), (f.High-f.Low)/2
			if off <= half {
				covered++
			}
			if off <= (1-0.15*coarser)*half {
				short++
			}
		}
		if share := covered / surveys; share < c.least || share > c.most {
			t.Errorf("ε %v: the interval covers the mean in %.4f of the surveys", c.levels, share)
		}
		if share := short / surveys; c.most < 1 && share >= c.least {
			t.Errorf("ε %v: an interval that is %d %% too short covers %.4f, and nobody notices", c.levels, 15*coarser, share)
		}
	}
}

// meanSurvey rounds the numbers, parts them at random into levels of the same size, and draws responses.
func meanSurvey(t *testing.T, random *rand.Rand, r Range, x []float64, epsilons []string) (levels []Counts) {
	for _, e := range epsilons {
		levels = append(levels, Counts{eps(t, e), make([]int64, 2)})
	}
	truths := make([]float64, len(levels))
	for i := range truths {
		truths[i] = 1 / (1 + math.Exp(-levels[i].Epsilon.Float64()))
	}
	for place, i := range random.Perm(len(x)) {
		level, end := place%len(levels), 0
		if random.Float64() < (x[i]-r.Low())/(r.High()-r.Low()) {
			end = 1
		}
		if random.Float64() >= truths[level] {
			end = 1 - end
		}
		levels[level].ByValue[end]++
	}
	return levels
}

// TestMeanAtTheEdges takes ε, counts and ranges at their limits: the numbers stay finite.
func TestMeanAtTheEdges(t *testing.T) {
	for _, r := range []Range{newRange(t, 0, 1), newRange(t, 0, tiniest), newRange(t, -1e290, 1e290)} {
		for _, c := range []Counts{
			{privacy.MaxEpsilon(), []int64{0, 1}}, {privacy.MaxEpsilon(), []int64{math.MaxInt64, math.MaxInt64}},
			{fromNano(t, 1), []int64{0, 1}}, {fromNano(t, 1), []int64{math.MaxInt64, 0}},
		} {
			for _, levels := range [][]Counts{{c}, {c, c}} {
				f := mean(t, r, math.Nextafter(1, 0), levels...)
				if x := f.Estimate + f.StdErr + f.Low + f.High; math.IsNaN(x) || math.IsInf(x, 0) {
					t.Errorf("[%v, %v], ε=%v, %v: %+v", r.Low(), r.High(), c.Epsilon, c.ByValue, f)
				}
			}
		}
	}
	if f := mean(t, newRange(t, 2, 6), 0.9, Counts{privacy.MaxEpsilon(), []int64{1, 3}}); f.Estimate != 5 {
		t.Errorf("at ε=1000 the mean is %v, want 5", f.Estimate)
	}
}

func TestMeanRefuses(t *testing.T) {
	one := eps(t, "1")
	good := Counts{one, []int64{1, 2}}
	for _, c := range []struct {
		name       string
		confidence float64
		levels     []Counts
		names      string
	}{
		{"confidence 0", 0, []Counts{good}, "confidence 0 "},
		{"confidence 1", 1, []Counts{good}, "confidence 1 "},
		{"confidence NaN", math.NaN(), []Counts{good}, "confidence NaN"},
		{"no level", 0.9, nil, "no responses"},
		{"no responses", 0.9, []Counts{{one, []int64{0, 0}}}, "no responses"},
		{"negative count", 0.9, []Counts{{one, []int64{5, -1}}}, "value 1 was counted -1 times"},
		{"one end", 0.9, []Counts{{one, []int64{5}}}, "1 values"},
		{"three ends", 0.9, []Counts{{one, []int64{1, 2, 3}}}, "one of 2 ends, not of 3"},
		{"two and three ends", 0.9, []Counts{good, {one, []int64{1, 2, 3}}}, "levels with 2 and with 3 values"},
		{"ε=0", 0.9, []Counts{{privacy.Epsilon{}, []int64{1, 2}}}, "ε=0"},
	} {
		got, err := newRange(t, 0, 1).Mean(c.confidence, c.levels...)
		if got != (Frequency{}) || !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s: %v, %v; want an error that names %q", c.name, got, err, c.names)
		}
	}
}

func newRange(t testing.TB, low, high float64) Range {
	t.Helper()
	r, err := NewRange(low, high)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func keyed(t *testing.T, r Range, key []byte, question, object string, x float64) int {
	t.Helper()
	end, err := r.RoundKeyed(key, question, object, x)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

func mean(t *testing.T, r Range, confidence float64, levels ...Counts) Frequency {
	t.Helper()
	f, err := r.Mean(confidence, levels...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
