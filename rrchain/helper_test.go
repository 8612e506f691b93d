package rrchain

import (
	"encoding/binary"
	"encoding/json"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/privacy"
)

// coarser is how many times larger the faults are that statistical tests look for under the race
// detector.
const coarser = stattest.Coarser

// prec is the precision at which tests ask for the weights of a law, and wide that of their own
// arithmetic on them.
const prec, wide = 256, 320

// must returns x, if there is no error.
func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

func eps(text string) privacy.Epsilon { return must(privacy.ParseEpsilon(text)) }

func fromNano(nano int64) privacy.Epsilon { return must(privacy.EpsilonFromNano(nano)) }

// vectors reads the rows of a file of reference numbers (testdata/README.md).
func vectors[Row any](t *testing.T, name string) []Row {
	t.Helper()
	data := must(os.ReadFile(filepath.Join("..", "testdata", "vectors", name)))
	var file struct{ Rows []Row }
	check.Must(t, json.Unmarshal(data, &file))
	check.Need(t, len(file.Rows) >= 20, "%s has %d rows", name, len(file.Rows))
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
	if !near(got, want, tolerance) { // a relative error is computed only where there is one
		t.Errorf("%s = %.20g, want %.20g (relative error %.3g)", name, number(got), number(want), quo(sub(got, want), want))
	}
}

// odds are the probabilities of the single values under a law. When the responses above and below
// differ: the one above, the one below, each third value. When they are one value: that value, each
// other one.
type odds struct{ above, below, third, same, other *big.Float }

// oddsOf turns the weights, which the sampler draws by, into probabilities of values. Small ones
// are differences of weights, so these are taken at the precision of the weights.
func oddsOf(m int64, w exact.Weights) odds {
	one := exact.Int(1)
	third := quo(middle(one.Sub(w.Either)), m)
	other := quo(middle(one.Sub(w.Same)), m)
	return odds{
		above: add(middle(w.First), third),
		below: add(middle(w.Either.Sub(w.First)), third),
		third: third,
		same:  sub(1, mul(other, m-1)),
		other: other,
	}
}

// trueOdds is what the sampler draws by.
func trueOdds(l law) odds { return oddsOf(l.m, l.weights(prec)) }

// of returns the probability of a value, given the responses above and below.
func (o odds) of(value, above, below int) *big.Float {
	switch {
	case above == below && value == above:
		return o.same
	case above == below:
		return o.other
	case value == above:
		return o.above
	case value == below:
		return o.below
	}
	return o.third
}

// response returns the probabilities of a randomized response at ε: the truth, and each other
// value.
func response(m, nano int64) (p, q *big.Float) {
	e := middle(exact.Exp(nano, prec))
	scale := add(e, m-1)
	return quo(e, scale), quo(1, scale)
}

// wordOf returns the word in which a draw from m values, few enough for one word, sees the real
// number U = u and the uniform value.
func wordOf(m int, u float64, value int) uint64 {
	word, _ := bits.Div64(uint64(value), uint64(u*0x1p64), uint64(m))
	return word
}

// replay returns a sampler on the given random words, then ones for ever. A draw reads one; see
// [wordOf].
func replay(words ...uint64) *Sampler {
	return &Sampler{bits: exact.ReplayBits(func(p []byte) {
		for ; len(p) > 0; p = p[8:] {
			word := ^uint64(0)
			if len(words) > 0 {
				word, words = words[0], words[1:]
			}
			binary.BigEndian.PutUint64(p, word)
		}
	})}
}

// noBits returns a sampler that panics when it draws.
func noBits() *Sampler { return &Sampler{bits: exact.ReplayBits(nil)} }

// row returns a row of n bits with some of them set.
func row(n int, ones ...int) Bits {
	packed := make([]byte, packedLen(n))
	for _, i := range ones {
		packed[i/8] |= 1 << (i % 8)
	}
	return must(NewBits(n, packed))
}

// parsed returns the row that is written as text.
func parsed(t testing.TB, text string) (b Bits) {
	t.Helper()
	check.Must(t, b.UnmarshalText([]byte(text)))
	return b
}

// count returns how many bits are set.
func count(b Bits) (n int) {
	for range b.Ones() {
		n++
	}
	return n
}

// randomRow returns a row of n fair bits.
func randomRow(random *rand.Rand, n int) Bits {
	var ones []int
	for i := range n {
		if random.IntN(2) == 1 {
			ones = append(ones, i)
		}
	}
	return row(n, ones...)
}
