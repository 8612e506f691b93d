package graph

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/privacy"
)

func TestNew_Edges_GiveSortedNeighbours(t *testing.T) {
	g := graphOfEdges(t, 5, [2]int{3, 1}, [2]int{0, 3}, [2]int{1, 0}, [2]int{3, 4})
	check.That(t, g.Vertices() == 5 && g.Edges() == 4, "%d vertices, %d edges", g.Vertices(), g.Edges())
	for v, want := range [][]uint32{{1, 3}, {0, 3}, {}, {0, 1, 4}, {3}} {
		got := g.Neighbors(v)
		check.That(t, slices.Equal(got, want), "neighbours of %d: %v, want %v", v, got, want)
	}
	for _, vertices := range []int{0, 3} {
		if g, err := New(vertices, nil); err != nil || g.Vertices() != vertices || g.Edges() != 0 {
			t.Errorf("%d vertices and no edges: %v, %v", vertices, g, err)
		}
	}
}

func TestNew_RandomEdges_AgreesWithMatrix(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		n := 1 + random.IntN(12)
		matrix := make(map[[2]int]bool)
		for range random.IntN(40) {
			if a, b := random.IntN(n), random.IntN(n); a != b && !matrix[[2]int{b, a}] {
				matrix[[2]int{a, b}] = true
			}
		}
		g := graphOfEdges(t, n, slices.Collect(maps.Keys(matrix))...)
		check.Need(t, g.Edges() == len(matrix), "%d edges of %d", g.Edges(), len(matrix))
		for a := range n {
			for b := range n {
				want := matrix[[2]int{a, b}] || matrix[[2]int{b, a}]
				got := slices.Contains(g.Neighbors(a), uint32(b))
				check.Need(t, got == want, "%d beside %d: %v, want %v", a, b, got, want)
			}
			check.Need(t, slices.IsSorted(g.Neighbors(a)), "neighbours %v are not in order", g.Neighbors(a))
		}
	}
}

func TestNew_InvalidEdges_AreRefused(t *testing.T) {
	for _, test := range []struct {
		edges [][2]int
		edge  int
		hint  string
	}{
		{[][2]int{{0, 1}, {1, 3}}, 2, "no vertex 3"},
		{[][2]int{{-1, 0}}, 1, "no vertex -1"},
		{[][2]int{{0, 1}, {1, 2}, {2, 2}}, 3, "vertex 2 is its own neighbour"},
		{[][2]int{{0, 1}, {1, 2}, {0, 1}}, 3, "between 0 and 1 is given twice"},
		{[][2]int{{0, 1}, {1, 2}, {2, 1}, {0, 2}}, 3, "between 1 and 2 is given twice"},
	} {
		g, err := New(3, func(yield func(int, int) bool) {
			for _, e := range test.edges {
				if !yield(e[0], e[1]) {
					return
				}
			}
		})
		var input *InputError
		check.That(t, g == nil && errors.As(err, &input) && input.Edge == test.edge &&
			strings.Contains(err.Error(), test.hint) && errors.Is(err, privacy.ErrInvalid), "%v: %v", test.edges, err)
	}
	for _, vertices := range []int{-1, 1 << 31} {
		check.Is(t, check.Err(New(vertices, nil)), privacy.ErrInvalid, "%d vertices", vertices)
	}
}

func TestInputError_Text_NamesThePlace(t *testing.T) {
	for want, e := range map[string]*InputError{
		"wrong":               {Reason: "wrong"},
		`edges line 3: wrong`: {File: "edges", Line: 3, Edge: 2, Vertex: "a", Reason: "wrong"},
		`edge 2: wrong`:       {Edge: 2, Reason: "wrong"},
		`vertex "17": wrong`:  {Vertex: "17", Reason: "wrong"},
	} {
		check.Equal(t, e.Error(), want, "the text")
	}
}

func TestPreferences_Orders_AreCopiedAndRead(t *testing.T) {
	orders := [][]int{{2, 0, 1}, {0, 1, 2}}
	of := []uint32{1, 0, 0}
	p := check.Value(NewPreferences(3, orders, of))(t)
	orders[0][0], of[0] = 7, 9 // both have been copied
	check.That(t, p.Outputs() == 3 && p.Vertices() == 3 && p.Rainbows() == 2,
		"%d outputs, %d vertices, %d rainbows", p.Outputs(), p.Vertices(), p.Rainbows())
	check.That(t, p.Color(0) == 0 && p.Color(1) == 2 && p.Rainbow(0) == 1 && slices.Equal(p.Order(2), []int{2, 0, 1}),
		"colours %d, %d, rainbow %d, order %v", p.Color(0), p.Color(1), p.Rainbow(0), p.Order(2))
}

