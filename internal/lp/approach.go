package lp

import "math/big"

// approach walks in float64 from the last basis to one that seems optimal, or to one that shows why
// there is no optimum. Float64 numbers of size 1 do not show whether a constraint is violated by
// 1e-12. So if the violation at the vertex is small, the walk continues from there with the
// violation as the unit (A. Gleixner, D. Steffy, K. Wolter, "Iterative refinement for linear
// programming", INFORMS Journal on Computing 28, 2016).
//
// It returns the exact vertex of the last basis, which [Program.certify] must still check. It
// returns nil if the constraints of that basis are linearly dependent, or if the context has ended.
func (p *Program) approach(objective constraint) *vertex {
	origin, unit := vector{zeros(p.vars), big.NewInt(1)}, big.NewFloat(1)
	for {
		p.walk.rescale(origin, unit)
		p.walk.maximize(objective)
		v := newVertex(p, p.walk.basis)
		if v == nil || p.walk.stuck >= 0 || p.ended() {
			return v
		}
		off := p.farthest(v.point()) // exactly computed; 0 if no constraint is violated
		// The violation must become much smaller each time. Otherwise rounding is not its cause.
		if off.Sign() == 0 || off.Cmp(new(big.Float).Quo(unit, big.NewFloat(1000))) > 0 {
			return v
		}
		origin, unit = v.point(), off
	}
}

// farthest returns the largest violation of a constraint by x, or 0 if x violates none. Constraints
// are scaled to a largest coefficient of 1. If the context ends, the result may be too small.
func (p *Program) farthest(x vector) *big.Float {
	most := new(big.Float)
	for r := range p.constraints {
		if r%checked == 0 && p.ended() {
			break
		}
		if p.violates(r, x) {
			if e := p.distance(r, x); e.Abs(e).Cmp(most) > 0 {
				most = e
			}
		}
	}
	return most
}

// distance returns a·x − b of constraint r, with the constraint scaled to a largest coefficient of
// 1. It is negative if x is below the bound.
func (p *Program) distance(r int, x vector) *big.Float {
	e := short(p.excess(r, x))
	e.Quo(e, short(x.den))
	return e.Quo(e, p.constraints[r].size)
}

// rescale sets the bounds of the walk so that its variables are differences from the origin, in a
// unit: bound[r] = (b − a·origin)/unit, with each constraint scaled to a largest coefficient of 1.
func (w *walk) rescale(origin vector, unit *big.Float) {
	w.bound = make([]float64, len(w.p.constraints))
	for r := range w.p.constraints {
		if len(w.p.constraints[r].coef) > 0 { // without terms the scale would be 0; the bound then stays 0
			b := w.p.distance(r, origin)
			b.Quo(b, unit)
			far, _ := b.Neg(b).Float64()
			w.bound[r] = max(-1e200, min(far, 1e200)) // finite, so that no product is NaN
		}
	}
}

// short rounds a number to 64 bits.
func short(x *big.Int) *big.Float { return new(big.Float).SetPrec(64).SetInt(x) }
