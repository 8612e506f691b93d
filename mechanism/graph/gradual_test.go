package graph

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/privacy"
)

var fractions, lineLaws = stattest.Fractions, stattest.LineLaws

// mustBeGradual verifies a joint law independently: its marginals, and e^ε between all neighbours.
func mustBeGradual(t *testing.T, g *Graph, low, high [][]*big.Rat, growth *big.Rat, joint [][][]*big.Rat) {
	t.Helper()
	for v := range g.Vertices() {
		seconds := make([]*big.Rat, len(high[v]))
		for j := range seconds {
			seconds[j] = new(big.Rat)
		}
		for i, row := range joint[v] {
			first := new(big.Rat)
			for j, p := range row {
				check.Need(t, p.Sign() >= 0, "vertex %d: a probability of %v", v, p)
				first.Add(first, p)
				seconds[j].Add(seconds[j], p)
				for _, w := range g.Neighbors(v) {
					check.Need(t, p.Cmp(new(big.Rat).Mul(growth, joint[w][i][j])) <= 0,
						"answers %d and %d at vertices %d and %d: %v and %v", i, j, v, w, p, joint[w][i][j])
				}
			}
			check.Need(t, first.Cmp(low[v][i]) == 0,
				"vertex %d: first answer %d with probability %v, want %v", v, i, first, low[v][i])
		}
		for j, p := range seconds {
			check.Need(t, p.Cmp(high[v][j]) == 0,
				"vertex %d: second answer %d with probability %v, want %v", v, j, p, high[v][j])
		}
	}
}

// mustRefute verifies a certificate independently. The given laws gain more than 0. Each move is at
// most 0 for private answers, and the moves add up to at least every gain.
func mustRefute(t *testing.T, g *Graph, low, high [][]*big.Rat, growth *big.Rat, e *NotGradualError) {
	t.Helper()
	gain := new(big.Rat)
	moves := make([][][]*big.Rat, g.Vertices())
	for v := range moves {
		moves[v] = make([][]*big.Rat, len(low[v]))
		for i, p := range low[v] {
			gain.Add(gain, new(big.Rat).Mul(p, e.First[v][i]))
			for range high[v] {
				moves[v][i] = append(moves[v][i], new(big.Rat))
			}
		}
		for j, p := range high[v] {
			gain.Add(gain, new(big.Rat).Mul(p, e.Second[v][j]))
		}
	}
	check.Need(t, gain.Sign() > 0 && gain.Cmp(e.Gain) == 0, "a gain of %v, and %v in the certificate", gain, e.Gain)
	for _, m := range e.Moves {
		check.Need(t, m.Weight.Sign() > 0 && neighbours(g, m.Vertex, m.Neighbor), "move %+v", m)
		here, there := moves[m.Vertex][m.First][m.Second], moves[m.Neighbor][m.First][m.Second]
		here.Add(here, m.Weight)
		there.Sub(there, new(big.Rat).Mul(growth, m.Weight))
	}
	for v := range moves {
		for i := range moves[v] {
			for j, sum := range moves[v][i] {
				check.Need(t, sum.Cmp(new(big.Rat).Add(e.First[v][i], e.Second[v][j])) >= 0,
					"answers %d and %d at vertex %d gain more than the moves allow", i, j, v)
			}
		}
	}
}

func neighbours(g *Graph, v, w int) bool {
	for _, n := range g.Neighbors(v) {
		if int(n) == w {
			return true
		}
	}
	return false
}

// gradual returns whether there is a gradual release, and verifies the proof of either answer.
func gradual(t *testing.T, g *Graph, low, high [][]*big.Rat, growth *big.Rat) bool {
	t.Helper()
	joint, err := Gradual(t.Context(), g, low, high, growth)
	var not *NotGradualError
	switch {
	case err == nil:
		mustBeGradual(t, g, low, high, growth, joint)
	case errors.As(err, &not):
		mustRefute(t, g, low, high, growth, not)
	default:
		t.Fatal(err)
	}
	return err == nil
}

func optimal(t *testing.T, g *Graph, p *Preferences, growth *big.Rat) [][]*big.Rat {
	t.Helper()
	return check.Value(g.RationalLaws(p, growth))(t)
}

