package mechanism

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// atMost returns the probability that the law gives a score of at most y, given the scores (or the
// position) below and above.
func (l scoreLaw) atMost(below, above, y int64) float64 {
	return l.cumulative(below, above, y).Float64()
}

// cumulative turns the steps from above towards below into scores.
func (l scoreLaw) cumulative(below, above, y int64) exact.Interval {
	p := placed{shapes: newShape, law: l, distance: max(below-above, above-below), known: map[uint]terms{}}
	if below < above {
		return exact.Int(1).Sub(p.cumulative(above-y-1, enumerated))
	}
	return p.cumulative(y-above, enumerated)
}

// enumerated is the precision, in bits, of the laws that tests enumerate.
const enumerated = 320

// scoreTable has a law for all distances and steps up to a size.
type scoreTable struct {
	size int64
	mass [][]float64 // by distance, then steps + size
}

func newScoreTable(l scoreLaw, most, size int64) scoreTable {
	t := scoreTable{size: size}
	for distance := range most + 1 {
		p := placed{shapes: newShape, law: l, distance: distance, known: map[uint]terms{}}
		row, below := make([]float64, 2*size+1), p.cumulative(-size-1, enumerated)
		for u := -size; u <= size; u++ {
			atMost := p.cumulative(u, enumerated)
			row[u+size] = atMost.Sub(below).Float64()
			below = atMost
		}
		t.mass = append(t.mass, row)
	}
	return t
}

// at returns the probability of the score y.
func (t scoreTable) at(below, above, y int64) float64 {
	u := y - above
	if below < above {
		u = -u
	}
	return t.mass[max(below-above, above-below)][u+t.size]
}

type gradualRow struct {
	Low    string            `json:"eps_lo"`
	High   string            `json:"eps_hi"`
	Z      int64             `json:"z"`
	Y      int64             `json:"y_lo"`
	Wrong  []string          `json:"wrong_probability_lo_by_distance"`
	Extra  map[string]string `json:"extra_pmf"`
	Raised map[string]string `json:"y_hi_pmf_given"`
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	return check.Value(strconv.ParseFloat(text, 64))(t)
}

func integer(t *testing.T, text string) int64 {
	t.Helper()
	return check.Value(strconv.ParseInt(text, 10, 64))(t)
}

// Another program computed the laws of a first score, of a raise and of a degradation
// (testdata/README.md).
func TestScoreLaw_AgreesWithVectors(t *testing.T) {
	near := func(got, want float64) bool {
		return math.Abs(got-want) <= 1e-15*max(1, want) && math.Abs(got-want) <= 1e-12*want
	}
	for _, row := range check.Vectors[gradualRow](t, "../testdata/vectors/gradual_geometric.json", 10) {
		low, high := epsilonOf(t, row.Low).Nano(), epsilonOf(t, row.High).Nano()
		first := scoreLaw{at: low}
		for d, text := range row.Wrong {
			z := int64(d)
			if got, want := first.atMost(z, z, -1), number(t, text); !near(got, want) {
				t.Errorf("ε=%s: wrong at distance %d with probability %v, want %v", row.Low, d, got, want)
			}
		}
		raise := scoreLaw{below: low, at: high}
		for score, text := range row.Raised {
			y := integer(t, score)
			got := raise.cumulative(row.Y, row.Z, y).Sub(raise.cumulative(row.Y, row.Z, y-1)).Float64()
			if want := number(t, text); !near(got, want) {
				t.Errorf("from %s, y=%d to %s at z=%d: y=%d with probability %v, want %v", row.Low, row.Y, row.High, row.Z, y, got, want)
			}
		}
		down := scoreLaw{at: low, above: high}
		for size, text := range row.Extra {
			k := integer(t, size)
			got := down.cumulative(0, 0, k).Sub(down.cumulative(0, 0, k-1)).Float64()
			if want := number(t, text); !near(got, want) {
				t.Errorf("from %s down to %s: a step of %d with probability %v, want %v", row.High, row.Low, k, got, want)
			}
		}
	}
}