// Orders that differ only in outputs that are equal modulo 256 are different orders.
func TestPreferences_OrdersOfManyOutputs_AreDistinguished(t *testing.T) {
	order := ownFirst(300, 0)
	other := slices.Clone(order)
	other[1], other[257] = 257, 1
	p, err := NewPreferences(300, [][]int{order, other}, []uint32{0, 1})
	check.That(t, err == nil && p.Rainbows() == 2, "two orders: %v", err)
}

func TestNewPreferences_InvalidOrders_AreRefused(t *testing.T) {
	for _, test := range []struct {
		outputs int
		orders  [][]int
		of      []uint32
		hint    string
	}{
		{1, [][]int{{0}}, nil, "1 outputs"},
		{maxOutputs + 1, nil, nil, "1025 outputs"},
		{2, [][]int{{0, 1}, {0}}, nil, "order 1"},
		{2, [][]int{{0, 0}}, nil, "order 0"},
		{2, [][]int{{0, 2}}, nil, "order 0"},
		{2, [][]int{{0, -1}}, nil, "order 0"},
		{2, [][]int{{0, 1}, {1, 0}, {0, 1}}, nil, "twice"},
		{2, [][]int{{0, 1}}, []uint32{0, 0, 1}, `vertex "2": there is no order 1`},
		{4, nil, []uint32{0, 4}, `vertex "1": there is no order 4`},
		{-1, nil, nil, "-1 outputs"},
	} {
		p, err := NewPreferences(test.outputs, test.orders, test.of)
		check.That(t, p == nil && errors.Is(err, privacy.ErrInvalid) && strings.Contains(err.Error(), test.hint),
			"%v: %v", test, err)
	}
}

func TestNewPreferences_WithoutOrders_RanksOwnColorFirst(t *testing.T) {
	p := colorsOf(t, 4, 3, 0, 2)
	for v, want := range [][]int{{3, 0, 1, 2}, {0, 1, 2, 3}, {2, 0, 1, 3}} {
		got := p.Order(v)
		check.That(t, slices.Equal(got, want), "vertex %d: %v, want %v", v, got, want)
	}
	if p := colorsOf(t, maxOutputs, maxOutputs-1); p.Color(0) != maxOutputs-1 {
		t.Error("the most outputs")
	}
}

// The test would take hours if each order were compared with all others.
func TestNewPreferences_ManyOrders_IsFast(t *testing.T) {
	const k = 9 // 9! = 362,880 orders
	var orders [][]int
	order := make([]int, 0, k)
	var extend func()
	extend = func() {
		if len(order) == k {
			orders = append(orders, slices.Clone(order))
		}
		for output := range k {
			if len(orders) < 100_000 && !slices.Contains(order, output) {
				order = append(order, output)
				extend()
				order = order[:len(order)-1]
			}
		}
	}
	extend()
	check.OK(t, check.Err(NewPreferences(k, orders, nil)))
}

// By definition, the distance is that to the nearest vertex of the same colour that has a neighbour
// of another colour.
func TestDistances_AgreeWithDefinition(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	for range 500 {
		g, p := randomColored(t, random, 10)
		between := allDistances(g)
		got := check.Value(g.Distances(p))(t)
		for v := range g.Vertices() {
			want := int32(-1)
			for w := range g.Vertices() {
				d := int32(between[v][w])
				if d >= 0 && p.Color(w) == p.Color(v) && g.onBoundary(p, w) && (want == -1 || d < want) {
					want = d
				}
			}
			check.Need(t, got[v] == want, "vertex %d: %d, want %d", v, got[v], want)
		}
	}
}

// The vertices have the same true answer and different orders.
func TestDistances_DifferentOrders_AreABoundary(t *testing.T) {
	p := check.Value(NewPreferences(3, [][]int{{0, 1, 2}, {0, 2, 1}}, []uint32{0, 0, 0, 1, 1, 0}))(t)
	g := graphOfEdges(t, 6, [2]int{0, 1}, [2]int{1, 2}, [2]int{2, 3}, [2]int{3, 4})
	got, err := g.Distances(p)
	want := []int32{2, 1, 0, 0, 1, -1}
	check.That(t, err == nil && slices.Equal(got, want), "%v, %v, want %v", got, err, want)
	check.Is(t, check.Err(pathGraph(t, 5).Distances(p)), privacy.ErrInvalid, "another number of vertices")
}
