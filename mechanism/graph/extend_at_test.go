package graph

import (
	"errors"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// around describes an explicit graph by its surroundings.
func around(g *Graph, p *Preferences, given []Given) Surroundings[int] {
	at := make(map[int]Given)
	for _, h := range given {
		at[h.Vertex] = h
	}
	return Surroundings[int]{
		Near: func(v int) iter.Seq[int] {
			return func(yield func(int) bool) {
				for _, w := range g.Neighbors(v) {
					if !yield(int(w)) {
						return
					}
				}
			}
		},
		Color: p.Color,
		Given: func(v int) (int, float64, bool) {
			h, ok := at[v]
			return h.Output, h.Probability, ok
		},
	}
}

// leastOf returns the smallest probability of each output among the given.
func leastOf(given []Given) [2]float64 {
	least := [2]float64{1, 1}
	for _, h := range given {
		for output := range least {
			least[output] = min(least[output], h.probability(output))
		}
	}
	return least
}

// TestExtendAtMatchesExtend compares at every vertex of thousands of graphs.
func TestExtendAtMatchesExtend(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	gaussian, err := Gaussian(0.4)
	if err != nil {
		t.Fatal(err)
	}
	for trial := range 2000 {
		dp := Privacy{[]float64{0.1, math.Ln2, 4}[trial%3], []float64{0, 0.02}[trial%2]}
		g, p := randomColored(t, random, 9)
		given := randomHit(g, p, random, 0.5, trial%5 > 0, dp.Upper)
		var b Bounds = dp
		if trial%7 == 0 {
			b, given = gaussian, randomHit(g, p, random, 0.1, true, gaussian.Upper)
		}
		table, err := Extend(g, p, b, given)
		if err != nil {
			continue
		}
		s := around(g, p, given)
		if trial%2 == 0 {
			s.Least = leastOf(given)
		}
		for v := range g.Vertices() {
			law, err := ExtendAt(s, b, v)
			if err != nil {
				t.Fatal(err)
			}
			for output, x := range law {
				if apart(x, table.At(v)[output], 1e-14, 1e-300) {
					t.Fatalf("vertex %d: %v, want %v", v, law, table.At(v))
				}
			}
		}
	}
}

// TestExtendAtEqualsExtendFarAway is on errors that only exact halves can hold.
func TestExtendAtEqualsExtendFarAway(t *testing.T) {
	g, p := pathGraph(t, 100), twoColors(t, make([]int, 100)...)
	given := []Given{{0, 1, 0.25}, {99, 1, 0.2}}
	table, err := Extend(g, p, Privacy{3, 0}, given)
	if err != nil {
		t.Fatal(err)
	}
	for v := range 100 {
		law, err := ExtendAt(around(g, p, given), Privacy{3, 0}, v)
		if err != nil || !slices.Equal(law[:], table.At(v)) || law[1] == 0 {
			t.Fatalf("vertex %d: %v, %v, want %v", v, law, err, table.At(v))
		}
	}
}

// line is the endless path of the integers: numbers of at least 0 are of colour 0, and 0 is given.
func endlessLine(truth float64) Surroundings[int] {
	return Surroundings[int]{
		Near:  func(v int) iter.Seq[int] { return slices.Values([]int{v - 1, v + 1}) },
		Color: func(v int) int { return int(math.Float64bits(float64(v)) >> 63) },
		Given: func(v int) (int, float64, bool) { return 0, truth, v == 0 },
	}
}

// visits counts the vertices whose neighbours are asked for, and those that are looked at.
func visits[V comparable](s Surroundings[V]) (counted Surroundings[V], expanded, seen *int) {
	expanded, seen = new(int), new(int)
	near, given := s.Near, s.Given
	s.Near = func(v V) iter.Seq[V] {
		*expanded++
		return near(v)
	}
	s.Given = func(v V) (int, float64, bool) {
		*seen++
		return given(v)
	}
	return s, expanded, seen
}

// TestExtendAtOnLine stops at twice the distance, although the line has no end.
func TestExtendAtOnLine(t *testing.T) {
	dp := Privacy{0.01, 0}
	for _, at := range []int{0, 1, 5, 1000, -1, -1000} {
		s, expanded, seen := visits(endlessLine(0.5))
		s.Least = [2]float64{0.5, 0.5}
		law, err := ExtendAt(s, dp, at)
		d := max(at, -at)
		want, _ := dp.Truthful(0.5, d)
		color := s.Color(at)
		if err != nil || apart(law[color], want, 1e-12, 0) || apart(law[1-color], 1-want, 1e-11, 0) {
			t.Errorf("at %d: %v, %v, want %v", at, law, err, want)
		}
		if *seen > 2*d+1 || *expanded > 2*d {
			t.Errorf("at %d: %d vertices seen, %d expanded", at, *seen, *expanded)
		}
	}
}

// TestExtendAtGrid counts on an endless grid whose row 0 is given.
func TestExtendAtGrid(t *testing.T) {
	type point struct{ x, y int }
	const d = 50
	s, expanded, seen := visits(Surroundings[point]{
		Near: func(p point) iter.Seq[point] {
			return slices.Values([]point{{p.x - 1, p.y}, {p.x + 1, p.y}, {p.x, p.y - 1}, {p.x, p.y + 1}})
		},
		Color: func(p point) int { return max(0, min(1, p.y+1)) ^ 1 },
		Given: func(p point) (int, float64, bool) { return 0, 0.6 + 0.01*float64(p.x&3), p.y == 0 },
		Least: [2]float64{0.6, 0.3},
	})
	dp := Privacy{0.1, 0}
	law, err := ExtendAt(s, dp, point{4, d})
	if err != nil {
		t.Fatal(err)
	}
	// The least is at the foot of the plumb line.
	if want, _ := dp.Truthful(0.6, d); apart(law[0], want, 1e-12, 0) {
		t.Errorf("%v, want %v", law, want)
	}
	// The ball of radius d has 2d²+2d+1 points.
	if ball := 2*d*d + 2*d + 1; *seen > ball || *expanded > ball || *seen < ball-4*d {
		t.Errorf("%d points seen, %d expanded; a ball has %d", *seen, *expanded, ball)
	}
}

// TestExtendAtFartherBinds has a given vertex behind the first that is less likely to tell the truth.
func TestExtendAtFartherBinds(t *testing.T) {
	g, p := example2(t)
	given := []Given{{0, 0, 0.3}, {3, 0, 0.1}}
	for v, blue := range []float64{0.3, 0.4, 0.2, 0.1} {
		law, err := ExtendAt(around(g, p, given), Privacy{math.Ln2, 0}, v)
		if err != nil || apart(law[0], blue, 1e-15, 0) || apart(law[1], 1-blue, 1e-15, 0) {
			t.Errorf("v%d: %v, %v, want %v", v+1, law, err, blue)
		}
	}
}

func TestExtendAtRefuses(t *testing.T) {
	good, dp := endlessLine(0.5), Privacy{0.1, 0}
	with := func(change func(*Surroundings[int])) Surroundings[int] {
		s := good
		change(&s)
		return s
	}
	for _, test := range []struct {
		name   string
		s      Surroundings[int]
		bounds Bounds
		hint   string
	}{
		{"no Near", with(func(s *Surroundings[int]) { s.Near = nil }), dp, "without"},
		{"no Color", with(func(s *Surroundings[int]) { s.Color = nil }), dp, "without"},
		{"no Given", with(func(s *Surroundings[int]) { s.Given = nil }), dp, "without"},
		{"no bounds", good, nil, "without"},
		{"ε = 0", good, Privacy{0, 0}, "ε = 0"},
		{"least", with(func(s *Surroundings[int]) { s.Least[0] = 1.5 }), dp, "least probability 1.5"},
		{"least NaN", with(func(s *Surroundings[int]) { s.Least[0] = math.NaN() }), dp, "least probability NaN"},
		{"colour", with(func(s *Surroundings[int]) { s.Color = func(int) int { return 2 } }), dp, `vertex "5": true answer 2`},
		{"below least", with(func(s *Surroundings[int]) { s.Least[0] = 0.51 }), dp, `vertex "0": answers 0 with probability 0.5, below`},
		{"output", with(func(s *Surroundings[int]) { s.Given = func(v int) (int, float64, bool) { return 2, 0.5, v == 0 } }), dp, `vertex "0": output 2`},
		{"given NaN", with(func(s *Surroundings[int]) {
			s.Given = func(v int) (int, float64, bool) { return 0, math.NaN(), v == 5 }
		}), dp, `vertex "5": probability NaN`},
		{"not hit", with(func(s *Surroundings[int]) { s.Given = func(v int) (int, float64, bool) { return 0, 0.5, v == 50 } }), dp, `vertex "-1": has another true answer than its neighbour 0`},
		{"limit", with(func(s *Surroundings[int]) { s.Limit = 1000 }), dp, "more than 1000 datasets"},
		{"conflict", with(func(s *Surroundings[int]) {
			s.Given = func(v int) (int, float64, bool) { return 0, 0.1 + 0.08*float64(v), v == 0 || v == 10 }
		}), dp, `vertex "10": answers 0 with probability 0.9`},
		{"a bad pair", good, Pair{Lower: dp.Lower, Upper: constant(0.3)}, "not a suitable pair"},
		{"a pair that fails at the ring", with(func(s *Surroundings[int]) { s.Least[0] = 0.1 }), failsAbove(0.2), InRange.String()},
		{"a pair that fails at the bound", with(func(s *Surroundings[int]) {
			s.Given = func(v int) (int, float64, bool) { return 0, 0.9, v == 4 }
		}), failsBetween(0.85, 0.95), InRange.String()},
		{"a pair that fails at the result", with(func(s *Surroundings[int]) {
			s.Least[0] = 0.45
			s.Given = func(v int) (int, float64, bool) { return 0, 0.5, v == 4 || v == 6 }
		}), failsBetween(0.66, 0.74), InRange.String()},
	} {
		law, err := ExtendAt(test.s, test.bounds, 5)
		if law != [2]float64{} || !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), test.hint) {
			t.Errorf("%s: %v, %v", test.name, law, err)
		}
	}
}