// chain holds the laws of the scores at three ε, for all orders of drawing.
type chain struct {
	epsilon                           [3]privacy.Epsilon
	first, second, third              scoreTable // the first score there is
	raise12, raise13, raise23         scoreTable // by their levels, from below
	below12, below13, below23, insert scoreTable // without the position
}

func newChain(t *testing.T, size int64, levels ...string) chain {
	c := chain{}
	var nano [3]int64
	for i, text := range levels {
		c.epsilon[i] = epsilonOf(t, text)
		nano[i] = c.epsilon[i].Nano()
	}
	c.first, c.second = newScoreTable(scoreLaw{at: nano[0]}, 0, size), newScoreTable(scoreLaw{at: nano[1]}, 0, size)
	c.third = newScoreTable(scoreLaw{at: nano[2]}, 0, size)
	c.raise12 = newScoreTable(scoreLaw{below: nano[0], at: nano[1]}, size, size)
	c.raise13 = newScoreTable(scoreLaw{below: nano[0], at: nano[2]}, size, size)
	c.raise23 = newScoreTable(scoreLaw{below: nano[1], at: nano[2]}, size, size)
	c.below12 = newScoreTable(scoreLaw{at: nano[0], above: nano[1]}, 0, size)
	c.below13 = newScoreTable(scoreLaw{at: nano[0], above: nano[2]}, 0, size)
	c.below23 = newScoreTable(scoreLaw{at: nano[1], above: nano[2]}, 0, size)
	c.insert = newScoreTable(scoreLaw{below: nano[0], at: nano[1], above: nano[2]}, size, size)
	return c
}

// joints returns the probability of three scores at position z, in the orders: raised twice; raised
// over the middle one, which is then inserted; the highest, then degraded to the lowest, then
// inserted; degraded twice; the middle one, raised, then degraded; the middle one, degraded, then
// raised.
func (c chain) joints(z int64, y [3]int64) []float64 {
	return []float64{
		c.first.at(z, z, y[0]) * c.raise12.at(y[0], z, y[1]) * c.raise23.at(y[1], z, y[2]),
		c.first.at(z, z, y[0]) * c.raise13.at(y[0], z, y[2]) * c.insert.at(y[0], y[2], y[1]),
		c.third.at(z, z, y[2]) * c.below13.at(y[2], y[2], y[0]) * c.insert.at(y[0], y[2], y[1]),
		c.third.at(z, z, y[2]) * c.below23.at(y[2], y[2], y[1]) * c.below12.at(y[1], y[1], y[0]),
		c.second.at(z, z, y[1]) * c.raise23.at(y[1], z, y[2]) * c.below12.at(y[1], y[1], y[0]),
		c.second.at(z, z, y[1]) * c.below12.at(y[1], y[1], y[0]) * c.raise23.at(y[1], z, y[2]),
	}
}

// The test enumerates three scores on a part of the lattice, for all positions near the boundary.
// For every order of drawing they must have the same joint law. Its ratio for two neighbours must
// be that of the highest score alone, which is at most e^ε for the highest ε and reaches it.
func TestScores_AnyOrder_HaveOneJointLawAndCostTheHighest(t *testing.T) {
	const size, near = 16, 5
	for _, levels := range [][]string{{"0.9", "1.1", "1.6"}, {"0.02", "0.5", "0.500000001"}, {"0.3", "2.5", "6"}} {
		c := newChain(t, size, levels...)
		limit, most := math.Exp(c.epsilon[2].Float64()), 0.0
		for z := int64(-3); z <= 2; z++ {
			eachScores(near, func(y [3]int64) {
				joints := c.joints(z, y)
				for i, got := range joints {
					if want := joints[0]; !(math.Abs(got-want) <= 1e-11*want) || want == 0 {
						t.Fatalf("%v at z=%d: scores %v have the probability %v in order %d, %v in order 0", levels, z, y, got, i, want)
					}
				}
				ratio := c.joints(z+1, y)[0] / joints[0]
				alone := c.third.at(z+1, z+1, y[2]) / c.third.at(z, z, y[2])
				if math.Abs(ratio-alone) > 1e-11*alone {
					t.Fatalf("%v: the ratio of scores %v at %d and %d is %v, that of the highest alone %v", levels, y, z+1, z, ratio, alone)
				}
				most = max(most, ratio, 1/ratio)
			})
		}
		check.That(t, math.Abs(most-limit) <= 1e-10*limit,
			"%v: the largest ratio is %v, want e^ε = %v", levels, most, limit)
	}
}

