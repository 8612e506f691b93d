package graph

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/privacy"
)

// fallingWeights returns random weights that fall strictly from rank to rank.
func fallingWeights(rng *rand.Rand, vertices, outputs int) [][]float64 {
	weights := make([][]float64, vertices)
	for v := range weights {
		weights[v] = make([]float64, outputs)
		weights[v][0] = rng.NormFloat64()
		for r := 1; r < outputs; r++ {
			weights[v][r] = weights[v][r-1] - 0.05 - rng.ExpFloat64()
		}
	}
	return weights
}

// moderatePrivacy is randomPrivacy with an ε of at most 3.
func moderatePrivacy(rng *rand.Rand) (dp Privacy, nano int64) {
	for {
		if dp, nano = randomPrivacy(rng); dp.Epsilon > 0.01 && dp.Epsilon < 3 {
			dp.Delta /= 8
			return dp, nano
		}
	}
}

// utility returns the value that the program maximizes.
func utility(p *Preferences, t Table, weights [][]float64) (total float64) {
	for v := range len(t) {
		for rank, output := range p.Order(v) {
			total += weights[v][rank] * t[v][output]
		}
	}
	return total
}

// mustBePrivate checks privacy in 256 bits and without tolerance, at every edge with an end that
// was not given.
func mustBePrivate(t *testing.T, g *Graph, table Table, given map[int][]float64, dp Privacy, nano int64) {
	t.Helper()
	mustPass(t, g, table, dp)
	growth := expOf(nano)
	for v := range g.Vertices() {
		for _, w := range g.Neighbors(v) {
			if given[v] != nil && given[int(w)] != nil {
				continue
			}
			if excess := bigExcess(table[v], table[int(w)], growth, dp.Delta); excess > 0 {
				t.Fatalf("%v: edge between %d and %d exceeds (ε,δ) by %v: %v, %v", dp, v, w, excess, table[v], table[int(w)])
			}
		}
	}
}

// Graphs, colours and given laws are random, and every boundary edge has a given end. The linear
// program must be feasible exactly if α_h ≤ U^dist(α_h') for all given h, h' and both outputs
// (torkamani2023 Lemma 1). Its optimum, for random weights, must be the minimum over h of U^dist
// (Theorem 1).
func TestLinearProgram_TwoOutputs_AgreesWithExtend(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	feasible, infeasible := 0, 0
	for range 500 {
		n := 2 + rng.IntN(6)
		g, p := randomRainbows(t, rng, n, 2)
		dp, nano := moderatePrivacy(rng)
		distances := allDistances(g)
		given := make(map[int][]float64)
		spread := 7 * dp.Epsilon
		for v := range n {
			if rng.IntN(3) == 0 || slices.ContainsFunc(g.Neighbors(v), func(w uint32) bool { return p.Color(v) == 0 && p.Color(int(w)) == 1 }) {
				odds := math.Exp(spread * (rng.Float64() - 0.5))
				given[v] = []float64{odds / (1 + odds), 1 / (1 + odds)}
			}
		}
		want, conflict := make(Table, n), false
		for v := range n {
			color := p.Color(v)
			truth := 1.0
			for h, law := range given {
				bound := iterated(dp, law[color], distances[v][h])
				truth = min(truth, bound)
				other := iterated(dp, law[1-color], distances[v][h])
				conflict = conflict || given[v] != nil && (given[v][color] > bound+1e-12 || given[v][1-color] > other+1e-12)
			}
			want[v] = unranked(p.Order(v), []float64{truth, 1 - truth})
		}
		weights := fallingWeights(rng, n, 2)
		table, err := maximize(t.Context(), g, p, dp, given, weights)
		if conflict {
			infeasible++
			check.Need(t, errors.As(err, new(*ConflictError)), "%v, %v: %v, want an error", dp, given, err)
			continue
		}
		feasible++
		check.Need(t, err == nil, "%v, %v: %v", dp, given, err)
		swept := check.Value(Problem{Graph: g, Preferences: p, Privacy: dp, Given: given}.Solve(t.Context()))(t)
		mustEqual(t, table, want, 0, 1e-10)
		mustEqual(t, table, swept, 0, 1e-10)
		mustBePrivate(t, g, table, given, dp, nano)
	}
	check.That(t, feasible >= 100 && infeasible >= 100, "%d feasible, %d infeasible", feasible, infeasible)
}

