package estimate

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// Arithmetic with many digits, and with fractions.
var (
	add, sub, mul, quo, middle, wantNear = stattest.Add, stattest.Sub, stattest.Mul, stattest.Quo, stattest.Middle, stattest.WantNear
	power, digits                        = stattest.Power, stattest.Digits
	rat, fractions, plus, minus, integer = stattest.Rat, stattest.Fractions, stattest.Plus, stattest.Minus, stattest.Integer
)

// Mechanisms by their probabilities.

func written(rows ...string) *finite.Matrix { return mechanismOf(stattest.ParseRows(rows...)...) }

func randomized(m int, odds *big.Rat) *finite.Matrix {
	return mechanismOf(stattest.Randomized(m, odds)...)
}

func unary(m int, odds *big.Rat) *finite.Matrix { return mechanismOf(stattest.Unary(m, odds)...) }

func haphazard(random *rand.Rand, inputs, outputs int) *finite.Matrix {
	return mechanismOf(stattest.RandomRows(random, inputs, outputs)...)
}

// prec is the precision, in bits, at which tests ask for the weights of a law.
const prec = 256

func eps(text string) privacy.Epsilon { return must(privacy.ParseEpsilon(text)) }

func fromNano(nano int64) privacy.Epsilon { return must(privacy.EpsilonFromNano(nano)) }

// vectors reads the rows of a file of reference numbers.
func vectors[Row any](t *testing.T, name string) []Row {
	t.Helper()
	return check.Vectors[Row](t, "../../testdata/vectors/"+name, 20)
}

// ofValues, ofBits and ofOutputs are counts of randomized responses, in unary encoding, and of a
// mechanism.
func ofValues(epsilon privacy.Epsilon, byValue []int64) Counts {
	return Counts{Epsilon: epsilon, ByValue: byValue}
}

func ofBits(epsilon privacy.Epsilon, objects int64, byValue []int64) Counts {
	return Counts{Unary: true, Epsilon: epsilon, Objects: objects, ByValue: byValue}
}

func ofOutputs(m *finite.Matrix, byOutput []int64) Counts {
	return Counts{Mechanism: m, ByValue: byOutput}
}

// described holds the parameters of levels for the formulas, independently of the code under test.
type described []describedLevel

// describedLevel has n objects. A response counts for the true value with probability p, for each
// other with q, and on average with often if all values are equally common.
type describedLevel struct{ n, p, q, often float64 }

func describe(unary bool, m int, epsilon privacy.Epsilon, n float64) describedLevel {
	d := describedLevel{n: n, p: 0.5, q: 1 / (math.Exp(epsilon.Float64()) + 1)}
	if !unary {
		d.q = 1 / (math.Exp(epsilon.Float64()) + float64(m-1))
		d.p = 1 - float64(m-1)*d.q
	}
	d.often = (d.p + float64(m-1)*d.q) / float64(m)
	return d
}

// law is the variance A + B·s + G·s(1−s) of an estimate, if all levels have the share s.
type law struct{ a, b, g float64 }

func (l law) at(s float64) float64 { return l.a + l.b*s + l.g*s*(1-s) }

func (d described) weights(pool bool) (weights []float64, objects float64) {
	total := 0.0
	for _, l := range d {
		w := l.n
		if pool {
			w *= (l.p - l.q) * (l.p - l.q) / (l.often * (1 - l.often))
		}
		weights, total, objects = append(weights, w), total+w, objects+l.n
	}
	for i := range weights {
		weights[i] /= total
	}
	return weights, objects
}

func (d described) law(pool, population bool) law {
	weights, objects := d.weights(pool)
	var sum law
	for i, l := range d {
		scale := weights[i] * weights[i] / (l.n * (l.p - l.q) * (l.p - l.q))
		sum.a += scale * l.q * (1 - l.q)
		sum.b += scale * (l.p*(1-l.p) - l.q*(1-l.q))
		sum.g += weights[i] * weights[i] / l.n
	}
	if !population {
		sum.g = max(sum.g-1/objects, 0) * objects / max(objects-1, 1)
	}
	return sum
}

