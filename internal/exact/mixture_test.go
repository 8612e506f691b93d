package exact

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

// decider draws with a U that begins with the given words and continues with tail for ever. It
// returns whether U was below one of the thresholds.
type decider func(tail uint64, u ...uint64) bool

func TestMixtureDraw_AllPrefixes_BracketTheProbability(t *testing.T) { eachThreshold(t, checkPrefixes) }
func TestMixtureDraw_DecisionFlipsAtTheThreshold(t *testing.T)       { eachThreshold(t, checkFlip) }

// checkPrefixes tries all values of the first 16 bits of U. Only in the cell that contains the
// threshold may the decision depend on the bits after these 16. So the count of cells that are
// certainly below, and of cells that may be, bracket the probability within 2⁻¹⁶.
func checkPrefixes(t *testing.T, at *big.Float, below decider) {
	random := rand.New(rand.NewPCG(3, 4))
	surely, possibly := 0, 0
	upper := true
	for prefix := range uint64(1 << 16) {
		cell := prefix << 48
		lower := below(0, cell)
		check.Need(t, !lower || upper, "prefix %#x is below the threshold, and one before it is not", prefix)
		upper = below(ones, cell|ones>>16)
		check.Need(t, !upper || lower,
			"prefix %#x is below the threshold with ones after it, and not with zeros", prefix)
		if middle := below(random.Uint64(), cell|random.Uint64()>>16); lower == upper && middle != lower {
			t.Fatalf("prefix %#x is decided, and other bits after it decide otherwise", prefix)
		}
		if upper {
			surely++
		}
		if lower {
			possibly++
		}
	}
	check.That(t, possibly-surely <= 1,
		"%d prefixes are undecided, want at most one for one threshold", possibly-surely)
	cells := new(big.Float).SetMantExp(at, 16)
	check.That(t, cells.Cmp(big.NewFloat(float64(surely))) >= 0 && cells.Cmp(big.NewFloat(float64(possibly))) <= 0,
		"probability between %d/2¹⁶ and %d/2¹⁶, want %.10g", surely, possibly, at)
}

// checkFlip finds the U at which the outcome changes, to 320 bits, which takes several refinements.
// It must be the threshold rounded up to 320 bits, to the last bit.
func checkFlip(t *testing.T, at *big.Float, below decider) {
	const length = 320
	low := flip(new(big.Int), new(big.Int).Lsh(big.NewInt(1), length), func(u *big.Int) bool { return below(0, words(u, length)...) })
	want := ceiling(at, length)
	check.That(t, low.Cmp(want) == 0, "the outcome changes at\n%#x·2⁻³²⁰, want\n%#x·2⁻³²⁰", low, want)
}

// U has the bits of the threshold for some words, and differs from it in the last, upwards or
// downwards. Exactly these words are read, and every one of them decides.
func TestMixtureDraw_Refinement_ReadsOnlyTheWordsNeeded(t *testing.T) {
	var bits tape
	irrational := specimens()[:4] // the three thresholds are one number
	for _, s := range irrational {
		irrational = append(irrational, s.ofMany())
	}
	for _, s := range irrational {
		for depth := range 7 {
			u := words(ceiling(s.first, 64*(depth+1)), 64*(depth+1))
			last := &u[depth]
			*last -= 2 * s.m // below the cell of the threshold, since the ceiling is above it
			if got := s.at(&bits, second, ones, u...); got != first {
				t.Errorf("%s: leaving the threshold downwards in word %d gives %d, want the first value", s.name, depth, got)
			}
			wantRead(t, s.name, &bits, depth+1)
			*last += 3 * s.m
			if got := s.at(&bits, second, 0, u...); got != third {
				t.Errorf("%s: leaving the threshold upwards in word %d gives %d, want the uniform value", s.name, depth, got)
			}
			wantRead(t, s.name, &bits, depth+1)
		}
	}
}

// wantRead checks the number of words read, with those of the refinement.
func wantRead(t *testing.T, name string, bits *tape, want int) {
	t.Helper()
	check.That(t, bits.read() == want, "%s: %d words were read, want %d", name, bits.read(), want)
}

// The same bits are replayed for different true values and neighbours. The number of words read is
// the same, even where only one of the three thresholds needs a refinement.
func TestMixtureDraw_BitsRead_DoNotRevealTheOutcome(t *testing.T) {
	var bits tape
	outcomes := map[bool]bool{}
	for _, s := range specimens() {
		for _, u := range edgeCases(s) {
			counts := map[int]bool{}
			for _, one := range []uint32{0, first, second, third} {
				for _, two := range []uint32{0, first, second, third} {
					s.write(&bits, third, 0x0123456789abcdef, u...)
					outcomes[s.Draw(&bits.Bits, one, two) == one] = true
					counts[bits.read()] = true
				}
			}
			check.That(t, len(counts) == 1, "%s: U = %x… reads different numbers of words: %v", s.name, u, counts)
		}
	}
	check.That(t, len(outcomes) == 2, "all draws had the same outcome: nothing was tested")
}

