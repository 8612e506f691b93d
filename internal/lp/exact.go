package lp

import (
	"math/big"
	"slices"

	"github.com/sluicedp/sluice/privacy"
)

// certify returns the optimum with its proof. Otherwise it returns an [*InfeasibleError] or
// [*UnboundedError], which is a proof that there is none, or [privacy.ErrNoCertificate]. It starts
// at the vertex v, which is mostly the optimum, or at the point where all variables are 0 if v is
// nil. It keeps the basis of the optimum for the next walk.
func (p *Program) certify(v *vertex, objective constraint) (*Optimum, error) {
	if v == nil {
		v = newVertex(p, newWalk(p).basis) // the constraints −x_j ≤ 0
	}
	if v == nil {
		return nil, privacy.ErrNoCertificate // the context has ended
	}
	e := &exact{p: p, vertex: v, steps: 50 + 150_000/p.vars}
	x, y, err := e.maximize(objective.dense(p.vars))
	if err != nil {
		return nil, err
	}
	p.walk.basis = e.vertex.basis
	return e.optimum(x, y, objective), nil
}

// dense returns the integer coefficients for all variables, including those that are 0.
func (c *constraint) dense(vars int) []*big.Int {
	a := zeros(vars)
	for t, j := range c.index {
		a[j].Set(c.coef[t])
	}
	return a
}

// checked is the number of constraints after which the code checks whether the context has ended.
const checked = 1024

// exact is the simplex method in rational numbers, with Bland's rule: of all constraints that may
// enter or leave the basis, it selects the first.
type exact struct {
	p      *Program
	vertex *vertex
	steps  int // the number of steps that are left, which bounds the work
}

// maximize returns the optimal vertex x and the multipliers y of its constraints, for the objective
// with the coefficients c. Errors are those of [Program.certify].
func (e *exact) maximize(c []*big.Int) (x, y vector, err error) {
	if x, err = e.feasible(c); err != nil {
		return x, y, err
	}
	return e.improve(x, c)
}

// replace puts constraint r into the basis, in place of the one at place i. It returns
// [privacy.ErrNoCertificate] if no step is left, if the new basis has no inverse, or if the context
// has ended.
func (e *exact) replace(i, r int) error {
	basis := slices.Clone(e.vertex.basis)
	basis[i] = r
	if e.vertex = newVertex(e.p, basis); e.vertex == nil || e.steps == 0 {
		return privacy.ErrNoCertificate
	}
	e.steps--
	return nil
}

// equalAt returns true if the constraint at place i of the basis is an equation.
func (e *exact) equalAt(i int) bool { return e.p.constraints[e.vertex.basis[i]].equal }

// feasible moves to a vertex that satisfies all constraints, by the dual simplex method, and
// returns it. It prefers a vertex that is good for the objective c. It returns an
// [*InfeasibleError] if there is no such vertex, and the errors of [exact.replace]. If the context
// ends, the result is not valid.
func (e *exact) feasible(c []*big.Int) (vector, error) {
	x := e.vertex.point()
	r := e.violated(x)
	// The walk in float64 may have stopped at a constraint that no point satisfies. With this one
	// first, the proof of that mostly takes one step.
	if hint := e.p.walk.stuck; hint >= 0 && e.p.violates(hint, x) {
		r = hint
	}
	if r >= 0 {
		// The dual method needs a basis whose multipliers are not negative.
		c = e.dualFeasible(c)
	}
	for r >= 0 {
		z := e.vertex.multipliers(e.p.constraints[r].dense(e.p.vars))
		above := e.p.excess(r, x).Sign() > 0 // false for an equation whose left side is too small
		i := e.leaving(e.vertex.multipliers(c), z, above)
		if i < 0 {
			return x, e.infeasible(r, z, above)
		}
		if err := e.replace(i, r); err != nil {
			return x, err
		}
		x = e.vertex.point()
		r = e.violated(x)
	}
	return x, nil
}