func eachScores(size int64, visit func(y [3]int64)) {
	for a := -size; a <= size; a++ {
		for b := -size; b <= size; b++ {
			for c := -size; c <= size; c++ {
				visit([3]int64{a, b, c})
			}
		}
	}
}

// The answers of a first, a raised, a degraded and an inserted score must be wrong with the
// probability of the balanced optimum. The test sums over the first score up to a size. The
// probability of larger ones is at most 2α^(size−|z|+1)/(1+α), which is below 10⁻¹⁴.
func TestScores_FirstRaisedOrInserted_AnswerOptimally(t *testing.T) {
	const size = 44
	low, mid, high := epsilonOf(t, "0.9"), epsilonOf(t, "1.3"), epsilonOf(t, "1.7")
	first := newScoreTable(scoreLaw{at: low.Nano()}, 0, size)
	top := newScoreTable(scoreLaw{at: high.Nano()}, 0, size)
	raise := scoreLaw{below: low.Nano(), at: high.Nano()}
	raised := newScoreTable(raise, size, size)
	for d := range 4 {
		for _, z := range []int64{int64(d), -int64(d) - 1} {
			wrong := func(l scoreLaw, below, above int64) float64 {
				no := l.atMost(below, above, -1)
				if z < 0 {
					return 1 - no
				}
				return no
			}
			var twice, under, between, left float64
			left = 1
			for y := -size + int64(d) + 1; y < size-int64(d); y++ {
				p := first.at(z, z, y)
				left -= p
				twice += p * wrong(raise, y, z)
				under += top.at(z, z, y) * wrong(scoreLaw{at: low.Nano(), above: high.Nano()}, y, y)
			}
			for y1 := int64(-18); y1 <= 18; y1++ {
				for y3 := int64(-18); y3 <= 18; y3++ {
					p := first.at(z, z, y1) * raised.at(y1, z, y3)
					if p > 1e-13 { // the rest is less than 1369·10⁻¹³, and beyond 18 less than 2·10⁻⁵
						between += p * wrong(scoreLaw{below: low.Nano(), at: mid.Nano(), above: high.Nano()}, y1, y3)
					}
				}
			}
			alpha := math.Exp(-low.Float64())
			tail := 2 * math.Pow(alpha, size-2*float64(d)-1) / (1 + alpha)
			check.Need(t, left <= tail+1e-14, "z=%d: %v is left beyond the truncation, want at most %v", z, left, tail)
			for _, c := range []struct {
				name      string
				got       float64
				epsilon   privacy.Epsilon
				tolerance float64
			}{
				{"first", wrong(scoreLaw{at: low.Nano()}, z, z), low, 1e-15},
				{"raised", twice, high, left + 1e-14},
				{"below", under, low, left + 1e-14},
				{"between", between, mid, 2e-5},
			} {
				e := c.epsilon.Float64()
				want := math.Exp(-e*float64(d)) / (1 + math.Exp(e))
				if math.Abs(c.got-want) > c.tolerance {
					t.Errorf("z=%d: a score that is %s is wrong with probability %v, want %v ± %v", z, c.name, c.got, want, c.tolerance)
				}
			}
		}
	}
}

// The answer of a first score has exactly the law of Draw, at every ε and distance.
func TestScore_FirstAnswer_HasTheLawOfDraw(t *testing.T) {
	for _, text := range []string{"0.000000001", "0.01", "1", "30", "1000"} {
		epsilon := epsilonOf(t, text)
		for _, d := range []int64{0, 1, 5, 1000, 1 << 31} {
			right := exact.Int(1).Sub(scoreLaw{at: epsilon.Nano()}.cumulative(d, d, -1))
			l := answerLaw{new(Sampler), epsilon, 2, min(uint64(d), farthest(epsilon))}
			want := l.cumulative(enumerated)[0]
			check.That(t, !right.Below(want) && !want.Below(right) && math.Abs(right.Float64()-want.Float64()) <= 1e-15,
				"ε=%s, d=%d: right with probability %v, that of Draw is %v", text, d, right.Float64(), want.Float64())
		}
	}
}

