package graph

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
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

// edgesOf returns the graph with the given edges.
func edgesOf(t testing.TB, vertices int, edges ...[2]int) *Graph {
	t.Helper()
	g, err := New(vertices, func(yield func(int, int) bool) {
		for _, edge := range edges {
			if !yield(edge[0], edge[1]) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func pathOf(t testing.TB, vertices int) *Graph {
	edges := make([][2]int, 0, vertices)
	for v := 1; v < vertices; v++ {
		edges = append(edges, [2]int{v - 1, v})
	}
	return edgesOf(t, vertices, edges...)
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
	p, err := NewPreferences(outputs, orders, of)
	if err != nil {
		t.Fatal(err)
	}
	return edgesOf(t, vertices, edges...), p
}

// TestDefaultLawIsPrivateForAllOrders tries all pairs of orders that neighbours may have.
func TestDefaultLawIsPrivateForAllOrders(t *testing.T) {
	for _, epsilon := range []float64{1e-9, 0.1, 1, 5, 30, 400, 1000} {
		for outputs := 2; outputs <= 5; outputs++ {
			law, err := DefaultLaw(outputs, epsilon)
			if err != nil || lawFault(law) != "" || slices.Min(law) <= 0 {
				t.Fatalf("ε = %v: %v, %v", epsilon, law, err)
			}
			if math.Abs(math.Log(law[0]/law[1])-epsilon) > 1e-6 && epsilon < 690 {
				t.Errorf("ε = %v: %v", epsilon, law)
			}
			eachOrder(outputs, func(order []int) {
				if worst := worstSet(law, unranked(order, law), Privacy{Epsilon: epsilon}); worst.Excess > 1e-15 {
					t.Errorf("ε = %v, orders 0 … %d and %v: %+v", epsilon, outputs-1, order, worst)
				}
			})
		}
	}
	for _, outputs := range []int{-1, 0, 1, MaxOutputs + 1} {
		if law, err := DefaultLaw(outputs, 1); !errors.Is(err, ErrInvalid) || law != nil {
			t.Errorf("%d outputs: %v, %v", outputs, law, err)
		}
	}
	for _, epsilon := range []float64{0, -1, math.NaN(), math.Inf(1), 1001} {
		if law, err := DefaultLaw(3, epsilon); !errors.Is(err, ErrInvalid) || law != nil {
			t.Errorf("ε = %v: %v, %v", epsilon, law, err)
		}
	}
}

// TestHomogeneous compares with Line at the distance of each vertex, and checks the whole.
func TestHomogeneous(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		outputs := 2 + rng.IntN(3)
		g, p := randomRainbows(t, rng, 1+rng.IntN(40), outputs)
		dp, _ := randomPrivacy(rng)
		law, err := DefaultLaw(outputs, dp.Epsilon)
		if err != nil {
			t.Fatal(err)
		}
		laws := slices.Repeat([][]float64{law}, p.Rainbows())
		table, err := Homogeneous(g, p, dp, laws)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := Check(g, table, dp); err != nil || r.Err() != nil || r.Edges != g.Edges() {
			t.Fatalf("%+v, %v, %v", r, err, r.Err())
		}
		distances, err := Distances(g, p)
		if err != nil {
			t.Fatal(err)
		}
		for v, d := range distances {
			want := append([]float64{1}, make([]float64, outputs-1)...)
			if d != Unreachable {
				if want, err = Line(law, dp, int(d)); err != nil {
					t.Fatal(err)
				}
			}
			for rank, output := range p.Order(v) {
				if math.Abs(table.At(v)[output]-want[rank]) > 1e-14 {
					t.Fatalf("vertex %d at distance %d: %v, want %v in the order %v", v, d, table.At(v), want, p.Order(v))
				}
			}
		}
	}
}

func TestHomogeneousNamesTheEdge(t *testing.T) {
	// 0 – 1 – 2 – 3, where 0, 1 prefer output 0 and 2, 3 output 1.
	g := pathOf(t, 4)
	p, err := ColorsOf(3, []int{0, 0, 1, 1})
	if err != nil {
		t.Fatal(err)
	}
	// In preference order; at 2 that is 0.2, 0.6, 0.2. Outputs 0 has 0.7 > 2·0.2 + 0.1.
	laws := [][]float64{{0.7, 0.2, 0.1}, {0.6, 0.2, 0.2}, nil}
	table, err := Homogeneous(g, p, Privacy{math.Ln2, 0.1}, laws)
	var edge *EdgeError
	if !errors.As(err, &edge) || !errors.Is(err, ErrInvalid) || table != nil {
		t.Fatalf("%v, %v", table, err)
	}
	if edge.From != 1 || edge.To != 2 || !slices.Equal(edge.Outputs, []int{0}) || math.Abs(edge.Excess-0.2) > 1e-15 {
		t.Errorf("%+v", edge)
	}
	if text := err.Error(); !strings.Contains(text, "edge between 1 and 2") || !strings.Contains(text, "[0]") {
		t.Error(text)
	}
	if _, err := Homogeneous(g, p, Privacy{math.Ln2, 0.3 + 1e-9}, laws); err != nil {
		t.Errorf("with enough δ: %v", err)
	}
}

func TestLawsWithoutBoundary(t *testing.T) {
	g := edgesOf(t, 5, [2]int{0, 1}, [2]int{2, 3})
	p, err := ColorsOf(3, []int{2, 2, 0, 1, 1})
	if err != nil {
		t.Fatal(err)
	}
	law := []float64{0.4, 0.3, 0.3}
	table, err := Homogeneous(g, p, Privacy{Epsilon: 1}, [][]float64{law, law, nil})
	if err != nil {
		t.Fatal(err)
	}
	for v, want := range [][]float64{{0, 0, 1}, {0, 0, 1}, {0.4, 0.3, 0.3}, {0.3, 0.4, 0.3}, {0, 1, 0}} {
		if !slices.Equal(table.At(v), want) {
			t.Errorf("vertex %d: %v, want %v", v, table.At(v), want)
		}
	}
}

func TestHomogeneousLawsRefused(t *testing.T) {
	g, law := pathOf(t, 3), []float64{0.6, 0.4}
	p, err := ColorsOf(2, []int{0, 0, 1})
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, p *Preferences, dp Privacy, laws ...[]float64) {
		t.Helper()
		if table, err := Homogeneous(g, p, dp, laws); !errors.Is(err, ErrInvalid) || table != nil {
			t.Errorf("%s: %v, %v", what, table, err)
		}
	}
	good := Privacy{Epsilon: 1}
	for _, bad := range badLaws() {
		check("law", p, good, law, bad)
		check("law", p, good, bad, law)
	}
	check("a law of three", p, good, law, []float64{0.5, 0.3, 0.2})
	for _, dp := range badPrivacy() {
		check("privacy", p, dp, law, law)
	}
	check("one law", p, good, law)
	check("three laws", p, good, law, law, law)
	other, err := ColorsOf(2, []int{0, 1})
	if err != nil {
		t.Fatal(err)
	}
	check("other size", other, good, law, law)
	// A law that no vertex needs is tested if it is there.
	inside, err := ColorsOf(2, []int{0, 0, 0})
	if err != nil {
		t.Fatal(err)
	}
	check("unused", inside, good, nil, []float64{1, 1})
	if _, err := Homogeneous(g, inside, good, [][]float64{nil, nil}); err != nil {
		t.Errorf("no boundary, no laws: %v", err)
	}
}