// dualFeasible returns an objective for which the multipliers of all inequalities of the basis are
// at least 0. It is c or, if c does not have this property, the sum of these inequalities, for
// which all multipliers are 1.
func (e *exact) dualFeasible(c []*big.Int) []*big.Int {
	if e.negative(e.vertex.multipliers(c)) < 0 {
		return c
	}
	sum := zeros(e.p.vars)
	for i, r := range e.vertex.basis {
		if !e.equalAt(i) {
			for t, j := range e.p.constraints[r].index {
				sum[j].Add(sum[j], e.p.constraints[r].coef[t])
			}
		}
	}
	return sum
}

// excess returns a·x − b of constraint r, multiplied by the denominator of x.
func (p *Program) excess(r int, x vector) *big.Int {
	c := &p.constraints[r]
	e := new(big.Int).Mul(c.bound, x.den)
	e.Neg(e)
	return e.Add(e, p.product(r, x.num))
}

// product returns a·x for the integer coefficients a of constraint r.
func (p *Program) product(r int, x []*big.Int) *big.Int {
	c := &p.constraints[r]
	sum, term := new(big.Int), new(big.Int)
	for t, j := range c.index {
		sum.Add(sum, term.Mul(c.coef[t], x[j]))
	}
	return sum
}

// violated returns the first constraint that x violates. It returns −1 if there is none, and also
// if the context has ended.
func (e *exact) violated(x vector) int {
	for r := range e.p.constraints {
		if r%checked == 0 && e.p.ended() {
			return -1
		}
		if e.p.violates(r, x) {
			return r
		}
	}
	return -1
}

// violates returns true if x does not satisfy constraint r: if a·x is above the bound, or not equal
// to it for an equation.
func (p *Program) violates(r int, x vector) bool {
	sign := p.excess(r, x).Sign()
	return sign > 0 || sign < 0 && p.constraints[r].equal
}

// leaving is the ratio test of the dual simplex method. It returns the place of the constraint that
// leaves the basis for a violated constraint, which is z·(basis matrix). That is the one with the
// least y_i/z_i, because its multiplier y_i would be the first to fall below 0. Equations do not
// leave. If above is false, the violated constraint is an equation with a left side that is too
// small, and the signs of z are reversed. leaving returns −1 if no constraint can leave: then no
// point satisfies the violated constraint.
func (e *exact) leaving(y, z vector, above bool) int {
	best := -1
	var num, den *big.Int // the least ratio so far; y and z have common denominators, which do not change the order
	for i := range z.num {
		zi := z.num[i]
		if !above {
			zi = new(big.Int).Neg(zi)
		}
		if zi.Sign() <= 0 || e.equalAt(i) {
			continue
		}
		if best < 0 || less(y.num[i], zi, num, den, e.vertex.basis[i] < e.vertex.basis[best]) {
			best, num, den = i, y.num[i], zi
		}
	}
	return best
}

// less returns true if a/b is less than c/d, for b and d above 0. If they are equal, it returns
// preferred.
func less(a, b, c, d *big.Int, preferred bool) bool {
	order := new(big.Int).Mul(a, d).Cmp(new(big.Int).Mul(c, b))
	return order < 0 || order == 0 && preferred
}

// negative returns the place in the basis of an inequality with a multiplier below 0, or −1 if
// there is none. Of several it selects the constraint with the lowest number (Bland).
func (e *exact) negative(y vector) int {
	best := -1
	for i, r := range e.vertex.basis {
		if y.num[i].Sign() < 0 && !e.equalAt(i) && (best < 0 || r < e.vertex.basis[best]) {
			best = i
		}
	}
	return best
}

