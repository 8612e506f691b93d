package graph

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/privacy"
)

// excess returns the largest excess of the bound between two given vertices: torkamani2023 Lemma 1,
// for both outputs, at the distances in the whole graph. It is negative if no two are in conflict.
func excess(given []fixed, between [][]int, dp Privacy) float64 {
	worst := math.Inf(-1)
	for _, a := range given {
		for _, b := range given {
			if d := between[a.Vertex][b.Vertex]; d > 0 {
				for output := range 2 {
					worst = max(worst, a.probability(output)-iterated(dp, b.probability(output), d))
				}
			}
		}
	}
	return worst
}

// truthByDefinition returns torkamani2023 Eq. (7) at one vertex.
func truthByDefinition(v, color int, given []fixed, between [][]int, dp Privacy) float64 {
	truth := 1.0
	for _, h := range given {
		if h.Vertex == v {
			return h.probability(color)
		}
		truth = min(truth, iterated(dp, h.probability(color), between[v][h.Vertex]))
	}
	return truth
}

// randomHit returns vertices that hit the boundary, and some more, with random probabilities of
// either output in a range of the given width. If fitting, they are then lowered to what the others
// allow; so they are tight.
func randomHit(g *Graph, p *Preferences, random *rand.Rand, width float64, fitting bool, dp Privacy) []fixed {
	chosen := make([]bool, g.Vertices())
	for v := range chosen {
		chosen[v] = random.IntN(4) == 0
		for _, w := range g.Neighbors(v) {
			if p.Color(v) != p.Color(int(w)) && !chosen[w] {
				chosen[v] = chosen[v] || v > int(w) || random.IntN(2) == 0
			}
		}
	}
	var given []fixed
	low := random.Float64() * (1 - width)
	for v, is := range chosen {
		if is {
			given = append(given, fixed{v, random.IntN(2), low + width*random.Float64()})
		}
	}
	if fitting {
		lower(given, allDistances(g), dp)
	}
	random.Shuffle(len(given), func(i, j int) { given[i], given[j] = given[j], given[i] })
	return given
}

// lower makes all given probabilities those of output 0, and each as large as the others allow but
// no larger than it was.
func lower(given []fixed, between [][]int, dp Privacy) {
	for i, h := range given {
		given[i] = fixed{h.Vertex, 0, h.probability(0)}
	}
	before := slices.Clone(given)
	for i := range given {
		for _, h := range before {
			if d := between[given[i].Vertex][h.Vertex]; d > 0 {
				given[i].Probability = min(given[i].Probability, iterated(dp, h.Probability, d))
			}
		}
	}
}

// On thousands of small graphs, the result must be the minimum over all given vertices. It must be
// refused exactly if two of them are in conflict.
func TestExtend_SmallGraphs_AgreesWithDefinition(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	list := []Privacy{{math.Ln2, 0}, {0.1, 0}, {0.3, 0.05}, {3, 0}, {1.2, 0.001}, {6, 0}, {0.001, 0.15}}
	solved, refused := 0, 0
	for trial := range 4000 {
		dp := list[trial%len(list)]
		g, p := randomColored(t, random, 9)
		given := randomHit(g, p, random, []float64{1, 0.7, 0.4}[trial%3], trial%2 == 0, dp)
		between := allDistances(g)
		table, err := extend(g, p, dp, given)
		if worst := excess(given, between, dp); worst > 1e-9 {
			mustNameConflict(t, err, given, between, dp)
			refused++
			continue
		} else if worst > 1e-13 {
			continue // too near to call
		}
		check.Need(t, err == nil, "%v: %v", dp, err)
		solved++
		for v := range g.Vertices() {
			want := truthByDefinition(v, p.Color(v), given, between, dp)
			if row := table[v]; apart(row[p.Color(v)], want, 1e-12, 1e-15) || apart(row[0]+row[1], 1, 0, 2e-16) {
				t.Fatalf("%v, vertex %d: %v, want %v", dp, v, row, want)
			}
		}
		mustPass(t, g, table, dp)
	}
	check.That(t, solved >= 1000 && refused >= 500, "only %d solved and %d refused", solved, refused)
}

