package graph

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// ones returns the number of ones among the votes of majority.
func ones(v int) int { return v&1 + v>>1&1 + v>>2&1 }

// TestMajorityMorphism is doliveira2021 Example 2: three voters, to the number of their votes.
func TestMajorityMorphism(t *testing.T) {
	g, p := majority(t)
	line, colors := pathGraph(t, 4), twoColors(t, 0, 0, 1, 1)
	image := make([]int, 8)
	for v := range image {
		image[v] = ones(v)
	}
	m, err := NewMorphism(g, line, image)
	if err != nil {
		t.Fatal(err)
	}
	image[0] = 3 // it has been copied
	if err := errors.Join(m.CheckOrders(p, colors), m.CheckDistances(p, colors)); err != nil {
		t.Error(err)
	}
	if m.Image(0) != 0 || m.Image(7) != 3 || m.Target() != line {
		t.Errorf("images %d, %d", m.Image(0), m.Image(7))
	}
	dp := Privacy{math.Ln2, 0.1}
	onLine, err := BinaryBalanced(line, colors, dp)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := m.Pullback(onLine)
	if err != nil {
		t.Fatal(err)
	}
	want, err := BinaryBalanced(g, p, dp)
	if err != nil {
		t.Fatal(err)
	}
	mustEqual(t, pulled, want, 0, 0)
}

// TestMorphismKeepsPrivacy is doliveira2021 Theorem 1: any mechanism, pulled back over any morphism.
func TestMorphismKeepsPrivacy(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 8))
	dp := Privacy{0.5, 0.02}
	found := 0
	for range 4000 {
		from, _ := randomColored(t, random, 6)
		to, p := randomColored(t, random, 5)
		image := make([]int, from.Vertices())
		for v := range image {
			image[v] = random.IntN(to.Vertices())
		}
		m, err := NewMorphism(from, to, image)
		if fits := isMorphism(from, to, image); fits != (err == nil) {
			t.Fatalf("%v: %v", image, err)
		}
		if err != nil {
			continue
		}
		found++
		table, err := Extend(to, p, dp, randomHit(to, p, random, 0.3, true, dp.Upper))
		if err != nil {
			t.Fatal(err)
		}
		pulled, err := m.Pullback(table)
		if err != nil {
			t.Fatal(err)
		}
		mustPass(t, from, pulled, dp)
	}
	if found < 500 {
		t.Errorf("only %d morphisms", found)
	}
}

// isMorphism is doliveira2021 Definition 3.
func isMorphism(from, to *Graph, image []int) bool {
	there := allDistances(to)
	for v := range from.Vertices() {
		for _, w := range from.Neighbors(v) {
			if d := there[image[v]][image[w]]; d != 0 && d != 1 {
				return false
			}
		}
	}
	return true
}

// TestBoundaryMorphismPullsBackOptimum is doliveira2021 Theorem 3.
func TestBoundaryMorphismPullsBackOptimum(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 9))
	solved := 0
	for range 1000 {
		g, p := randomColored(t, random, 9)
		m, colors, err := BoundaryMorphism(g, p)
		distances, _ := Distances(g, p)
		reachable := true
		for _, d := range distances {
			reachable = reachable && d != Unreachable
		}
		if reachable != (err == nil) {
			t.Fatalf("%v: %v", distances, err)
		}
		if err != nil {
			continue
		}
		if err := errors.Join(m.CheckOrders(p, colors), m.CheckDistances(p, colors)); err != nil {
			t.Fatal(err)
		}
		dp := Privacy{0.05 + random.Float64(), 0.03}
		truth := [2]float64{0.2 + 0.6*random.Float64(), 0.2 + 0.6*random.Float64()}
		want, err := BinaryHomogeneous(g, p, dp, truth)
		onLine, lineErr := BinaryHomogeneous(m.Target(), colors, dp, truth)
		if (err == nil) != (lineErr == nil) {
			t.Fatalf("%v, but on the line %v", err, lineErr)
		}
		if err != nil {
			continue
		}
		solved++
		pulled, err := m.Pullback(onLine)
		if err != nil {
			t.Fatal(err)
		}
		mustEqual(t, pulled, want, 0, 0)
	}
	if solved < 200 {
		t.Errorf("only %d solved", solved)
	}
}

