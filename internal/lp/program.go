package lp

import (
	"context"
	"errors"
	"fmt"
	"math/big"
)

// MaxVars is the largest number of variables: two matrices of its square are held.
const MaxVars = 4000

// ErrInvalid says that a program is not well formed.
var ErrInvalid = errors.New("invalid linear program")

// InfeasibleError says that no point satisfies all rows.
type InfeasibleError struct {
	// Multipliers has a number for each row, at least 0 unless the row is an equation. The rows
	// multiplied by them add up to coefficients of at least 0 on the left, and to less than 0 on
	// the right.
	Multipliers []*big.Rat
}

func (e *InfeasibleError) Error() string { return "the linear program is infeasible" }

// UnboundedError says that the objective can be as large as one likes.
type UnboundedError struct {
	// Ray is a direction, x ≥ 0, in which no row's left side grows, an equation's stays as it is,
	// and the objective grows.
	Ray []*big.Rat
}

func (e *UnboundedError) Error() string { return "the linear program is unbounded" }

// Term is a coefficient times a variable.
type Term struct {
	Var  int      // the variable's number, from 0
	Coef *big.Rat // any number
}

// Row is the constraint that the sum of Terms is at most Bound, or equal to it.
type Row struct {
	Terms []Term   // a variable without one counts 0
	Equal bool     // it is an equation
	Bound *big.Rat // any number
}

// Optimum is a solution with its proof.
type Optimum struct {
	X     []*big.Rat // a value for each variable
	Value *big.Rat   // of the objective at X
	// Multipliers has a number for each row, at least 0 unless the row is an equation. The rows
	// multiplied by them add up to at least the objective's coefficient of each variable on the
	// left, and to Value on the right: so that no feasible point has a larger value.
	Multipliers []*big.Rat
}

// Program is a linear program over variables x_0 … x_(n−1) ≥ 0. It remembers the basis of the last
// solution: to change the objective or to add rows and solve again takes few steps.
type Program struct {
	vars        int
	constraints []constraint // of the variables, then of the rows
	walk        *walk
	ctx         context.Context // of Maximize while it runs
}

// constraint is a row in two forms: in integers, multiplied by scale, and rounded, with the largest
// coefficient near 1.
type constraint struct {
	index  []int
	coef   []*big.Int
	bound  *big.Int
	scale  *big.Int
	size   *big.Float // the largest coefficient; approx are the coefficients divided by it
	approx []float64
	equal  bool
}

// New returns a program without rows. It returns [ErrInvalid] for less than one variable or more
// than [MaxVars].
func New(vars int) (*Program, error) {
	if vars < 1 || vars > MaxVars {
		return nil, fmt.Errorf("%w: %d variables; 1 to %d are possible", ErrInvalid, vars, MaxVars)
	}
	p := &Program{vars: vars, ctx: context.Background()}
	for j := range vars {
		p.constraints = append(p.constraints,
			newConstraint(Row{Terms: []Term{{j, big.NewRat(-1, 1)}}, Bound: new(big.Rat)}))
	}
	p.walk = newWalk(p)
	return p, nil
}

// Add adds a row. It returns [ErrInvalid] for a term of no variable of the program or of one that
// another term has, a coefficient of 0, or a missing number.
func (p *Program) Add(r Row) error {
	if err := p.check(r.Terms); err != nil {
		return err
	}
	if r.Bound == nil {
		return fmt.Errorf("%w: a row without a bound", ErrInvalid)
	}
	p.constraints = append(p.constraints, newConstraint(r))
	return nil
}

func (p *Program) check(terms []Term) error {
	seen := make(map[int]bool, len(terms))
	for _, t := range terms {
		if t.Var < 0 || t.Var >= p.vars || seen[t.Var] {
			return fmt.Errorf("%w: a term of variable %d", ErrInvalid, t.Var)
		}
		if t.Coef == nil || t.Coef.Sign() == 0 {
			return fmt.Errorf("%w: variable %d has no coefficient", ErrInvalid, t.Var)
		}
		seen[t.Var] = true
	}
	return nil
}

// Rows returns the number of rows.
func (p *Program) Rows() int { return len(p.constraints) - p.vars }

// Maximize returns a vertex where the objective is largest, or an [*InfeasibleError], an
// [*UnboundedError], [privacy.ErrNoCertificate], or, for an objective that is not well formed,
// [ErrInvalid].
//
// When ctx ends, so does Maximize, with its error, within the time of one change of an inverse:
// some ten milliseconds for [MaxVars] variables. The program can be solved again.
func (p *Program) Maximize(ctx context.Context, objective []Term) (*Optimum, error) {
	if err := p.check(objective); err != nil {
		return nil, err
	}
	p.ctx = ctx
	o := newConstraint(Row{Terms: objective, Bound: new(big.Rat)})
	v := p.approach(o)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	optimum, err := p.certify(v, o)
	if ended := ctx.Err(); ended != nil {
		return nil, ended // what was found since means nothing
	}
	return optimum, err
}

// ended reports whether the context of Maximize has ended. All that takes long stops then, with a
// result that means nothing, which Maximize discards: a context that has ended stays so.
func (p *Program) ended() bool { return p.ctx.Err() != nil }

func newConstraint(r Row) constraint {
	c := constraint{scale: commonDenominator(r), size: new(big.Float), equal: r.Equal}
	c.bound = times(r.Bound, c.scale)
	for _, t := range r.Terms {
		c.index = append(c.index, t.Var)
		coef := times(t.Coef, c.scale)
		c.coef = append(c.coef, coef)
		if size := short(coef); size.Abs(size).Cmp(c.size) > 0 {
			c.size = size
		}
	}
	for _, coef := range c.coef {
		a, _ := new(big.Float).Quo(short(coef), c.size).Float64()
		c.approx = append(c.approx, a)
	}
	return c
}

func commonDenominator(r Row) *big.Int {
	d := new(big.Int).Set(r.Bound.Denom())
	for _, t := range r.Terms {
		gcd := new(big.Int).GCD(nil, nil, d, t.Coef.Denom())
		d.Mul(d, new(big.Int).Quo(t.Coef.Denom(), gcd))
	}
	return d
}

func times(x *big.Rat, scale *big.Int) *big.Int {
	n := new(big.Int).Quo(scale, x.Denom())
	return n.Mul(n, x.Num())
}