// improve moves from a feasible vertex x to the best one for the objective c, by the primal simplex
// method. It returns the best vertex with the multipliers of its constraints. It returns an
// [*UnboundedError] if the objective grows without end, and the errors of [exact.replace]. If the
// context ends, the result is not valid.
func (e *exact) improve(x vector, c []*big.Int) (vector, vector, error) {
	for {
		y := e.vertex.multipliers(c)
		i := e.negative(y)
		if i < 0 {
			return x, y, nil
		}
		// On the ray, the left side of constraint i falls, and those of the other constraints of
		// the basis do not change. As the multiplier of i is negative, the objective grows.
		ray := e.vertex.column(i)
		for _, d := range ray.num {
			d.Neg(d)
		}
		r := e.blocking(x, ray)
		if r < 0 {
			return x, y, &UnboundedError{rationals(ray)}
		}
		if err := e.replace(i, r); err != nil {
			return x, y, err
		}
		x = e.vertex.point()
	}
}

// blocking returns the constraint that is the first to stop a move from x along the ray. Of several
// at the same distance, it returns the one with the lowest number (Bland). It returns −1 if no
// constraint stops the move, and also if the context has ended.
func (e *exact) blocking(x, ray vector) int {
	best := -1
	var slack, rate *big.Int // of the best constraint so far: the distance to its bound, and its change along the ray
	for r := range e.p.constraints {
		if r%checked == 0 && e.p.ended() {
			return -1
		}
		speed := e.p.product(r, ray.num)
		// Any change of an equation is a violation.
		if e.p.constraints[r].equal {
			speed.Abs(speed)
		}
		if speed.Sign() <= 0 {
			continue
		}
		left := e.p.excess(r, x)
		left.Neg(left)
		if best < 0 || less(left, speed, slack, rate, false) {
			best, slack, rate = r, left, speed
		}
	}
	return best
}

// infeasible returns the proof that constraint r, which is z·(basis matrix), cannot be satisfied,
// where [exact.leaving] has found no place. The multiplier of r is 1, and that of a constraint in
// the basis is −z_i; all are negated if above is false. They combine the constraints to 0 ≤ b with
// b < 0. The multipliers of the constraints −x_j ≤ 0 are left out of the result.
func (e *exact) infeasible(r int, z vector, above bool) error {
	y := make([]*big.Rat, len(e.p.constraints))
	for i := range y {
		y[i] = new(big.Rat)
	}
	for i, num := range z.num {
		y[e.vertex.basis[i]].SetFrac(new(big.Int).Neg(num), z.den)
	}
	y[r].SetInt64(1)
	for i := range y {
		if !above {
			y[i].Neg(y[i])
		}
		y[i].Mul(y[i], new(big.Rat).SetInt(e.p.constraints[i].scale)) // from the row in integers to the row as added
	}
	return &InfeasibleError{y[e.p.vars:]}
}

// optimum returns the result for a vertex x and the multipliers y of its basis, in the scale of the
// rows as the caller added them.
func (e *exact) optimum(x, y vector, objective constraint) *Optimum {
	o := &Optimum{X: rationals(x), Value: new(big.Rat), Multipliers: make([]*big.Rat, e.p.Rows())}
	for t, j := range objective.index {
		o.Value.Add(o.Value, new(big.Rat).Mul(new(big.Rat).SetInt(objective.coef[t]), o.X[j]))
	}
	o.Value.Quo(o.Value, new(big.Rat).SetInt(objective.scale))
	for i := range o.Multipliers {
		o.Multipliers[i] = new(big.Rat)
	}
	for i, r := range e.vertex.basis {
		if r >= e.p.vars { // a row, not a constraint −x_j ≤ 0
			m := o.Multipliers[r-e.p.vars].SetFrac(y.num[i], y.den)
			m.Mul(m, new(big.Rat).SetFrac(e.p.constraints[r].scale, objective.scale))
		}
	}
	return o
}

// rationals returns the elements of x as fractions in lowest terms.
func rationals(x vector) []*big.Rat {
	r := make([]*big.Rat, len(x.num))
	for i, num := range x.num {
		r[i] = new(big.Rat).SetFrac(num, x.den)
	}
	return r
}
