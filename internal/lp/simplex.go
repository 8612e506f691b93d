package lp

import (
	"math"
	"slices"
)

const (
	// zero is the largest absolute value that counts as 0 among numbers of size 1. The exact method
	// corrects the resulting errors.
	zero = 1e-11
	// minPivot is the smallest allowed pivot: the element that the computation of a new inverse
	// divides by.
	minPivot = 1e-8
	// renewal is the number of steps after which the inverse is computed again, to remove rounding
	// errors.
	renewal = 150
)

// walk is the simplex method in float64. Any of its results may be wrong, except that its number of
// steps is limited. Only the basis where it ends is used. When the context ends, the walk stops
// early.
type walk struct {
	p     *Program
	basis []int // the constraints of the basis
	place []int // by constraint, its index in the basis, or −1
	// inverse is the inverse of the matrix whose rows are the constraints of the basis;
	// inverse[j][i] belongs to variable j and place i.
	inverse [][]float64
	// bound holds the bounds of the constraints, and x the vertex. Both are differences from an
	// origin in a unit, which [walk.rescale] has set.
	bound, x []float64
	support  []int // a buffer: the indexes where a row of the inverse is not 0
	stuck    int   // a constraint that no point seems to satisfy, or −1
	steps    int   // the number of steps that are left
	since    int   // the number of steps since the inverse was computed
}

// newWalk returns a walk with the basis of the constraints −x_j ≤ 0. Its numbers are computed by
// [walk.rescale] and [walk.restart].
func newWalk(p *Program) *walk {
	w := &walk{p: p, basis: make([]int, p.vars), x: make([]float64, p.vars)}
	w.inverse = make([][]float64, p.vars)
	for j := range w.inverse {
		w.inverse[j] = make([]float64, p.vars)
		w.basis[j] = j
	}
	return w
}

// restart moves to the vertex where all variables are 0. Its basis are the constraints −x_j ≤ 0, so
// the basis matrix and its inverse are −1 times the identity.
func (w *walk) restart() {
	w.place = slices.Repeat([]int{-1}, len(w.p.constraints))
	for j := range w.basis {
		clear(w.inverse[j])
		w.inverse[j][j] = -1
		w.basis[j], w.place[j], w.x[j] = j, j, -w.bound[j]
	}
	w.since = 0
}

// renew computes the inverse again, with those of the given constraints in the basis that are
// linearly independent. The other places have constraints −x_j ≤ 0. It uses up none of the steps
// that are left.
func (w *walk) renew(basis []int) {
	left := w.steps // replace counts steps; they are restored at the end
	w.restart()
	stays := make([]bool, len(basis)) // by place: the constraint there is in the given basis
	for _, r := range basis {
		if r < len(stays) {
			stays[r] = true
		}
	}
	for _, r := range basis {
		if r < len(stays) {
			continue
		}
		if w.p.ended() {
			break
		}
		z := w.combine(r)
		if i := steepest(z, stays); i >= 0 {
			w.replace(i, r, z)
			stays[i] = true
		}
	}
	w.since, w.steps = 0, left
}

// steepest returns the place of the pivot z_i with the largest absolute value among those that do
// not stay. It returns −1 if all are too small.
func steepest(z []float64, stays []bool) int {
	best, most := -1, minPivot
	for i, zi := range z {
		if !stays[i] && math.Abs(zi) > most {
			best, most = i, math.Abs(zi)
		}
	}
	return best
}

// maximize walks from the last basis to one that looks optimal, or to one that shows why there is
// none. If a constraint seems impossible to satisfy, stuck is set to it.
func (w *walk) maximize(objective constraint) {
	w.steps = 200 + 20*(w.p.vars+len(w.p.constraints))
	c := make([]float64, w.p.vars)
	for i, j := range objective.index {
		c[j] = objective.approx[i]
	}
	w.stuck = -1
	for range 3 { // a new inverse may show that the end was not reached
		w.renew(slices.Clone(w.basis))
		before := w.steps
		if w.feasible(c) {
			w.improve(c)
		}
		// Without a step since the new inverse was computed, the end was reached.
		if w.since == 0 || w.steps == before || w.steps <= 0 || w.p.ended() {
			return
		}
	}
}

