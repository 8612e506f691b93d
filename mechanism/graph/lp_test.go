package graph

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/pace"
)

// allDistancesOf returns the distances between all vertices; a distance that is not there is large.
func allDistancesOf(g *Graph) [][]int {
	const none = 1 << 20
	d := make([][]int, g.Vertices())
	for v := range d {
		d[v] = slices.Repeat([]int{none}, g.Vertices())
		d[v][v] = 0
		for _, w := range g.Neighbors(v) {
			d[v][w] = 1
		}
	}
	for m := range d {
		for v := range d {
			for w := range d {
				d[v][w] = min(d[v][w], d[v][m]+d[m][w])
			}
		}
	}
	return d
}

// upperAt is U^distance(α), 1 where there is no path.
func upperAt(dp Privacy, alpha float64, distance int) float64 {
	if distance >= 1<<20 {
		return 1
	}
	for range distance {
		alpha = dp.Upper(alpha)
	}
	return alpha
}

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

// utility is what SolveLP maximizes.
func utility(p *Preferences, t *Table, weights [][]float64) (total float64) {
	for v := range t.Vertices() {
		for rank, output := range p.Order(v) {
			total += weights[v][rank] * t.At(v)[output]
		}
	}
	return total
}

// mustBePrivate tests in 256 bits and without any tolerance, wherever one end of an edge was not given.
func mustBePrivate(t *testing.T, g *Graph, table *Table, given map[int][]float64, dp Privacy, nano int64) {
	t.Helper()
	if r, err := Check(g, table, dp); err != nil || r.Err() != nil {
		t.Fatalf("%v, %v", err, r.Err())
	}
	growth := expOf(nano)
	for v := range g.Vertices() {
		for _, w := range g.Neighbors(v) {
			if given[v] != nil && given[int(w)] != nil {
				continue
			}
			if excess := bigExcess(table.At(v), table.At(int(w)), growth, dp.Delta); excess > 0 {
				t.Fatalf("%v: edge between %d and %d exceeds (ε,δ) by %v: %v, %v", dp, v, w, excess, table.At(v), table.At(int(w)))
			}
		}
	}
}

func mustBeClose(t *testing.T, what string, got, want *Table, tolerance float64) {
	t.Helper()
	for v := range want.Vertices() {
		for j, x := range want.At(v) {
			if !(math.Abs(got.At(v)[j]-x) <= tolerance) {
				t.Fatalf("%s: vertex %d has %v, want %v", what, v, got.At(v), want.At(v))
			}
		}
	}
}

// TestLPAgreesOnTwoOutputs takes random graphs, colours and given laws that hit the boundary. The linear
// program is feasible exactly if α_h ≤ U^dist(α_h') for all given h, h' and both outputs (torkamani2023
// Lemma 1), and its optimum, for random weights, is the minimum over h of U^dist (Theorem 1).
func TestLPAgreesOnTwoOutputs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	feasible, infeasible := 0, 0
	for range 500 {
		n := 2 + rng.IntN(6)
		g, p := randomRainbows(t, rng, n, 2)
		dp, nano := moderatePrivacy(rng)
		distances := allDistancesOf(g)
		given := make(map[int][]float64)
		spread := 7 * dp.Epsilon
		for v := range n {
			if rng.IntN(3) == 0 || slices.ContainsFunc(g.Neighbors(v), func(w uint32) bool { return p.Color(v) == 0 && p.Color(int(w)) == 1 }) {
				odds := math.Exp(spread * (rng.Float64() - 0.5))
				given[v] = []float64{odds / (1 + odds), 1 / (1 + odds)}
			}
		}
		want, conflict := NewTable(n, 2), false
		for v := range n {
			color := p.Color(v)
			truth := 1.0
			for h, law := range given {
				bound := upperAt(dp, law[color], distances[v][h])
				truth = min(truth, bound)
				other := upperAt(dp, law[1-color], distances[v][h])
				conflict = conflict || given[v] != nil && (given[v][color] > bound+1e-12 || given[v][1-color] > other+1e-12)
			}
			want.At(v)[color], want.At(v)[1-color] = truth, 1-truth
		}
		weights := fallingWeights(rng, n, 2)
		s, err := SolveLP(t.Context(), g, p, dp, given, weights)
		if conflict {
			infeasible++
			if !errors.As(err, new(*InfeasibleError)) && !errors.As(err, new(*EdgeError)) {
				t.Fatalf("%v, %v: %v, want an error", dp, given, err)
			}
			continue
		}
		feasible++
		if err != nil {
			t.Fatalf("%v, %v: %v", dp, given, err)
		}
		mustBeClose(t, "minimum over h", s.Table, want, 1e-10)
		mustBeClose(t, "sweep", s.Table, extended(t, g, p, dp, given), 1e-10)
		mustBePrivate(t, g, s.Table, given, dp, nano)
		if u := utility(p, s.Table, weights); math.Abs(u-s.Utility) > 1e-12*float64(n) {
			t.Fatalf("utility %v, want %v", s.Utility, u)
		}
		if ok, shortfall, err := s.Dominates(t.Context()); !ok || shortfall != nil || err != nil {
			t.Fatalf("does not dominate: %+v, %v", shortfall, err)
		}
	}
	if feasible < 100 || infeasible < 100 {
		t.Errorf("%d feasible, %d infeasible", feasible, infeasible)
	}
}

