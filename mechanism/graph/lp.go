package graph

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"math/big"
	"slices"

	"github.com/sluicedp/sluice/internal/lp"
)

// safety is the part by which e^ε and δ are reduced. With it, the mechanism is private after its
// probabilities are rounded to float64 and scaled to a sum of 1.
const safety = 1.0 / (1 << 38)

// maxLPEpsilon is the largest ε for which the linear program is allowed. Its exponential fits a
// float64 with a margin.
const maxLPEpsilon = 700

// maximize solves the problem of [Problem.Weights] by a linear program. Errors are those of
// [Problem.Solve].
func (p Problem) maximize(ctx context.Context) (Table, error) {
	if err := p.checkProgram(); err != nil {
		return nil, err
	}
	program, err := newProgram(ctx, p)
	if err != nil {
		return nil, err
	}
	x, err := program.maximize(ctx, program.objective(p.Weights))
	if err != nil {
		return nil, err
	}
	return program.table(x, p.Given), nil
}

// checkProgram returns an error if ε, the number of variables, the given laws or the weights are
// not allowed for a linear program.
func (p Problem) checkProgram() error {
	if p.Privacy.Epsilon > maxLPEpsilon {
		return invalid("ε = %v is above %d", p.Privacy.Epsilon, maxLPEpsilon)
	}
	outputs := p.Preferences.Outputs()
	if free := p.Graph.Vertices() - len(p.Given); free > lp.MaxVars/outputs {
		return invalid("%d vertices without a given law, of %d outputs, are too many", free, outputs)
	}
	if err := p.checkGiven(); err != nil {
		return err
	}
	return checkWeights(p.Preferences, p.Weights)
}

// checkGiven returns an [*InputError] for a given law that is not valid, and a [*ConflictError] if
// the laws of two neighbours exclude each other.
func (p Problem) checkGiven() error {
	for _, v := range slices.Sorted(maps.Keys(p.Given)) {
		law := p.Given[v]
		if v < 0 || v >= p.Graph.Vertices() {
			return faultAt(v, "there is no such vertex")
		}
		if reason := lawFault(law, p.Preferences.Outputs()); reason != "" {
			return faultAt(v, "given law %v: %s", law, reason)
		}
		for _, w := range p.Graph.Neighbors(v) {
			near := p.Given[int(w)]
			if len(near) != len(law) { // not given, or invalid and refused when it is checked itself
				continue
			}
			if c := conflictOf(near, law, p.Privacy); c != nil {
				return c.between(int(w), v)
			}
		}
	}
	return nil
}

// checkWeights returns [privacy.ErrInvalid] unless weights is nil, or has a weight of at most
// ±1e100 for each vertex and output.
func checkWeights(p *Preferences, weights [][]float64) error {
	if weights == nil {
		return nil
	}
	if len(weights) != p.Vertices() {
		return invalid("%d lists of weights for %d vertices; one each is needed", len(weights), p.Vertices())
	}
	for v, w := range weights {
		if len(w) != p.Outputs() {
			return invalid("vertex %d has %d weights for %d outputs", v, len(w), p.Outputs())
		}
		for _, x := range w {
			if !(math.Abs(x) <= 1e100) {
				return invalid("vertex %d has the weight %v; at most ±1e100 is possible", v, x)
			}
		}
	}
	return nil
}

// program is the linear program of the private mechanisms with given laws. It has a variable for
// each output of each vertex without a given law: the probability.
type program struct {
	g       *Graph
	p       *Preferences
	growth  *big.Rat     // e^ε, or slightly less
	slack   *big.Rat     // δ, or slightly less
	laws    [][]*big.Rat // by vertex; nil if not given
	first   []int        // by vertex without a given law, the variable of its output 0
	edges   [][2]int     // by row, its edge; twice the vertex for the row of one vertex
	program *lp.Program
	err     error // the first error of adding rows
}

