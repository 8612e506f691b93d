package graph

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/internal/lp"
	"github.com/sluicedp/sluice/privacy"
)

// NotGradualError means that no pair of answers has the given laws at the cost of the second answer
// alone. It wraps [privacy.ErrInvalid].
//
// The fields are a proof. They define a game: a player who answers i first and then j at vertex v
// gains First[v][i] + Second[v][j]. Answers with the given laws gain Gain in total, which is above
// 0, for any dependence of the two answers. But the Moves show that no private pair of answers
// gains anything. A move of a vertex v, a neighbour w and two answers represents Pr(i,j | v) − e^ε
// Pr(i,j | w) ≤ 0. The sum of these inequalities, with the weights of the moves, is at least the
// gain at every vertex, for every pair of answers.
type NotGradualError struct {
	First, Second [][]*big.Rat  // by vertex, then output
	Gain          *big.Rat      // above 0
	Moves         []GradualMove // each with a weight above 0
}

// GradualMove is the inequality Pr(First, Second | Vertex) − e^ε Pr(First, Second | Neighbor) ≤ 0,
// multiplied by a Weight above 0.
type GradualMove struct {
	Vertex, Neighbor int      // an edge, in this direction
	First, Second    int      // the two answers
	Weight           *big.Rat // above 0
}

func (e *NotGradualError) Error() string {
	gain, _ := e.Gain.Float64()
	return fmt.Sprintf("no gradual release with these laws: there is a game in which they gain %.6g, "+
		"and no two answers that cost the second ε alone gain anything", gain)
}

// Unwrap returns [privacy.ErrInvalid].
func (e *NotGradualError) Unwrap() error { return privacy.ErrInvalid }

// Gradual returns the laws of two answers for each vertex, a first one and a second one that raises
// it. The result holds the probability of each pair, by vertex, first output and second output. The
// first answer has the law low[v], the second one high[v]. The pair is ε-differentially private
// with e^ε = growth: both together cost no more than the second may alone. Given the first answer
// i, the second one is j with probability pair[v][i][j] / low[v][i].
//
// A linear program decides whether there are such laws, with a proof in rational arithmetic. If
// there are several and both answers have the same number of outputs, the result is one whose
// answers are equal as often as possible.
//
// For two outputs whose laws are those of the balanced optimum, no program is needed, see
// mechanism.Score. For other laws on a line, see mechanism.Sampler.Rank. For more outputs and
// several regions, use the optimal laws with randomized response on the boundary
// ([Graph.RationalLaws]), at e^ε₁ = E₁ and e^ε₂ = E₂ = growth. For E₁² ≥ k−1 errors are uniform,
// and there is a gradual release on every graph. For smaller E₁ there may be none. Where three
// regions of three outputs meet, there is none from E₁ = 6/5 to E₂ = 5/4, but there is one from 5/4
// to 5.
//
// Gradual returns a [*NotGradualError] if there are no such laws, and [privacy.ErrNoCertificate] if
// its bounded work was not enough to decide. It returns [privacy.ErrInvalid] unless growth is at
// least 1, low and high have a law for each vertex that sums to exactly 1, and the vertices times
// the pairs of outputs are at most 4,000.
//
// When ctx ends, Gradual returns its error, like [Problem.Solve].
func Gradual(ctx context.Context, g *Graph, low, high [][]*big.Rat, growth *big.Rat) ([][][]*big.Rat, error) {
	if growth == nil || growth.Cmp(big.NewRat(1, 1)) < 0 {
		return nil, invalid("e^ε is missing or below 1")
	}
	p, err := newPairs(ctx, g, low, high, growth)
	if err != nil {
		return nil, err
	}
	var same []lp.Term
	for v := range g.Vertices() {
		for i := range min(p.first, p.second) {
			same = append(same, lp.Term{Var: p.at(v, i, i), Coef: big.NewRat(1, 1)})
		}
	}
	optimum, err := p.program.Maximize(ctx, same)
	var infeasible *lp.InfeasibleError
	if errors.As(err, &infeasible) {
		return nil, p.game(infeasible.Multipliers)
	}
	if err != nil {
		return nil, fmt.Errorf("deciding whether there is a gradual release: %w", err)
	}
	return p.laws(optimum.X), nil
}

// pairs is the linear program of the pairs of answers. Its rows are the laws of the first answer,
// by vertex and output, then those of the second, and then the moves.
type pairs struct {
	vertices, first, second int // the numbers of vertices and of outputs of both answers
	low, high               [][]*big.Rat
	moves                   []GradualMove // without weights
	program                 *lp.Program
}