// Graphs and rainbows are random, with a random law for each rainbow. The linear program must be
// feasible exactly if the homogeneous problem is, and have the same optimum for all weights.
func TestLinearProgram_HomogeneousBoundaries_AgreesWithHomogeneous(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	feasible, infeasible := 0, 0
	for range 500 {
		n, outputs := 2+rng.IntN(6), 2+rng.IntN(3)
		g, p := randomRainbows(t, rng, n, outputs)
		dp, nano := moderatePrivacy(rng)
		laws := make([][]float64, p.Rainbows())
		base := randomLaw(rng, outputs) // the laws do not differ much, by output
		for rainbow := range laws {
			law := make([]float64, outputs)
			for rank, output := range p.orders[rainbow] {
				law[rank] = base[output] * math.Exp(3*dp.Epsilon*(rng.Float64()-0.5))
			}
			total := sum(law)
			for rank := range law {
				law[rank] /= total
			}
			laws[rainbow] = law
		}
		given := make(map[int][]float64)
		for v, d := range g.distances(p) {
			if d == 0 {
				given[v] = unranked(p.Order(v), laws[p.Rainbow(v)])
			}
		}
		possible := true
		for v, law := range given {
			for _, w := range g.Neighbors(v) {
				possible = possible && (given[int(w)] == nil || subsetExcess(law, given[int(w)], dp) <= 1e-12)
			}
		}
		want, err := homogeneous(g, p, dp, laws)
		weights := fallingWeights(rng, n, outputs)
		table, err2 := maximize(t.Context(), g, p, dp, given, weights)
		if !possible {
			infeasible++
			check.Need(t, errors.As(err, new(*ConflictError)) && errors.As(err2, new(*ConflictError)),
				"%v, linear program: %v; want an edge", err, err2)
			continue
		}
		check.Must(t, err)
		feasible++
		check.Must(t, err2)
		mustEqual(t, table, want, 0, 1e-10)
		mustBePrivate(t, g, table, given, dp, nano)
	}
	check.That(t, feasible >= 100 && infeasible >= 50, "%d feasible, %d infeasible", feasible, infeasible)
}

// Laws are given at random vertices. A mechanism exists only if, for each set A, the two answers
// "in A" and "not in A" have one.
func TestLinearProgram_AnyGivenLaws_IsOptimalOrConflicts(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	counts := map[string]int{}
	for range testenv.Tries(160, 300, 300) {
		n, outputs := 3+rng.IntN(5), 3
		g, p := randomRainbows(t, rng, n, outputs)
		dp, nano := moderatePrivacy(rng)
		given := make(map[int][]float64)
		for v := range n {
			if rng.IntN(3) == 0 {
				law := make([]float64, outputs)
				for j := range law {
					law[j] = math.Exp(4 * dp.Epsilon * (rng.Float64() - 0.5))
				}
				total := sum(law)
				for j := range law {
					law[j] /= total
				}
				given[v] = law
			}
		}
		table, err := maximize(t.Context(), g, p, dp, given, nil)
		possible := setsFit(allDistances(g), given, dp)
		counts[fmt.Sprintf("fit %v, solved %v", possible, err == nil)]++
		if err == nil {
			check.Need(t, possible, "%v, %v: solved against all bounds", dp, given)
			mustBePrivate(t, g, table, given, dp, nano)
			mustNotBeBeaten(t, g, p, dp, given, table)
		} else if !errors.As(err, new(*ConflictError)) {
			t.Fatal(err)
		}
	}
	t.Log(counts)
	check.That(t, counts["fit true, solved true"] >= 100 && counts["fit false, solved false"] >= 20, "%v", counts)
}

func setsFit(distances [][]int, given map[int][]float64, dp Privacy) bool {
	for v, law := range given {
		for w, other := range given {
			for set := range 1 << len(law) {
				here, there := 0.0, 0.0
				for j := range law {
					if set>>j&1 == 1 {
						here += law[j]
						there += other[j]
					}
				}
				if here > iterated(dp, there, distances[v][w])+1e-12 {
					return false
				}
			}
		}
	}
	return true
}

