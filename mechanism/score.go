package mechanism

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/privacy"
)

// Score is an answer to a query with two outputs, in a form that can be raised. It is the query's
// signed position ([Place.Position]) with two-sided geometric noise, Pr(noise = k) =
// (1−α)/(1+α)·α^|k|, α = e^−ε.
//
// The answer is yes if the value is not negative. It is the optimal answer at ε: at distance d from
// the boundary it is wrong with probability e^(−εd)/(1+e^ε), like the answer of [Sampler.Draw]. A
// score contains more information than its answer. It is ε-differentially private, because the
// positions of neighbours differ by at most 1. So it may be stored and published; the position may
// not. It must be stored, because the answers alone cannot be raised: an answer at one ε is not a
// degradation of an answer at a higher ε.
//
// Scores at rising ε form a chain, like randomized responses (package rrchain). Two-sided geometric
// noise refines, y₁ = y₂ + A − A′, like Laplace noise (Koufogiannis, Han and Pappas, "Gradual
// Release of Sensitive Data under Differential Privacy", 2015). So given the score at the highest
// ε, the others contain no information about the position, and all of them together cost only the
// largest ε.
//
// [Sampler.Rank] computes other answers from a score: for boundaries that are not balanced, and for
// more than two outputs.
type Score struct {
	Epsilon privacy.Epsilon // above 0
	Value   int64           // from −2⁶¹ to 2⁶¹
}

// farthestPosition limits positions, so that the difference of any two positions or scores, and the
// score drawn for them, is an int64. A position beyond the limit is treated as the limit.
// Neighbours remain neighbours, and a distance of 2⁶⁰ is in effect infinite. A score beyond
// maxScore would have a probability below e^(−10⁹).
const farthestPosition = 1 << 60

// maxScore is the largest absolute value of a score.
const maxScore = 1 << 61

// ScoreError means that a query has no score at a place. It wraps [privacy.ErrInvalid].
type ScoreError struct {
	Outputs int // the number of outputs of the query
}

func (e *ScoreError) Error() string {
	if e.Outputs != 2 {
		return fmt.Sprintf("no score for a query with %d outputs: where the regions of three answers meet, "+
			"there may be no way to raise optimal answers such that all cost the largest ε only", e.Outputs)
	}
	return "no score for a query without a boundary: its answer is the true one and needs no ε"
}

// Unwrap returns [privacy.ErrInvalid].
func (e *ScoreError) Unwrap() error { return privacy.ErrInvalid }

// Output returns the answer: 1 for yes if the value is not negative, and 0 for no otherwise.
func (s Score) Output() int { return answerYes &^ int(s.Value>>63) }

// check refuses a score that no Sampler draws. The error does not contain the value.
func (s Score) check() error {
	if s.Epsilon.IsZero() || s.Value < -maxScore || s.Value > maxScore {
		return invalid("not a score: ε = %v is 0, or the absolute value is above 2^61", s.Epsilon)
	}
	return nil
}

// Raise draws the score at an ε above the ε of the last one from the position of the query. It
// draws a first score if last is zero. The cost of all scores together rises to the new ε. It
// returns [privacy.ErrInvalid] if the new ε is not above the last, or if the last score or the
// place is invalid. It returns a [*ScoreError] if the query has no position (see [Place.Position]).
// graph.Gradual decides whether there is a gradual release for a query with more outputs.
//
// The law is exact for all integers up to an absolute value of 2⁶¹. A position beyond ±2⁶⁰ counts
// as ±2⁶⁰. The number of steps does not depend on the position.
func (s *Sampler) Raise(last Score, to privacy.Epsilon, at Place) (Score, error) {
	if !last.Epsilon.Less(to) {
		return Score{}, invalid("raising to ε = %v, which is not above the last ε = %v", to, last.Epsilon)
	}
	if len(at.Order) < 2 || at.Distance < unreachable {
		return Score{}, invalid("not a place of a query")
	}
	position, ok := at.Position()
	if !ok {
		return Score{}, &ScoreError{len(at.Order)}
	}
	position = min(max(position, -farthestPosition), farthestPosition)
	if last.Epsilon.IsZero() {
		last.Value = position
	} else if err := last.check(); err != nil {
		return Score{}, err
	}
	return Score{to, s.score(scoreLaw{below: last.Epsilon.Nano(), at: to.Nano()}, last.Value, position)}, nil
}

// Between draws the score at an ε between two scores, or below the lowest one if below is zero. It
// costs nothing, because it needs no position. It returns [privacy.ErrInvalid] unless
// below.Epsilon < at < above.Epsilon and both scores are valid.
func (s *Sampler) Between(below, above Score, at privacy.Epsilon) (Score, error) {
	if !below.Epsilon.Less(at) || !at.Less(above.Epsilon) {
		return Score{}, invalid("ε = %v is not between ε = %v and ε = %v", at, below.Epsilon, above.Epsilon)
	}
	if below.Epsilon.IsZero() {
		below = Score{Value: above.Value}
	} else if err := below.check(); err != nil {
		return Score{}, err
	}
	if err := above.check(); err != nil {
		return Score{}, err
	}
	l := scoreLaw{below: below.Epsilon.Nano(), at: at.Nano(), above: above.Epsilon.Nano()}
	return Score{at, s.score(l, below.Value, above.Value)}, nil
}

