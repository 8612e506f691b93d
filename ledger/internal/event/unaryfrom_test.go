package event

import (
	"math"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/rrchain/estimate"
)

// errorsOf returns the squared errors of the estimates from an object's responses, summed over all
// values, in direct and in unary encoding.
func errorsOf(t *testing.T, truth estimate.Counts) (sums [2]float64) {
	t.Helper()
	for i := range sums {
		truth.Unary = i == 1
		variances := check.Value(estimate.Variance(truth))(t)
		for _, v := range variances {
			sums[i] += v
		}
	}
	return sums
}

// From UnaryFrom values on, and only from there, unary encoding has the smaller error. The test
// also checks the numbers in the comment of UnaryFrom.
func TestUnaryFrom_IsWhereUnaryHasTheSmallerError(t *testing.T) {
	for _, c := range []struct {
		epsilon string
		want    int // 0 if only the errors are compared
	}{
		{"0.000000001", 6}, {"0.000001", 6}, {"0.001", 6}, {"0.01", 6}, {"0.1", 6}, {"0.5", 7}, {"1", 10}, {"1.5", 0}, {"2", 21},
		{"3", 0}, {"3.456789", 0}, {"5", 0}, {"8", 0}, {"10", 0}, {"12.9", 0},
	} {
		from := UnaryFrom(check.Eps(t, c.epsilon))
		check.That(t, c.want == 0 || from == c.want,
			"ε=%s: unary encoding is better from %d values on, want %d", c.epsilon, from, c.want)
		sizes := []int{from / 2, from - 2, from - 1, from, from + 1, 2 * from}
		if from < 200 {
			sizes = nil
			for m := range 3 * from {
				sizes = append(sizes, m)
			}
		}
		for _, m := range sizes {
			if m < 2 || m > wire.MaxValues {
				continue
			}
			truth := estimate.Counts{Epsilon: check.Eps(t, c.epsilon), ByValue: make([]int64, m)}
			truth.ByValue[m/3] = 1
			if sums := errorsOf(t, truth); sums[1] < sums[0] != (m >= from) {
				t.Errorf("ε=%s: the errors for %d values are %v; unary should be better from %d on", c.epsilon, m, sums, from)
			}
		}
	}
	large := UnaryFrom(check.Eps(t, "12"))
	ratio := float64(large) / math.Exp(12)
	check.That(t, math.Abs(ratio-1-math.Sqrt2) <= 1e-4, "from %d values on at ε=12, which is %v·e^ε", large, ratio)
	for _, e := range []string{"12.99", "20", "20.5", "1000"} {
		from := UnaryFrom(check.Eps(t, e))
		check.That(t, from == wire.MaxValues+1, "ε=%s: better from %d values on, which is too many", e, from)
	}
	from := UnaryFrom(check.Eps(t, "12.98"))
	check.That(t, from <= wire.MaxValues, "ε=12.98: never better")
}