// placeOf returns a place with the position z.
func placeOf(z int64) Place {
	if z >= 0 {
		return Place{Order: []int{1, 0}, Distance: z}
	}
	return Place{Order: []int{0, 1}, Distance: -z - 1}
}

// drawn counts scores around a center. Scores at a distance above the width count at the ends.
func drawn(n int, center, width int64, draw func() int64) map[int64]int {
	counts := map[int64]int{}
	for range n {
		counts[min(max(draw()-center, -width), width)]++
	}
	return counts
}

// around returns the law of such counts, from the cumulative probabilities of a score.
func around(center, width int64, atMost func(y int64) float64) map[int64]float64 {
	law, before := map[int64]float64{}, 0.0
	for off := -width; off < width; off++ {
		until := atMost(center + off)
		law[off] = max(0, until-before)
		before = until
	}
	law[width] = 1 - before
	return law
}

// Scores are drawn at small, middle and large ε, near the boundary and 2⁴⁰ away from it, with the
// last score near the position and far from it. The laws are those of the code, which other tests
// verify. For first scores, the law of four times the ε must fail the test.
func TestRaise_SystemRandomness_FollowsItsLaw(t *testing.T) {
	const far = 1 << 40
	for _, c := range []struct {
		low, high string // low is "" for a first score
		y, z      int64
		width     int64
		draws     int
	}{
		{"", "1", 0, 2, 10, 500},
		{"", "0.05", 0, -3, 12, 400},
		{"0.2", "0.3", -4, 3, 25, 400},
		{"5", "6", 0, 2, 4, 400},
		{"0.4", "1.5", far - 3, far, 10, 300},
		{"0.4", "0.9", 5, -far, 10, 300},
	} {
		var last Score
		if c.low != "" {
			last = Score{epsilonOf(t, c.low), c.y}
		}
		s, to := new(Sampler), epsilonOf(t, c.high)
		counts := drawn(testenv.Tries(c.draws/2, c.draws, c.draws), c.z, c.width, func() int64 {
			score, err := s.Raise(last, to, placeOf(c.z))
			check.Need(t, err == nil && score.Epsilon == to, "%v %v", score.Epsilon, err)
			return score.Value
		})
		below := c.y
		if c.low == "" {
			below = c.z
		}
		law := func(nano int64) map[int64]float64 {
			l := scoreLaw{below: last.Epsilon.Nano(), at: nano}
			return around(c.z, c.width, func(y int64) float64 { return l.atMost(below, c.z, y) })
		}
		stattest.Cells(counts, law(to.Nano())).Holds(t, "%+v", c)
		if c.low == "" {
			stattest.Cells(counts, law(4*to.Nano())).Fails(t, "%+v, with four times the ε", c)
		}
	}
}

// The same for scores that are drawn without a position.
func TestBetween_SystemRandomness_FollowsItsLaw(t *testing.T) {
	above, at := Score{epsilonOf(t, "1.4"), 3}, epsilonOf(t, "0.8")
	for _, below := range []Score{{}, {epsilonOf(t, "0.3"), -2}, {epsilonOf(t, "0.79"), 3}} {
		s := new(Sampler)
		counts := drawn(testenv.Tries(200, 400, 400), 0, 9, func() int64 {
			score, err := s.Between(below, above, at)
			check.Need(t, err == nil && score.Epsilon == at, "%v %v", score, err)
			return score.Value
		})
		l := scoreLaw{below: below.Epsilon.Nano(), at: at.Nano(), above: above.Epsilon.Nano()}
		from := below.Value
		if below.Epsilon.IsZero() {
			from = above.Value
		}
		law := around(0, 9, func(y int64) float64 { return l.atMost(from, above.Value, y) })
		stattest.Cells(counts, law).Holds(t, "%v", below)
	}
}