// meeting returns a graph in which every two of k regions meet in one edge, and each region has a
// path of the given depth. Region r ranks the outputs cyclically from r on.
func meeting(t *testing.T, k, depth int) (*Graph, *Preferences) {
	t.Helper()
	var edges [][2]int
	var orders [][]int
	var of []uint32
	for r := range k {
		order := make([]int, k)
		for i := range order {
			order[i] = (r + i) % k
		}
		orders = append(orders, order)
		for d := range depth + 1 {
			of = append(of, uint32(r))
			if d > 0 {
				edges = append(edges, [2]int{r*(depth+1) + d - 1, r*(depth+1) + d})
			}
		}
		for other := range r {
			edges = append(edges, [2]int{other * (depth + 1), r * (depth + 1)})
		}
	}
	p := check.Value(NewPreferences(k, orders, of))(t)
	return graphOfEdges(t, k*(depth+1), edges...), p
}

// This is the counterexample: where three regions of three outputs meet, there may be no gradual
// release of optimal answers. The dependence on ε is not simple. From e^(2ε) = 2 = k−1 on there is
// always one.
func TestGradual_ThreeRegions_MayHaveNoRelease(t *testing.T) {
	for _, c := range []struct {
		low, high string
		depth     int
		gradual   bool
	}{
		{"6/5", "5/4", 0, true}, {"6/5", "5/4", 1, false}, {"6/5", "5/4", 2, false}, {"6/5", "5/4", 4, false},
		{"6/5", "3/2", 2, false}, {"6/5", "8/5", 2, false}, {"6/5", "33/20", 2, true},
		{"11/10", "6/5", 1, true}, {"11/10", "6/5", 2, false},
		{"5/4", "4/3", 2, false}, {"5/4", "5", 2, true}, {"21/20", "13/10", 4, true}, {"21/20", "27/20", 4, false}, {"21/20", "11/10", 2, true}, {"21/20", "11/10", 4, false},
		{"4/3", "7/5", 1, false}, {"7/5", "29/20", 2, false}, {"7/5", "3/2", 3, true},
		{"29/20", "3/2", 3, true}, {"3/2", "2", 3, true}, {"2", "4", 3, true}, {"3", "4", 3, true},
	} {
		g, p := meeting(t, 3, c.depth)
		e := fractions(c.low, c.high)
		if got := gradual(t, g, optimal(t, g, p, e[0]), optimal(t, g, p, e[1]), e[1]); got != c.gradual {
			t.Errorf("from %s to %s, depth %d: gradual release %v, want %v", c.low, c.high, c.depth, got, c.gradual)
		}
	}
}

// Graphs, preferences and ε are random, with e^(2ε₁) ≥ k−1. The errors of optimal answers are then
// uniform.
func TestGradual_UniformErrors_HaveARelease(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	for range 60 {
		k := 2 + rng.IntN(3)
		g, p := randomRainbows(t, rng, 3+rng.IntN(7), k)
		low := big.NewRat(int64(math.Ceil(100*math.Sqrt(float64(max(k-1, 2)))))+rng.Int64N(100), 100)
		high := new(big.Rat).Add(low, big.NewRat(1+rng.Int64N(200), 100))
		check.That(t, gradual(t, g, optimal(t, g, p, low), optimal(t, g, p, high), high),
			"%d outputs, from %v to %v: no gradual release", k, low, high)
	}
}

// uniformPair returns the probabilities of two optimal answers with uniform errors at a distance d:
// both right, only the first right, only the second right, both wrong and equal, both wrong and
// different. On the boundary this is a chain of randomized responses. With each step away from it,
// the cases with a wrong second answer fall by e^−ε₂. In the other cases of a wrong first answer,
// the second answer is right.
func uniformPair(low, high *big.Rat, k int64, d int) [5]*big.Rat {
	one, n := big.NewRat(1, 1), big.NewRat(k-1, 1)
	plus := func(x, y *big.Rat) *big.Rat { return new(big.Rat).Add(x, y) }
	minus := func(x, y *big.Rat) *big.Rat { return new(big.Rat).Sub(x, y) }
	times := func(x, y *big.Rat) *big.Rat { return new(big.Rat).Mul(x, y) }
	error1, error2 := new(big.Rat).Inv(plus(low, n)), new(big.Rat).Inv(plus(high, n))
	// Of the channel from the second answer down to the first: the chance of each other output.
	other := new(big.Rat).Quo(minus(high, low), times(plus(low, n), minus(high, one)))
	stay := minus(one, times(n, other))
	for range d {
		error1, error2 = error1.Quo(error1, low), error2.Quo(error2, high)
	}
	same, first, different := times(error2, stay), times(error2, other), times(error2, other)
	second := minus(error1, plus(same, times(big.NewRat(k-2, 1), different)))
	wrong := times(n, plus(plus(same, first), plus(second, times(big.NewRat(k-2, 1), different))))
	return [5]*big.Rat{minus(one, wrong), first, second, same, different}
}