// mustNameConflict checks that the error names two given vertices in conflict.
func mustNameConflict(t *testing.T, err error, given []fixed, between [][]int, dp Privacy) {
	t.Helper()
	var conflict *ConflictError
	check.Need(t, errors.As(err, &conflict), "%v is not a conflict", err)
	probability := func(v int) float64 {
		for _, h := range given {
			if h.Vertex == v {
				return h.probability(conflict.Outputs[0])
			}
		}
		return math.NaN()
	}
	from, to := probability(conflict.From), probability(conflict.To)
	bound := iterated(dp, from, conflict.Distance)
	check.Need(t, from == conflict.FromProbability && to == conflict.ToProbability &&
		!apart(conflict.Bound, bound, 1e-12, 1e-15), "%v: probabilities %v and %v, bound %v", err, from, to, bound)
	d := between[conflict.From][conflict.To]
	check.Need(t, d >= 1 && d <= conflict.Distance && to > bound, "%v: no conflict at distance %d", err, d)
}

// If the probability of the true answer at a free vertex is raised a little, a neighbour's bound
// must be exceeded.
func TestExtend_IsOptimalAtEachVertex(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 6))
	dp := Privacy{0.4, 0.01}
	for range 300 {
		g, p := randomColored(t, random, 9)
		given := randomHit(g, p, random, 0.2, true, dp)
		table := check.Value(extend(g, p, dp, given))(t)
		for v := range g.Vertices() {
			color := p.Color(v)
			truth := table[v][color]
			forbidden := truth == 1 || slices.ContainsFunc(given, func(h fixed) bool { return h.Vertex == v })
			for _, w := range g.Neighbors(v) {
				forbidden = forbidden || truth+1e-9 > dp.Upper(table[int(w)][color])
			}
			check.Need(t, forbidden, "vertex %d could be truthful more often than %v", v, truth)
		}
	}
}

func TestExtend_BalancedBoundary_AgreesWithHomogeneous(t *testing.T) {
	const side = 60
	g, p := gridGraph(t, side), waves(t, side)
	for _, dp := range []Privacy{{0.02, 0}, {0.7, 1e-6}, {20, 0}, {800, 0}} {
		want := check.Value(balanced(g, p, dp))(t)
		var given []fixed
		for _, v := range boundaryOf(g, p) {
			// The probability of the wrong answer, which has all its digits.
			given = append(given, fixed{int(v), 1 - p.Color(int(v)), want[int(v)][1-p.Color(int(v))]})
		}
		got := check.Value(extend(g, p, dp, given))(t)
		mustEqual(t, got, want, 1e-13, 0)
	}
}

// The numbers are those after doliveira2021 Theorem 2.
func TestExtend_Figure2_AgreesWithDoliveira2021(t *testing.T) {
	g, p, vertex := fig2(t)
	given := []fixed{{vertex('h'), 0, 0.6}, {vertex('l'), 0, 0.7}}
	table, err := extend(g, p, Privacy{math.Ln2, 0.1}, given)
	check.Must(t, err)
	for names, truth := range map[string]float64{
		"h": 0.6, "l": 0.7, "ab": 1, "gk": 0.9, "c": 0.85, "q": 0.7, "in": 0.75, "m": 0.9, "do": 0.925, "efjpr": 1,
	} {
		for _, name := range names {
			v := vertex(name)
			got := table[v][p.Color(v)]
			check.That(t, !apart(got, truth, 1e-15, 0), "%c: %v, want %v", name, got, truth)
		}
	}
	_, err = extend(g, p, Privacy{math.Log(1.1), 0}, given)
	var conflict *ConflictError
	check.That(t, errors.As(err, &conflict) && conflict.From == vertex('h') && conflict.To == vertex('l') &&
		conflict.Distance == 3, "the paper has no (log 1.1, 0) mechanism; %v", err)
}

// This is doliveira2021 Example 3: the (4,3)-line with R_4 = 0.8. Vertex 4, number 3 here, is on
// the boundary.
func TestExtend_LineExample_AgreesWithDoliveira2021(t *testing.T) {
	g, p := pathGraph(t, 7), twoColors(t, 0, 0, 0, 0, 1, 1, 1)
	table, err := extend(g, p, Privacy{math.Log(1.3), 0.1}, []fixed{{Vertex: 3, Output: 1, Probability: 0.8}})
	check.Must(t, err)
	for v, red := range []float64{0.255384615384615384, 0.432, 0.64, 0.8, 12.0 / 13, 1, 1} {
		got := table[v][1]
		check.That(t, !apart(got, red, 2e-15, 0), "R_%d = %v, want %v", v+1, got, red)
	}
	if blue := table[4][0]; apart(blue, 1.0/13, 2e-15, 0) || table[5][0] != 0 || table[6][0] != 0 {
		t.Errorf("B_5 = %v, B_6 = %v, B_7 = %v", blue, table[5][0], table[6][0])
	}
}