// multipliers returns y with y·(basis matrix) = c, the multiplier of each constraint of the basis.
func (w *walk) multipliers(c []float64) []float64 {
	y := make([]float64, len(c))
	for j, cj := range c {
		if cj != 0 {
			for i, v := range w.inverse[j] {
				y[i] += cj * v
			}
		}
	}
	return y
}

// combine returns z with z·(basis matrix) = constraint r.
func (w *walk) combine(r int) []float64 {
	z := make([]float64, len(w.basis))
	c := &w.p.constraints[r]
	for t, j := range c.index {
		for i, v := range w.inverse[j] {
			z[i] += c.approx[t] * v
		}
	}
	return z
}

// excess returns a·x − b of constraint r at the vertex x. It is above 0 if an inequality is
// violated, and not 0 if an equation is.
func (w *walk) excess(r int) float64 {
	c := &w.p.constraints[r]
	e := -w.bound[r]
	for t, j := range c.index {
		e += c.approx[t] * w.x[j]
	}
	return e
}

// replace puts constraint r, which is z·(basis matrix), into the basis at place i. It updates the
// inverse and moves to the new vertex. z_i is the pivot.
func (w *walk) replace(i, r int, z []float64) {
	step := w.excess(r) / z[i] // after the move, r is exactly at its bound
	w.support = w.support[:0]
	for k, zk := range z {
		if math.Abs(zk) > 1e-14 && k != i {
			w.support = append(w.support, k)
		}
	}
	for j, row := range w.inverse {
		if row[i] == 0 {
			continue
		}
		w.x[j] -= step * row[i]
		row[i] /= z[i]
		for _, k := range w.support {
			row[k] -= row[i] * z[k]
		}
	}
	w.place[w.basis[i]] = -1
	w.basis[i], w.place[r] = r, i
	w.since++
	w.steps--
}

// feasible walks to a vertex that satisfies all constraints, by the dual simplex method. This
// method needs multipliers that are not negative. So the walk replaces negative multipliers of the
// objective c by 0, and increases all slightly. feasible returns false if there seems to be no such
// vertex, if no step is left, or if the context has ended. In the first case it sets stuck.
func (w *walk) feasible(c []float64) bool {
	y := w.multipliers(c) // kept up to date at each step, instead of computed again
	for i := range y {
		if !w.p.constraints[w.basis[i]].equal {
			y[i] = max(y[i], 0) + 1e-6*jitter(w.basis[i])
		}
	}
	for w.steps > 0 && !w.p.ended() {
		r := w.violated()
		if r < 0 {
			return true
		}
		z := w.combine(r)
		i := w.leaving(y, z, w.excess(r) > 0) // for an equation, the excess may also be negative
		if i < 0 {
			w.stuck = r
			return false
		}
		theta := y[i] / z[i] // the multiplier of r in the new basis
		for k := range y {
			y[k] -= theta * z[k]
		}
		y[i] = theta
		w.replace(i, r, z)
		if w.since >= renewal {
			y = w.renewWith(y)
		}
	}
	return false
}

// renewWith computes the inverse again. It keeps the objective whose multipliers are y, and returns
// its multipliers for the new inverse.
func (w *walk) renewWith(y []float64) []float64 {
	c := make([]float64, len(y)) // the objective: y·(basis matrix)
	for i, r := range w.basis {
		for t, j := range w.p.constraints[r].index {
			c[j] += y[i] * w.p.constraints[r].approx[t]
		}
	}
	w.renew(slices.Clone(w.basis))
	return w.multipliers(c)
}