// The test checks the explicit law of the proof that uniform errors are gradual. If e^(2ε₁) ≥ k−1,
// it must be private between neighbours in a region and across a boundary. Below, it need not be.
func TestGradual_UniformErrors_HaveAClosedForm(t *testing.T) {
	private := func(growth *big.Rat, x, y *big.Rat) bool {
		return x.Sign() >= 0 && x.Cmp(new(big.Rat).Mul(growth, y)) <= 0 && y.Cmp(new(big.Rat).Mul(growth, x)) <= 0
	}
	holds := func(low, high *big.Rat, k int64) bool {
		at := uniformPair(low, high, k, 0)
		ok := private(high, at[0], at[3]) && private(high, at[1], at[2]) &&
			private(high, at[1], at[4]) && private(high, at[2], at[4])
		for d := range 12 {
			next := uniformPair(low, high, k, d+1)
			for i := range next {
				ok = ok && private(high, at[i], next[i])
			}
			at = next
		}
		return ok
	}
	for _, c := range []struct {
		k    int64
		lows []string
	}{
		{2, []string{"101/100", "3/2"}}, {3, []string{"142/100", "2"}}, {5, []string{"2", "201/100", "7"}},
		{10, []string{"3", "10"}}, {101, []string{"10", "11"}},
	} {
		for _, low := range fractions(c.lows...) {
			for _, step := range fractions("1/1000", "1/3", "5", "1000") {
				high := new(big.Rat).Add(low, step)
				check.That(t, holds(low, high, c.k), "%d outputs, from %v to %v: not private", c.k, low, high)
			}
		}
	}
	e := fractions("6/5", "5/4")
	check.That(t, !holds(e[0], e[1], 3), "from 6/5 to 5/4 the law is private, and there is none")
}

// This is an observation without a proof: three answers cost only the largest ε, too. The answers
// are the positions of a random walk at three times. Its graph has k rays that meet in a clique. It
// starts at the dataset's distance on the ray of the true answer. The times are exponential, each
// equal to the time before or later. Numbers are float64, and the rays are long.
func TestGradual_ThreeAnswersWithUniformErrors_CostTheLargest(t *testing.T) {
	const depth, near = 30, 8
	for _, c := range []struct {
		k      int
		growth [3]float64
	}{{3, [3]float64{1.42, 1.43, 1.44}}, {3, [3]float64{1.5, 2, 5}}, {4, [3]float64{1.74, 2, 3}}} {
		walks, limit := newSpider(c.k, depth), c.growth[2]
		for name, chance := range walks.answers(c.growth) {
			for ray := range c.k {
				for d := range near {
					at := chance[ray*depth+d]
					others := []float64{chance[ray*depth+d+1]}
					for other := range c.k {
						if d == 0 {
							others = append(others, chance[other*depth])
						}
					}
					for _, there := range others {
						if ratio := max(at/there, there/at); !(ratio <= limit*(1+1e-9)) {
							t.Errorf("k=%d, %v: answers %s on ray %d at %d have the ratio %v", c.k, c.growth, name, ray, d, ratio)
						}
					}
				}
			}
		}
	}
}

// spider is the graph of k rays that meet in a clique.
type spider struct{ k, depth int }

func newSpider(k, depth int) spider { return spider{k, depth} }