// TestFig2Morphism is doliveira2021 Fig. 2: to the (3,4)-line, with the given images.
func TestFig2Morphism(t *testing.T) {
	g, p, vertex := fig2(t)
	m, colors, err := BoundaryMorphism(g, p)
	if err != nil {
		t.Fatal(err)
	}
	if n := colors.Vertices(); n != 7 || colors.Color(2) != 0 || colors.Color(3) != 1 {
		t.Errorf("a line of %d", n)
	}
	for place, names := range []string{"ab", "cgk", "hl", "inq", "dom", "jpr", "ef"} {
		for _, name := range names {
			if got := m.Image(vertex(name)); got != place {
				t.Errorf("%c goes to %d, want %d", name, got, place)
			}
		}
	}
	// Example 3 read from its other end, for the (3,4)-line.
	dp, truth := Privacy{math.Log(1.3), 0.1}, [2]float64{12.0 / 13, 0.2}
	want, err := BinaryHomogeneous(g, p, dp, truth)
	if err != nil {
		t.Fatal(err)
	}
	onLine, err := BinaryHomogeneous(m.Target(), colors, dp, truth)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := m.Pullback(onLine)
	if err != nil {
		t.Fatal(err)
	}
	mustEqual(t, pulled, want, 0, 0)
}

func TestMorphismRefuses(t *testing.T) {
	from, to := pathGraph(t, 3), pathGraph(t, 4)
	for _, test := range []struct {
		image []int
		hint  string
	}{
		{[]int{0, 1}, "2 images for 3 vertices"},
		{[]int{0, 1, 4}, `vertex "2": its image 4 is not a vertex`},
		{[]int{0, -1, 1}, `vertex "1": its image -1 is not a vertex`},
		{[]int{0, 1, 3}, `vertex "1": the edge to 2 goes to 1 and 3, which are not neighbours`},
	} {
		if m, err := NewMorphism(from, to, test.image); m != nil || !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), test.hint) {
			t.Errorf("%v: %v", test.image, err)
		}
	}
	m, err := NewMorphism(from, to, []int{1, 2, 2})
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := twoColors(t, 0, 1, 1), twoColors(t, 0, 0, 1, 1)
	three, err := ColorsOf(3, []int{0, 1, 2, 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.CheckOrders(ours, theirs); err != nil {
		t.Error(err)
	}
	for _, test := range []struct {
		err  error
		hint string
	}{
		{m.CheckOrders(twoColors(t, 0, 0, 1), theirs), `vertex "1": it ranks the outputs [0 1], but its image 2 [1 0]`},
		{m.CheckDistances(ours, theirs), `vertex "2": its distance from the boundary is 1, but that of its image 2 is 0`},
		{m.CheckOrders(theirs, theirs), "3 vertices with preferences of 4"},
		{m.CheckOrders(ours, ours), "4 vertices with preferences of 3"},
		{m.CheckDistances(ours, three), "preferences over 2 and 3 outputs"},
		{m.CheckDistances(theirs, theirs), "3 vertices with preferences of 4"},
		{second(m.Pullback(NewTable(3, 2))), "a table of 3 vertices for a graph of 4"},
	} {
		if !errors.Is(test.err, ErrInvalid) || !strings.Contains(test.err.Error(), test.hint) {
			t.Errorf("%v, want %q", test.err, test.hint)
		}
	}
}

func second(_ *Table, err error) error { return err }

func TestBoundaryMorphismRefuses(t *testing.T) {
	three, err := ColorsOf(3, []int{0, 1, 2})
	if err != nil {
		t.Fatal(err)
	}
	g := graphOfEdges(t, 3, [2]int{0, 1})
	for _, test := range []struct {
		g    *Graph
		p    *Preferences
		hint string
	}{
		{g, three, "preferences over 3 outputs"},
		{g, twoColors(t, 0, 1), "3 vertices with preferences of 2"},
		{g, twoColors(t, 0, 1, 1), `vertex "2": no boundary can be reached`},
		{graphOfEdges(t, 0), twoColors(t), "without vertices"},
	} {
		if _, _, err := BoundaryMorphism(test.g, test.p); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), test.hint) {
			t.Errorf("%v, want %q", err, test.hint)
		}
	}
}
