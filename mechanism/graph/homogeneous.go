package graph

import (
	"fmt"
	"math"
	"slices"
)

// DefaultLaw returns randomized response on k outputs in preference order: e^ε/(e^ε+k−1) for the
// true answer and 1/(e^ε+k−1) for each other.
//
// It may be the boundary law of every rainbow on every graph: however two neighbours rank the
// outputs, each output has at both of them one of these two probabilities, whose ratio is e^ε. So
// the condition across regions holds with δ = 0, and with any δ. Two outputs make it the balanced
// mechanism (doliveira2021 Corollary 2).
//
// It returns [ErrInvalid] for ε outside (0, 1000] and k outside 2 … [MaxOutputs].
func DefaultLaw(outputs int, epsilon float64) ([]float64, error) {
	if err := (Privacy{Epsilon: epsilon}).Validate(); err != nil {
		return nil, err
	}
	if outputs < 2 || outputs > MaxOutputs {
		return nil, invalid("%d outputs; 2 to %d are possible", outputs, MaxOutputs)
	}
	lie := max(tiny, math.Exp(-epsilon))
	total := 1 + float64(outputs-1)*lie
	law := make([]float64, outputs)
	for rank := range law {
		law[rank] = lie / total
	}
	law[0] = 1 / total
	return law, nil
}

// Homogeneous returns the optimal mechanism on a graph whose boundary datasets have the given laws,
// one for each rainbow, in its preference order (zhou2022 Theorem 3): at each vertex the law of
// [Line] at its distance from the boundary of its region. For every vertex and every j it gives the
// largest probability that the answer is among the vertex's first j; so it is best for every
// utility that agrees with the preferences. It is (ε,δ)-differentially private between neighbours,
// up to rounding.
//
// A vertex in a component without a boundary answers truly with probability 1: nobody there has
// another truth to hide. The law of a rainbow that is on no boundary may be nil.
//
// It returns an [*EdgeError] for boundary laws that are not private across an edge between two
// regions, naming the first such edge (and testing each pair of rainbows once, so that it is as
// fast on a large graph); and [ErrInvalid] for laws, parameters or sizes that are out of range.
func Homogeneous(g *Graph, p *Preferences, dp Privacy, laws [][]float64) (*Table, error) {
	if err := dp.Validate(); err != nil {
		return nil, err
	}
	distances, err := Distances(g, p)
	if err != nil {
		return nil, err
	}
	if err := p.checkLaws(distances, laws); err != nil {
		return nil, err
	}
	if err := checkBoundary(g, p, dp, laws); err != nil {
		return nil, err
	}
	t := NewTable(g.Vertices(), p.Outputs())
	rows := make([][][]float64, p.Rainbows())
	for rainbow, farthest := range p.farthest(distances) {
		if farthest != Unreachable {
			rows[rainbow] = lawsByDistance(laws[rainbow], dp, int(farthest))
		}
	}
	for v, distance := range distances {
		if distance == Unreachable {
			t.At(v)[p.Color(v)] = 1
			continue
		}
		for rank, output := range p.Order(v) {
			t.At(v)[output] = rows[p.Rainbow(v)][distance][rank]
		}
	}
	return t, nil
}

// checkLaws tests that there is a proper law for each rainbow that has a boundary.
func (p *Preferences) checkLaws(distances []int32, laws [][]float64) error {
	if len(laws) != p.Rainbows() {
		return invalid("%d boundary laws for %d orders", len(laws), p.Rainbows())
	}
	for rainbow, farthest := range p.farthest(distances) {
		law := laws[rainbow]
		if law == nil && farthest == Unreachable {
			continue
		}
		if len(law) != p.Outputs() {
			return invalid("the boundary law of order %v has %d outputs, not %d",
				p.orders[rainbow], len(law), p.Outputs())
		}
		if reason := lawFault(law); reason != "" {
			return invalid("boundary law %v of order %v: %s", law, p.orders[rainbow], reason)
		}
	}
	return nil
}

// farthest returns the largest distance in the regions of each rainbow, [Unreachable] where there
// is no boundary.
func (p *Preferences) farthest(distances []int32) []int32 {
	farthest := make([]int32, p.Rainbows())
	for rainbow := range farthest {
		farthest[rainbow] = Unreachable
	}
	for v, distance := range distances {
		farthest[p.of[v]] = max(farthest[p.of[v]], distance)
	}
	return farthest
}

// checkBoundary tests the laws across the first edge that joins each pair of rainbows.
func checkBoundary(g *Graph, p *Preferences, dp Privacy, laws [][]float64) error {
	tested := make(map[uint64]bool)
	inOrder := make([][]float64, p.Rainbows())
	for rainbow, law := range laws {
		inOrder[rainbow] = unranked(p.orders[rainbow], law)
	}
	for v := range g.Vertices() {
		for _, w := range g.Neighbors(v) {
			pair := uint64(p.of[v])<<32 | uint64(p.of[w])
			if p.of[v] == p.of[w] || tested[pair] {
				continue
			}
			tested[pair] = true
			if worst := worstSet(inOrder[p.of[v]], inOrder[p.of[w]], dp); worst.Excess > Tolerance {
				worst.From, worst.To = v, int(w)
				return &EdgeError{worst}
			}
		}
	}
	return nil
}

// unranked puts a law that is in preference order into the order of the outputs.
func unranked(order []int, law []float64) []float64 {
	p := make([]float64, len(law))
	for rank, x := range law {
		p[order[rank]] = x
	}
	return p
}

// lawsByDistance returns the laws of [Line] at 0, 1, … farthest. They are made step by step, so
// that each is private beside the next to the last digit.
func lawsByDistance(boundary []float64, dp Privacy, farthest int) [][]float64 {
	l := newLine(boundary, dp)
	laws := [][]float64{boundary}
	for range farthest {
		l.walk(1)
		laws = append(laws, slices.Clone(l.law))
	}
	return laws
}

// EdgeError says that a mechanism is not (ε,δ)-differentially private: between the two ends of an
// edge some set of outputs tells too much. It wraps [ErrInvalid].
type EdgeError struct{ EdgeSet }

func (e *EdgeError) Error() string {
	return fmt.Sprintf("edge between %d and %d: the probability of outputs %v at %d exceeds e^ε times that at %d "+
		"plus δ by %.3g",
		e.From, e.To, e.Outputs, e.From, e.To, e.Excess)
}

// Unwrap returns [ErrInvalid].
func (e *EdgeError) Unwrap() error { return ErrInvalid }