// newProgram returns the linear program with the rows of [program.addRows]. Errors are those of
// [Problem.Solve].
func newProgram(ctx context.Context, p Problem) (*program, error) {
	n, outputs := p.Graph.Vertices(), p.Preferences.Outputs()
	m := &program{g: p.Graph, p: p.Preferences, laws: make([][]*big.Rat, n), first: make([]int, n)}
	m.growth = new(big.Rat).SetFloat64(max(1, math.Exp(p.Privacy.Epsilon)*(1-safety)))
	m.slack = new(big.Rat).SetFloat64(p.Privacy.Delta * (1 - safety))
	free := 0 // the number of vertices without a given law so far
	for v := range m.first {
		if law, ok := p.Given[v]; ok {
			m.laws[v] = normalized(law)
		} else {
			m.first[v] = free * outputs
			free++
		}
	}
	// There is at least one variable, because a program needs one. A variable that is in no row is
	// harmless.
	program, err := lp.New(max(1, free*outputs))
	if err != nil {
		return nil, err
	}
	m.program = program
	m.addRows(ctx)
	return m, m.err
}

// normalized returns the law as rational numbers with a sum of exactly 1.
func normalized(law []float64) []*big.Rat {
	exact := make([]*big.Rat, len(law))
	sum := new(big.Rat)
	for j, x := range law {
		exact[j] = new(big.Rat).SetFloat64(x)
		sum.Add(sum, exact[j])
	}
	for _, x := range exact {
		x.Quo(x, sum)
	}
	return exact
}

// addRows adds the rows that are sufficient for δ = 0 and for two outputs. The probabilities of a
// vertex sum to 1, and each edge has a condition, in both directions, for each set of one output.
// It stops at an error, which it stores in m.err.
func (m *program) addRows(ctx context.Context) {
	for v := range m.g.Vertices() {
		if m.err = cmp.Or(m.err, ctx.Err()); m.err != nil {
			return
		}
		if m.laws[v] == nil {
			row := lp.Row{Equal: true, Bound: big.NewRat(1, 1)}
			for j := range m.p.Outputs() {
				row.Terms = append(row.Terms, lp.Term{Var: m.first[v] + j, Coef: big.NewRat(1, 1)})
			}
			m.add(row, v, v)
		}
		for _, w := range m.g.Neighbors(v) {
			for j := range m.p.Outputs() {
				m.addSet(v, int(w), []int{j})
			}
		}
	}
}

// addSet adds the row Pr[set | v] − e^ε Pr[set | w] ≤ δ. It adds nothing if both laws are given.
func (m *program) addSet(v, w int, set []int) {
	if m.laws[v] != nil && m.laws[w] != nil {
		return
	}
	row := lp.Row{Bound: new(big.Rat).Set(m.slack)}
	m.addTerms(&row, v, set, big.NewRat(1, 1))
	m.addTerms(&row, w, set, new(big.Rat).Neg(m.growth))
	m.add(row, v, w)
}

// addTerms adds coef·Pr[set | v] to the left side of a row. If the law of v is given, the
// probability is a number, and is subtracted from the bound.
func (m *program) addTerms(row *lp.Row, v int, set []int, coef *big.Rat) {
	for _, j := range set {
		if law := m.laws[v]; law != nil {
			row.Bound.Sub(row.Bound, new(big.Rat).Mul(coef, law[j]))
		} else {
			row.Terms = append(row.Terms, lp.Term{Var: m.first[v] + j, Coef: coef})
		}
	}
}

// add adds a row about the edge from v to w. It adds an error to m.err.
func (m *program) add(row lp.Row, v, w int) {
	m.edges = append(m.edges, [2]int{v, w})
	m.err = errors.Join(m.err, m.program.Add(row))
}

// objective returns the terms of the function to maximize. From each weight, it subtracts the
// largest weight of the vertex. The probabilities of a vertex sum to 1, so this does not change the
// optimum. All terms are then at most 0. So the first vertex of the simplex method, where all
// variables are 0, is optimal for it.
func (m *program) objective(weights [][]float64) (terms []lp.Term) {
	for v, law := range m.laws {
		if law != nil {
			continue
		}
		w := exactWeights(weights, v, m.p.Outputs())
		most := slices.MaxFunc(w, (*big.Rat).Cmp)
		for rank, output := range m.p.Order(v) {
			if loss := new(big.Rat).Sub(w[rank], most); loss.Sign() != 0 {
				terms = append(terms, lp.Term{Var: m.first[v] + output, Coef: loss})
			}
		}
	}
	return terms
}

