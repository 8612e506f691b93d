package graph

import (
	"context"
	"math/big"

	"github.com/sluicedp/sluice/internal/lp"
)

// Shortfall is a probability that another mechanism has larger.
type Shortfall struct {
	Vertex   int     // where
	Ranks    int     // of the answers that count: the first so many of the vertex's preference order
	Has      float64 // the probability of one of these answers
	Possible float64 // the largest that any private mechanism with the given laws gives it
}

// negligible is what Dominates overlooks. It is more than what the reduction of e^ε and δ by a part
// of safety may cause where several constraints meet in one point.
const negligible = 1e-9

// Dominates tells whether the solution gives each vertex, for each j, the largest probability that
// any private mechanism with the given laws gives to its first j outputs, up to 1e-9. Then it is
// optimal for every weights that agree with the preferences, not only for those it was made for. If
// not, the Shortfall shows the first vertex and j; and if the weights fell strictly from rank to
// rank at every vertex, then no mechanism dominates all others, which is possible where given laws
// are not homogeneous on the boundary, and where none are given.
//
// Where a probability reaches what the law at a given vertex allows at its distance (torkamani2023
// Theorem 1, for the two answers "among the first j" and "not"), this is the proof that none is
// larger; where not, a linear program is solved. Dominates returns [ErrNoCertificate] if that is
// given up, and the error of ctx soon after it has ended.
func (s *Solution) Dominates(ctx context.Context) (bool, *Shortfall, error) {
	for v, law := range s.program.laws {
		if law != nil {
			continue
		}
		if shortfall, err := s.shortfall(ctx, v); shortfall != nil || err != nil {
			return false, shortfall, err
		}
	}
	return true, nil, nil
}

// shortfall returns the first of a vertex, or nil.
func (s *Solution) shortfall(ctx context.Context, v int) (*Shortfall, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m := s.program
	distances := m.g.distancesFrom([]uint32{uint32(v)})
	for ranks := 1; ranks < m.p.Outputs(); ranks++ {
		has := m.prefix(s.exact, v, v, ranks)
		if has >= m.bound(distances, v, ranks)-negligible {
			continue
		}
		best, err := m.maximize(ctx, m.outside(v, ranks))
		if err != nil {
			return nil, err
		}
		possible, _ := best.Value.Add(best.Value, big.NewRat(1, 1)).Float64()
		if has < possible-negligible {
			return &Shortfall{v, ranks, has, possible}, nil
		}
	}
	return nil, nil
}

// prefix returns the probability at vertex w of the first outputs in the order of vertex v.
func (m *program) prefix(x []*big.Rat, v, w, ranks int) float64 {
	total := new(big.Rat)
	for _, output := range m.p.Order(v)[:ranks] {
		total.Add(total, m.probability(x, w, output))
	}
	p, _ := total.Float64()
	return p
}

// outside is the objective that makes the probability of all but the first outputs of a vertex
// small.
func (m *program) outside(v, ranks int) (terms []lp.Term) {
	for _, output := range m.p.Order(v)[ranks:] {
		terms = append(terms, lp.Term{Var: m.first[v] + output, Coef: big.NewRat(-1, 1)})
	}
	return terms
}

// bound returns the least probability of the first outputs of v that the law of a given vertex
// allows.
func (m *program) bound(distances []int32, v, ranks int) float64 {
	bound := 1.0
	for w, law := range m.laws {
		if law == nil || distances[w] == Unreachable {
			continue
		}
		allowed := m.prefix(nil, v, w, ranks)
		for range distances[w] {
			allowed = m.dp.Upper(allowed)
		}
		bound = min(bound, allowed)
	}
	return bound
}
