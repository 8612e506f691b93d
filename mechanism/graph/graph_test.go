package graph

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
)

func TestGraph(t *testing.T) {
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

// TestGraphMatchesMatrix compares random graphs with their adjacency matrices.
func TestGraphMatchesMatrix(t *testing.T) {
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
		if g.Edges() != len(matrix) {
			t.Fatalf("%d edges of %d", g.Edges(), len(matrix))
		}
		for a := range n {
			for b := range n {
				want := matrix[[2]int{a, b}] || matrix[[2]int{b, a}]
				got := slices.Contains(g.Neighbors(a), uint32(b))
				check.Need(t, got == want, "%d beside %d: %v, want %v", a, b, got, want)
			}
			if !slices.IsSorted(g.Neighbors(a)) {
				t.Fatalf("neighbours %v are not in order", g.Neighbors(a))
			}
		}
	}
}

func TestGraphRefuses(t *testing.T) {
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
			strings.Contains(err.Error(), test.hint) && errors.Is(err, ErrInvalid), "%v: %v", test.edges, err)
	}
	for _, vertices := range []int{-1, 1 << 31} {
		_, err := New(vertices, nil)
		check.That(t, errors.Is(err, ErrInvalid), "%d vertices: %v", vertices, err)
	}
}

func TestInputErrorText(t *testing.T) {
	for want, e := range map[string]*InputError{
		"wrong":               {Reason: "wrong"},
		`edges line 3: wrong`: {File: "edges", Line: 3, Edge: 2, Vertex: "a", Reason: "wrong"},
		`edge 2: wrong`:       {Edge: 2, Reason: "wrong"},
		`vertex "17": wrong`:  {Vertex: "17", Reason: "wrong"},
	} {
		got := e.Error()
		check.That(t, got == want, "%q, want %q", got, want)
	}
}
