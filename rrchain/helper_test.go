package rrchain

import (
	"encoding/binary"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/privacy"
)

// Arithmetic with many digits.
var (
	number, add, sub, mul, quo = stattest.Number, stattest.Add, stattest.Sub, stattest.Mul, stattest.Quo
	middle, near, wantNear     = stattest.Middle, stattest.Near, stattest.WantNear
	power, digits              = stattest.Power, stattest.Digits
	permutations               = stattest.Permutations
)

// coarser is the factor by which the faults that statistical tests must detect are larger under the
// race detector.
const coarser = stattest.Coarser

// prec is the precision, in bits, of the weights of a law in tests.
const prec = 256

// must returns x, and panics if there is an error.
func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

func eps(text string) privacy.Epsilon { return must(privacy.ParseEpsilon(text)) }

func fromNano(nano int64) privacy.Epsilon { return must(privacy.EpsilonFromNano(nano)) }

// vectors reads the rows of a file of reference numbers.
func vectors[Row any](t *testing.T, name string) []Row {
	t.Helper()
	return check.Vectors[Row](t, "../testdata/vectors/"+name, 20)
}

// odds are the probabilities of single values under a law. above, below and third apply if the
// responses above and below differ. same and other apply if they are equal.
type odds struct{ above, below, third, same, other *big.Float }

// oddsOf converts the weights of a sampler to probabilities of values. Small ones are differences
// of weights, computed at the precision of the weights.
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

// trueOdds returns the probabilities with which the sampler draws.
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

// wordOf returns the word for which a draw from few values has the real number U = u and the given
// uniform value.
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

// parsed returns the row with the given text.
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

// response returns the probabilities of a randomized response at ε: of the true value, and of each
// other value.
func response(m, nano int64) (p, q *big.Float) {
	e := middle(exact.Exp(nano, prec))
	scale := add(e, m-1)
	return quo(e, scale), quo(1, scale)
}