// scoreLaw identifies the distribution of a score given its neighbours below and above, in
// nano-nats. below is 0 if there is no score below. above is 0 if the neighbour above is the
// position itself, which is a score at ε = ∞.
//
// From one level down to another, with α for the lower and α′ for the higher one, y − y′ has an
// extra weight at 0: Pr(k) ∝ α^|k|·(1 + extra·[k=0]). This follows by partial fractions from the
// quotient of the generating functions of the two noises. Let u be the number of steps from the
// score above towards the score below, and D the distance of the two. By Bayes' rule, Pr(u) is
// proportional to
//
//	α^|u|·(1 + extra_above·[u=0]) · α_below^|u−D|·(1 + extra_below·[u=D]).
type scoreLaw struct{ below, at, above int64 }

// score draws from the law.
func (s *Sampler) score(l scoreLaw, below, above int64) int64 {
	difference := below - above
	sign := difference >> 63 // −1 if the score below has the smaller value, else 0
	p := placed{law: l, distance: (difference ^ sign) - sign, shapes: s.shapeOf, known: map[uint]terms{}}
	u := exact.DrawInteger(s.random(), p.guess, p.cumulative)
	return min(max(above+(u^sign)-sign, -maxScore), maxScore)
}

// shape holds the values that all draws from a law share, at some precision. They depend only on
// the levels, which are public. Outside of the neighbours, weights are multiplied by tail with
// every step; between them, by slope.
type shape struct {
	tail, slope  decay
	left, right  exact.Interval // 1/(1−tail), 1/(1−slope)
	outside      exact.Interval // the sum of the weights beyond the neighbour above
	down         exact.Interval // the slope of one step
	above, below exact.Interval // the extra weights at the neighbours; below without the factor of the slope
}

// shapeKey is the key of a shape: a law and a precision.
type shapeKey struct {
	law  scoreLaw
	prec uint
}

// shapeOf returns the shape of a law at a precision.
func (s *Sampler) shapeOf(l scoreLaw, prec uint) *shape {
	return cachedValue(&s.shapes, shapeKey{l, prec}, func() *shape { return newShape(l, prec) })
}

func newShape(l scoreLaw, prec uint) *shape {
	one, e, lower := exact.Int(1), exact.Exp(l.at, prec), exact.Exp(l.below, prec)
	f := &shape{tail: newDecay(e.Mul(lower), l.at+l.below, prec), slope: newDecay(e.Quo(lower), l.at-l.below, prec)}
	step := f.tail.pow(1)
	f.down = f.slope.pow(1)
	f.left, f.right = one.Quo(one.Sub(step)), one.Quo(one.Sub(f.down))
	f.outside = f.left.Mul(step)
	f.above, f.below = exact.Int(0), exact.Int(0)
	if l.above != 0 {
		f.above = extra(e, exact.Exp(l.above, prec))
	}
	if l.below != 0 {
		f.below = extra(lower, e)
	}
	return f
}

// placed is a law with the distance D of the neighbours.
type placed struct {
	law      scoreLaw
	distance int64
	shapes   func(scoreLaw, uint) *shape
	known    map[uint]terms
}

// terms holds the values that the cumulative probabilities of a placed law share, at some
// precision.
type terms struct {
	*shape
	beyond      exact.Interval // the sum of the weights beyond the neighbour below
	below, both exact.Interval // extra weights: at the neighbour below, and if both neighbours are equal
	total       exact.Interval
}

func (p *placed) terms(prec uint) terms {
	t, known := p.known[prec]
	if known {
		return t
	}
	t.shape = p.shapes(p.law, prec)
	across := t.slope.pow(uint64(p.distance))
	t.beyond = across.Mul(t.outside)
	t.below = across.Mul(t.shape.below)
	t.both = t.above.Mul(t.below)
	t.total = t.outside.Add(t.right.Mul(exact.Int(1).Sub(across.Mul(t.down)))).Add(t.beyond).Add(t.above).Add(t.below)
	if both := t.total.Add(t.both); p.distance == 0 {
		t.total = both
	}
	p.known[prec] = t
	return t
}

