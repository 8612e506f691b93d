package mechanism

import (
	"math"

	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/privacy"
)

// Sampler draws answers of queries, and degrades them, with exactly the probabilities of the
// formulas. It uses no floating-point numbers to decide.
//
// The zero value is ready to use. A Sampler is not safe for concurrent use. It is cheap, so create
// one for each goroutine. It must not be copied after the first draw: copies share one stream of
// random bits, and two copies used at the same time could draw from the same bits.
type Sampler struct {
	// Random returns uniform bits; nil means the operating system's generator. Only tests set it,
	// before the first draw: if another party can predict the bits, each answer reveals the true
	// answer.
	Random interface {
		// Uint64 returns the next 64 bits.
		Uint64() uint64
	}

	bits *exact.Bits
	// These caches hold the values that all draws from the same law share, for the most recent
	// laws. All of them are public.
	shapes map[shapeKey]*shape
	curves map[curveKey]*curve
}

// random returns the stream of random bits.
func (s *Sampler) random() *exact.Bits {
	if s.bits == nil {
		s.bits = exact.BitsFrom(s.Random)
	}
	return s.bits
}

// maxCached limits the number of cached laws of each kind.
const maxCached = 64

// cachedValue returns the cached value of a key. If there is none, it creates and caches one.
func cachedValue[K comparable, V any](all *map[K]V, key K, newV func() V) V {
	v, found := (*all)[key]
	if !found {
		if v = newV(); *all == nil || len(*all) >= maxCached {
			*all = make(map[K]V)
		}
		(*all)[key] = v
	}
	return v
}

// Draw returns an answer to a query for a dataset at a place. The answer is an output, drawn by the
// optimal mechanism whose law on the boundary is randomized response at ε. It is ε-differentially
// private between neighbours, for the relation that the place was computed for.
//
// The probability of the true answer rises with the distance of the dataset from the boundary. With
// two outputs, the answer is wrong with probability e^(−εd)/(1+e^ε), the balanced optimum
// (doliveira2021 Corollary 2). With more outputs, the prefix sums of the preference order are those
// of zhou2022, as in graph.Privacy.Law. Without a boundary the answer is the true one.
//
// Draw returns [privacy.ErrInvalid] for ε = 0 or an order that does not contain each output once.
// The number of steps and of random words does not depend on the distance, except without a
// boundary. The lengths of the numbers depend on it, and so the time differs by a few per cent
// between the boundary and large distances.
func (s *Sampler) Draw(at Place, epsilon privacy.Epsilon) (int, error) {
	if epsilon.IsZero() {
		return 0, invalid("ε is 0; an answer needs ε > 0")
	}
	k := len(at.Order)
	if k < 2 || k > maxOutputs || at.Distance < unreachable {
		return 0, invalid("not a place of a query")
	}
	if err := checkOrder(at.Order); err != nil {
		return 0, err
	}
	if at.Distance == unreachable {
		return at.Order[0], nil
	}
	l := answerLaw{s, epsilon, k, min(uint64(at.Distance), farthest(epsilon))}
	rank := exact.DrawRank(s.random(), s.random().Uint64(), k-1, l.cumulative)
	return pick(at.Order, rank), nil
}

// checkOrder refuses an order that does not contain each of the outputs 0 … k−1 once. It takes the
// same steps for all valid orders of a length, because an order is not public.
func checkOrder(order []int) error {
	var all [maxOutputs / 64]uint64
	seen := all[:(len(order)+63)/64]
	for _, output := range order {
		if output < 0 || output >= len(order) {
			return invalid("not a place of a query: the order has output %d, the query the outputs 0 to %d",
				output, len(order)-1)
		}
		for i := range seen { // all words are written, so that memory accesses do not depend on the output
			x := uint64(i ^ output/64)
			seen[i] |= 1 << (output % 64) & ((x|-x)>>63 - 1)
		}
	}
	for output := range order {
		if seen[output/64]>>(output%64)&1 == 0 {
			return invalid("not a place of a query: the order lacks output %d", output)
		}
	}
	return nil
}

// pick returns order[rank]. It reads all of order, so that its memory accesses do not depend on
// rank.
func pick(order []int, rank int) int {
	picked := 0
	for i, output := range order {
		// mask is −1 where i == rank and 0 elsewhere.
		x := uint64(i ^ rank)
		mask := int((x|-x)>>63) - 1
		picked |= output & mask
	}
	return picked
}