// answers returns the probabilities of all three answers, by the start of the walk.
func (s spider) answers(growth [3]float64) map[string][]float64 {
	rate := func(e float64) float64 { return e + 1/e - 2 }
	chances := map[string][]float64{"": nil}
	for level, e := range growth {
		next := make(map[string][]float64)
		for name, before := range chances {
			for ray := range s.k {
				// The chance of the answers so far, seen from where the walk is at the time of this
				// one.
				seen := make([]float64, s.k*s.depth)
				for d := range s.depth {
					at := ray*s.depth + d
					seen[at] = 1
					if level > 0 {
						seen[at] = before[at]
					}
				}
				next[name+fmt.Sprint(ray)] = seen
			}
		}
		if level == len(growth)-1 {
			for name, seen := range next {
				next[name] = s.later(rate(e), seen)
			}
			return next
		}
		same := rate(e) / rate(growth[level+1]) // the chance that the time of the next answer is this one's
		for name, seen := range next {
			later := s.later(rate(e), seen)
			for i := range later {
				later[i] = same*seen[i] + (1-same)*later[i]
			}
			next[name] = later
		}
		chances = next
	}
	return chances
}

// later returns the expectation of x at the position of the walk after an exponential time. It
// solves rate·x = (rate − generator)·later by Gauss–Seidel iteration.
func (s spider) later(rate float64, x []float64) []float64 {
	y := make([]float64, len(x))
	for change := 1.0; change > 1e-15; {
		change = 0
		for ray := range s.k {
			for d := range s.depth {
				at := ray*s.depth + d
				sum, exits := 0.0, 0.0
				step := func(to int) { sum, exits = sum+y[to], exits+1 }
				if d+1 < s.depth {
					step(at + 1)
				}
				if d > 0 {
					step(at - 1)
				}
				for other := range s.k {
					if d == 0 && other != ray {
						step(other * s.depth)
					}
				}
				value := (rate*x[at] + sum) / (rate + exits)
				change = max(change, math.Abs(value-y[at]))
				y[at] = value
			}
		}
	}
	return y
}

// It follows from scores that laws on a line whose prefix sums are moved by U are gradual, for any
// boundary law of two or more outputs, even if it changes with ε. The linear program must agree.
func TestGradual_LineLaws_HaveARelease(t *testing.T) {
	for _, c := range []struct{ low, high []string }{
		{[]string{"1/2", "1/2"}, []string{"1/2", "1/2"}},
		{[]string{"1/7", "6/7"}, []string{"9/10", "1/10"}},
		{[]string{"1/3", "1/3", "1/3"}, []string{"1/2", "1/5", "3/10"}},
		{[]string{"1/20", "0", "19/20"}, []string{"1/2", "1/2"}},
	} {
		for _, texts := range [][]string{{"6/5", "5/4"}, {"2", "4"}, {"3/2", "8"}} {
			e := fractions(texts...)
			low, high := lineLaws(e[0], fractions(c.low...), -3, 3), lineLaws(e[1], fractions(c.high...), -3, 3)
			check.That(t, gradual(t, pathGraph(t, 7), low, high, e[1]),
				"%v to %v, from e^ε = %v: no gradual release", c.low, c.high, texts)
		}
	}
}

// outward returns the best laws of no and yes on 2n vertices whose last no is wrong with
// probability b and whose first yes is wrong with probability c.
func outward(t *testing.T, growth, b, c *big.Rat, n int) [][]*big.Rat {
	t.Helper()
	one := big.NewRat(1, 1)
	laws := make([][]*big.Rat, 2*n)
	for side, wrong := range []*big.Rat{b, c} {
		right := new(big.Rat).Sub(one, wrong)
		for d := range n {
			law := []*big.Rat{right, new(big.Rat).Sub(one, right)}
			if side == 1 {
				law[0], law[1] = law[1], law[0]
			}
			laws[n+side*(2*d+1)-d-1] = law
			right = rationalUpper(growth, right)
		}
	}
	return laws
}