// mustNotBeBeaten compares a solution for even weights with solutions for the first ranks of one
// vertex alone. None of these may have less there, or a larger value for the even weights.
func mustNotBeBeaten(t *testing.T, g *Graph, p *Preferences, dp Privacy, given map[int][]float64, table Table) {
	t.Helper()
	even := slices.Repeat([][]float64{{1, 0.5, 0}}, g.Vertices())
	for vertex := range g.Vertices() {
		for ranks := 1; ranks < p.Outputs(); ranks++ {
			weights := slices.Repeat([][]float64{{0, 0, 0}}, g.Vertices())
			weights[vertex] = []float64{1, float64(ranks - 1), 0}
			best := check.Value(maximize(t.Context(), g, p, dp, given, weights))(t)
			has, possible := utility(p, table, weights), utility(p, best, weights)
			check.Need(t, has <= possible+1e-12, "vertex %d, %d ranks: %v, possible %v", vertex, ranks, has, possible)
			if has, possible := utility(p, best, even), utility(p, table, even); has > possible+1e-11 {
				t.Fatalf("vertex %d, %d ranks: %v of even weights, possible %v", vertex, ranks, has, possible)
			}
		}
	}
}

// A boundary that is not homogeneous may leave no mechanism that is best in every respect (as Gu et
// al., "Generalized Rainbow Differential Privacy", show with another). On the path 0 – 1 – 2 – 3 –
// 4 – 5, e^ε = 2, the vertices 1 … 4 are one region; its ends have different laws:
//
//	1: (0.1, 0.6, 0.3)    4: (0.2, 0.2, 0.6)
//
// At 2 the last output can have 0.15 and not less. Then the first has 0.2 at most and the second
// 0.65 at least; at 3 these have 0.325 and, because of 4, the last 0.3 at least, so that the first
// has at most 0.375. But 0.4 is possible there, with 0.2 for the last output at 2.
func TestSolve_GivenRainbows_DependsOnWeights(t *testing.T) {
	g := pathGraph(t, 6)
	p := ordersOf(t, 3, [][]int{{0, 1, 2}, {2, 1, 0}}, 1, 0, 0, 0, 0, 1)
	left, right := []float64{0.1, 0.6, 0.3}, []float64{0.2, 0.2, 0.6}
	given := map[int][]float64{0: left, 1: left, 4: right, 5: right}
	problem := Problem{Graph: g, Preferences: p, Privacy: Privacy{Epsilon: math.Ln2}, Given: given}
	table, err := problem.Solve(t.Context())
	check.Must(t, err)
	mustEqual(t, table, Table{left, left, {0.2, 0.65, 0.15}, {0.375, 0.325, 0.3}, right, right}, 0, 1e-11)
	// Other weights buy 0.4 at 3 and pay at 2.
	problem.Weights = slices.Repeat([][]float64{{1, 0, 0}}, 6)
	problem.Weights[3] = []float64{10, 0, 0}
	problem.Weights[2] = []float64{1, 0.9, 0}
	table, err = problem.Solve(t.Context())
	check.That(t, err == nil && math.Abs(table[3][0]-0.4) <= 1e-11 && table[2][0]+table[2][1] <= 0.85-1e-3,
		"vertices 2 and 3 have %v, %v, want 0.4 first at 3", table[2:4], err)
}

// For two neighbours of different colours, randomized response is optimal.
func TestSolve_NoGivenLaws_IsBalanced(t *testing.T) {
	g, dp := pathGraph(t, 2), Privacy{1, 0.01}
	p := twoColors(t, 0, 1)
	table := check.Value(maximize(t.Context(), g, p, dp, nil, nil))(t)
	want := check.Value(balanced(g, p, dp))(t)
	mustEqual(t, table, want, 0, 1e-11)
	table = check.Value(maximize(t.Context(), g, twoColors(t, 1, 1), dp, nil, nil))(t)
	mustEqual(t, table, Table{{0, 1}, {0, 1}}, 0, 0)
	given := map[int][]float64{0: {0.5, 0.5}, 1: {0.4, 0.6}}
	table = check.Value(maximize(t.Context(), g, p, dp, given, nil))(t)
	mustEqual(t, table, Table{given[0], given[1]}, 0, 0)
}

// If e^ε is rounded to 1, all laws are equal. Given laws that do not sum to exactly 1 must not make
// the program infeasible.
func TestSolve_TinyEpsilon_AllLawsAreEqual(t *testing.T) {
	law := []float64{0.3, 0.3, 0.4 - 9e-13}
	table, err := maximize(t.Context(), pathGraph(t, 3), colorsOf(t, 3, 0, 1, 2), Privacy{Epsilon: 1e-12}, map[int][]float64{0: law}, nil)
	check.Must(t, err)
	mustEqual(t, table, Table{law, law, law}, 0, 1e-12)
}

