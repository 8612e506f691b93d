package graph

import "math"

// EdgeSet is a set of outputs at the two ends of an edge, as the condition of (ε,δ)-differential
// privacy sees it in one direction.
type EdgeSet struct {
	From, To int   // the ends of the edge
	Outputs  []int // in ascending order
	// Excess is the probability of Outputs at From, less e^ε times that at To, less δ. The
	// condition is that it is at most 0; below 0 it is minus the room that is left.
	Excess float64
}

// Report is what [Check] found.
type Report struct {
	Edges int // the number of edges tested, each in both directions
	// Worst has the largest Excess of all edges, directions and sets of outputs but the empty one.
	// It is the zero EdgeSet if there are no edges.
	Worst EdgeSet
}

// Err returns nil for a mechanism that is (ε,δ)-differentially private up to [Tolerance], and else
// an [*EdgeError] with the worst edge.
func (r Report) Err() error {
	if r.Worst.Excess > Tolerance {
		return &EdgeError{r.Worst}
	}
	return nil
}

// Check tests a mechanism on a graph for (ε,δ)-differential privacy: for every edge, both ways, and
// every set A of outputs, Pr[A | v] ≤ e^ε Pr[A | w] + δ. Of all sets the worst holds just the
// outputs with Pr[j | v] > e^ε Pr[j | w], for any other leaves a positive term out or takes a
// negative one in. So one sum an edge and direction, Σ_j max(0, Pr[j | v] − e^ε Pr[j | w]), stands
// for all 2^k sets.
//
// It returns [ErrInvalid] if it cannot test: for ε and δ that [Privacy.Validate] refuses, a table
// of another size than the graph, and, as an [*InputError] with the vertex, a row that is not a
// law. Whether the test is passed, [Report.Err] says.
func Check(g *Graph, t *Table, dp Privacy) (Report, error) {
	if err := dp.Validate(); err != nil {
		return Report{}, err
	}
	if err := t.checkRows(g.Vertices()); err != nil {
		return Report{}, err
	}
	r := Report{Edges: g.Edges()}
	if r.Edges > 0 {
		r.Worst.Excess = math.Inf(-1)
	}
	for v := range g.Vertices() {
		for _, w := range g.Neighbors(v) {
			if excess, _ := largestExcess(t.At(v), t.At(int(w)), dp); excess > r.Worst.Excess {
				r.Worst = EdgeSet{From: v, To: int(w), Excess: excess}
			}
		}
	}
	if r.Edges > 0 {
		from, to := r.Worst.From, r.Worst.To
		r.Worst = worstSet(t.At(from), t.At(to), dp)
		r.Worst.From, r.Worst.To = from, to
	}
	return r, nil
}

// checkRows tests that there is a law for each vertex.
func (t *Table) checkRows(vertices int) error {
	if t.Vertices() != vertices {
		return invalid("a table of %d vertices for a graph of %d", t.Vertices(), vertices)
	}
	for v := range vertices {
		if reason := lawFault(t.At(v)); reason != "" {
			return faultAt(v, "law %v: %s", t.At(v), reason)
		}
	}
	return nil
}

// largestExcess returns the Excess of the worst set of outputs but the empty one, for laws p and q
// at the two ends of an edge, and the output that is worst by itself.
func largestExcess(p, q []float64, dp Privacy) (excess float64, output int) {
	total, most := 0.0, math.Inf(-1)
	for j := range p {
		alone := p[j] - grown(q[j], dp.Epsilon, 1)
		total += max(0, alone)
		if alone > most {
			most, output = alone, j
		}
	}
	if most <= 0 {
		total = most // no output is above e^ε times its share: a second one can only make it less
	}
	return total - dp.Delta, output
}

// worstSet returns the set of outputs with the largest Excess.
func worstSet(p, q []float64, dp Privacy) EdgeSet {
	excess, output := largestExcess(p, q, dp)
	worst := EdgeSet{Excess: excess}
	for j := range p {
		if j == output || p[j] > grown(q[j], dp.Epsilon, 1) {
			worst.Outputs = append(worst.Outputs, j)
		}
	}
	return worst
}