// newPairs returns the linear program with all rows. Errors are those of [Gradual].
func newPairs(ctx context.Context, g *Graph, low, high [][]*big.Rat, growth *big.Rat) (*pairs, error) {
	p := &pairs{vertices: g.Vertices(), low: low, high: high}
	var err error
	if p.first, err = checkRational(p.vertices, low); err != nil {
		return nil, fmt.Errorf("laws at the low ε: %w", err)
	}
	if p.second, err = checkRational(p.vertices, high); err != nil {
		return nil, fmt.Errorf("laws at the high ε: %w", err)
	}
	if p.vertices > lp.MaxVars/(p.first*p.second) {
		return nil, invalid("%d vertices with %d·%d pairs of outputs are too many", p.vertices, p.first, p.second)
	}
	if p.program, err = lp.New(p.vertices * p.first * p.second); err != nil {
		return nil, err
	}
	return p, errors.Join(p.addLaws(), p.addMoves(ctx, g, growth))
}

// checkRational returns the number of outputs of the laws. It returns [privacy.ErrInvalid] unless
// there is one valid law for each vertex, all with the same number of outputs.
func checkRational(vertices int, laws [][]*big.Rat) (outputs int, err error) {
	if vertices == 0 || len(laws) != vertices {
		return 0, invalid("%d laws for %d vertices; one each is needed", len(laws), vertices)
	}
	for v, law := range laws {
		if err := checkOutputs(len(law)); err != nil {
			return 0, fmt.Errorf("vertex %d: %w", v, err)
		}
		if reason := exact.LawFault(law); reason != "" {
			return 0, invalid("vertex %d: %s", v, reason)
		}
		if len(law) != len(laws[0]) {
			return 0, invalid("vertex %d has %d outputs, vertex 0 has %d", v, len(law), len(laws[0]))
		}
	}
	return len(laws[0]), nil
}

// at returns the variable that is the probability of first output i and second output j at vertex
// v.
func (p *pairs) at(v, i, j int) int { return (v*p.first+i)*p.second + j }

// addLaws adds the equations that make the pairs of each vertex have the given laws: the
// probability of each first output, and that of each second one.
func (p *pairs) addLaws() (err error) {
	one := big.NewRat(1, 1)
	// add adds the equation that the sum of some variables is bound.
	add := func(bound *big.Rat, pairs int, at func(i int) int) {
		row := lp.Row{Equal: true, Bound: bound}
		for i := range pairs {
			row.Terms = append(row.Terms, lp.Term{Var: at(i), Coef: one})
		}
		err = errors.Join(err, p.program.Add(row))
	}
	for v, law := range p.low {
		for i, bound := range law {
			add(bound, p.second, func(j int) int { return p.at(v, i, j) })
		}
	}
	for v, law := range p.high {
		for j, bound := range law {
			add(bound, p.first, func(i int) int { return p.at(v, i, j) })
		}
	}
	return err
}

// addMoves adds the inequalities of privacy: for each edge, in both directions, Pr(pair | v) ≤
// e^ε·Pr(pair | w). Because δ is 0, the inequalities of single pairs imply those of sets. It
// returns an error if ctx ends.
func (p *pairs) addMoves(ctx context.Context, g *Graph, growth *big.Rat) (err error) {
	one, minus := big.NewRat(1, 1), new(big.Rat).Neg(growth)
	for v := range p.vertices {
		if ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		for _, w := range g.Neighbors(v) {
			for pair := range p.first * p.second {
				m := GradualMove{Vertex: v, Neighbor: int(w), First: pair / p.second, Second: pair % p.second}
				row := lp.Row{Bound: new(big.Rat), Terms: []lp.Term{
					{Var: p.at(v, m.First, m.Second), Coef: one},
					{Var: p.at(m.Neighbor, m.First, m.Second), Coef: minus},
				}}
				err = errors.Join(err, p.program.Add(row))
				p.moves = append(p.moves, m)
			}
		}
	}
	return err
}

// laws returns the solution x by vertex, first output and second output.
func (p *pairs) laws(x []*big.Rat) [][][]*big.Rat {
	laws := make([][][]*big.Rat, p.vertices)
	for v := range laws {
		for i := range p.first {
			laws[v] = append(laws[v], x[p.at(v, i, 0):p.at(v, i, p.second)])
		}
	}
	return laws
}