// jitter returns a number from 1 to 2 that depends only on the constraint. It makes equal
// multipliers of degenerate programs different, so that the method does not cycle.
func jitter(r int) float64 {
	x := uint64(r)*0x9e3779b97f4a7c15 + 0x632be59bd9b4e019
	x = (x ^ x>>29) * 0xbf58476d1ce4e5b9
	return 1 + float64(x>>11)/(1<<53)
}

// violated returns the constraint outside the basis with the largest violation, or −1 if there is
// none.
func (w *walk) violated() int {
	worst, most := -1, zero
	for r := range w.p.constraints {
		if w.place[r] >= 0 {
			continue
		}
		e := w.excess(r)
		if w.p.constraints[r].equal {
			e = math.Abs(e)
		}
		if e > most {
			worst, most = r, e
		}
	}
	return worst
}

// leaving is the ratio test of the dual simplex method. It returns the place of the constraint that
// leaves the basis for a violated constraint, which is z·(basis matrix). That is the one with the
// least y_i/z_i, because its multiplier y_i would be the first to fall below 0. Of nearly equal
// ones, it selects the largest pivot. If above is false, the violated constraint is an equation
// with a left side that is too small, and the signs of z are reversed. It returns −1 if no
// constraint can leave.
func (w *walk) leaving(y, z []float64, above bool) int {
	best, least := -1, math.Inf(1)
	for i, zi := range z {
		if !above {
			zi = -zi
		}
		if zi <= minPivot || w.p.constraints[w.basis[i]].equal {
			continue
		}
		q := max(y[i], 0) / zi
		if q < least-1e-12 || q < least+1e-12 && zi > math.Abs(z[best]) {
			best, least = i, min(q, least)
		}
	}
	return best
}

// improve walks from a feasible vertex to better ones for the objective c, by the primal simplex
// method. It stops if the vertex looks optimal, if the objective has no upper bound, if no step is
// left, or if the context has ended.
func (w *walk) improve(c []float64) {
	idle := 0 // the number of steps since the last one that moved; after many, Bland's rule prevents a cycle
	for w.steps > 0 && !w.p.ended() {
		if w.since >= renewal {
			w.renew(slices.Clone(w.basis))
		}
		i := w.dropped(w.multipliers(c), idle > 2*w.p.vars)
		if i < 0 {
			return
		}
		r, step := w.blocking(i, idle > 2*w.p.vars)
		if r < 0 {
			return
		}
		w.replace(i, r, w.combine(r))
		if idle++; step > 1e-12 {
			idle = 0
		}
	}
}

// dropped returns the place of an inequality with a negative multiplier: the most negative one or,
// with Bland's rule, the one with the lowest number. It returns −1 if there is none.
func (w *walk) dropped(y []float64, bland bool) int {
	best := -1
	for i, yi := range y {
		if yi >= -zero || w.p.constraints[w.basis[i]].equal {
			continue
		}
		if best < 0 || bland && w.basis[i] < w.basis[best] || !bland && yi < y[best] {
			best = i
		}
	}
	return best
}

// blocking returns the constraint that is the first to stop a move from the vertex off the
// constraint at place i, and the length of the move. Of nearly equal ones, it selects the one that
// changes fastest or, with Bland's rule, the one with the lowest number. It returns −1 and +∞ if no
// constraint stops the move.
func (w *walk) blocking(i int, bland bool) (int, float64) {
	best, least, steepest := -1, math.Inf(1), 0.0
	for r := range w.p.constraints {
		if w.place[r] >= 0 {
			continue
		}
		c := &w.p.constraints[r]
		rate := 0.0 // the increase of the left side per unit of the move
		for t, j := range c.index {
			rate -= c.approx[t] * w.inverse[j][i]
		}
		if c.equal {
			rate = math.Abs(rate)
		}
		if rate <= minPivot {
			continue
		}
		step := max(-w.excess(r), 0) / rate
		if step < least-1e-12 || !bland && step < least+1e-12 && rate > steepest {
			best, least, steepest = r, min(step, least), rate
		}
	}
	return best, least
}
