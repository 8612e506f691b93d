package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"

	"github.com/sluicedp/sluice/internal/lp"
)

// ErrNoCertificate says that a linear program was given up without a proven answer.
var ErrNoCertificate = lp.ErrNoCertificate

// InfeasibleError says that no (ε,δ)-differentially private mechanism has all the given laws. It
// wraps [ErrInvalid].
type InfeasibleError struct {
	// Given are vertices whose laws exclude one another, in ascending order. Of more than two
	// outputs, it may take more than two laws to exclude any mechanism.
	Given []int
}

func (e *InfeasibleError) Error() string {
	return fmt.Sprintf("no private mechanism has the laws given at vertices %v", e.Given)
}

// Unwrap returns [ErrInvalid].
func (e *InfeasibleError) Unwrap() error { return ErrInvalid }

// Solution is a mechanism that is optimal for given weights.
type Solution struct {
	Table   *Table  // the law at each vertex
	Utility float64 // the sum over all vertices of the expected weight of the answer

	program *program
	exact   []*big.Rat // by variable
}

// safety is by what part e^ε and δ are reduced, so that the mechanism is private after its
// probabilities are rounded to float64, and their sum is again made 1.
const safety = 1.0 / (1 << 38)

// maxLPEpsilon is the largest ε of which the exponential is safely a float64.
const maxLPEpsilon = 700

// SolveLP returns a mechanism that, of all (ε,δ)-differentially private ones with the given laws,
// has the largest expected weight: the sum, over all vertices v and ranks r, of weights[v][r] times
// the probability of the output that v ranks r-th (from 0). It is a linear program, for any given
// laws and also for none; for a homogeneous boundary it comes to the mechanism of [Homogeneous].
// With nil, weights fall evenly from 1 for the true answer to 0 for the last.
//
// Laws are given by vertex, in the order of the outputs 0 … k−1, as in a [Table].
//
// The optimum is proven in rational arithmetic. In place of e^ε and δ, the program has numbers
// smaller by a part of 4e-12; so that the probabilities in the table, which are nearest to the
// exact ones, satisfy (ε,δ) without any tolerance wherever one end of an edge was not given. For
// that, where a probability would be positive but below 1e-300, it is 1e-300, and given ones should
// be 0 or no less. Between given laws rounding is forgiven as in [Check].
//
// Weights that fall strictly from rank to rank at every vertex make the solution dominate all
// others if any mechanism does ([Solution.Dominates]).
//
// When ctx ends, so does SolveLP, with its error, within the time of one step of the simplex
// method: less than a second for any program.
//
// It returns an [*EdgeError] if given laws of neighbours are not private, an [*InfeasibleError] if
// those of other vertices rule out any mechanism, [ErrNoCertificate] if the effort was not enough,
// and [ErrInvalid] for arguments out of range: ε is at most 700, weights are at most 1e100 in size,
// and the vertices without a given law, times the number of outputs, are at most 4,000. 500 of
// these variables take less than a second; where ε times distances is large, so that probabilities
// are very small, it takes longer.
func SolveLP(
	ctx context.Context, g *Graph, p *Preferences, dp Privacy, given map[int][]float64, weights [][]float64,
) (*Solution, error) {
	if err := checkLP(g, p, dp, given, weights); err != nil {
		return nil, err
	}
	program, err := newProgram(ctx, g, p, dp, given)
	if err != nil {
		return nil, err
	}
	objective, constant := program.objective(weights)
	optimum, err := program.maximize(ctx, objective)
	if err != nil {
		return nil, err
	}
	utility, _ := constant.Add(constant, optimum.Value).Float64()
	return &Solution{program.table(optimum.X, given), utility, program, optimum.X}, nil
}

func checkLP(g *Graph, p *Preferences, dp Privacy, given map[int][]float64, weights [][]float64) error {
	if err := dp.Validate(); err != nil {
		return err
	}
	if dp.Epsilon > maxLPEpsilon {
		return invalid("ε = %v is above %d", dp.Epsilon, maxLPEpsilon)
	}
	if g.Vertices() != p.Vertices() {
		return invalid("a graph of %d vertices with preferences of %d", g.Vertices(), p.Vertices())
	}
	if free := g.Vertices() - len(given); free > lp.MaxVars/p.Outputs() {
		return invalid("%d vertices without a given law, of %d outputs, are too many", free, p.Outputs())
	}
	if err := checkGiven(g, p, dp, given); err != nil {
		return err
	}
	return checkWeights(p, weights)
}

func checkGiven(g *Graph, p *Preferences, dp Privacy, given map[int][]float64) error {
	for _, v := range slices.Sorted(maps.Keys(given)) {
		if v < 0 || v >= g.Vertices() {
			return invalid("a law is given for vertex %d, which is not there", v)
		}
		if reason := lawFault(given[v]); reason != "" || len(given[v]) != p.Outputs() {
			return faultAt(v, "given law %v, for %d outputs: %s", given[v], p.Outputs(), reason)
		}
		for _, w := range g.Neighbors(v) {
			if law := given[int(w)]; len(law) == p.Outputs() {
				if worst := worstSet(given[v], law, dp); worst.Excess > Tolerance {
					worst.From, worst.To = v, int(w)
					return &EdgeError{worst}
				}
			}
		}
	}
	return nil
}