// example2 returns the graph of torkamani2023 Examples 2 and 3: blue (0) are v2 and v3.
func example2(t *testing.T) (*Graph, *Preferences) {
	return pathGraph(t, 4), twoColors(t, 1, 0, 0, 1)
}

// This is torkamani2023 Example 2: if no end of a boundary edge is given, there are two best
// extensions.
func TestExtend_BoundaryEdgeWithoutGivenVertex_IsRefused(t *testing.T) {
	g, p := example2(t)
	dp := Privacy{math.Ln2, 0}
	_, err := extend(g, p, dp, []fixed{{Vertex: 2, Output: 0, Probability: 0.5}})
	check.Need(t, reflect.DeepEqual(err, &ConflictError{From: 0, To: 1, Missing: true}) && errors.Is(err, privacy.ErrInvalid),
		"%v", err)
	want := "vertices 0 and 1 are neighbours with different true answers, and neither has a given law"
	check.That(t, err.Error() == want, "%v", err)
	for _, blue := range [][]float64{{1. / 2, 3. / 4, 1. / 2, 1. / 4}, {1. / 8, 1. / 4, 1. / 2, 1. / 4}} {
		var table Table
		for _, x := range blue {
			table = append(table, []float64{x, 1 - x})
		}
		mustPass(t, g, table, dp)
	}
}

// This is torkamani2023 Example 3: the bound is not always that of the nearer given vertex.
func TestExtend_FartherGivenVertex_CanBind(t *testing.T) {
	g, p := example2(t)
	table := check.Value(extend(g, p, Privacy{math.Ln2, 0}, []fixed{{0, 0, 0.3}, {3, 0, 0.1}}))(t)
	for v, blue := range []float64{0.3, 0.4, 0.2, 0.1} {
		got := table[v][0]
		check.That(t, !apart(got, blue, 1e-15, 0), "v%d: %v, want %v", v+1, got, blue)
	}
}

// Of the components without a boundary, one has a given vertex and one has none.
func TestExtend_ComponentsWithoutBoundary_AreSolved(t *testing.T) {
	g := graphOfEdges(t, 6, [2]int{0, 1}, [2]int{1, 2}, [2]int{3, 4})
	p := twoColors(t, 0, 0, 0, 1, 1, 0)
	table := check.Value(extend(g, p, Privacy{math.Ln2, 0}, []fixed{{1, 0, 0.25}}))(t)
	for v, zero := range []float64{0.5, 0.25, 0.5, 0, 0, 1} {
		got := table[v][0]
		check.That(t, !apart(got, zero, 1e-15, 0), "vertex %d: %v, want %v", v, got, zero)
	}
	if table, err := extend(graphOfEdges(t, 0), twoColors(t), Privacy{1, 0}, nil); err != nil || len(table) != 0 {
		t.Errorf("empty graph: %v", err)
	}
}

// At the limit of feasibility, rounding errors in the probability of either output are tolerated,
// and no more than that.
func TestExtend_RoundingErrors_AreTolerated(t *testing.T) {
	g, p := pathGraph(t, 3), twoColors(t, 0, 0, 1)
	for _, test := range []struct {
		epsilon, from float64
		output        int
		to            float64
		ok            bool
	}{
		{math.Ln2, 0.1, 0, 0.4, true},
		{math.Ln2, 0.1, 0, 0.4 + 9e-13, true},
		{math.Ln2, 0.1, 0, 0.4 + 2e-12, false},
		{math.Ln2, 0.4, 0, 0.85, true},
		{math.Ln2, 0.4, 0, 0.85 + 2e-12, false},
		{30, 0.5, 1, 0.5 * math.Exp(-60), true},
		{30, 0.5, 1, 0.5 * math.Exp(-60) * (1 - 1e-15), true},
		{30, 0.5, 1, 0.5 * math.Exp(-60) * (1 - 1e-3), true}, // the vertex between has an error of 5e-14 and nothing to hide
		{30, 0.5, 1, 0, true},
		{12, 0.5, 1, 0, false}, // e^−12·0.5 = 3e-6 at the vertex between, and nothing here
		{25, 0.5, 1, 0, false}, // 7e-12
	} {
		given := []fixed{{0, 0, test.from}, {2, test.output, test.to}}
		table, err := extend(g, p, Privacy{test.epsilon, 0}, given)
		check.That(t, (err == nil) == test.ok, "%+v: %v", test, err)
		if err == nil {
			mustPass(t, g, table, Privacy{test.epsilon, 0})
		}
	}
}

