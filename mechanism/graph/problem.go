package graph

import (
	"context"
	"slices"
)

// Problem describes the search for the best mechanism on a graph. The fields that describe the
// boundary select one of four cases. Laws cannot be combined with Given or Weights:
//
//   - Laws: all vertices on the boundary with the same preference order have the same law, a
//     homogeneous boundary.
//   - None of Laws, Given and Weights: as with Laws, each of which is
//     [Privacy.RandomizedResponse]; for two outputs, the balanced optimum, where the true answer
//     has the probability (e^ε+δ)/(e^ε+1) on the boundary.
//   - Given, for two outputs: laws that may differ, at one end at least of each edge between two
//     colours (a boundary-hitting set).
//   - Weights, and Given for more than two outputs: a linear program, because there may be no
//     single optimum.
type Problem struct {
	Graph       *Graph       // the datasets
	Preferences *Preferences // with the same number of vertices
	Privacy     Privacy      // the bound between neighbours
	// Laws are the laws on the boundary, one for each preference order and in that order, with the
	// true answer first. The law of an order that is on no boundary may be nil.
	Laws [][]float64
	// Given are laws by vertex, in the order of the outputs. Of two probabilities only the smaller
	// one is used, because it has more digits.
	Given map[int][]float64
	// Weights are the values of the answers, by vertex and rank, with an absolute value of at most
	// 1e100. The solution has the largest sum, over all vertices v and ranks r, of Weights[v][r]
	// times the probability of the output that v ranks r-th, from 0. If Weights is nil, weights
	// fall linearly from 1 for the true answer to 0 for the last.
	Weights [][]float64
}

// Solve returns the best mechanism. It is (ε,δ)-differentially private between neighbours, up to
// rounding.
//
// With a homogeneous boundary (zhou2022 Theorem 3; torkamani2023 Corollary 1 for two outputs), each
// vertex has the law of [Privacy.Law] at its distance from the boundary of its region. For every
// vertex and every j, it gives the largest probability that the answer is among the vertex's first
// j. So it is optimal for every utility that agrees with the preferences.
//
// With a boundary-hitting set, every other vertex w gives the true answer T(w) with the largest
// possible probability, for all vertices at the same time (torkamani2023 Theorem 1):
//
//	min over given h of U^dist(w,h)(Pr[h answers T(w)]), where U is [Privacy.Upper].
//
// It takes time in proportion to the graph, and |H| log |H| for |H| given vertices. Next to a given
// vertex, a probability may exceed the bounds by 1e-12.
//
// In both cases all probabilities keep their digits, so that rounding does no harm at any distance
// from the boundary and for any ε. A probability that would be positive but below 1e-300 is 1e-300.
// In a component without a boundary or a given vertex, the true answer has probability 1: all
// vertices have the same true answer, so it reveals nothing.
//
// The optimum of the linear program is proven in rational arithmetic. The program replaces e^ε and
// δ by numbers that are smaller by a part of 4e-12. So the rounded probabilities in the table
// satisfy (ε,δ) without any tolerance, wherever one end of an edge was not given. Given
// probabilities should be 0 or at least 1e-300. ε is at most 700, and the vertices without a given
// law, times the number of outputs, are at most 4,000. 500 of these variables take less than a
// second. If ε times distances is large, probabilities are very small, and it takes longer. When
// ctx ends, Solve returns its error within a second.
//
// Solve returns a [*ConflictError] if no mechanism has these laws or a boundary edge has no given
// end, and [privacy.ErrNoCertificate] if the bounded work of the program was not enough. Otherwise
// it returns [privacy.ErrInvalid] for arguments out of range, as an [*InputError] if it is about
// one vertex.
func (p Problem) Solve(ctx context.Context) (Table, error) {
	if p.Graph == nil || p.Preferences == nil {
		return nil, invalid("the graph or the preferences are missing")
	}
	if p.Graph.Vertices() != p.Preferences.Vertices() {
		return nil, invalid("the graph has %d vertices and the preferences %d",
			p.Graph.Vertices(), p.Preferences.Vertices())
	}
	if err := p.Privacy.Validate(); err != nil {
		return nil, err
	}
	switch {
	case p.Laws != nil && (p.Given != nil || p.Weights != nil):
		return nil, invalid("Laws cannot be combined with Given or Weights")
	case p.Weights != nil || p.Given != nil && p.Preferences.Outputs() > 2:
		return p.maximize(ctx)
	case p.Given != nil:
		return p.extend()
	}
	return p.homogeneous()
}