// An output with a probability below all float64 must not have probability 0 at a neighbour.
func TestLinearProgram_TinyProbabilities_AreNotZero(t *testing.T) {
	p := twoColors(t, 0, 1, 1, 1, 1)
	for _, epsilon := range []float64{300, 700} {
		law := response(t, 2, epsilon)
		table, err := maximize(t.Context(), pathGraph(t, 5), p, Privacy{Epsilon: epsilon}, map[int][]float64{1: {law[1], law[0]}}, nil)
		check.Must(t, err)
		for v, law := range table {
			check.That(t, law[0] != 0 && law[1] != 0, "ε = %v, vertex %d: %v", epsilon, v, law)
		}
	}
}

// The two laws are too different for their distance of 3, although no single edge is in conflict.
func TestLinearProgram_ConflictingLaws_AreNamed(t *testing.T) {
	p := colorsOf(t, 3, make([]int, 6)...)
	given := map[int][]float64{0: {0.3, 0.3, 0.4}, 2: {0.8, 0.1, 0.1}, 5: {0.05, 0.05, 0.9}}
	problem := Problem{Graph: pathGraph(t, 6), Preferences: p, Privacy: Privacy{Epsilon: math.Ln2}, Given: given}
	table, err := problem.Solve(t.Context())
	check.Need(t, reflect.DeepEqual(err, &ConflictError{From: 2, To: 5, Others: []int{}}) &&
		errors.Is(err, privacy.ErrInvalid) && table == nil, "%+v, %v", table, err)
	check.That(t, strings.Contains(err.Error(), "[2 5]"), "%v", err)
	given[2] = []float64{0.1, 0.1, 0.8}
	given[1] = []float64{0.6, 0.2, 0.2}
	_, err = problem.Solve(t.Context())
	var edge *ConflictError
	check.That(t, errors.As(err, &edge) && edge.From == 2 && edge.To == 1 && edge.Distance == 1 &&
		edge.ToProbability > edge.Bound, "%v", err)
}

// Each two of the three laws are compatible, and no set of outputs is too likely for its distance.
// But at the centre of the star, no output can have more than 0.3. With two outputs, every conflict
// is one of two laws (torkamani2023 Theorem 1).
func TestLinearProgram_ThreeConflictingLaws_AreNamed(t *testing.T) {
	g := graphOfEdges(t, 4, [2]int{0, 1}, [2]int{0, 2}, [2]int{0, 3})
	p := colorsOf(t, 3, make([]int, 4)...)
	dp := Privacy{Epsilon: math.Ln2}
	given := map[int][]float64{1: {0.15, 0.425, 0.425}, 2: {0.425, 0.15, 0.425}, 3: {0.425, 0.425, 0.15}}
	check.That(t, setsFit(allDistances(g), given, dp), "two of the laws do not fit")
	_, err := maximize(t.Context(), g, p, dp, given, nil)
	check.That(t, reflect.DeepEqual(err, &ConflictError{From: 1, To: 2, Others: []int{3}}) &&
		strings.Contains(err.Error(), "[1 2 3]"), "%v", err)
	delete(given, 2)
	_, err = maximize(t.Context(), g, p, dp, given, nil)
	check.That(t, err == nil, "two laws: %v", err)
}

// With more than two outputs and δ > 0, sets of several outputs have bounds of their own.
func TestLinearProgram_SetsOfOutputs_ArePrivate(t *testing.T) {
	p := colorsOf(t, 4, 0, 0, 0, 1)
	given := map[int][]float64{0: {0.25, 0.25, 0.25, 0.25}}
	dp := Privacy{0.2, 0.05}
	table := check.Value(maximize(t.Context(), pathGraph(t, 4), p, dp, given, nil))(t)
	worst := math.Inf(-1)
	for v := 1; v < 4; v++ {
		worst = max(worst, subsetExcess(table[v], table[v-1], dp), subsetExcess(table[v-1], table[v], dp))
	}
	check.That(t, worst <= 0 && worst >= -1e-10, "the worst set of outputs exceeds the bound by %v: %v", worst, table)
}

// The grid has the largest size for which a person may wait.
func TestLinearProgram_Grid_IsSolvedInTime(t *testing.T) {
	const side = 13
	var edges [][2]int
	colors := make([]int, side*side)
	for v := range colors {
		if v%side > 0 {
			edges = append(edges, [2]int{v - 1, v})
		}
		if v >= side {
			edges = append(edges, [2]int{v - side, v})
		}
		if v%side > side/2 {
			colors[v] = 1
		} else if v/side > side/2 {
			colors[v] = 2
		}
	}
	g := graphOfEdges(t, side*side, edges...)
	p := colorsOf(t, 3, colors...)
	for _, dp := range []Privacy{{0.5, 0}, {0.5, 0.01}} {
		start := time.Now()
		table := check.Value(maximize(t.Context(), g, p, dp, nil, nil))(t)
		t.Logf("%v: %v", dp, time.Since(start))
		mustPass(t, g, table, dp)
	}
}