// A probability is 1 where at most 1 − 1e-14 is allowed. This excess is tolerated. But the opposite
// output has 0 next to 1/2, which is a conflict.
func TestExtend_ConflictOfTheOppositeOutput_IsDetected(t *testing.T) {
	g, p := pathGraph(t, 2), twoColors(t, 0, 0)
	_, err := extend(g, p, Privacy{32, 0}, []fixed{{0, 0, 0.5}, {1, 0, 1}})
	var conflict *ConflictError
	check.That(t, errors.As(err, &conflict) && conflict.Outputs[0] == 1 && conflict.From == 1 && conflict.To == 0 &&
		conflict.Bound == 0 && conflict.ToProbability == 0.5, "%+v", err)
}

func TestExtend_InvalidArguments_AreRefused(t *testing.T) {
	g, p := pathGraph(t, 3), twoColors(t, 0, 0, 1)
	good, half := Privacy{1, 0}, []float64{0.5, 0.5}
	laws := func(v int, law ...float64) map[int][]float64 { return map[int][]float64{v: law} }
	for _, test := range []struct {
		name  string
		dp    Privacy
		p     *Preferences
		given map[int][]float64
		hint  string
	}{
		{"a vertex too large", good, p, laws(3, half...), `vertex "3": there is no such`},
		{"a vertex too small", good, p, laws(-1, half...), `vertex "-1": there is no such`},
		{"three outputs", good, p, laws(1, 0.5, 0.25, 0.25), `vertex "1": given law [0.5 0.25 0.25]: it has 3 outputs, not 2`},
		{"no law", good, p, laws(1), "it has 0 outputs"},
		{"a probability above 1", good, p, laws(1, 1.0000001, 0), "1.0000001"},
		{"a probability below 0", good, p, laws(1, -1e-300, 1), "-1e-300"},
		{"a probability of NaN", good, p, laws(1, math.NaN(), 1), "NaN"},
		{"a probability of ∞", good, p, laws(1, math.Inf(1), 0), "+Inf"},
		{"nothing given", good, p, map[int][]float64{}, "neither has a given law"},
		{"ε = 0", Privacy{0, 0.5}, p, laws(1, half...), "ε = 0"},
		{"δ = 1", Privacy{1, 1}, p, laws(1, half...), "δ = 1"},
		{"another size", good, twoColors(t, 0, 1), laws(1, half...), "preferences 2"},
	} {
		table, err := Problem{Graph: g, Preferences: test.p, Privacy: test.dp, Given: test.given}.Solve(t.Context())
		check.That(t, table == nil && errors.Is(err, privacy.ErrInvalid) && strings.Contains(err.Error(), test.hint),
			"%s: %v", test.name, err)
	}
}

// FuzzExtend compares with the definition on graphs made of bytes.
func FuzzExtend(f *testing.F) {
	f.Add(uint64(1), 0.5, 0.0)
	f.Add(uint64(2), 3.0, 0.1)
	f.Fuzz(func(t *testing.T, seed uint64, epsilon, delta float64) {
		dp := Privacy{epsilon, delta}
		if dp.Validate() != nil {
			return
		}
		random := rand.New(rand.NewPCG(seed, 0))
		g, p := randomColored(t, random, 7)
		given := randomHit(g, p, random, random.Float64(), random.IntN(2) == 0, dp)
		table, err := extend(g, p, dp, given)
		if err != nil {
			var conflict *ConflictError
			check.Need(t, errors.As(err, &conflict), "%v", err)
			return
		}
		mustPass(t, g, table, dp)
		between := allDistances(g)
		for v := range g.Vertices() {
			want := truthByDefinition(v, p.Color(v), given, between, dp)
			got := table[v][p.Color(v)]
			check.Need(t, !apart(got, want, 1e-12, 1e-13), "vertex %d: %v, want %v", v, got, want)
		}
	})
}