// edgeCases returns values of U: the ends, the middle, and the first one to four words of each
// threshold.
func edgeCases(s specimen) [][]uint64 {
	calls := [][]uint64{{0}, {1 << 63}, {ones}}
	for _, at := range []*big.Float{s.first, s.either, s.same} {
		for n := 1; n <= 4; n++ {
			floor := ceiling(at, 64*n)
			if floor.Sign() > 0 {
				floor.Sub(floor, big.NewInt(1))
			}
			calls = append(calls, words(floor, 64*n))
		}
	}
	return calls
}

// The package promises that all but 2⁻⁵⁰ of the draws need no refinement, or 8m·2⁻⁶⁴ where m is
// large. A word W is undecided if mW mod 2⁶⁴ is in one of four ranges, of which one ends at 2⁶⁴.
// With 2^j the largest power of two that divides m, each value of mW mod 2⁶⁴ is a multiple of 2^j
// and belongs to 2^j words.
func TestNewMixture_Refinement_IsRare(t *testing.T) {
	for _, s := range specimens() {
		for _, m := range []uint32{2, 3, few, 1000, 1<<11 - 1, 1 << 11, 1<<11 + 1, many - 1, many} {
			mix := NewMixture(m, s.weights)
			step := uint64(m & -m)
			open := (mix.m-1)/step*step + step
			for _, threshold := range []threshold{mix.first, mix.either, mix.same} {
				open += (threshold.hi-threshold.lo)/step*step + step
			}
			check.That(t, open <= max(1<<14, 8*mix.m), "%s, m=%d: %d words of 2⁶⁴ are undecided", s.name, m, open)
		}
	}
}

// The test finds the real number W at which the outcome changes, to 192 bits, for m of all kinds. W
// in [k/m, (k+1)/m) has the uniform value k and U = mW−k. So the outcome changes at (k+t)/m for a
// threshold t of U.
func TestMixtureDraw_OneWord_YieldsUniformValueAndChoice(t *testing.T) {
	all := specimens()
	for _, s := range all[:len(all)/2] { // the others differ from these in m alone
		for _, m := range []uint64{3, 100, many - 1} {
			s.Mixture = NewMixture(uint32(m), s.weights)
			for _, p := range s.pairs() {
				for _, side := range p.sides {
					for _, k := range []uint64{0, m - 1} {
						if k != uint64(p.second) { // that value comes from two sides
							checkSplit(t, s, p, side, k)
						}
					}
				}
			}
		}
	}
}

func checkSplit(t *testing.T, s specimen, p pair, side side, k uint64) {
	t.Helper()
	const length = 192
	changed := func(w *big.Int) bool {
		var bits tape
		bits.load(0, words(w, length)...)
		value := s.Draw(&bits.Bits, first, p.second)
		return value == first || side.name == "Either" && value == p.second
	}
	got := flip(edgeOf(k, big.NewFloat(0), s.m, length), edgeOf(k, big.NewFloat(1), s.m, length), changed)
	if want := edgeOf(k, side.at, s.m, length); got.Cmp(want) != 0 {
		t.Errorf("%s/%s/%s, m=%d, value %d: the outcome changes at %#x·2⁻¹⁹², want %#x·2⁻¹⁹²", s.name, p.name, side.name, s.m, k, got, want)
	}
}

// Where all weights are 0, the uniform value changes from k−1 to k at the real number k/m. This is
// checked to 320 bits, which takes several refinements.
func TestMixtureDraw_UniformValue_ChangesAtExactFractions(t *testing.T) {
	const length = 320
	zero := func(prec uint) Weights { return Weights{Int(0), Int(0), Int(0)} }
	for _, m := range []uint64{2, 3, 6, 7, 100, many - 1, many} {
		mix := NewMixture(uint32(m), zero)
		for _, k := range []uint64{1, m / 2, m - 1} {
			low, high := edgeOf(k-1, big.NewFloat(0), m, length), edgeOf(k, big.NewFloat(1), m, length)
			got := flip(low, high, func(w *big.Int) bool {
				var bits tape
				bits.load(0, words(w, length)...)
				value := uint64(mix.Draw(&bits.Bits, first, second))
				check.That(t, value == k-1 || value == k,
					"m=%d, W=%#x·2⁻³²⁰: value %d, want %d or %d", m, w, value, k-1, k)
				return value == k-1
			})
			want := edgeOf(k, big.NewFloat(0), m, length)
			check.That(t, got.Cmp(want) == 0, "m=%d: value %d begins at %#x·2⁻³²⁰, want %#x·2⁻³²⁰", m, k, got, want)
		}
	}
}