// failsBetween returns bounds of total variation 0.2 that are no numbers for some arguments.
func failsBetween(low, high float64) Pair {
	good := totalVariation(0.2)
	guard := func(f func(float64) float64) func(float64) float64 {
		return func(x float64) float64 {
			if low < x && x < high {
				return math.NaN()
			}
			return f(x)
		}
	}
	return Pair{Lower: guard(good.Lower), Upper: guard(good.Upper)}
}

// TestExtendAtWithoutGiven is in a component that has no given vertex, and so may tell the truth.
func TestExtendAtWithoutGiven(t *testing.T) {
	g, p := pathGraph(t, 3), twoColors(t, 1, 1, 1)
	if law, err := ExtendAt(around(g, p, nil), Privacy{1, 0}, 1); err != nil || law != [2]float64{0, 1} {
		t.Errorf("%v, %v", law, err)
	}
}

// TestExtendAtRoundedLeast has a least probability that the opposite output misses by its rounding.
func TestExtendAtRoundedLeast(t *testing.T) {
	g, p := pathGraph(t, 3), twoColors(t, 0, 0, 0)
	s := around(g, p, []Given{{2, 1, 0.9}})
	s.Least[0] = 0.1
	if law, err := ExtendAt(s, Privacy{math.Ln2, 0}, 0); err != nil || apart(law[0], 0.4, 1e-15, 0) {
		t.Errorf("%v, %v", law, err)
	}
}