// extended is what Extend makes of the same laws.
func extended(t *testing.T, g *Graph, p *Preferences, dp Privacy, laws map[int][]float64) *Table {
	t.Helper()
	var given []Given
	for v, law := range laws {
		given = append(given, Given{Vertex: v, Probability: law[0]})
	}
	table, err := Extend(g, p, dp, given)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestLPAgreesOnHomogeneousBoundaries takes random graphs and rainbows, and a random law for each: the linear
// program is feasible exactly if Homogeneous is, and has the same optimum for all weights.
func TestLPAgreesOnHomogeneousBoundaries(t *testing.T) {
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
		distances, err := Distances(g, p)
		if err != nil {
			t.Fatal(err)
		}
		given := make(map[int][]float64)
		for v, d := range distances {
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
		want, err := Homogeneous(g, p, dp, laws)
		weights := fallingWeights(rng, n, outputs)
		s, err2 := SolveLP(t.Context(), g, p, dp, given, weights)
		if !possible {
			infeasible++
			if !errors.As(err, new(*EdgeError)) || !errors.As(err2, new(*EdgeError)) {
				t.Fatalf("%v, linear program: %v; want an edge", err, err2)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		feasible++
		if err2 != nil {
			t.Fatal(err2)
		}
		mustBeClose(t, "homogeneous", s.Table, want, 1e-10)
		mustBePrivate(t, g, s.Table, given, dp, nano)
		if ok, shortfall, err := s.Dominates(t.Context()); !ok || err != nil {
			t.Fatalf("does not dominate: %+v, %v", shortfall, err)
		}
	}
	if feasible < 100 || infeasible < 50 {
		t.Errorf("%d feasible, %d infeasible", feasible, infeasible)
	}
}

// TestLPWithAnyLaws takes laws given at random vertices. What the answers "in A" and "not in A" would need
// for each set A is necessary for a mechanism to be there.
func TestLPWithAnyLaws(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	counts := map[string]int{}
	for range pace.Tries(160, 300, 300) {
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
		s, err := SolveLP(t.Context(), g, p, dp, given, nil)
		possible := setsFit(allDistancesOf(g), given, dp)
		counts[fmt.Sprintf("fit %v, solved %v", possible, err == nil)]++
		if err == nil {
			if !possible {
				t.Fatalf("%v, %v: solved against all bounds", dp, given)
			}
			mustBePrivate(t, g, s.Table, given, dp, nano)
			mustNotBeBeaten(t, g, p, dp, given, s)
		} else if !errors.As(err, new(*InfeasibleError)) && !errors.As(err, new(*EdgeError)) {
			t.Fatal(err)
		}
	}
	t.Log(counts)
	if counts["fit true, solved true"] < 100 || counts["fit false, solved false"] < 20 {
		t.Error(counts)
	}
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
				if here > upperAt(dp, there, distances[v][w])+1e-12 {
					return false
				}
			}
		}
	}
	return true
}

