package lp

import (
	"context"
	"errors"
	"fmt"
	"math/big"
)

// MaxVars is the largest number of variables. A program stores two matrices of its square.
const MaxVars = 4000

// ErrInvalid is wrapped by the error for a program that is not well formed.
var ErrInvalid = errors.New("invalid linear program")

// InfeasibleError means that no point satisfies all rows.
type InfeasibleError struct {
	// Multipliers has a number for each row, at least 0 unless the row is an equation. The sum of
	// the rows multiplied by them has coefficients of at least 0 on the left, and is below 0 on the
	// right.
	Multipliers []*big.Rat
}

func (e *InfeasibleError) Error() string { return "the linear program is infeasible" }

// UnboundedError means that the objective has no upper bound.
type UnboundedError struct {
	// Ray is a direction, x ≥ 0, in which the objective grows. No row's left side grows in it, and
	// the left side of an equation does not change.
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
	Terms []Term   // a variable without a term has the coefficient 0
	Equal bool     // the row is an equation
	Bound *big.Rat // any number
}

// Optimum is a solution with its proof.
type Optimum struct {
	X     []*big.Rat // a value for each variable
	Value *big.Rat   // the value of the objective at X
	// Multipliers has a number for each row, at least 0 unless the row is an equation. The sum of
	// the rows multiplied by them is, on the left, at least the objective's coefficient of each
	// variable, and on the right equal to Value. So no feasible point has a larger value.
	Multipliers []*big.Rat
}

// Program is a linear program over variables x_0 … x_(n−1) ≥ 0. It keeps the basis of the last
// solution, so that it takes few steps to solve it again with another objective or with more rows.
// It is not safe for concurrent use.
type Program struct {
	vars        int
	constraints []constraint // −x_j ≤ 0 for each variable j, and then the rows
	walk        *walk
	ctx         context.Context // the context of Maximize while it runs
}

// constraint is the row a·x ≤ b, or a·x = b, in two forms: in integers, multiplied by scale, and in
// float64, with a largest coefficient near 1. An objective is stored as a constraint with bound 0.
type constraint struct {
	index  []int      // the variables that have a term
	coef   []*big.Int // their coefficients, multiplied by scale
	bound  *big.Int   // b, multiplied by scale
	scale  *big.Int   // the common denominator of the coefficients and b
	size   *big.Float // the largest absolute value in coef
	approx []float64  // the elements of coef divided by size
	equal  bool       // an equation
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

// Add adds a row. It returns [ErrInvalid] for a term whose variable is not in the program or is in
// another term, for a coefficient of 0, or for a missing number.
func (p *Program) Add(r Row) error {
	if err := p.check(r.Terms); err != nil {
		return err
	}
	if r.Bound == nil {
		return fmt.Errorf("%w: the row has no bound", ErrInvalid)
	}
	p.constraints = append(p.constraints, newConstraint(r))
	return nil
}

// check returns [ErrInvalid] for terms that a row or objective of the program cannot have (see
// [Program.Add]).
func (p *Program) check(terms []Term) error {
	seen := make(map[int]bool, len(terms))
	for _, t := range terms {
		if t.Var < 0 || t.Var >= p.vars || seen[t.Var] {
			return fmt.Errorf("%w: variable %d is unknown or has two terms", ErrInvalid, t.Var)
		}
		if t.Coef == nil || t.Coef.Sign() == 0 {
			return fmt.Errorf("%w: the coefficient of variable %d is missing or 0", ErrInvalid, t.Var)
		}
		seen[t.Var] = true
	}
	return nil
}

// Rows returns the number of rows.
func (p *Program) Rows() int { return len(p.constraints) - p.vars }

// Maximize returns a vertex where the objective is largest. It returns an [*InfeasibleError], an
// [*UnboundedError], [privacy.ErrNoCertificate], or [ErrInvalid] for an objective that is not well
// formed.
//
// When ctx ends, Maximize returns its error within the time of one change of an inverse, which is
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
		return nil, ended // the result is not valid if the context has ended
	}
	return optimum, err
}

// ended returns true if the context of Maximize has ended. All long computations then stop with an
// invalid result, which Maximize discards.
func (p *Program) ended() bool { return p.ctx.Err() != nil }

// newConstraint converts a checked row to its two forms.
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

// commonDenominator returns the least common denominator of the coefficients and the bound.
func commonDenominator(r Row) *big.Int {
	d := new(big.Int).Set(r.Bound.Denom())
	for _, t := range r.Terms {
		gcd := new(big.Int).GCD(nil, nil, d, t.Coef.Denom())
		d.Mul(d, new(big.Int).Quo(t.Coef.Denom(), gcd))
	}
	return d
}

// times returns x·scale, for a scale that is a multiple of the denominator of x.
func times(x *big.Rat, scale *big.Int) *big.Int {
	n := new(big.Int).Quo(scale, x.Denom())
	return n.Mul(n, x.Num())
}