// answerLaw is the law of the rank of a query's answer in the preference order.
type answerLaw struct {
	sampler  *Sampler
	epsilon  privacy.Epsilon
	outputs  int
	distance uint64
}

// curve describes how the law of an answer changes with the distance from the boundary, at some
// precision.
type curve struct {
	decay
	starts []exact.Interval // S_j(0)
	growth []uint64         // by prefix, the number of steps that each multiply it by e^ε
}

// curveKey is the key of a curve.
type curveKey struct {
	epsilon privacy.Epsilon
	outputs int
	prec    uint
}

// curveAt returns the curve of an ε and a number of outputs.
func (s *Sampler) curveAt(c curveKey) *curve {
	return cachedValue(&s.curves, c, func() *curve {
		e := exact.Exp(c.epsilon.Nano(), c.prec)
		starts := make([]exact.Interval, c.outputs-1)
		for i := range starts {
			starts[i] = e.Add(exact.Int(int64(i))).Quo(e.Add(exact.Int(int64(c.outputs) - 1)))
		}
		return &curve{newDecay(e, c.epsilon.Nano(), c.prec), starts, growthSteps(c.epsilon, c.outputs)}
	})
}

// farthest returns the largest distance that is distinguished from greater ones. There the answer
// is wrong with probability e^(−10⁹). To answer from farther away as from there costs no privacy.
func farthest(epsilon privacy.Epsilon) uint64 {
	const nats = 1_000_000_000
	return nats * 1_000_000_000 / uint64(epsilon.Nano())
}

// cumulative returns enclosures of the prefix sums S_j(d) = U^d((e^ε+j−1)/(e^ε+k−1)), j = 1 … k−1.
// With g growing steps, S = 1 − e^(−ε(d−g))·(1 − e^(εg)·S(0)). No sum grows by more than a factor
// of maxOutputs.
func (l answerLaw) cumulative(prec uint) []exact.Interval {
	one, c := exact.Int(1), l.sampler.curveAt(curveKey{l.epsilon, l.outputs, prec})
	sums := make([]exact.Interval, len(c.starts))
	for i, start := range c.starts {
		g := min(l.distance, c.growth[i])
		rest := one.Sub(c.grown(g).Mul(start))
		sums[i] = one.Sub(rest.Mul(c.pow(l.distance - g)))
	}
	return sums
}

// growthSteps returns for each prefix of the preference order the number of steps from the boundary
// that multiply it by e^ε. It grows as long as it is at most 1/(e^ε+1) (zhou2022 Eq. (17)). The
// result does not depend on the dataset.
func growthSteps(epsilon privacy.Epsilon, outputs int) []uint64 {
	steps := make([]uint64, outputs-1)
	if epsilon.Float64() > 4 {
		return steps // e^2ε is above maxOutputs, so even the shortest prefix starts above the bound
	}
	e := math.Exp(epsilon.Float64())
	for i := range steps {
		start := (e + float64(i)) / (e + float64(outputs-1))
		if start*(e+1) > 1.000001 {
			break // neither this prefix nor the longer ones grow
		}
		guess := math.Ceil(-math.Log(start*(e+1)) / epsilon.Float64())
		steps[i] = correctSteps(epsilon, int64(i), int64(outputs), uint64(max(guess, 0)))
	}
	return steps
}

// correctSteps returns the smallest t with e^(εt)·S(0)·(e^ε+1) > 1. It starts with a guess, which
// rounding may have made slightly wrong.
func correctSteps(epsilon privacy.Epsilon, i, outputs int64, guess uint64) uint64 {
	beyond := func(t uint64) bool { return exceedsBound(epsilon, i, outputs, t) }
	for guess > 0 && beyond(guess-1) {
		guess--
	}
	for !beyond(guess) { // terminates, because no prefix starts below 1/maxOutputs
		guess++
	}
	return guess
}

// exceedsBound returns whether e^(εt)·(e^ε+i)·(e^ε+1) > e^ε+k−1. The two sides are polynomials in
// the transcendental number e^(10⁻⁹). So they differ, and enough digits decide which is larger.
func exceedsBound(epsilon privacy.Epsilon, i, outputs int64, t uint64) bool {
	for prec := uint(128); ; prec *= 2 {
		e := exact.Exp(epsilon.Nano(), prec)
		left := e.Pow(t).Mul(e.Add(exact.Int(i))).Mul(e.Add(exact.Int(1)))
		right := e.Add(exact.Int(outputs - 1))
		switch {
		case right.Below(left):
			return true
		case left.Below(right):
			return false
		}
	}
}