// guess returns the most likely integer of a draw whose U begins with a word, by the inverse of the
// cumulative probability in floating point. It computes all parts of the law, so that its steps do
// not depend on the part that the integer is in. If floating point is not exact enough, or results
// in infinities or NaN, the integer is arbitrary.
func (p *placed) guess(word uint64) int64 {
	nats := func(nano int64) float64 { return float64(nano) * 1e-9 }
	more := func(low, high int64) float64 { // the extra weight, as in the function extra
		return math.Expm1(-2*nats(low)) / (math.Expm1(nats(high-low)) * math.Expm1(-nats(low+high)))
	}
	tail, slope, distance := nats(p.law.at+p.law.below), nats(p.law.at-p.law.below), float64(p.distance)
	outside, across, flat := 1/math.Expm1(tail), math.Exp(-slope*distance), -math.Expm1(-slope)
	above, below := 0., 0.
	if p.law.above != 0 {
		above = more(p.law.at, p.law.above)
	}
	if p.law.below != 0 {
		below = across * more(p.law.below, p.law.at)
	}
	if p.distance == 0 {
		above, below = above+below+above*below, 0
	}
	beyond, between := across*outside, -math.Expm1(-slope*(distance+1))/flat
	total := outside + above + between + below + beyond
	upTo := (float64(word) + 0.5) * 0x1p-64 * total // the weight of all integers up to the result, and of all above it
	over := (float64(^word) + 0.5) * 0x1p-64 * total

	before := math.Ceil(math.Log(upTo*-math.Expm1(-tail)) / tail)
	low := math.Ceil(-math.Log1p(-(upTo-outside-above)*flat)/slope) - 1
	high := math.Ceil(-math.Log((over-below-beyond)*flat+across*math.Exp(-slope))/slope) - 1
	after := distance + math.Ceil(math.Log(beyond/over)/tail)
	u := min(max(low, 0), distance)
	if upTo > over {
		u = min(max(high, 0), distance)
	}
	switch {
	case upTo <= outside:
		u = before
	case over < beyond:
		u = after
	}
	return int64(max(min(u, maxScore), -maxScore))
}

// extra returns the extra weight of staying in a step down from a level. With E and E′ for the e^ε
// of the lower and the higher level, it is E′(E²−1)/((E′−E)(EE′−1)).
func extra(low, high exact.Interval) exact.Interval {
	one := exact.Int(1)
	return high.Mul(low.Mul(low).Sub(one)).Quo(high.Sub(low).Mul(low.Mul(high).Sub(one)))
}

// cumulative returns an enclosure of the probability of at most u steps.
func (p *placed) cumulative(u int64, prec uint) exact.Interval {
	t := p.terms(prec)
	return p.weight(t, u).Quo(t.total)
}

// weight returns the sum of the weights of up to u steps. Each of the three parts is a geometric
// sum: beyond the score above, between the two, and beyond the score below. The comparison of u and
// the distance reveals information about the true data. So weight computes all parts for every u,
// and from powers of 1 or more, because a multiplication by 0 or 1 is faster.
func (p *placed) weight(t terms, u int64) exact.Interval {
	within, past := min(u, p.distance)+1, u-p.distance
	power := func(d decay, n int64) exact.Interval { return d.pow(uint64(max(n, 1))) }
	sum := t.left.Mul(power(t.tail, -u))
	for _, part := range [...]struct {
		counts bool
		weight exact.Interval
	}{
		{within > 0, t.right.Mul(exact.Int(1).Sub(power(t.slope, within)))},
		{past > 0, t.beyond.Sub(t.beyond.Mul(power(t.tail, past)))},
		{u >= 0, t.above},
		{past >= 0, t.below},
		{u >= 0 && p.distance == 0, t.both},
	} {
		if more := sum.Add(part.weight); part.counts {
			sum = more
		}
	}
	return sum
}

// decay computes powers of e^−x for some x > 0.
type decay struct {
	squares []exact.Interval // e^x, e^2x, e^4x, …: one for each bit of most
	most    uint64           // higher powers cannot be distinguished from 0 at the precision; at least 2
}

// newDecay returns the decay for growth = e^x and x = nano·10⁻⁹.
func newDecay(growth exact.Interval, nano int64, prec uint) decay {
	d := decay{most: 2 + 2*uint64(prec)*1_000_000_000/uint64(nano)}
	for range bits.Len64(d.most) {
		d.squares = append(d.squares, growth)
		growth = growth.Mul(growth)
	}
	return d
}

// pow returns an enclosure of e^(−xn). It takes the same steps for every n, because n may depend on
// the true data.
func (d decay) pow(n uint64) exact.Interval {
	power := d.squares[0].Quo(d.upTo(min(n, d.most)))
	if n > d.most {
		return power.OrLess()
	}
	return power
}

// grown returns an enclosure of e^(xn), in the same way, for n ≤ most.
func (d decay) grown(n uint64) exact.Interval { return d.upTo(n).Quo(d.squares[0]) }

// upTo returns an enclosure of e^(x(n+1)). It starts with e^x, because a multiplication of 1 would
// be faster and reveal information. The caller compensates for this factor.
func (d decay) upTo(n uint64) exact.Interval {
	power := d.squares[0]
	for bit, square := range d.squares {
		choices := [2]exact.Interval{power, power.Mul(square)}
		power = choices[n>>bit&1]
	}
	return power
}