// For the smallest and largest ε, positions and scores, each draw must end, and be where the law
// has nearly all of its probability.
func TestScores_ExtremeEpsilonsAndPositions_AreInRange(t *testing.T) {
	const bound = maxScore
	tiny, nano, huge, full := epsilonOf(t, "0.000000001"), epsilonOf(t, "0.000000002"), epsilonOf(t, "999.999999999"), epsilonOf(t, "1000")
	s := new(Sampler)
	for _, z := range []int64{0, -1, 1 << 40, -1 << 40, 1 << 62, -1 << 62, math.MaxInt64, math.MinInt64} {
		want := min(max(z, -farthestPosition), farthestPosition)
		for _, c := range []struct {
			last   Score
			to     privacy.Epsilon
			within int64
		}{
			{Score{}, tiny, 1e12}, {Score{}, full, 0}, {Score{tiny, -bound}, nano, 2 * bound}, {Score{tiny, bound}, full, 0},
			{Score{huge, bound}, full, 2 * bound}, {Score{huge, want}, full, 0}, {Score{tiny, 0}, huge, 0},
		} {
			score, err := s.Raise(c.last, c.to, placeOf(z))
			check.Need(t, err == nil, "z=%d from %v to %v: %v", z, c.last, c.to, err)
			check.That(t, c.within >= bound || score.Value >= want-c.within && score.Value <= want+c.within,
				"z=%d from %v to %v: %d", z, c.last, c.to, score.Value)
			check.That(t, score.Value >= 0 == (score.Output() == answerYes),
				"score %d answers %d", score.Value, score.Output())
		}
	}
	for _, c := range []struct{ below, above int64 }{{-bound, bound}, {bound, -bound}, {bound, bound}, {0, 1}} {
		for _, at := range []privacy.Epsilon{nano, epsilonOf(t, "1"), huge} {
			_, err := s.Between(Score{tiny, c.below}, Score{full, c.above}, at)
			check.That(t, err == nil, "between %v: %v", c, err)
		}
	}
}

// The exact power must be inside the interval, up to e^1000, also for powers that cannot be
// distinguished from 0.
func TestDecay_EnclosesItsPowers(t *testing.T) {
	for _, nano := range []int64{1, 1_000_000, 700_000_000, 10_000_000_000} {
		for _, prec := range []uint{64, 192, 400} {
			d := newDecay(exact.Exp(nano, prec), nano, prec)
			for _, n := range []uint64{0, 1, 2, 3, 77, d.most - 1, d.most, d.most + 1, 2 * d.most} {
				exponent := n * uint64(nano)
				if exponent > uint64(privacy.MaxEpsilon().Nano()) {
					continue
				}
				got, want := d.pow(n), exact.Int(1).Quo(exact.Exp(int64(exponent), 2000))
				low, high := got.Bounds()
				least, most := want.Bounds()
				check.That(t, low.Cmp(most) <= 0 && high.Cmp(least) >= 0,
					"e^−(%d·%d·10⁻⁹) is not in [%v, %v]", n, nano, low, high)
				check.That(t, n > d.most == (low.Sign() == 0),
					"power %d of %d at precision %d: [%v, %v]", n, nano, prec, low, high)
			}
		}
	}
}

// Bits that are nearly all 0 give a negative score, and bits that are nearly all 1 a positive one.
func TestScore_ExtremeBits_AreLowOrHigh(t *testing.T) {
	for _, c := range []struct {
		bits byte
		low  bool
	}{{0x01, true}, {0xfe, false}} {
		score, err := replayed(c.bits).Raise(Score{}, epsilonOf(t, "1"), placeOf(0))
		check.That(t, err == nil && score.Value < 0 == c.low && (score.Output() == answerYes || c.low),
			"bits %#x: %v, %v", c.bits, score, err)
	}
	// U = 0.5 + a little is the middle of a symmetric law.
	score, err := replayed(0x80).Raise(Score{}, epsilonOf(t, "1"), placeOf(-7))
	check.That(t, err == nil && score.Value == -7, "U = 1/2: %v, %v", score, err)
	for value, want := range map[int64]int{0: answerYes, -1: answerNo, math.MinInt64: answerNo, math.MaxInt64: answerYes} {
		check.Equal(t, (Score{Value: value}).Output(), want, "the answer of score %d", value)
	}
}

