package graph

import "math"

// Table is a mechanism on a graph: for each vertex, the probabilities of the outputs 0 … k−1. In a
// table that Solve returns, vertices may share a row, so a row must not be modified.
type Table [][]float64

// Check tests the mechanism for (ε,δ)-differential privacy on a graph, up to 1e-12. The condition
// is Pr[A | v] ≤ e^ε Pr[A | w] + δ for every edge, in both directions, and every set A of outputs.
// The worst set consists of the outputs with Pr[j | v] > e^ε Pr[j | w]: any other set leaves out a
// positive term or includes a negative one. So one sum an edge and direction, Σ_j max(0, Pr[j | v]
// − e^ε Pr[j | w]), is sufficient for all 2^k sets.
//
// If the mechanism is not private, Check returns a [*ConflictError] with the edge and the outputs
// that exceed the bound by the most. It returns [privacy.ErrInvalid] for parameters that
// [Privacy.Validate] refuses, and for another number of rows than vertices. For a row that is not a
// law, or has another length than the first, this is an [*InputError] with the vertex.
func (t Table) Check(g *Graph, dp Privacy) error {
	if err := dp.Validate(); err != nil {
		return err
	}
	if err := t.checkRows(g.Vertices()); err != nil {
		return err
	}
	worst, from, to := math.Inf(-1), 0, 0
	for v := range g.Vertices() {
		for _, w := range g.Neighbors(v) {
			if excess, _ := largestExcess(t[v], t[w], dp); excess > worst {
				worst, from, to = excess, int(w), v
			}
		}
	}
	if worst > tolerance {
		return conflictOf(t[from], t[to], dp).between(from, to)
	}
	return nil
}

// checkRows returns an error unless there is a law for each vertex, all of the same length.
func (t Table) checkRows(vertices int) error {
	if len(t) != vertices {
		return invalid("the table has %d vertices and the graph %d", len(t), vertices)
	}
	for v, law := range t {
		if reason := lawFault(law, len(t[0])); reason != "" {
			return faultAt(v, "law %v: %s", law, reason)
		}
	}
	return nil
}

// largestExcess returns the amount by which the worst nonempty set of outputs exceeds the bound:
// the maximum of Pr[A | p] − e^ε Pr[A | q] − δ, for laws p and q at the two ends of an edge. It is
// not above 0 if the laws are private in this direction. largestExcess also returns the output that
// is worst by itself.
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
		total = most // no output is above e^ε times its counterpart, so a second one can only reduce the sum
	}
	return total - dp.Delta, output
}

// conflictOf returns the conflict of the laws of two neighbours: a set of outputs whose probability
// in `to` is too large for from. The caller sets the vertices. It returns nil if there is no
// conflict in this direction.
func conflictOf(from, to []float64, dp Privacy) *ConflictError {
	excess, output := largestExcess(to, from, dp)
	if excess <= tolerance {
		return nil
	}
	c := &ConflictError{Distance: 1}
	for j := range to {
		if j == output || to[j] > grown(from[j], dp.Epsilon, 1) {
			c.Outputs = append(c.Outputs, j)
			c.FromProbability += from[j]
			c.ToProbability += to[j]
		}
	}
	c.Bound = dp.Upper(min(c.FromProbability, 1))
	return c
}

// between sets the vertices of a conflict and returns it.
func (e *ConflictError) between(from, to int) *ConflictError {
	e.From, e.To = from, to
	return e
}