// homogeneous solves the problem of [Problem.Laws], the laws on a homogeneous boundary. Without
// Laws, it uses the default laws. Errors are those of [Problem.Solve].
func (p Problem) homogeneous() (Table, error) {
	distances := p.Graph.distances(p.Preferences)
	farthest := p.Preferences.farthest(distances)
	laws := p.Laws
	if laws == nil {
		laws = p.defaultLaws()
	}
	if err := p.Preferences.checkLaws(farthest, laws); err != nil {
		return nil, err
	}
	if err := p.checkBoundary(laws); err != nil {
		return nil, err
	}
	rows := make([][][]float64, p.Preferences.Rainbows()) // by rainbow and distance, in the order of the outputs
	certain := make([][]float64, p.Preferences.Outputs()) // by colour: the law in which this colour has probability 1
	for color := range certain {
		certain[color] = make([]float64, len(certain))
		certain[color][color] = 1
	}
	for rainbow, distance := range farthest {
		if distance >= 0 {
			rows[rainbow] = lawsByDistance(laws[rainbow], p.Privacy, int(distance))
		}
		for d, law := range rows[rainbow] {
			rows[rainbow][d] = unranked(p.Preferences.orders[rainbow], law)
		}
	}
	t := make(Table, len(distances))
	for v, distance := range distances {
		if distance >= 0 {
			t[v] = rows[p.Preferences.of[v]][distance]
		} else {
			t[v] = certain[p.Preferences.Color(v)]
		}
	}
	return t, nil
}

// defaultLaws returns a boundary law for each rainbow: the balanced one for two outputs, and
// otherwise randomized response.
func (p Problem) defaultLaws() [][]float64 {
	law := p.Privacy.balanced()
	if outputs := p.Preferences.Outputs(); outputs > 2 {
		law, _ = p.Privacy.RandomizedResponse(outputs) // both arguments are checked
	}
	return slices.Repeat([][]float64{law}, p.Preferences.Rainbows())
}

// checkLaws returns [privacy.ErrInvalid] unless there is a valid law for each rainbow that has a
// boundary. farthest is the result of [Preferences.farthest].
func (p *Preferences) checkLaws(farthest []int32, laws [][]float64) error {
	if len(laws) != p.Rainbows() {
		return invalid("%d boundary laws for %d orders; one each is needed", len(laws), p.Rainbows())
	}
	for rainbow, law := range laws {
		if law == nil && farthest[rainbow] < 0 {
			continue
		}
		if reason := lawFault(law, p.outputs); reason != "" {
			return invalid("boundary law %v of order %v: %s", law, p.orders[rainbow], reason)
		}
	}
	return nil
}

// farthest returns, for each rainbow, the largest of the distances of its vertices to the boundary.
// It is −1 if no vertex of the rainbow has a boundary.
func (p *Preferences) farthest(distances []int32) []int32 {
	farthest := slices.Repeat([]int32{-1}, p.Rainbows())
	for v, distance := range distances {
		farthest[p.of[v]] = max(farthest[p.of[v]], distance)
	}
	return farthest
}

// checkBoundary returns a [*ConflictError] if the laws of two neighbouring rainbows exclude each
// other. It checks the first edge that joins each pair of rainbows, in each direction. All other
// edges of a pair have the same laws.
func (p Problem) checkBoundary(laws [][]float64) error {
	of := p.Preferences.of
	tested := make(map[uint64]bool)
	inOrder := make([][]float64, len(laws)) // the laws in the order of the outputs
	for rainbow, law := range laws {
		inOrder[rainbow] = unranked(p.Preferences.orders[rainbow], law)
	}
	for v := range p.Graph.Vertices() {
		for _, w := range p.Graph.Neighbors(v) {
			pair := uint64(of[v])<<32 | uint64(of[w])
			if of[v] == of[w] || tested[pair] {
				continue
			}
			tested[pair] = true
			if c := conflictOf(inOrder[of[w]], inOrder[of[v]], p.Privacy); c != nil {
				return c.between(int(w), v)
			}
		}
	}
	return nil
}

// unranked converts a law from preference order to the order of the outputs.
func unranked(order []int, law []float64) []float64 {
	p := make([]float64, len(law))
	for rank, x := range law {
		p[order[rank]] = x
	}
	return p
}

// lawsByDistance returns the laws of [Privacy.Law] at the distances 0, 1, … farthest. They are
// computed step by step, so that each law and the next are private up to the last digit.
func lawsByDistance(boundary []float64, dp Privacy, farthest int) [][]float64 {
	l := newLine(boundary, dp)
	laws := [][]float64{boundary}
	for range farthest {
		l.walk(1)
		laws = append(laws, slices.Clone(l.law))
	}
	return laws
}