func TestScores_InvalidArguments_AreRefused(t *testing.T) {
	one, two, three := epsilonOf(t, "1"), epsilonOf(t, "2"), epsilonOf(t, "3")
	s, at := new(Sampler), placeOf(4)
	raise := func(last Score, to privacy.Epsilon, at Place) error { _, err := s.Raise(last, to, at); return err }
	between := func(below, above Score, at privacy.Epsilon) error { _, err := s.Between(below, above, at); return err }
	const beyond = maxScore + 1
	for name, err := range map[string]error{
		"ε = 0":                raise(Score{}, privacy.Epsilon{}, at),
		"not above":            raise(Score{two, 1}, two, at),
		"below":                raise(Score{two, 1}, one, at),
		"last too large":       raise(Score{one, beyond}, two, at),
		"last too small":       raise(Score{one, math.MinInt64}, two, at),
		"no order":             raise(Score{}, one, Place{}),
		"one output":           raise(Score{}, one, Place{Order: []int{0}}),
		"negative distance":    raise(Score{}, one, Place{Order: []int{1, 0}, Distance: -2}),
		"three outputs":        raise(Score{}, one, Place{Order: []int{1, 0, 2}}),
		"no boundary":          raise(Score{}, one, Place{Order: []int{1, 0}, Distance: unreachable}),
		"between: not above":   between(Score{two, 1}, Score{three, 1}, two),
		"between: not below":   between(Score{two, 1}, Score{three, 1}, three),
		"between: ε = 0":       between(Score{}, Score{three, 1}, privacy.Epsilon{}),
		"between: no score":    between(Score{}, Score{}, one),
		"between: above large": between(Score{one, 1}, Score{three, math.MaxInt64}, two),
		"between: below small": between(Score{one, math.MinInt64}, Score{three, 1}, two),
	} {
		check.That(t, errors.Is(err, privacy.ErrInvalid), "%s: %v", name, err)
		var reason *ScoreError
		wants := name == "three outputs" || name == "no boundary"
		check.That(t, errors.As(err, &reason) == wants, "%s: %v", name, err)
		if err != nil && strings.ContainsAny(err.Error(), "79") { // digits of the extreme values, and of no bound
			t.Errorf("%s: the error contains a value: %v", name, err)
		}
	}
	err := raise(Score{}, one, Place{Order: []int{2, 1, 0}})
	check.That(t, strings.Contains(err.Error(), "3 outputs"), "the reason is missing: %v", err)
	err = raise(Score{}, one, Place{Order: []int{1, 0}, Distance: unreachable})
	check.That(t, strings.Contains(err.Error(), "boundary"), "the reason is missing: %v", err)
}

// This is why a score must be stored. Near a boundary, the balanced answer at e^ε = 2 is not a
// degradation of the one at 4. A channel that is correct on the boundary, where the odds of the
// answers are the same on both sides, is wrong one step away.
func TestBalancedAnswers_WithoutScore_AreNoDegradation(t *testing.T) {
	answers := func(growth int64, depth int) *finite.Matrix {
		boundary := []*big.Rat{big.NewRat(growth, growth+1), big.NewRat(1, growth+1)}
		return check.Value(finite.NewMatrix(lineLaws(big.NewRat(growth, 1), boundary, -depth, depth-1)))(t)
	}
	_, err := finite.NewFamily(t.Context(), answers(2, 1), answers(4, 1))
	check.That(t, err == nil, "on the boundary alone: %v", err)
	for depth := 2; depth <= 4; depth++ {
		var game *finite.NotDegradationError
		_, err := finite.NewFamily(t.Context(), answers(2, depth), answers(4, depth))
		check.That(t, errors.As(err, &game) && game.Lower.Cmp(game.Higher) > 0, "depth %d: %v", depth, err)
	}
}