// exactWeights returns the weights of vertex v by rank, as rational numbers. If weights is nil,
// they fall linearly from 1 to 0.
func exactWeights(weights [][]float64, v, outputs int) []*big.Rat {
	w := make([]*big.Rat, outputs)
	for rank := range w {
		if weights == nil {
			w[rank] = big.NewRat(int64(outputs-1-rank), int64(outputs-1))
		} else {
			w[rank] = new(big.Rat).SetFloat64(weights[v][rank])
		}
	}
	return w
}

// maximize returns the optimal probabilities, by variable. There are too many sets of several
// outputs to add them all, so it adds those that are violated, until none is. Errors are those of
// [Problem.Solve].
func (m *program) maximize(ctx context.Context, objective []lp.Term) ([]*big.Rat, error) {
	for {
		optimum, err := m.program.Maximize(ctx, objective)
		var infeasible *lp.InfeasibleError
		if errors.As(err, &infeasible) {
			return nil, m.conflict(infeasible)
		}
		if err != nil {
			return nil, err
		}
		if !m.addViolated(ctx, optimum.X) {
			return optimum.X, m.err
		}
	}
}

// conflict returns the error that names the vertices whose given laws are used in the proof that
// there is no mechanism.
func (m *program) conflict(proof *lp.InfeasibleError) error {
	part := make(map[int]bool)
	for row, multiplier := range proof.Multipliers {
		for _, v := range m.edges[row] {
			if multiplier.Sign() != 0 && m.laws[v] != nil {
				part[v] = true
			}
		}
	}
	vertices := slices.Sorted(maps.Keys(part)) // at least two, because any law alone may be the law of all vertices
	return &ConflictError{From: vertices[0], To: vertices[1], Others: vertices[2:]}
}

// addViolated adds, for each edge and direction in which x is not private, the set of outputs with
// the largest excess. It returns true if it added any. It also returns false after an error, which
// it stores in m.err, and if the first rows are sufficient.
func (m *program) addViolated(ctx context.Context, x []*big.Rat) bool {
	if m.slack.Sign() == 0 || m.p.Outputs() == 2 {
		return false
	}
	before := m.program.Rows()
	for v := range m.g.Vertices() {
		if m.err = cmp.Or(m.err, ctx.Err()); m.err != nil {
			return false
		}
		for _, w := range m.g.Neighbors(v) {
			if set := m.violated(x, v, int(w)); set != nil {
				m.addSet(v, int(w), set)
			}
		}
	}
	return m.program.Rows() > before
}

// violated returns the set of outputs with the largest Pr[set | v] − e^ε Pr[set | w] if that is
// above δ, and nil otherwise.
func (m *program) violated(x []*big.Rat, v, w int) (set []int) {
	total := new(big.Rat)
	for j := range m.p.Outputs() {
		excess := new(big.Rat).Mul(m.growth, m.probability(x, w, j))
		if excess.Sub(m.probability(x, v, j), excess); excess.Sign() > 0 {
			total.Add(total, excess)
			set = append(set, j)
		}
	}
	if total.Cmp(m.slack) <= 0 {
		return nil
	}
	return set
}

// probability returns the probability of an output at v: the given one, or that of the solution x.
func (m *program) probability(x []*big.Rat, v, output int) *big.Rat {
	if law := m.laws[v]; law != nil {
		return law[output]
	}
	return x[m.first[v]+output]
}

// table returns the mechanism of the solution x in float64. Given laws are copied. A probability
// above 0 is at least tiny, 1e-300.
func (m *program) table(x []*big.Rat, given map[int][]float64) Table {
	t := make(Table, m.g.Vertices())
	for v := range t {
		t[v] = make([]float64, m.p.Outputs())
		copy(t[v], given[v])
		if m.laws[v] != nil {
			continue
		}
		for j := range t[v] {
			if p := m.probability(x, v, j); p.Sign() > 0 {
				rounded, _ := p.Float64()
				t[v][j] = max(tiny, rounded)
			}
		}
	}
	return t
}
