package lp

import (
	"math/big"
	"slices"

	"github.com/sluicedp/sluice/privacy"
)

// certify returns the optimum with its proof, or a proof that there is none. It starts at the
// vertex v, which is mostly the right one, or at 0 if v is nil.
func (p *Program) certify(v *vertex, objective constraint) (*Optimum, error) {
	if v == nil {
		v = newVertex(p, newWalk(p).basis)
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

// dense returns the coefficients for all variables.
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
	steps  int
}

// maximize returns the optimal vertex and its multipliers.
func (e *exact) maximize(c []*big.Int) (x, y vector, err error) {
	if x, err = e.feasible(c); err != nil {
		return x, y, err
	}
	return e.improve(x, c)
}

// replace puts constraint r into the basis at place i.
func (e *exact) replace(i, r int) error {
	basis := slices.Clone(e.vertex.basis)
	basis[i] = r
	if e.vertex = newVertex(e.p, basis); e.vertex == nil || e.steps == 0 {
		return privacy.ErrNoCertificate
	}
	e.steps--
	return nil
}

func (e *exact) equalAt(i int) bool { return e.p.constraints[e.vertex.basis[i]].equal }

// feasible moves to a vertex that satisfies all constraints, by the dual simplex method, and
// returns it.
func (e *exact) feasible(c []*big.Int) (vector, error) {
	x := e.vertex.point()
	r := e.violated(x)
	if hint := e.p.walk.stuck; hint >= 0 && e.p.violates(hint, x) {
		r = hint
	}
	if r >= 0 {
		c = e.dualFeasible(c)
	}
	for r >= 0 {
		z := e.vertex.multipliers(e.p.constraints[r].dense(e.p.vars))
		above := e.p.excess(r, x).Sign() > 0
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
// at least 0. It is c or, if c does not have this property, the sum of these inequalities.
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

func (p *Program) product(r int, x []*big.Int) *big.Int {
	c := &p.constraints[r]
	sum, term := new(big.Int), new(big.Int)
	for t, j := range c.index {
		sum.Add(sum, term.Mul(c.coef[t], x[j]))
	}
	return sum
}

// violated returns the first constraint that x violates, or −1.
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

func (p *Program) violates(r int, x vector) bool {
	sign := p.excess(r, x).Sign()
	return sign > 0 || sign < 0 && p.constraints[r].equal
}

// leaving returns the place of the constraint whose multiplier would be the first to fall below 0,
// or −1 if none would.
func (e *exact) leaving(y, z vector, above bool) int {
	best := -1
	var num, den *big.Int // the least ratio so far
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

// negative returns the place of the first inequality with a multiplier below 0, or −1.
func (e *exact) negative(y vector) int {
	best := -1
	for i, r := range e.vertex.basis {
		if y.num[i].Sign() < 0 && !e.equalAt(i) && (best < 0 || r < e.vertex.basis[best]) {
			best = i
		}
	}
	return best
}

// improve moves from a feasible vertex to the best one, by the primal simplex method. It returns
// the vertex with its multipliers.
func (e *exact) improve(x vector, c []*big.Int) (vector, vector, error) {
	for {
		y := e.vertex.multipliers(c)
		i := e.negative(y)
		if i < 0 {
			return x, y, nil
		}
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

// blocking returns the first constraint that stops a move from x along the ray, or −1.
func (e *exact) blocking(x, ray vector) int {
	best := -1
	var slack, rate *big.Int
	for r := range e.p.constraints {
		if r%checked == 0 && e.p.ended() {
			return -1
		}
		speed := e.p.product(r, ray.num)
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

// infeasible converts constraint r, which is z·(basis matrix) and cannot be satisfied, to a proof.
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
		y[i].Mul(y[i], new(big.Rat).SetInt(e.p.constraints[i].scale))
	}
	return &InfeasibleError{y[e.p.vars:]}
}

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
		if r >= e.p.vars {
			m := o.Multipliers[r-e.p.vars].SetFrac(y.num[i], y.den)
			m.Mul(m, new(big.Rat).SetFrac(e.p.constraints[r].scale, objective.scale))
		}
	}
	return o
}

func rationals(x vector) []*big.Rat {
	r := make([]*big.Rat, len(x.num))
	for i, num := range x.num {
		r[i] = new(big.Rat).SetFrac(num, x.den)
	}
	return r
}
