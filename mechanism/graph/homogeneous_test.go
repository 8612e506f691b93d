package graph

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/privacy"
)

// eachOrder calls visit with every order of n outputs.
func eachOrder(n int, visit func([]int)) {
	order := make([]int, 0, n)
	var extend func()
	extend = func() {
		if len(order) == n {
			visit(slices.Clone(order))
		}
		for j := range n {
			if !slices.Contains(order, j) {
				order = append(order, j)
				extend()
				order = order[:len(order)-1]
			}
		}
	}
	extend()
}

// randomRainbows returns a random graph, with preferences of which few regions are large.
func randomRainbows(t testing.TB, rng *rand.Rand, vertices, outputs int) (*Graph, *Preferences) {
	t.Helper()
	var edges [][2]int
	for v := 1; v < vertices; v++ {
		edges = append(edges, [2]int{v, rng.IntN(v)})
		if w := rng.IntN(v); w != edges[len(edges)-1][1] && rng.IntN(3) == 0 {
			edges = append(edges, [2]int{v, w})
		}
	}
	var orders [][]int
	eachOrder(outputs, func(order []int) { orders = append(orders, order) })
	rng.Shuffle(len(orders), func(i, j int) { orders[i], orders[j] = orders[j], orders[i] })
	orders = orders[:min(len(orders), 1+rng.IntN(4))]
	of := make([]uint32, vertices)
	for v := range of {
		of[v] = uint32(rng.IntN(len(orders)))
		if v > 0 && rng.IntN(4) > 0 { // mostly as the neighbour
			of[v] = of[edges[slices.IndexFunc(edges, func(e [2]int) bool { return e[0] == v })][1]]
		}
	}
	p := check.Value(NewPreferences(outputs, orders, of))(t)
	return graphOfEdges(t, vertices, edges...), p
}

// All pairs of orders that neighbours may have.
func TestRandomizedResponse_IsPrivateForAllOrders(t *testing.T) {
	for _, epsilon := range []float64{1e-9, 0.1, 1, 5, 30, 400, 1000} {
		for outputs := 2; outputs <= 5; outputs++ {
			law := response(t, outputs, epsilon)
			reason := lawFault(law, outputs)
			check.Need(t, reason == "" && slices.Min(law) > 0, "ε = %v: %v, %v", epsilon, law, reason)
			check.That(t, math.Abs(math.Log(law[0]/law[1])-epsilon) <= 1e-6 || epsilon >= 690,
				"ε = %v: %v", epsilon, law)
			eachOrder(outputs, func(order []int) {
				excess, _ := largestExcess(law, unranked(order, law), Privacy{Epsilon: epsilon})
				check.That(t, excess <= 1e-15, "ε = %v, orders 0 … %d and %v: %v", epsilon, outputs-1, order, excess)
			})
		}
	}
	for _, outputs := range []int{-1, 0, 1, maxOutputs + 1} {
		law, err := (Privacy{Epsilon: 1}).RandomizedResponse(outputs)
		check.That(t, errors.Is(err, privacy.ErrInvalid) && law == nil, "%d outputs: %v, %v", outputs, law, err)
	}
	for _, dp := range badPrivacy() {
		law, err := dp.RandomizedResponse(3)
		check.That(t, errors.Is(err, privacy.ErrInvalid) && law == nil, "%v: %v, %v", dp, law, err)
	}
}

// worstTruth returns the least probability of a true answer.
func worstTruth(p *Preferences, table Table) float64 {
	least := 1.0
	for v, law := range table {
		least = min(least, law[p.Color(v)])
	}
	return least
}

// Each vertex must have the law at its distance, and the table must be private.
func TestSolve_Homogeneous_HasTheLawOfEachDistance(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		outputs := 2 + rng.IntN(3)
		g, p := randomRainbows(t, rng, 1+rng.IntN(40), outputs)
		dp, _ := randomPrivacy(rng)
		law := response(t, outputs, dp.Epsilon)
		laws := slices.Repeat([][]float64{law}, p.Rainbows())
		table := check.Value(homogeneous(g, p, dp, laws))(t)
		mustPass(t, g, table, dp)
		if again, err := homogeneous(g, p, dp, nil); outputs > 2 {
			mustEqual(t, again, table, 0, 0) // randomized response is what it takes by itself
		} else if err != nil || len(boundaryOf(g, p)) > 0 && dp.Delta > 1e-6 && dp.Epsilon < 10 && !(worstTruth(p, again) > worstTruth(p, table)) {
			t.Fatalf("%v: balanced %v, %v, no better than %v", dp, again, err, table)
		}
		distances := check.Value(g.Distances(p))(t)
		for v, d := range distances {
			want := append([]float64{1}, make([]float64, outputs-1)...)
			if d != -1 {
				want = check.Value(dp.Law(law, int(d)))(t)
			}
			for rank, output := range p.Order(v) {
				if math.Abs(table[v][output]-want[rank]) > 1e-14 {
					t.Fatalf("vertex %d at distance %d: %v, want %v in the order %v", v, d, table[v], want, p.Order(v))
				}
			}
		}
	}
}

