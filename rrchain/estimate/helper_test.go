package estimate

import (
	"encoding/json"
	"math/big"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// prec is the precision at which tests ask for the weights of a law, and wide that of their own
// arithmetic on them.
const prec, wide = 256, 320

func eps(t testing.TB, text string) privacy.Epsilon {
	t.Helper()
	e, err := privacy.ParseEpsilon(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func fromNano(t testing.TB, nano int64) privacy.Epsilon {
	t.Helper()
	e, err := privacy.EpsilonFromNano(nano)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// vectors reads the rows of a file of reference numbers (testdata/README.md).
func vectors[Row any](t *testing.T, name string) []Row {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "vectors", name))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Rows []Row }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Rows) < 20 {
		t.Fatalf("%s has %d rows", name, len(file.Rows))
	}
	return file.Rows
}

// Arithmetic at the wide precision, on float64, int64, decimal text and *big.Float alike.

func number(x any) *big.Float {
	f := new(big.Float).SetPrec(wide)
	switch x := x.(type) {
	case *big.Float:
		return f.Set(x)
	case float64:
		return f.SetFloat64(x)
	case int:
		return f.SetInt64(int64(x))
	case int64:
		return f.SetInt64(x)
	case string:
		if _, ok := f.SetString(x); ok {
			return f
		}
	}
	panic("not a number")
}

func add(x, y any) *big.Float { return number(x).Add(number(x), number(y)) }
func sub(x, y any) *big.Float { return number(x).Sub(number(x), number(y)) }
func mul(x, y any) *big.Float { return number(x).Mul(number(x), number(y)) }
func quo(x, y any) *big.Float { return number(x).Quo(number(x), number(y)) }

// middle returns the middle of an interval.
func middle(x exact.Interval) *big.Float {
	lo, hi := x.Bounds()
	return quo(add(lo, hi), 2)
}

// near tells whether got is within a relative tolerance of want.
func near(got, want any, tolerance float64) bool {
	gap := sub(got, want)
	return gap.Abs(gap).Cmp(mul(number(want).Abs(number(want)), tolerance)) <= 0
}

// wantNear reports a number that is not within a relative tolerance of want.
func wantNear(t *testing.T, name string, got, want any, tolerance float64) {
	t.Helper()
	if !near(got, want, tolerance) {
		t.Errorf("%s = %.20g, want %.20g (relative error %.3g)", name, number(got), number(want), quo(sub(got, want), want))
	}
}

// response returns the probabilities of a randomized response at ε: the truth, and each other value.
func response(m, nano int64) (p, q *big.Float) {
	e := middle(exact.Exp(nano, prec))
	scale := add(e, m-1)
	return quo(e, scale), quo(1, scale)
}

func power(m int64, n int) int {
	x := 1
	for range n {
		x *= int(m)
	}
	return x
}

func digits(code int, m int64, n int) []int {
	d := make([]int, n)
	for i := range d {
		d[i] = code % int(m)
		code /= int(m)
	}
	return d
}

func newRange(t testing.TB, low, high float64) rrchain.Range {
	t.Helper()
	r, err := rrchain.NewRange(low, high)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