// mustNotBeBeaten compares a solution with that for other weights, and what Dominates says with the
// prefix sums of both.
func mustNotBeBeaten(t *testing.T, g *Graph, p *Preferences, dp Privacy, given map[int][]float64, s *Solution) {
	t.Helper()
	dominates, shortfall, err := s.Dominates(t.Context())
	if err != nil || dominates != (shortfall == nil) {
		t.Fatalf("%v, %v, %v", dominates, shortfall, err)
	}
	if shortfall != nil && (shortfall.Has >= shortfall.Possible || given[shortfall.Vertex] != nil) {
		t.Fatalf("%+v", shortfall)
	}
	for vertex := range g.Vertices() {
		for ranks := 1; ranks < p.Outputs(); ranks++ {
			weights := make([][]float64, g.Vertices())
			for v := range weights {
				weights[v] = make([]float64, p.Outputs())
			}
			for r := range ranks {
				weights[vertex][r] = 1
			}
			best, err := SolveLP(t.Context(), g, p, dp, given, weights)
			if err != nil {
				t.Fatal(err)
			}
			has := utility(p, s.Table, weights)
			if has > best.Utility+1e-12 || dominates && has < best.Utility-2e-9 {
				t.Fatalf("vertex %d, %d ranks: %v, possible %v", vertex, ranks, has, best.Utility)
			}
			if shortfall != nil && shortfall.Vertex == vertex && shortfall.Ranks == ranks &&
				(math.Abs(shortfall.Has-has) > 1e-12 || math.Abs(shortfall.Possible-best.Utility) > 1e-12) {
				t.Fatalf("%+v, but %v and %v", shortfall, has, best.Utility)
			}
		}
	}
}

// TestNoMechanismDominates shows that a boundary that is not homogeneous may leave no mechanism that is
// best in every respect (as Gu et al., "Generalized Rainbow Differential Privacy", do with another). On the
// path 0 – 1 – 2 – 3 – 4 – 5, e^ε = 2, the vertices 1 … 4 are one region; its ends have different laws:
//
//	1: (0.1, 0.6, 0.3)    4: (0.2, 0.2, 0.6)
//
// At 2 the last output can have 0.15 and not less. Then the first has 0.2 at most and the second 0.65 at
// least; at 3 these have 0.325 and, because of 4, the last 0.3 at least, so that the first has at
// most 0.375. But 0.4 is possible there, with 0.2 for the last output at 2.
func TestNoMechanismDominates(t *testing.T) {
	g := pathOf(t, 6)
	p, err := NewPreferences(3, [][]int{{0, 1, 2}, {2, 1, 0}}, []uint32{1, 0, 0, 0, 0, 1})
	if err != nil {
		t.Fatal(err)
	}
	left, right := []float64{0.1, 0.6, 0.3}, []float64{0.2, 0.2, 0.6}
	given := map[int][]float64{0: left, 1: left, 4: right, 5: right}
	dp := Privacy{Epsilon: math.Ln2}
	s, err := SolveLP(t.Context(), g, p, dp, given, nil)
	if err != nil {
		t.Fatal(err)
	}
	mustBeClose(t, "even weights", s.Table,
		tableOf(left, left, []float64{0.2, 0.65, 0.15}, []float64{0.375, 0.325, 0.3}, right, right), 1e-11)
	ok, shortfall, err := s.Dominates(t.Context())
	if err != nil || ok || shortfall.Vertex != 3 || shortfall.Ranks != 1 ||
		math.Abs(shortfall.Has-0.375) > 1e-11 || math.Abs(shortfall.Possible-0.4) > 1e-11 {
		t.Errorf("%v, %+v, %v", ok, shortfall, err)
	}
	// What is given where no path leads does not matter.
	apart := edgesOf(t, 7, [2]int{0, 1}, [2]int{1, 2}, [2]int{2, 3}, [2]int{3, 4}, [2]int{4, 5})
	q, err := NewPreferences(3, [][]int{{0, 1, 2}, {2, 1, 0}}, []uint32{1, 0, 0, 0, 0, 1, 0})
	if err != nil {
		t.Fatal(err)
	}
	given[6] = []float64{0, 0, 1}
	if s, err = SolveLP(t.Context(), apart, q, dp, given, nil); err != nil {
		t.Fatal(err)
	}
	if ok, other, err := s.Dominates(t.Context()); ok || err != nil || *other != *shortfall {
		t.Errorf("%v, %+v, %v", ok, other, err)
	}
	delete(given, 6)
	// Other weights buy 0.4 at 3 and pay at 2.
	weights := slices.Repeat([][]float64{{1, 0, 0}}, 6)
	weights[3] = []float64{10, 0, 0}
	weights[2] = []float64{1, 0.9, 0}
	if s, err = SolveLP(t.Context(), g, p, dp, given, weights); err != nil {
		t.Fatal(err)
	}
	if at := s.Table.At(3)[0]; math.Abs(at-0.4) > 1e-11 {
		t.Errorf("vertex 3 has %v, want 0.4", at)
	}
	ok, shortfall, err = s.Dominates(t.Context())
	if err != nil || ok || shortfall.Vertex != 2 || shortfall.Ranks != 2 || math.Abs(shortfall.Possible-0.85) > 1e-11 {
		t.Errorf("%v, %+v, %v", ok, shortfall, err)
	}
}