func TestSolve_HomogeneousConflict_NamesTheEdge(t *testing.T) {
	// 0 – 1 – 2 – 3, where 0, 1 prefer output 0 and 2, 3 output 1.
	g := pathGraph(t, 4)
	p := colorsOf(t, 3, 0, 0, 1, 1)
	// In preference order; at 2 that is 0.2, 0.6, 0.2. Outputs 0 has 0.7 > 2·0.2 + 0.1.
	laws := [][]float64{{0.7, 0.2, 0.1}, {0.6, 0.2, 0.2}, nil}
	table, err := homogeneous(g, p, Privacy{math.Ln2, 0.1}, laws)
	var c *ConflictError
	check.Need(t, errors.As(err, &c) && errors.Is(err, privacy.ErrInvalid) && table == nil, "%v, %v", table, err)
	check.That(t, c.From == 2 && c.To == 1 && slices.Equal(c.Outputs, []int{0}) &&
		math.Abs(c.ToProbability-c.Bound-0.2) <= 1e-15, "%+v", c)
	const text = "vertex 2 has outputs [0] with probability 0.2; at distance 1, vertex 1 may have them with at most 0.5, but has them with 0.7"
	check.That(t, c.Error() == text, "%v", c)
	_, err = homogeneous(g, p, Privacy{math.Ln2, 0.3 + 1e-9}, laws)
	check.That(t, err == nil, "with enough δ: %v", err)
}

func TestSolve_UnneededLaws_MayBeMissing(t *testing.T) {
	g := graphOfEdges(t, 5, [2]int{0, 1}, [2]int{2, 3})
	p := colorsOf(t, 3, 2, 2, 0, 1, 1)
	law := []float64{0.4, 0.3, 0.3}
	table := check.Value(homogeneous(g, p, Privacy{Epsilon: 1}, [][]float64{law, law, nil}))(t)
	for v, want := range [][]float64{{0, 0, 1}, {0, 0, 1}, {0.4, 0.3, 0.3}, {0.3, 0.4, 0.3}, {0, 1, 0}} {
		check.That(t, slices.Equal(table[v], want), "vertex %d: %v, want %v", v, table[v], want)
	}
}

func TestSolve_InvalidBoundaryLaws_AreRefused(t *testing.T) {
	g, law := pathGraph(t, 3), []float64{0.6, 0.4}
	p := colorsOf(t, 2, 0, 0, 1)
	refuse := func(what string, p *Preferences, dp Privacy, laws ...[]float64) {
		t.Helper()
		table, err := homogeneous(g, p, dp, laws)
		check.That(t, errors.Is(err, privacy.ErrInvalid) && table == nil, "%s: %v, %v", what, table, err)
	}
	good := Privacy{Epsilon: 1}
	for _, bad := range badLaws() {
		refuse("law", p, good, law, bad)
		refuse("law", p, good, bad, law)
	}
	refuse("a law of three", p, good, law, []float64{0.5, 0.3, 0.2})
	for _, dp := range badPrivacy() {
		refuse("privacy", p, dp, law, law)
	}
	refuse("one law", p, good, law)
	refuse("three laws", p, good, law, law, law)
	other := colorsOf(t, 2, 0, 1)
	refuse("other size", other, good, law, law)
	refuse("other size, balanced", other, good)
	// A law that no vertex needs is tested if it is there.
	inside := colorsOf(t, 2, 0, 0, 0)
	refuse("unused", inside, good, nil, []float64{1, 1})
	_, err := homogeneous(g, inside, good, [][]float64{nil, nil})
	check.That(t, err == nil, "no boundary, no laws: %v", err)
	for name, problem := range map[string]Problem{
		"no graph":          {Preferences: p, Privacy: good},
		"no preferences":    {Graph: g, Privacy: good},
		"laws and given":    {Graph: g, Preferences: p, Privacy: good, Laws: [][]float64{law, law}, Given: map[int][]float64{}},
		"laws and weights":  {Graph: g, Preferences: p, Privacy: good, Laws: [][]float64{law, law}, Weights: [][]float64{}},
		"balanced, δ = NaN": {Graph: g, Preferences: p, Privacy: Privacy{1, math.NaN()}},
	} {
		table, err := problem.Solve(t.Context())
		check.That(t, errors.Is(err, privacy.ErrInvalid) && table == nil, "%s: %v, %v", name, table, err)
	}
}
