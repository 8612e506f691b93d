package finite

import (
	"errors"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/privacy"
)

func TestNewMatrix_InvalidRows_AreRefused(t *testing.T) {
	half := fractions("1/2", "1/2")
	wide := make([]*big.Rat, maxCells/2+1)
	for o := range wide {
		wide[o] = big.NewRat(1, int64(len(wide)))
	}
	for _, c := range []struct {
		name  string
		rows  [][]*big.Rat
		names string
	}{
		{"nothing", nil, "at least 2 inputs"},
		{"one input", [][]*big.Rat{half}, "at least 2 inputs"},
		{"one output", [][]*big.Rat{fractions("1"), fractions("1")}, "2 outputs"},
		{"no outputs", [][]*big.Rat{{}, {}}, "2 outputs"},
		{"too many", [][]*big.Rat{wide, wide}, "at most 4096"},
		{"ragged", [][]*big.Rat{half, fractions("1/3", "1/3", "1/3")}, "input 1 has 3 probabilities, and input 0 has 2"},
		{"ragged, too short", [][]*big.Rat{half, fractions("1")}, "input 1 has 1 probabilities"},
		{"missing", [][]*big.Rat{half, {rat("1"), nil}}, "output 1 given input 1"},
		{"negative", [][]*big.Rat{fractions("3/2", "-1/2"), half}, "output 1 given input 0"},
		{"too little", [][]*big.Rat{half, fractions("1/2", "499999999/1000000000")}, "input 1 add up to 999999999/1000000000"},
		{"too much", [][]*big.Rat{fractions("1/2", "2/3"), half}, "input 0 add up to 7/6"},
	} {
		m, err := NewMatrix(c.rows)
		check.That(t, m == nil && errors.Is(err, privacy.ErrInvalid) && strings.Contains(err.Error(), c.names),
			"%s: %v, %v; want an error that names %q", c.name, m, err, c.names)
	}
}

func TestNewMatrix_LargestSizes_AreAccepted(t *testing.T) {
	row := make([]*big.Rat, maxCells/2)
	for o := range row {
		row[o] = big.NewRat(1, int64(len(row)))
	}
	matrix(row, row)
	randomized(64, rat("2"))
}

// Changes of the numbers given to NewMatrix, or returned by At, must not change the matrix.
func TestMatrix_CallersNumbers_AreCopied(t *testing.T) {
	rows := [][]*big.Rat{fractions("1/3", "2/3"), fractions("1/2", "1/2")}
	m := matrix(rows...)
	rows[0][0].SetInt64(5)
	rows[1] = nil
	m.At(0, 1).SetInt64(7)
	for i, want := range fractions("1/3", "2/3", "1/2", "1/2") {
		if got := m.At(i/2, i%2); got.Cmp(want) != 0 {
			t.Errorf("the probability of output %d given input %d is %v, want %v", i%2, i/2, got, want)
		}
	}
	check.That(t, m.Inputs() == 2 && m.Outputs() == 2, "%d inputs, %d outputs", m.Inputs(), m.Outputs())
}

func TestEpsilon_IsLargestLogRatioRoundedUp(t *testing.T) {
	never := matrixOf("1/2 0 1/2", "1/4 0 3/4")
	for _, c := range []struct {
		name   string
		matrix *Matrix
		want   string
	}{
		{"E=2", randomized(2, rat("2")), "0.693147181"}, // ln 2 = 0.69314718055994…
		{"E=2, 5 values", randomized(5, rat("2")), "0.693147181"},
		{"E=3", randomized(3, rat("3")), "1.098612289"}, // ln 3 = 1.09861228866810…
		{"E=1/2", randomized(2, rat("1/2")), "0.693147181"},
		{"E=10", subsets(5, 2, rat("10")), "2.302585093"}, // ln 10 = 2.30258509299404…
		{"unary, E=3", unary(3, rat("3")), "1.098612289"},
		{"an output that never happens", never, "0.693147181"},
		{"independent of the input", matrixOf("1/3 2/3", "1/3 2/3"), "0"},
		{"nearly independent of the input", randomized(2, rat("1000000000000000000000001/1000000000000000000000000")), "0.000000001"},
		{"a large one", randomized(2, rat("1e434")), "999.32193036"}, // 434 ln 10 = 999.32193035941…
	} {
		got, err := c.matrix.Epsilon()
		check.That(t, err == nil && got == eps(c.want), "%s: ε = %v, %v; want %s", c.name, got, err, c.want)
	}
}

// The ratios are so close to a power of e that 128 bits do not decide on which side they are. A
// ratio above the power needs the next nano-nat.
func TestEpsilon_NextToAPowerOfE_RoundsUp(t *testing.T) {
	for _, nano := range []int64{1, 2, 500_000_000, 1_000_000_000, 123_456_789_012, privacy.MaxEpsilon().Nano() - 1} {
		low, high := exact.Exp(nano, 700).Bounds()
		for ratio, want := range map[*big.Float]int64{low: nano, high: nano + 1} {
			odds, _ := ratio.Rat(nil)
			if got, err := randomized(2, odds).Epsilon(); err != nil || got.Nano() != want {
				t.Errorf("next to e^(%d·10⁻⁹): %v, %v; want %d nano-nats", nano, got, err, want)
			}
		}
	}
}

// The reference is a logarithm from a power series in rational numbers.
func TestEpsilon_AgreesWithAPowerSeries(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		odds := big.NewRat(2+random.Int64N(1000), 1+random.Int64N(20))
		if odds.Cmp(integer(1)) <= 0 {
			continue
		}
		m := randomized(2, odds)
		got := must(m.Epsilon())
		if low, high := naturalLog(odds); big.NewRat(got.Nano()-1, 1e9).Cmp(low) >= 0 || big.NewRat(got.Nano(), 1e9).Cmp(high) < 0 {
			t.Errorf("ln %v: %v", odds, got)
		}
	}
}

// naturalLog encloses ln x = k·ln 2 + ln(x/2ᵏ), with k so large that x/2ᵏ is at most 2. Each
// logarithm is computed by a power series.
func naturalLog(x *big.Rat) (low, high *big.Rat) {
	low, high = new(big.Rat), new(big.Rat)
	for rest := new(big.Rat).Set(x); ; rest.Quo(rest, integer(2)) {
		part := rest
		if rest.Cmp(integer(2)) > 0 {
			part = integer(2)
		}
		y := over(minus(part, integer(1)), plus(part, integer(1))) // 1/3 at most
		power, sum := new(big.Rat).Set(y), new(big.Rat)
		for n := 1; n < 50; n += 2 {
			sum.Add(sum, over(power, integer(n)))
			power = times(power, times(y, y))
		}
		low.Add(low, times(integer(2), sum))
		high.Add(high, plus(times(integer(2), sum), times(integer(3), power))) // the tail is below power·(1 + 1/9 + …)
		if rest.Cmp(integer(2)) <= 0 {
			return low, high
		}
	}
}

func TestEpsilon_NotPrivate_IsRefused(t *testing.T) {
	for name, m := range map[string]*Matrix{
		"an output of one input only": matrixOf("1/2 1/2 0", "1/4 1/2 1/4"),
		"the truth":                   matrixOf("1 0", "0 1"),
		"above 1,000":                 randomized(2, rat("1e435")),
		"no matrix":                   nil,
		"an empty one":                {},
	} {
		got, err := m.Epsilon()
		check.That(t, errors.Is(err, privacy.ErrInvalid), "%s: ε = %v, %v", name, got, err)
	}
}