// The probabilities are far below any tolerance for float64. They must be accurate, except for the
// last digits, which are lost to the safety margin.
func TestLinearProgram_SmallProbabilities_AreAccurate(t *testing.T) {
	for _, c := range []struct {
		vertices int
		epsilon  float64
	}{{7, 10}, {7, 40}, {7, 90}, {40, 1}, {25, 4}} {
		g := pathGraph(t, c.vertices)
		colors := make([]int, c.vertices)
		last := c.vertices - 1
		colors[last] = 1
		p := colorsOf(t, 3, colors...)
		dp := Privacy{Epsilon: c.epsilon}
		want := check.Value(balanced(g, p, dp))(t)
		table, err := maximize(t.Context(), g, p, dp, map[int][]float64{last - 1: want[last-1], last: want[last]}, nil)
		check.Must(t, err)
		mustEqual(t, table, want, 1e-9, 0)
	}
}

// countdown is a context that ends after a number of calls of Err.
type countdown struct {
	context.Context
	left, asked int
}

func (c *countdown) Err() error {
	if c.asked++; c.left == 0 {
		return context.Canceled
	}
	c.left--
	return nil
}

func TestSolvers_ContextEnds_StopSoon(t *testing.T) {
	g := pathGraph(t, 6)
	p := colorsOf(t, 3, 0, 0, 0, 1, 2, 1)
	dp := Privacy{Epsilon: 0.5, Delta: 0.01}
	growth := big.NewRat(2, 1)
	low, high := optimal(t, g, p, big.NewRat(3, 2)), optimal(t, g, p, growth)
	for name, solve := range map[string]func(context.Context) error{
		"Solve": func(ctx context.Context) error {
			_, err := maximize(ctx, g, p, dp, nil, nil)
			return err
		},
		"Gradual": func(ctx context.Context) error {
			_, err := Gradual(ctx, g, low, high, growth)
			return err
		},
	} {
		never := &countdown{Context: t.Context(), left: -1}
		_ = solve(never)
		check.That(t, never.asked >= g.Vertices(), "%s asks %d times whether the context has ended", name, never.asked)
		for k := 0; k < never.asked; k += 1 + never.asked/40 {
			ctx := &countdown{Context: t.Context(), left: k}
			err := solve(ctx)
			if late := ctx.asked - k; late > 0 && !errors.Is(err, context.Canceled) || late > 12 {
				t.Errorf("%s, ended after %d steps: %v, %d steps later", name, k, err, late)
			}
		}
	}
}

func TestLinearProgram_InvalidArguments_AreRefused(t *testing.T) {
	g, dp := pathGraph(t, 3), Privacy{Epsilon: 1}
	p := colorsOf(t, 2, 0, 0, 1)
	check := func(what string, g *Graph, dp Privacy, given map[int][]float64, weights [][]float64) {
		t.Helper()
		table, err := maximize(t.Context(), g, p, dp, given, weights)
		check.That(t, errors.Is(err, privacy.ErrInvalid) && table == nil, "%s: %+v, %v", what, table, err)
	}
	for _, bad := range badPrivacy() {
		check("privacy", g, bad, nil, nil)
	}
	check("ε", g, Privacy{Epsilon: 701}, nil, nil)
	check("other size", pathGraph(t, 4), dp, nil, nil)
	for _, bad := range append(badLaws(), []float64{0.5, 0.3, 0.2}) {
		check("law", g, dp, map[int][]float64{1: {0.5, 0.5}, 2: bad}, nil)
		check("law", g, dp, map[int][]float64{1: bad, 2: {0.5, 0.5}}, nil)
	}
	check("vertex", g, dp, map[int][]float64{3: {0.5, 0.5}}, nil)
	check("vertex", g, dp, map[int][]float64{-1: {0.5, 0.5}}, nil)
	good := []float64{1, 0}
	check("two weights", g, dp, nil, [][]float64{good, good})
	for _, bad := range [][]float64{nil, {1}, {1, 2, 3}, {math.NaN(), 0}, {0, math.Inf(-1)}, {1e101, 0}} {
		check("weights", g, dp, nil, [][]float64{good, good, bad})
	}
	large, many := pathGraph(t, 2001), make([]int, 2001)
	p = colorsOf(t, 2, many...)
	check("too large", large, dp, nil, nil)
}