// fromScore returns the only function H of a score whose expectation gives yes with probability
// yes[z], where three vertices are next to each other: ((1+α²)·yes(z) − α·yes(z+1) − α·yes(z−1)) /
// (1−α)².
func fromScore(growth *big.Rat, before, here, after *big.Rat) *big.Rat {
	one, alpha := big.NewRat(1, 1), new(big.Rat).Inv(growth)
	h := new(big.Rat).Mul(new(big.Rat).Add(one, new(big.Rat).Mul(alpha, alpha)), here)
	h.Sub(h, new(big.Rat).Mul(alpha, new(big.Rat).Add(before, after)))
	left := new(big.Rat).Sub(one, alpha)
	return h.Quo(h, left.Mul(left, left))
}

// Answers at a boundary that is not tight are a function of a score under exact conditions. For b,
// c ≤ 1/(1+α) they are one if and only if c + αb and b + αc are at least α, which is privacy, and
// at most 1−α+α². The test compares the conditions with the only possible function H.
func TestScoreFunction_SlackBoundaries_ExistsUnderTheConditions(t *testing.T) {
	one := big.NewRat(1, 1)
	within, beyond := 0, 0
	for _, growth := range fractions("6/5", "3/2", "2", "5") {
		alpha := new(big.Rat).Inv(growth)
		largest := new(big.Rat).Inv(new(big.Rat).Add(one, alpha))
		most := new(big.Rat).Add(new(big.Rat).Sub(one, alpha), new(big.Rat).Mul(alpha, alpha))
		for i := range int64(21) {
			for j := range int64(21) {
				b, c := new(big.Rat).Mul(largest, big.NewRat(i, 20)), new(big.Rat).Mul(largest, big.NewRat(j, 20))
				bc := new(big.Rat).Add(b, new(big.Rat).Mul(alpha, c))
				cb := new(big.Rat).Add(c, new(big.Rat).Mul(alpha, b))
				if bc.Cmp(alpha) < 0 || cb.Cmp(alpha) < 0 {
					continue
				}
				laws, possible := outward(t, growth, b, c, 5), true
				for v := 1; v < 9; v++ {
					h := fromScore(growth, laws[v-1][1], laws[v][1], laws[v+1][1])
					possible = possible && h.Sign() >= 0 && h.Cmp(one) <= 0
				}
				if want := bc.Cmp(most) <= 0 && cb.Cmp(most) <= 0; possible != want {
					t.Errorf("e^ε = %v, b = %v, c = %v: from the score %v, want %v", growth, b, c, possible, want)
				}
				if possible {
					within++
				} else {
					beyond++
				}
			}
		}
	}
	check.That(t, within >= 100 && beyond >= 100, "%d boundaries within and %d beyond", within, beyond)
}

// Two kinds of answers are each gradual by themselves: balanced answers, and answers that are a
// fair coin on both sides of the boundary. The latter come from a score of the position without one
// of its steps. From one kind to the other there may be no release.
func TestGradual_SlackBoundaries_MayHaveNoRelease(t *testing.T) {
	const n = 4
	for _, c := range []struct {
		texts    []string
		low      bool // a coin at the low ε, or balanced
		high     bool
		released bool
	}{
		{[]string{"6/5", "5/4"}, false, false, true}, {[]string{"6/5", "5/4"}, true, true, true},
		{[]string{"6/5", "5/4"}, false, true, false}, {[]string{"6/5", "5/4"}, true, false, false},
		{[]string{"3/2", "3"}, false, true, true}, {[]string{"3/2", "3"}, true, false, true},
	} {
		e := fractions(c.texts...)
		wrong := func(growth *big.Rat, coin bool) *big.Rat {
			if coin {
				return big.NewRat(1, 2)
			}
			return new(big.Rat).Inv(new(big.Rat).Add(growth, big.NewRat(1, 1)))
		}
		b1, b2 := wrong(e[0], c.low), wrong(e[1], c.high)
		if got := gradual(t, pathGraph(t, 2*n), outward(t, e[0], b1, b1, n), outward(t, e[1], b2, b2, n), e[1]); got != c.released {
			t.Errorf("%v, coins %v and %v: released %v, want %v", c.texts, c.low, c.high, got, c.released)
		}
	}
}

