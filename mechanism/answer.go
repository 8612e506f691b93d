package mechanism

import (
	"math"

	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/privacy"
)

// Sampler draws answers of queries, and degrades them, with exactly the probabilities of the
// formulas: no float decides.
//
// The zero value is ready to use. A Sampler is not safe for concurrent use; it is cheap, so make
// one for each goroutine. It must not be copied after the first draw: copies share one stream of
// random bits, and two of them used at the same time could draw from the same bits.
type Sampler struct {
	// Random returns uniform bits; nil is the operating system's generator. Only tests set it,
	// before the first draw: if another party can predict the bits, each answer reveals the true
	// one.
	Random interface {
		// Uint64 returns the next 64 bits.
		Uint64() uint64
	}

	bits *exact.Bits
	// What draws from the same law have in common, for those drawn from last. All of it is public.
	shapes map[shaped]*shape
	curves map[curved]*curve
}

// random returns the stream of random bits.
func (s *Sampler) random() *exact.Bits {
	if s.bits == nil {
		s.bits = exact.BitsFrom(s.Random)
	}
	return s.bits
}

// mostKept is how many laws are remembered of each kind.
const mostKept = 64

// kept returns what is remembered under a key, or makes it, and remembers it.
func kept[K comparable, V any](all *map[K]V, key K, newV func() V) V {
	v, found := (*all)[key]
	if !found {
		if v = newV(); *all == nil || len(*all) >= mostKept {
			*all = make(map[K]V)
		}
		(*all)[key] = v
	}
	return v
}

// Draw returns an answer to a query for a dataset at a place: an output, drawn by the optimal
// mechanism whose law on the boundary is randomized response at ε. It is ε-differentially private
// between neighbours (for the relation that the place was computed for), and the true answer is the
// likelier the farther the dataset is from the boundary: with two outputs it is wrong with
// probability e^(−εd)/(1+e^ε), the balanced optimum (doliveira2021 Corollary 2); with more, the
// prefix sums of the preference order are those of zhou2022 as graph.Privacy.Law has them. Without
// a boundary the answer is the true one.
//
// It returns [privacy.ErrInvalid] for ε = 0 or an order that does not have each output once. The
// number of steps and of random words that it takes does not depend on the distance, but for the
// case of none; the lengths of the numbers do, and with them the time, by some per cent from the
// boundary to far away.
func (s *Sampler) Draw(at Place, epsilon privacy.Epsilon) (int, error) {
	if epsilon.IsZero() {
		return 0, invalid("an answer at ε = 0 tells nothing")
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

// checkOrder refuses an order that does not have each of the outputs 0 … k−1 once. It takes the
// same steps for all orders of a length that are right: an order is not public.
func checkOrder(order []int) error {
	var all [maxOutputs / 64]uint64
	seen := all[:(len(order)+63)/64]
	for _, output := range order {
		if output < 0 || output >= len(order) {
			return invalid("not a place of a query: the order has output %d, the query the outputs 0 to %d",
				output, len(order)-1)
		}
		for i := range seen { // all words are written to, whichever has the bit
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

// pick returns order[rank], reading all of it.
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

// answerLaw is the law of the rank, in the preference order, of a query's answer.
type answerLaw struct {
	sampler  *Sampler
	epsilon  privacy.Epsilon
	outputs  int
	distance uint64
}

// curve is how the law of an answer changes from the boundary on, at some precision.
type curve struct {
	decay
	starts []exact.Interval // S_j(0)
	growth []uint64         // by prefix, the steps during which it grows by e^ε each
}

// curved names a curve.
type curved struct {
	epsilon privacy.Epsilon
	outputs int
	prec    uint
}

// curveAt returns the curve of an ε and a number of outputs.
func (s *Sampler) curveAt(c curved) *curve {
	return kept(&s.curves, c, func() *curve {
		e := exact.Exp(c.epsilon.Nano(), c.prec)
		starts := make([]exact.Interval, c.outputs-1)
		for i := range starts {
			starts[i] = e.Add(exact.Int(int64(i))).Quo(e.Add(exact.Int(int64(c.outputs) - 1)))
		}
		return &curve{newDecay(e, c.epsilon.Nano(), c.prec), starts, growthSteps(c.epsilon, c.outputs)}
	})
}

// farthest is the largest distance that is told from greater ones: there the answer is wrong with
// probability e^(−10⁹), and to answer from farther away as from there costs no privacy.
func farthest(epsilon privacy.Epsilon) uint64 {
	const nats = 1_000_000_000
	return nats * 1_000_000_000 / uint64(epsilon.Nano())
}

// cumulative encloses the prefix sums S_j(d) = U^d((e^ε+j−1)/(e^ε+k−1)), j = 1 … k−1: with g
// growing steps, S = 1 − e^(−ε(d−g))·(1 − e^(εg)·S(0)). None grows by more than a factor of
// maxOutputs.
func (l answerLaw) cumulative(prec uint) []exact.Interval {
	one, c := exact.Int(1), l.sampler.curveAt(curved{l.epsilon, l.outputs, prec})
	sums := make([]exact.Interval, len(c.starts))
	for i, start := range c.starts {
		g := min(l.distance, c.growth[i])
		rest := one.Sub(c.grown(g).Mul(start))
		sums[i] = one.Sub(rest.Mul(c.pow(l.distance - g)))
	}
	return sums
}

// growthSteps returns for each prefix of the preference order by how many steps from the boundary
// it grows by e^ε: as long as it is at most 1/(e^ε+1) (zhou2022 Eq. (17)). It does not depend on
// the dataset.
func growthSteps(epsilon privacy.Epsilon, outputs int) []uint64 {
	steps := make([]uint64, outputs-1)
	if epsilon.Float64() > 4 {
		return steps // e^2ε is above maxOutputs, so that even one output begins above the bound
	}
	e := math.Exp(epsilon.Float64())
	for i := range steps {
		start := (e + float64(i)) / (e + float64(outputs-1))
		if start*(e+1) > 1.000001 {
			break // it does not grow, nor do the longer ones
		}
		guess := math.Ceil(-math.Log(start*(e+1)) / epsilon.Float64())
		steps[i] = correctSteps(epsilon, int64(i), int64(outputs), uint64(max(guess, 0)))
	}
	return steps
}

// correctSteps returns the smallest t with e^(εt)·S(0)·(e^ε+1) > 1, beginning with a guess that
// floats may have put beside it.
func correctSteps(epsilon privacy.Epsilon, i, outputs int64, guess uint64) uint64 {
	beyond := func(t uint64) bool { return exceedsBound(epsilon, i, outputs, t) }
	for guess > 0 && beyond(guess-1) {
		guess--
	}
	for !beyond(guess) { // not for ever: no prefix begins below 1/maxOutputs
		guess++
	}
	return guess
}

// exceedsBound decides whether e^(εt)·(e^ε+i)·(e^ε+1) > e^ε+k−1. The two sides are polynomials in
// the transcendental number e^(10⁻⁹), so they differ, and enough digits tell which is larger.
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