func checkWeights(p *Preferences, weights [][]float64) error {
	if weights == nil {
		return nil
	}
	if len(weights) != p.Vertices() {
		return invalid("weights of %d vertices for a graph of %d", len(weights), p.Vertices())
	}
	for v, w := range weights {
		if len(w) != p.Outputs() {
			return invalid("vertex %d has %d weights for %d outputs", v, len(w), p.Outputs())
		}
		for _, x := range w {
			if !(math.Abs(x) <= 1e100) {
				return invalid("a weight of vertex %d is %v", v, x)
			}
		}
	}
	return nil
}

// program is the linear program of the private mechanisms with given laws.
type program struct {
	g       *Graph
	p       *Preferences
	dp      Privacy
	growth  *big.Rat     // e^ε, or a little less
	slack   *big.Rat     // δ, or a little less
	laws    [][]*big.Rat // by vertex; nil where none is given
	first   []int        // by vertex without a given law, the variable of its output 0
	edges   [][2]int     // by row, the edge it belongs to
	program *lp.Program
	err     error // of adding rows
}

func newProgram(ctx context.Context, g *Graph, p *Preferences, dp Privacy, given map[int][]float64) (*program, error) {
	m := &program{g: g, p: p, dp: dp, laws: make([][]*big.Rat, g.Vertices()), first: make([]int, g.Vertices())}
	m.growth = new(big.Rat).SetFloat64(max(1, math.Exp(dp.Epsilon)*(1-safety)))
	m.slack = new(big.Rat).SetFloat64(dp.Delta * (1 - safety))
	free := 0
	for v := range m.first {
		if law, ok := given[v]; ok {
			m.laws[v] = normalized(law)
		} else {
			m.first[v] = free * p.Outputs()
			free++
		}
	}
	// A variable that occurs nowhere does no harm, and without any there would be no program.
	program, err := lp.New(max(1, free*p.Outputs()))
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

// addRows adds what is needed for δ = 0, and for two outputs: that the probabilities of a vertex
// sum to 1, and each edge's condition for the sets of one output.
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

// addSet adds Pr[set | v] − e^ε Pr[set | w] ≤ δ, unless both laws are given.
func (m *program) addSet(v, w int, set []int) {
	if m.laws[v] != nil && m.laws[w] != nil {
		return
	}
	row := lp.Row{Bound: new(big.Rat).Set(m.slack)}
	m.addTerms(&row, v, set, big.NewRat(1, 1))
	m.addTerms(&row, w, set, new(big.Rat).Neg(m.growth))
	m.add(row, v, w)
}

func (m *program) addTerms(row *lp.Row, v int, set []int, coef *big.Rat) {
	for _, j := range set {
		if law := m.laws[v]; law != nil {
			row.Bound.Sub(row.Bound, new(big.Rat).Mul(coef, law[j]))
		} else {
			row.Terms = append(row.Terms, lp.Term{Var: m.first[v] + j, Coef: coef})
		}
	}
}

func (m *program) add(row lp.Row, v, w int) {
	m.edges = append(m.edges, [2]int{v, w})
	m.err = errors.Join(m.err, m.program.Add(row))
}

// objective returns the weights, less the largest of each vertex, and the sum of these. As no term
// of it is positive, the first vertex of the simplex method, 0, suits it.
func (m *program) objective(weights [][]float64) ([]lp.Term, *big.Rat) {
	var terms []lp.Term
	constant := new(big.Rat)
	for v := range m.g.Vertices() {
		w := exactWeights(weights, v, m.p.Outputs())
		most := slices.MaxFunc(w, (*big.Rat).Cmp)
		constant.Add(constant, most)
		for rank, output := range m.p.Order(v) {
			loss := new(big.Rat).Sub(w[rank], most)
			if law := m.laws[v]; law != nil {
				constant.Add(constant, loss.Mul(loss, law[output]))
			} else if loss.Sign() != 0 {
				terms = append(terms, lp.Term{Var: m.first[v] + output, Coef: loss})
			}
		}
	}
	return terms, constant
}

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

// maximize solves the program. Sets of several outputs, of which there are too many, are added
// where they are violated, until none is.
func (m *program) maximize(ctx context.Context, objective []lp.Term) (*lp.Optimum, error) {
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
			return optimum, m.err
		}
	}
}

// conflict names the vertices whose given laws have a part in the proof that there is no mechanism.
func (m *program) conflict(proof *lp.InfeasibleError) error {
	part := make(map[int]bool)
	for row, multiplier := range proof.Multipliers {
		for _, v := range m.edges[row] {
			if multiplier.Sign() != 0 && m.laws[v] != nil {
				part[v] = true
			}
		}
	}
	return &InfeasibleError{slices.Sorted(maps.Keys(part))}
}

// addViolated adds the worst set of each edge and direction where x is not private. It reports
// whether there are any.
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

// violated returns the set of outputs with the largest Pr[set | v] − e^ε Pr[set | w], if that is
// above δ.
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

func (m *program) probability(x []*big.Rat, v, output int) *big.Rat {
	if law := m.laws[v]; law != nil {
		return law[output]
	}
	return x[m.first[v]+output]
}

func (m *program) table(x []*big.Rat, given map[int][]float64) *Table {
	t := NewTable(m.g.Vertices(), m.p.Outputs())
	for v := range m.g.Vertices() {
		if law, ok := given[v]; ok {
			copy(t.At(v), law)
			continue
		}
		for j := range m.p.Outputs() {
			if p := m.probability(x, v, j); p.Sign() > 0 {
				rounded, _ := p.Float64()
				t.At(v)[j] = max(tiny, rounded)
			}
		}
	}
	return t
}