// Rational laws agree with the float64 laws of the homogeneous solution.
func TestRationalLaws_AreTheHomogeneousOptimum(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	for range 40 {
		k := 2 + rng.IntN(4)
		g, p := randomRainbows(t, rng, 1+rng.IntN(12), k)
		growth := big.NewRat(101+rng.Int64N(400), 100)
		e, _ := growth.Float64()
		want := check.Value(balanced(g, p, Privacy{Epsilon: math.Log(e)}))(t)
		for v, law := range optimal(t, g, p, growth) {
			for j, x := range law {
				if got, _ := x.Float64(); math.Abs(got-want[v][j]) > 1e-13 {
					t.Errorf("e^ε = %v, vertex %d: output %d with probability %v, want %v", growth, v, j, got, want[v][j])
				}
			}
		}
	}
}

// At ε = 0 there is a release only if both laws are the same at all vertices.
func TestGradual_ZeroEpsilon_NeedsEqualLaws(t *testing.T) {
	g, half, third := pathGraph(t, 2), fractions("1/2", "1/2"), fractions("1/3", "2/3")
	one, same := big.NewRat(1, 1), [][]*big.Rat{half, half}
	check.That(t, gradual(t, g, same, same, one) && !gradual(t, g, same, [][]*big.Rat{half, third}, one),
		"at e^ε = 1, laws that are the same are no gradual release, or others are")
}

func TestGradual_InvalidArguments_AreRefused(t *testing.T) {
	g, half := pathGraph(t, 2), fractions("1/2", "1/2")
	two, e := [][]*big.Rat{half, half}, big.NewRat(2, 1)
	many := pathGraph(t, 1001)
	var laws [][]*big.Rat
	for range 1001 {
		laws = append(laws, half)
	}
	for name, c := range map[string]struct {
		g         *Graph
		low, high [][]*big.Rat
		growth    *big.Rat
		names     string
	}{
		"no growth":       {g, two, two, nil, "e^ε"},
		"small growth":    {g, two, two, big.NewRat(99, 100), "e^ε"},
		"no vertices":     {graphOfEdges(t, 0), nil, nil, e, "vertices"},
		"few laws":        {g, two[:1], two, e, "laws at the low ε"},
		"few second laws": {g, two, two[:1], e, "laws at the high ε"},
		"outputs differ":  {g, [][]*big.Rat{half, fractions("1/3", "1/3", "1/3")}, two, e, "vertex 1"},
		"no law":          {g, two, [][]*big.Rat{half, fractions("1/3", "1/3")}, e, "vertex 1"},
		"too large":       {many, laws, laws, e, "too many"},
	} {
		_, err := Gradual(t.Context(), c.g, c.low, c.high, c.growth)
		check.That(t, errors.Is(err, privacy.ErrInvalid) && strings.Contains(err.Error(), c.names), "%s: %v", name, err)
	}
	_, err := Gradual(t.Context(), g, [][]*big.Rat{half, half}, [][]*big.Rat{fractions("9/10", "1/10"), fractions("1/10", "9/10")}, e)
	var not *NotGradualError
	check.That(t, errors.As(err, &not) && errors.Is(err, privacy.ErrInvalid) &&
		strings.Contains(err.Error(), "no gradual release"), "a second law that is not private itself: %v", err)
	p := colorsOf(t, 2, 0, 1, 0)
	for name, growth := range map[string]*big.Rat{"nil": nil, "1": big.NewRat(1, 1), "vertices": e} {
		check.Is(t, check.Err(g.RationalLaws(p, growth)), privacy.ErrInvalid, "%s", name)
	}
}

func TestRationalLaws_TooLarge_AreRefused(t *testing.T) {
	for _, c := range []struct {
		vertices, outputs int
		growth            *big.Rat
		ok                bool
	}{
		{1333, 3, big.NewRat(2, 1), true},
		{1334, 3, big.NewRat(2, 1), false},
		{20, 2, new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), 3000)), true},
		{20, 2, new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), 4000)), false},
	} {
		colors := make([]int, c.vertices)
		colors[c.vertices-1] = 1
		p := colorsOf(t, c.outputs, colors...)
		if laws, err := pathGraph(t, c.vertices).RationalLaws(p, c.growth); (err == nil) != c.ok || !c.ok && (laws != nil || !errors.Is(err, privacy.ErrInvalid)) {
			t.Errorf("%d vertices, %d outputs, %d bits: %v", c.vertices, c.outputs, c.growth.Num().BitLen(), err)
		}
	}
}