// game converts the multipliers y of an infeasible program to a game, as described at
// [NotGradualError]. They combine the rows of the program to coefficients y(v,i) + y(v,j) +
// moves(v,i,j) ≥ 0 and a bound Σ y·law < 0. So with the gains −y, the sum of the moves is at least
// the gain, and the given laws gain more than 0.
func (p *pairs) game(multipliers []*big.Rat) *NotGradualError {
	e := &NotGradualError{Gain: new(big.Rat)}
	// take returns the gains for the next rows of some laws, and removes their multipliers.
	take := func(laws [][]*big.Rat, outputs int) (gains [][]*big.Rat) {
		for _, law := range laws {
			gain := make([]*big.Rat, outputs)
			for i := range gain {
				gain[i] = new(big.Rat).Neg(multipliers[i])
				e.Gain.Add(e.Gain, new(big.Rat).Mul(gain[i], law[i]))
			}
			gains, multipliers = append(gains, gain), multipliers[outputs:]
		}
		return gains
	}
	e.First = take(p.low, p.first)
	e.Second = take(p.high, p.second)
	for i, weight := range multipliers {
		if weight.Sign() > 0 {
			m := p.moves[i]
			m.Weight = weight
			e.Moves = append(e.Moves, m)
		}
	}
	return e
}

// RationalLaws returns the optimal laws with randomized response on the boundary, as
// [Problem.Solve] computes them for more than two outputs. They are by vertex and output, in
// rational numbers with e^ε = growth, for [Gradual]. A vertex without a boundary has its true
// answer with probability 1. It returns [privacy.ErrInvalid] for growth of at most 1 or preferences
// with another number of vertices.
//
// It also returns privacy.ErrInvalid if the vertices times the outputs are more than 4,000, which
// is the limit of [Gradual]. Numbers grow with the length of growth and with the distance from the
// boundary. So it also returns this error if the bits of numerator and denominator of growth, times
// the largest distance, are more than 65,536.
func (g *Graph) RationalLaws(p *Preferences, growth *big.Rat) ([][]*big.Rat, error) {
	if growth == nil || growth.Cmp(big.NewRat(1, 1)) <= 0 {
		return nil, invalid("e^ε is missing or not above 1")
	}
	distances, err := g.Distances(p)
	if err != nil {
		return nil, err
	}
	if g.Vertices() > lp.MaxVars/p.Outputs() {
		return nil, invalid("%d vertices with %d outputs are too many", g.Vertices(), p.Outputs())
	}
	farthest := slices.Max(append(distances, 0))
	if bits := growth.Num().BitLen() + growth.Denom().BitLen(); farthest > 0 && bits > maxRationalBits/int(farthest) {
		return nil, invalid("e^ε of %d bits is too long for vertices at distance %d from the boundary", bits, farthest)
	}
	laws := make([][]*big.Rat, g.Vertices())
	for v, distance := range distances {
		laws[v] = make([]*big.Rat, p.Outputs())
		below := new(big.Rat) // the probability of the outputs before rank
		for rank, output := range p.Order(v) {
			sum := rationalSum(growth, rank+1, p.Outputs(), distance)
			laws[v][output] = new(big.Rat).Sub(sum, below)
			below = sum
		}
	}
	return laws, nil
}

// maxRationalBits limits the size of the numbers in [Graph.RationalLaws].
const maxRationalBits = 1 << 16

// rationalSum returns the probability of the first n of k outputs at a distance d from the
// boundary, U^d((e^ε+n−1)/(e^ε+k−1)), where U is [Privacy.Upper] for δ = 0. It is 1 for the
// distance −1, of a vertex without a boundary.
func rationalSum(growth *big.Rat, n, k int, distance int32) *big.Rat {
	one := big.NewRat(1, 1)
	if distance < 0 || n == k {
		return one
	}
	plus := func(n int) *big.Rat { return new(big.Rat).Add(growth, big.NewRat(int64(n), 1)) }
	sum := new(big.Rat).Quo(plus(n-1), plus(k-1))
	for range distance {
		sum = rationalUpper(growth, sum)
	}
	return sum
}

// rationalUpper returns U(x) = min(e^ε x, 1 − (1−x)/e^ε), which is [Privacy.Upper] for δ = 0.
func rationalUpper(growth, x *big.Rat) *big.Rat {
	one := big.NewRat(1, 1)
	grown, shrunk := new(big.Rat).Mul(growth, x), new(big.Rat).Sub(one, x)
	if shrunk.Sub(one, shrunk.Quo(shrunk, growth)); grown.Cmp(shrunk) < 0 {
		return grown
	}
	return shrunk
}