// The score above is the largest possible, so half of the draws would be larger without the limit.
func TestBetween_ExtremeScores_ReturnsValidScores(t *testing.T) {
	s := new(Sampler)
	for _, end := range []int64{maxScore, -maxScore} {
		for range 100 {
			got, err := s.Between(Score{}, Score{epsilonOf(t, "1"), end}, epsilonOf(t, "0.5"))
			check.Need(t, err == nil && got.check() == nil, "below the score %d: %v, %v", end, got, err)
		}
	}
}

// A power that may depend on the true data must not be 0, 1 or another short number. A
// multiplication by it would be faster, and the time would reveal it.
func TestDecay_Powers_HaveFullLength(t *testing.T) {
	const prec, nano = 256, 500_000_000
	d := newDecay(exact.Exp(nano, prec), nano, prec)
	for n := range uint64(20) {
		lo, hi := d.pow(n).Bounds()
		check.That(t, lo.MinPrec() >= prec-64 && hi.MinPrec() >= prec-64,
			"e^(−x·%d) is between numbers of %d and %d bits", n, lo.MinPrec(), hi.MinPrec())
	}
}

// randomPlace returns some law, with ε of any size, at some distance.
func randomPlace(random *rand.Rand) placed {
	nano := int64(1)
	for range random.IntN(12) {
		nano *= 10
	}
	l := scoreLaw{at: nano + random.Int64N(9*nano)}
	if random.IntN(2) == 0 {
		l.below = random.Int64N(l.at)
	}
	if random.IntN(2) == 0 {
		l.above = l.at + 1 + random.Int64N(l.at)
	}
	p := placed{shapes: newShape, law: l, known: map[uint]terms{}}
	switch random.IntN(4) {
	case 1:
		p.distance = random.Int64N(10)
	case 2:
		p.distance = random.Int64N(1 + 5_000_000_000/l.at)
	case 3:
		p.distance = random.Int64N(1 << 60)
	}
	return p
}

// For any law and distance the guess must nearly always be right. Otherwise some draws would take
// thirty times as long, and that would reveal information. It may be wrong if U begins with many
// equal bits, because 64 bits then do not decide.
func TestGuess_AnyLawAndDistance_IsNearlyAlwaysRight(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	wrong, tries := 0, testenv.Tries(200, 2000, 20_000)
	for range tries {
		p, word := randomPlace(random), random.Uint64()
		bits := exact.ReplayBits(func(b []byte) {
			for i := range b {
				b[i] = byte(random.Uint32())
			}
			binary.BigEndian.PutUint64(b, word)
		})
		if guess, want := p.guess(word), exact.DrawInteger(bits, nil, p.cumulative); guess != want {
			wrong++
			t.Logf("%+v at distance %d, U = %#x…: guessed %d, drawn %d", p.law, p.distance, word, guess, want)
		}
	}
	check.That(t, wrong <= tries/1000, "%d of %d guesses are wrong", wrong, tries)
}

// The caches of laws are bounded, and a law that was removed from the cache is computed again.
func TestSampler_ManyLaws_CacheIsBounded(t *testing.T) {
	s := new(Sampler)
	first := s.shapeOf(scoreLaw{at: 1e9}, 192)
	check.That(t, s.shapeOf(scoreLaw{at: 1e9}, 192) == first, "a cached law is computed again")
	for n := range int64(3 * maxCached) {
		s.shapeOf(scoreLaw{at: 2e9 + n}, 192)
		s.curveAt(curveKey{epsilonOf(t, fmt.Sprintf("1.%03d", n)), 3, 192})
	}
	check.That(t, len(s.shapes) <= maxCached && len(s.curves) <= maxCached,
		"%d and %d laws are kept", len(s.shapes), len(s.curves))
	again := s.shapeOf(scoreLaw{at: 1e9}, 192)
	a, b := again.left.Float64(), first.left.Float64()
	check.That(t, again != first && a == b, "a law that was forgotten is another one: %v, %v", a, b)
}