// TestLPWithoutGivenLaws: two neighbours of different colours do best with randomized response, and
// cannot both have what one can.
func TestLPWithoutGivenLaws(t *testing.T) {
	g, dp := pathOf(t, 2), Privacy{1, 0.01}
	p, err := ColorsOf(2, []int{0, 1})
	if err != nil {
		t.Fatal(err)
	}
	s, err := SolveLP(t.Context(), g, p, dp, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	truth := (math.E + dp.Delta) / (1 + math.E) // doliveira2021 Corollary 2 at distance 0
	mustBeClose(t, "balanced", s.Table, tableOf([]float64{truth, 1 - truth}, []float64{1 - truth, truth}), 1e-11)
	ok, shortfall, err := s.Dominates(t.Context())
	if err != nil || ok || shortfall.Vertex != 0 || shortfall.Possible != 1 {
		t.Errorf("%v, %+v, %v", ok, shortfall, err)
	}
	same, err := ColorsOf(2, []int{1, 1})
	if err != nil {
		t.Fatal(err)
	}
	if s, err = SolveLP(t.Context(), g, same, dp, nil, nil); err != nil || s.Utility != 2 {
		t.Fatalf("%+v, %v", s, err)
	}
	if ok, shortfall, err := s.Dominates(t.Context()); !ok || err != nil {
		t.Errorf("%+v, %v", shortfall, err)
	}
	given := map[int][]float64{0: {0.5, 0.5}, 1: {0.4, 0.6}}
	if s, err = SolveLP(t.Context(), g, p, dp, given, nil); err != nil || math.Abs(s.Utility-1.1) > 1e-15 {
		t.Fatalf("all given: %+v, %v", s, err)
	}
	mustBeClose(t, "all given", s.Table, tableOf(given[0], given[1]), 0)
	if ok, _, err := s.Dominates(t.Context()); !ok || err != nil {
		t.Errorf("all given: %v, %v", ok, err)
	}
}

// TestLPWithTinyEpsilon: where e^ε is rounded to 1, all laws are alike; given ones that do not sum to
// exactly 1 must not stand in the way.
func TestLPWithTinyEpsilon(t *testing.T) {
	p, err := ColorsOf(3, []int{0, 1, 2})
	if err != nil {
		t.Fatal(err)
	}
	law := []float64{0.3, 0.3, 0.4 - 9e-13}
	s, err := SolveLP(t.Context(), pathOf(t, 3), p, Privacy{Epsilon: 1e-12}, map[int][]float64{0: law}, nil)
	if err != nil {
		t.Fatal(err)
	}
	mustBeClose(t, "alike", s.Table, tableOf(law, law, law), 1e-12)
}

// TestLPRoundsNothingTo0: what one dataset answers with a probability that is no float64 may not be impossible beside it.
func TestLPRoundsNothingTo0(t *testing.T) {
	p, err := ColorsOf(2, []int{0, 1, 1, 1, 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, epsilon := range []float64{300, 700} {
		law, err := DefaultLaw(2, epsilon)
		if err != nil {
			t.Fatal(err)
		}
		s, err := SolveLP(t.Context(), pathOf(t, 5), p, Privacy{Epsilon: epsilon}, map[int][]float64{1: {law[1], law[0]}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for v := range 5 {
			if law := s.Table.At(v); law[0] == 0 || law[1] == 0 {
				t.Errorf("ε = %v, vertex %d: %v", epsilon, v, law)
			}
		}
	}
}

// TestLPNamesTheConflict: laws too different for their distance of 3, which no edge shows.
func TestLPNamesTheConflict(t *testing.T) {
	p, err := ColorsOf(3, make([]int, 6))
	if err != nil {
		t.Fatal(err)
	}
	given := map[int][]float64{0: {0.3, 0.3, 0.4}, 2: {0.8, 0.1, 0.1}, 5: {0.05, 0.05, 0.9}}
	s, err := SolveLP(t.Context(), pathOf(t, 6), p, Privacy{Epsilon: math.Ln2}, given, nil)
	var conflict *InfeasibleError
	if !errors.As(err, &conflict) || !errors.Is(err, ErrInvalid) || s != nil {
		t.Fatalf("%+v, %v", s, err)
	}
	if !slices.Equal(conflict.Given, []int{2, 5}) || !strings.Contains(err.Error(), "[2 5]") {
		t.Errorf("%v", err)
	}
	given[2] = []float64{0.1, 0.1, 0.8}
	given[1] = []float64{0.6, 0.2, 0.2}
	_, err = SolveLP(t.Context(), pathOf(t, 6), p, Privacy{Epsilon: math.Ln2}, given, nil)
	var edge *EdgeError
	if !errors.As(err, &edge) || edge.From != 1 || edge.To != 2 {
		t.Errorf("%v", err)
	}
}

// TestThreeLawsExcludeOneAnother, though each two of them go together and no set of outputs is too likely for its
// distance: at the centre of a star, no output can have more than 0.3. With two outputs, two laws are
// enough for a conflict (torkamani2023 Theorem 1).
func TestThreeLawsExcludeOneAnother(t *testing.T) {
	g := edgesOf(t, 4, [2]int{0, 1}, [2]int{0, 2}, [2]int{0, 3})
	p, err := ColorsOf(3, make([]int, 4))
	if err != nil {
		t.Fatal(err)
	}
	dp := Privacy{Epsilon: math.Ln2}
	given := map[int][]float64{1: {0.15, 0.425, 0.425}, 2: {0.425, 0.15, 0.425}, 3: {0.425, 0.425, 0.15}}
	if !setsFit(allDistancesOf(g), given, dp) {
		t.Error("two of the laws do not fit")
	}
	var conflict *InfeasibleError
	if _, err := SolveLP(t.Context(), g, p, dp, given, nil); !errors.As(err, &conflict) || !slices.Equal(conflict.Given, []int{1, 2, 3}) {
		t.Errorf("%v", err)
	}
	delete(given, 2)
	if _, err := SolveLP(t.Context(), g, p, dp, given, nil); err != nil {
		t.Errorf("two laws: %v", err)
	}
}

// TestLPAddsSets: with three outputs and δ > 0 the sets of one output are not all there is.
func TestLPAddsSets(t *testing.T) {
	p, err := ColorsOf(4, []int{0, 0, 0, 1})
	if err != nil {
		t.Fatal(err)
	}
	given := map[int][]float64{0: {0.25, 0.25, 0.25, 0.25}}
	dp := Privacy{0.2, 0.05}
	s, err := SolveLP(t.Context(), pathOf(t, 4), p, dp, given, nil)
	if err != nil {
		t.Fatal(err)
	}
	if rows, single := s.program.program.Rows(), 3+6*4; rows <= single {
		t.Errorf("%d rows, no more than %d", rows, single)
	}
	if r, err := Check(pathOf(t, 4), s.Table, dp); err != nil || r.Worst.Excess > 0 || r.Worst.Excess < -1e-10 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestLPOnAGrid is of the size that a person may wait for.
func TestLPOnAGrid(t *testing.T) {
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
	g := edgesOf(t, side*side, edges...)
	p, err := ColorsOf(3, colors)
	if err != nil {
		t.Fatal(err)
	}
	for _, dp := range []Privacy{{0.5, 0}, {0.5, 0.01}} {
		start := time.Now()
		s, err := SolveLP(t.Context(), g, p, dp, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%v: %d variables, %d rows, %v", dp, len(s.exact), s.program.program.Rows(), time.Since(start))
		if r, err := Check(g, s.Table, dp); err != nil || r.Worst.Excess > 0 {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

// TestLPOfSmallProbabilities: they are far below any tolerance for float64, and right to the last digits but
// those that safety takes.
func TestLPOfSmallProbabilities(t *testing.T) {
	for _, c := range []struct {
		vertices int
		epsilon  float64
	}{{7, 10}, {7, 40}, {7, 90}, {40, 1}, {25, 4}} {
		g := pathOf(t, c.vertices)
		colors := make([]int, c.vertices)
		last := c.vertices - 1
		colors[last] = 1
		p, err := ColorsOf(3, colors)
		if err != nil {
			t.Fatal(err)
		}
		law, err := DefaultLaw(3, c.epsilon)
		if err != nil {
			t.Fatal(err)
		}
		dp := Privacy{Epsilon: c.epsilon}
		want, err := Homogeneous(g, p, dp, slices.Repeat([][]float64{law}, 3))
		if err != nil {
			t.Fatal(err)
		}
		s, err := SolveLP(t.Context(), g, p, dp, map[int][]float64{last - 1: want.At(last - 1), last: want.At(last)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for v := range g.Vertices() {
			for j, x := range want.At(v) {
				if got := s.Table.At(v)[j]; math.Abs(got-x) > 1e-9*x {
					t.Errorf("ε = %v: vertex %d has %v, want %v", c.epsilon, v, s.Table.At(v), want.At(v))
				}
			}
		}
	}
}

// countdown is a context that ends when it has been asked so many times whether it has.
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

func TestSolvers_ContextEnds_End(t *testing.T) {
	g := pathOf(t, 6)
	p, err := ColorsOf(3, []int{0, 0, 0, 1, 2, 1})
	if err != nil {
		t.Fatal(err)
	}
	dp := Privacy{Epsilon: 0.5, Delta: 0.01}
	growth := big.NewRat(2, 1)
	low, high := optimal(t, g, p, big.NewRat(3, 2)), optimal(t, g, p, growth)
	solved, err := SolveLP(t.Context(), g, p, dp, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, solve := range map[string]func(context.Context) error{
		"SolveLP": func(ctx context.Context) error {
			_, err := SolveLP(ctx, g, p, dp, nil, nil)
			return err
		},
		"Dominates": func(ctx context.Context) error {
			_, _, err := solved.Dominates(ctx)
			return err
		},
		"Gradual": func(ctx context.Context) error {
			_, err := Gradual(ctx, g, low, high, growth)
			return err
		},
	} {
		never := &countdown{Context: t.Context(), left: -1}
		_ = solve(never)
		if never.asked < g.Vertices() {
			t.Errorf("%s asks %d times whether the context has ended", name, never.asked)
		}
		for k := 0; k < never.asked; k += 1 + never.asked/40 {
			ctx := &countdown{Context: t.Context(), left: k}
			err := solve(ctx)
			if late := ctx.asked - k; late > 0 && !errors.Is(err, context.Canceled) || late > 12 {
				t.Errorf("%s, ended after %d steps: %v, %d steps later", name, k, err, late)
			}
		}
	}
}

func TestLPRefuses(t *testing.T) {
	g, dp := pathOf(t, 3), Privacy{Epsilon: 1}
	p, err := ColorsOf(2, []int{0, 0, 1})
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, g *Graph, dp Privacy, given map[int][]float64, weights [][]float64) {
		t.Helper()
		if s, err := SolveLP(t.Context(), g, p, dp, given, weights); !errors.Is(err, ErrInvalid) || s != nil {
			t.Errorf("%s: %+v, %v", what, s, err)
		}
	}
	for _, bad := range badPrivacy() {
		check("privacy", g, bad, nil, nil)
	}
	check("ε", g, Privacy{Epsilon: 701}, nil, nil)
	check("other size", pathOf(t, 4), dp, nil, nil)
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
	large, many := pathOf(t, 2001), make([]int, 2001)
	if p, err = ColorsOf(2, many); err != nil {
		t.Fatal(err)
	}
	check("too large", large, dp, nil, nil)
}