// check compares a Frequency with the formulas. The law must not depend on which levels the objects
// with the value are at: one level, pooled levels, or two values.
func (d described) check(t *testing.T, o Options, z float64, shares []float64, got Frequency) {
	t.Helper()
	weights, _ := d.weights(o.Pool)
	l := d.law(o.Pool, o.Population)
	estimate, jump, own := 0.0, 0.0, 0.0
	for i, share := range shares {
		estimate += weights[i] * share
		own += weights[i] * min(max(share, 0), 1)
		jump = max(jump, weights[i]/(2*d[i].n*(d[i].p-d[i].q)))
	}
	wantNear(t, "estimate", got.Estimate, estimate, 1e-12)
	possible := min(max(estimate, 0), 1)
	variance := l.at(possible)
	if !o.Pool { // the shares of the levels may differ
		variance += l.b * (own - possible)
	}
	wantNear(t, "squared standard error", got.StdErr*got.StdErr, variance, 1e-12)
	root := func(p, sign float64) float64 { // of (1+z²G)s² − (2p+z²(B+G))s + p² − z²A
		if l.at(p) < 0 { // beyond all shares by so much that there is no variance
			return p
		}
		a, b, c := 1+z*z*l.g, 2*p+z*z*(l.b+l.g), p*p-z*z*l.a
		return (b + sign*math.Sqrt(b*b-4*a*c)) / (2 * a)
	}
	wantNear(t, "lower end", got.Low, root(estimate-jump, -1), 1e-9)
	wantNear(t, "upper end", got.High, root(estimate+jump, 1), 1e-9)
}

// middleOf returns the middle of an interval.
func middleOf(f Frequency) float64 { return (f.Low + f.High) / 2 }

func wantFinite(t *testing.T, f Frequency, format string, args ...any) {
	t.Helper()
	if x := f.Estimate + f.StdErr + f.Low + f.High; math.IsNaN(x) || math.IsInf(x, 0) || f.Low > f.Estimate || f.High < f.Estimate {
		t.Fatalf(format+": %+v", append(args, f)...)
	}
}

// must returns x, if there is no error.
func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

func mechanismOf(rows ...[]*big.Rat) *finite.Matrix { return must(finite.NewMatrix(rows)) }

func subsets(inputs, size int, odds *big.Rat) *finite.Matrix {
	return designed(must(finite.SubsetSelection(inputs, size)), inputs, odds)
}

func hadamard(inputs int, odds *big.Rat) *finite.Matrix {
	return designed(must(finite.HadamardResponse(inputs)), inputs, odds)
}

// designed returns the mechanism of a design: an output is odds times as likely if its block has
// the input.
func designed(d *finite.Design, inputs int, odds *big.Rat) *finite.Matrix {
	rows := make([][]*big.Rat, inputs)
	for x := range rows {
		sum := new(big.Rat)
		for _, block := range d.Blocks {
			p := integer(1)
			if slices.Contains(block, x) {
				p.Set(odds)
			}
			rows[x] = append(rows[x], p)
			sum.Add(sum, p)
		}
		for _, p := range rows[x] {
			p.Quo(p, sum)
		}
	}
	return mechanismOf(rows...)
}

// lawOf returns the probabilities of the outputs given an input.
func lawOf(m *finite.Matrix, input int) []*big.Rat {
	var law []*big.Rat
	for o := range m.Outputs() {
		law = append(law, m.At(input, o))
	}
	return law
}

func oddsAt(epsilon privacy.Epsilon) *big.Rat {
	low, _ := exact.Exp(epsilon.Nano(), 200).Bounds()
	odds, _ := low.Rat(nil)
	return odds
}

// refusal is a call of [Frequencies] that is refused, with an error that contains a text.
type refusal struct {
	name       string
	confidence float64
	levels     []Counts
	names      string
}

func wantRefused(t *testing.T, list []refusal) {
	t.Helper()
	for _, c := range list {
		got, err := Frequencies(Options{Confidence: c.confidence}, c.levels...)
		check.That(t, got == nil && errors.Is(err, privacy.ErrInvalid) && strings.Contains(err.Error(), c.names),
			"%s: %v, %v; want an error that names %q", c.name, got, err, c.names)
	}
}

func wantVarianceRefused(t *testing.T, list map[string]Counts) {
	t.Helper()
	for name, c := range list {
		got, err := Variance(c)
		check.That(t, got == nil && errors.Is(err, privacy.ErrInvalid), "variance with %s: %v, %v", name, got, err)
	}
}

// response returns the probabilities of a randomized response at ε: the truth, and each other
// value.
func response(m, nano int64) (p, q *big.Float) {
	e := middle(exact.Exp(nano, prec))
	scale := add(e, m-1)
	return quo(e, scale), quo(1, scale)
}