// edgeOf returns (k+t)/m in units of 2^−length, rounded up.
func edgeOf(k uint64, t *big.Float, m uint64, length int) *big.Int {
	numerator, _ := sum(new(big.Float).SetUint64(k), t).Rat(nil)
	numerator.Mul(numerator, new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), uint(length))))
	numerator.Quo(numerator, new(big.Rat).SetInt(new(big.Int).SetUint64(m)))
	floor, rest := new(big.Int).DivMod(numerator.Num(), numerator.Denom(), new(big.Int))
	return floor.Add(floor, big.NewInt(int64(rest.Sign())))
}

// flip returns the least number from low to high for which a predicate no longer holds. It returns
// high if the predicate holds for all numbers below high.
func flip(low, high *big.Int, holds func(*big.Int) bool) *big.Int {
	low, high = new(big.Int).Set(low), new(big.Int).Set(high)
	for low.Cmp(high) < 0 {
		mid := new(big.Int).Add(low, high)
		mid.Rsh(mid, 1)
		if holds(mid) {
			low = mid.Add(mid, big.NewInt(1))
		} else {
			high = mid
		}
	}
	return low
}

// The weights have wide intervals at a low precision. A mixture with wide thresholds would be
// correct, but every second draw would need a refinement.
func TestNewMixture_WideWeights_RaisesThePrecision(t *testing.T) {
	var asked []uint
	loose := func(prec uint) Weights {
		asked = append(asked, prec)
		quarter := fraction(1, 4, prec)
		wide := Interval{quarter.lo, sum(quarter.lo, powerOfTwo(-int(prec)/8))}
		return Weights{First: quarter, Either: wide, Same: quarter}
	}
	mix := NewMixture(8, loose)
	want := []uint{128, 256, 512}
	check.That(t, slices.Equal(asked, want), "weights were requested at %v bits, want %v", asked, want)
	check.That(t, mix.either.tight(), "the threshold is not tight")
}

// At ε = 1,000 the probability of a false value is below 10⁻⁴²⁸. The weights have it to more than
// 2,000 bits. The sampler has it exactly: for U = 0.11…1 with so many ones it returns the true
// value, and with one more it returns a false one.
func TestMixtureDraw_LargeEpsilon_FalseValueKeepsItsProbability(t *testing.T) {
	for _, nano := range []int64{38_000_000_000, 100_000_000_000, 999_999_999_999, 1_000_000_000_000} {
		for _, m := range []int64{2, 4, 10, 1 << 20} {
			name := fmt.Sprintf("ε=%d·10⁻⁹, m=%d", nano, m)
			want := flipProbability(m, nano)
			if got := enclosedFlipProbability(m, nano); !got.encloses(want, powerOfTwo(-3000)) || got.relativeWidth().Cmp(powerOfTwo(-2000)) > 0 {
				t.Errorf("%s: a false value has probability %.6g to %.6g, width %.3g; want %.6g", name, got.lo, got.hi, got.relativeWidth(), want)
			}
			// A false value is a uniform value other than the true one, so U ≥ 1 − redrawn.
			redrawn := quo(new(big.Float).Mul(want, big.NewFloat(float64(m))), big.NewFloat(float64(m-1)))
			count := 1 - redrawn.MantExp(nil) // 2^−count ≤ redrawn < 2^(1−count)
			s := specimen{Mixture: NewMixture(8, response(m, nano))}
			var bits tape
			got := s.at(&bits, second, 0, leadingOnes(count-1)...)
			check.That(t, got == first, "%s: %d ones give %d, want the true value", name, count-1, got)
			if got := s.at(&bits, second, 0, leadingOnes(count)...); got != third {
				t.Errorf("%s: %d ones give %d, want a false value", name, count, got)
			}
		}
	}
}

// flipProbability returns (m−1)/(e^ε+m−1) to 3,000 bits by the series.
func flipProbability(m, nano int64) *big.Float {
	others := big.NewFloat(float64(m - 1))
	scale := new(big.Float).SetPrec(3100).Add(taylor(nano, 3100), others)
	return new(big.Float).SetPrec(3100).Quo(others, scale)
}

// enclosedFlipProbability returns the same number from the weights: (1−λ)·(m−1)/m.
func enclosedFlipProbability(m, nano int64) Interval {
	λ := response(m, nano)(4096).First // 1 − λ takes 1,443 bits of them
	return Int(1).Sub(λ).Mul(Int(m - 1)).Quo(Int(m))
}

// This is why the package exists. From ε = 38 on, for two values, the float64 nearest to the
// probability of the true value is 1. A comparison of floats then returns the true value even for
// the largest random number. The exact sampler returns a false value if all random bits are ones.
func TestMixtureDraw_BeyondFloatPrecision_CanReturnFalseValue(t *testing.T) {
	for _, nano := range []int64{38_000_000_000, 50_000_000_000, 1_000_000_000_000} {
		p := 1 / (1 + math.Exp(-float64(nano)/1e9))
		if largest := rand.New(onlyOnes{}).Float64(); largest >= 1 || !(largest < p) {
			t.Errorf("ε=%d·10⁻⁹: a float sampler can return a false value after all (%v against %v)", nano, largest, p)
		}
		s := specimen{Mixture: NewMixture(8, response(2, nano))}
		var bits tape
		got := s.at(&bits, second, ones, ones)
		check.That(t, got == third, "ε=%d·10⁻⁹: only ones give %d, want a false value", nano, got)
	}
}

type onlyOnes struct{}

func (onlyOnes) Uint64() uint64 { return ones }

// Where neither given value is drawn, the uniform bits alone select among all values, including the
// two given ones.
func TestMixtureDraw_NeitherValue_ReturnsTheUniformOne(t *testing.T) {
	neither := rationalSpecimen("1/4, 1/2, 3/4", 1, 4, 1, 2, 3, 4)
	var bits tape
	for value := range uint32(8) {
		for _, u := range []uint64{3 << 62, 3<<62 | 1, 7 << 61, ones} {
			neither.write(&bits, uint64(value), 0, u)
			check.Equal(t, neither.Draw(&bits.Bits, first, second), value, "the word of %d drew", value)
		}
	}
}

func TestMasks_EdgeValues_SelectTheRightOperand(t *testing.T) {
	edges := []uint64{0, 1, 2, 1<<31 - 1, 1 << 31, 1<<31 + 1, 1<<32 - 2, 1<<32 - 1}
	for shift := range 64 {
		edges = append(edges, 1<<shift, ones<<shift)
	}
	for _, a := range edges {
		for _, b := range edges {
			want := uint64(0)
			if a == b {
				want = ones
			}
			got := EqualMask(a, b)
			check.That(t, got == want, "EqualMask(%#x, %#x) = %#x", a, b, got)
		}
	}
	edges64 := []uint64{0, 1, 1<<32 - 1, 1 << 32, 1 << 63, ones - 1, ones}
	for _, a := range edges64 {
		for _, b := range edges64 {
			check.That(t, choose(ones, a, b) == a && choose(0, a, b) == b,
				"choose(…, %#x, %#x) = %#x and %#x", a, b, choose(ones, a, b), choose(0, a, b))
		}
	}
}

// Cells next to both ends of a threshold are compared, also at the ends of the 64 bits.
func TestThresholdCompare_AroundBothEnds(t *testing.T) {
	for _, c := range []threshold{{0, 0}, {0, 3}, {5, 5}, {5, 8}, {1 << 63, 1<<63 + 1}, {ones, ones}, {ones - 2, ones}} {
		for _, u := range []uint64{0, 1, c.lo - 1, c.lo, c.lo + 1, c.hi - 1, c.hi, c.hi + 1, ones - 1, ones} {
			wantBelow, wantOpen := mask(u < c.lo), mask(c.lo <= u && u <= c.hi)
			below, open := c.compare(u)
			check.That(t, open == wantOpen && (open != 0 || below == wantBelow),
				"%#x against [%#x, %#x]: below %#x, open %#x", u, c.lo, c.hi, below, open)
		}
	}
}

func mask(b bool) uint64 {
	if b {
		return ones
	}
	return 0
}

// words returns x·2^−length, below 1, as 64-bit words of its binary expansion.
func words(x *big.Int, length int) []uint64 {
	list := make([]uint64, length/64)
	low, rest := new(big.Int).SetUint64(ones), new(big.Int).Set(x)
	for i := len(list) - 1; i >= 0; i-- {
		list[i] = new(big.Int).And(rest, low).Uint64()
		rest.Rsh(rest, 64)
	}
	return list
}

// leadingOnes returns the words of 0.11…1 with count ones.
func leadingOnes(count int) []uint64 {
	length := (count + 63) / 64 * 64
	x := new(big.Int).Lsh(big.NewInt(1), uint(count))
	x.Sub(x, big.NewInt(1))
	return words(x.Lsh(x, uint(length-count)), length)
}

// ceiling returns ⌈x·2^length⌉.
func ceiling(x *big.Float, length int) *big.Int {
	n, accuracy := new(big.Float).SetMantExp(x, length).Int(nil)
	if accuracy == big.Below {
		n.Add(n, big.NewInt(1))
	}
	return n
}
