package lp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/privacy"
)

func rat(x float64) *big.Rat { return new(big.Rat).SetFloat64(x) }

// terms returns the sum with the given coefficients of all variables.
func terms(coefs ...float64) (t []Term) {
	for j, c := range coefs {
		if c != 0 {
			t = append(t, Term{j, rat(c)})
		}
	}
	return t
}

// example is a program as numbers: rows are coefficients and then the bound.
type example struct {
	objective   []float64
	atMost      [][]float64
	equal       [][]float64
	value       float64
	infeasible  bool
	unbounded   bool
	description string
}

func (e example) rows() (rows []Row) {
	for i, r := range append(append([][]float64{}, e.atMost...), e.equal...) {
		n := len(r) - 1
		rows = append(rows, Row{terms(r[:n]...), i >= len(e.atMost), rat(r[n])})
	}
	return rows
}

func (e example) program(t testing.TB) *Program { return program(t, len(e.objective), e.rows()) }

func program(t testing.TB, vars int, rows []Row) *Program {
	t.Helper()
	p := check.Value(New(vars))(t)
	for _, r := range rows {
		check.Must(t, p.Add(r))
	}
	return p
}

func examples() []example {
	return []example{
		{objective: []float64{3, 5}, atMost: [][]float64{{1, 0, 4}, {0, 2, 12}, {3, 2, 18}}, value: 36, description: "textbook"},
		{objective: []float64{-1, -1}, atMost: [][]float64{{-1, -2, -3}, {-3, -1, -4}}, value: -2, description: "0 is not feasible"},
		{objective: []float64{0, 0}, equal: [][]float64{{1, 1, 1}}, value: 0, description: "no objective"},
		{objective: []float64{1, 2, 3}, equal: [][]float64{{1, 1, 1, 1}, {2, 2, 2, 2}, {1, -1, 0, 0}}, value: 3, description: "equations that depend on one another"},
		{objective: []float64{0.75, -150, 0.02, -6}, atMost: [][]float64{{0.25, -60, -0.04, 9, 0}, {0.5, -90, -0.02, 3, 0}, {0, 0, 1, 0, 1}}, value: 0.05, description: "cycles without a pivot rule (Beale)"},
		{objective: []float64{100, 10, 1}, atMost: [][]float64{{1, 0, 0, 1}, {20, 1, 0, 100}, {200, 20, 1, 10000}}, value: 10000, description: "visits every vertex (Klee and Minty)"},
		{objective: []float64{1}, equal: [][]float64{{3, 1}}, value: 1.0 / 3, description: "a third"},
		{objective: []float64{-1}, value: 0, description: "no rows"},
		{objective: []float64{1, 1}, atMost: [][]float64{{1, 1, 1}, {-1, -1, -1}}, value: 1, description: "flat"},
		{objective: []float64{1}, unbounded: true, description: "no rows, unbounded"},
		{objective: []float64{1, -1}, atMost: [][]float64{{1, -2, 3}}, unbounded: true, description: "unbounded"},
		{objective: []float64{1, 1}, equal: [][]float64{{1, -1, 0}}, unbounded: true, description: "unbounded along an equation"},
		{objective: []float64{1, 1}, atMost: [][]float64{{1, 1, 1}}, equal: [][]float64{{1, 1, 2}}, infeasible: true, description: "infeasible"},
		{objective: []float64{1}, atMost: [][]float64{{1, -1}}, infeasible: true, description: "negative"},
		{objective: []float64{1, 0}, equal: [][]float64{{1, 1, 1}, {1, 1, 1 + 0x1p-52}}, infeasible: true, description: "infeasible by a bit"},
		{objective: []float64{1, 0}, equal: [][]float64{{-1, -1, 1}}, infeasible: true, description: "equation below"},
		{objective: []float64{1, 1}, atMost: [][]float64{{1, -0x1p60, 0}, {0, 1, 0x1p-70}}, value: 0x1p-10 + 0x1p-70, description: "beyond a tolerance"},
		{objective: []float64{-1, 1}, atMost: [][]float64{{-1e-30, 0, -1e-45}, {1, 1, 1}}, value: 1 - 2e-15, description: "tiny numbers"},
	}
}

func TestMaximize_Examples_HaveProvenAnswers(t *testing.T) {
	for _, e := range examples() {
		t.Run(e.description, func(t *testing.T) {
			p := e.program(t)
			o, err := p.Maximize(t.Context(), terms(e.objective...))
			e.check(t, o, err)
			// From the vertex 0, without the float64 walk.
			p = e.program(t)
			objective := newConstraint(Row{Terms: terms(e.objective...), Bound: new(big.Rat)})
			o, err = p.certify(nil, objective)
			e.check(t, o, err)
		})
	}
}

func (e example) check(t *testing.T, o *Optimum, err error) {
	t.Helper()
	check.Equal(t, fault(len(e.objective), e.rows(), terms(e.objective...), o, err), "", "the fault")
	var infeasible *InfeasibleError
	var unbounded *UnboundedError
	check.Need(t, errors.As(err, &infeasible) == e.infeasible && errors.As(err, &unbounded) == e.unbounded,
		"got %v", err)
	if err == nil {
		got, _ := o.Value.Float64()
		check.That(t, got >= e.value-1e-15 && got <= e.value+1e-15, "value %v, want %v", got, e.value)
	}
}

// fault verifies an answer and its proof with the program alone, in rational numbers. It returns
// what is wrong, or "".
func fault(vars int, rows []Row, objective []Term, o *Optimum, err error) string {
	var infeasible *InfeasibleError
	var unbounded *UnboundedError
	switch {
	case errors.As(err, &infeasible):
		left, right, signs := combined(vars, rows, infeasible.Multipliers)
		if !signs || right.Sign() >= 0 || least(left).Sign() < 0 {
			return fmt.Sprintf("no proof of infeasibility: %v", infeasible.Multipliers)
		}
	case errors.As(err, &unbounded):
		ray := unbounded.Ray
		if least(ray).Sign() < 0 || dot2(objective, ray).Sign() <= 0 || !feasible(rows, ray, new(big.Rat)) {
			return fmt.Sprintf("no proof that the objective is unbounded: %v", ray)
		}
	case err != nil:
		return err.Error()
	default:
		if least(o.X).Sign() < 0 || !feasible(rows, o.X, big.NewRat(1, 1)) || dot2(objective, o.X).Cmp(o.Value) != 0 {
			return fmt.Sprintf("not feasible, or of another value: %v", o.X)
		}
		left, right, signs := combined(vars, rows, o.Multipliers)
		for _, t := range objective {
			left[t.Var].Sub(left[t.Var], t.Coef)
		}
		if !signs || least(left).Sign() < 0 || right.Cmp(o.Value) != 0 {
			return fmt.Sprintf("no proof of the optimum: %v", o.Multipliers)
		}
	}
	return ""
}

// combined returns the sum of the rows multiplied by the multipliers. signs is false if their
// number is wrong, or if an inequality has a negative multiplier.
func combined(vars int, rows []Row, multipliers []*big.Rat) (left []*big.Rat, right *big.Rat, signs bool) {
	left, right, signs = make([]*big.Rat, vars), new(big.Rat), len(multipliers) == len(rows)
	for j := range left {
		left[j] = new(big.Rat)
	}
	for i, r := range rows {
		signs = signs && (r.Equal || multipliers[i].Sign() >= 0)
		right.Add(right, new(big.Rat).Mul(multipliers[i], r.Bound))
		for _, t := range r.Terms {
			left[t.Var].Add(left[t.Var], new(big.Rat).Mul(multipliers[i], t.Coef))
		}
	}
	return left, right, signs
}

func least(x []*big.Rat) *big.Rat {
	low := x[0]
	for _, xi := range x {
		if xi.Cmp(low) < 0 {
			low = xi
		}
	}
	return low
}

func dot2(terms []Term, x []*big.Rat) *big.Rat {
	sum := new(big.Rat)
	for _, t := range terms {
		sum.Add(sum, new(big.Rat).Mul(t.Coef, x[t.Var]))
	}
	return sum
}

// feasible returns whether x satisfies the rows, with bounds multiplied by a number.
func feasible(rows []Row, x []*big.Rat, multiple *big.Rat) bool {
	for _, r := range rows {
		order := dot2(r.Terms, x).Cmp(new(big.Rat).Mul(r.Bound, multiple))
		if order > 0 || order < 0 && r.Equal {
			return false
		}
	}
	return true
}

// random returns a small program, which is often degenerate.
func random(rng *rand.Rand) (vars int, rows []Row, objective []Term) {
	vars = 1 + rng.IntN(4)
	number := func() float64 {
		if rng.IntN(3) == 0 {
			return 0
		}
		return float64(rng.IntN(9) - 4)
	}
	coefs := func() []float64 {
		c := make([]float64, vars)
		for j := range c {
			c[j] = number()
		}
		return c
	}
	for range rng.IntN(7) {
		rows = append(rows, Row{terms(coefs()...), rng.IntN(5) == 0, rat(number())})
	}
	if rng.IntN(2) == 0 {
		for j := range vars {
			rows = append(rows, Row{[]Term{{j, rat(1)}}, false, rat(3)})
		}
	}
	return vars, rows, terms(coefs()...)
}

func TestMaximize_RandomPrograms_MatchTheBestVertex(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	counts := map[string]int{}
	n := testenv.Tries(1000, 2500, 2500)
	for i := range n {
		vars, rows, objective := random(rng)
		p := program(t, vars, rows)
		var o *Optimum
		var err error
		if i%2 == 0 {
			o, err = p.Maximize(t.Context(), objective)
		} else {
			o, err = p.certify(nil, newConstraint(Row{Terms: objective, Bound: new(big.Rat)}))
		}
		f := fault(vars, rows, objective, o, err)
		check.Need(t, f == "", "program %d, %v, maximize %v: %s", i, rows, objective, f)
		best := bestVertex(vars, rows, objective)
		switch counts[fmt.Sprintf("%T", err)]++; {
		case err == nil:
			check.Need(t, best != nil && o.Value.Cmp(best) == 0, "program %d: value %v, want %v", i, o.Value, best)
		case errors.As(err, new(*InfeasibleError)):
			check.Need(t, best == nil, "program %d is said to be infeasible and has the value %v", i, best)
		}
	}
	for kind, count := range counts {
		check.That(t, count >= n/13, "only %d programs ended with %s", count, kind)
	}
}

// bestVertex tries every basis and returns the largest value at a feasible vertex, or nil if no
// vertex is feasible.
func bestVertex(vars int, rows []Row, objective []Term) (best *big.Rat) {
	all := make([]Row, 0, len(rows)+vars)
	for j := range vars {
		all = append(all, Row{[]Term{{j, rat(-1)}}, false, new(big.Rat)})
	}
	all = append(all, rows...)
	var choose func(from int, basis []Row)
	choose = func(from int, basis []Row) {
		if len(basis) == vars {
			x := intersection(vars, basis)
			if x != nil && feasible(all, x, big.NewRat(1, 1)) {
				if value := dot2(objective, x); best == nil || value.Cmp(best) > 0 {
					best = value
				}
			}
			return
		}
		for i := from; i < len(all); i++ {
			choose(i+1, append(basis[:len(basis):len(basis)], all[i]))
		}
	}
	choose(0, nil)
	return best
}

// intersection solves the rows as equations by elimination. It returns nil if they do not have
// exactly one solution.
func intersection(vars int, rows []Row) []*big.Rat {
	a := make([][]*big.Rat, vars)
	for i, r := range rows {
		a[i] = make([]*big.Rat, vars+1)
		for j := range a[i] {
			a[i][j] = new(big.Rat)
		}
		for _, t := range r.Terms {
			a[i][t.Var].Set(t.Coef)
		}
		a[i][vars].Set(r.Bound)
	}
	for j := range vars {
		pivot := j
		for pivot < vars && a[pivot][j].Sign() == 0 {
			pivot++
		}
		if pivot == vars {
			return nil
		}
		a[j], a[pivot] = a[pivot], a[j]
		for i := range vars {
			if i == j || a[i][j].Sign() == 0 {
				continue
			}
			f := new(big.Rat).Quo(a[i][j], a[j][j])
			for k := range a[i] {
				a[i][k].Sub(a[i][k], new(big.Rat).Mul(f, a[j][k]))
			}
		}
	}
	x := make([]*big.Rat, vars)
	for j := range x {
		x[j] = a[j][vars].Quo(a[j][vars], a[j][j])
	}
	return x
}

func TestMaximize_RowsAdded_AgreesWithFreshProgram(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	for i := range 200 {
		vars, rows, _ := random(rng)
		p := program(t, vars, rows)
		for range 6 {
			_, more, objective := random(rng)
			for _, r := range more {
				if p.Add(r) == nil {
					rows = append(rows, r)
				}
			}
			var usable []Term
			for _, term := range objective {
				if term.Var < vars {
					usable = append(usable, term)
				}
			}
			o, err := p.Maximize(t.Context(), usable)
			f := fault(vars, rows, usable, o, err)
			check.Need(t, f == "", "program %d: %s", i, f)
			fresh, err2 := program(t, vars, rows).Maximize(t.Context(), usable)
			if fmt.Sprintf("%T", err) != fmt.Sprintf("%T", err2) || err == nil && o.Value.Cmp(fresh.Value) != 0 {
				t.Fatalf("program %d: %v, %v; from the beginning %v, %v", i, o, err, fresh, err2)
			}
		}
		check.Need(t, p.Rows() == len(rows), "%d rows, want %d", p.Rows(), len(rows))
	}
}

// The other tests rely on fault, so it must reject wrong proofs.
func TestFault_SpoiledProofs_AreRejected(t *testing.T) {
	e := examples()[0]
	rows, objective := e.rows(), terms(e.objective...)
	good, err := e.program(t).Maximize(t.Context(), objective)
	check.Need(t, err == nil && fault(2, rows, objective, good, nil) == "", "%v", err)
	third := big.NewRat(1, 3)
	for name, spoil := range map[string]func(*Optimum){
		"value":      func(o *Optimum) { o.Value = third },
		"point":      func(o *Optimum) { o.X[0] = new(big.Rat).Add(o.X[0], third) },
		"better":     func(o *Optimum) { o.X[0] = rat(100); o.Value = dot2(objective, o.X) },
		"negative":   func(o *Optimum) { o.X[0] = rat(-1); o.Value = dot2(objective, o.X) },
		"worse":      func(o *Optimum) { o.X[0] = rat(0); o.Value = dot2(objective, o.X) },
		"multiplier": func(o *Optimum) { o.Multipliers[1] = new(big.Rat) },
		"sign":       func(o *Optimum) { o.Multipliers[0] = rat(-1) },
	} {
		o := &Optimum{append([]*big.Rat{}, good.X...), good.Value, append([]*big.Rat{}, good.Multipliers...)}
		spoil(o)
		check.That(t, fault(2, rows, objective, o, nil) != "", "%s: not noticed", name)
	}
	zero := []*big.Rat{new(big.Rat), new(big.Rat), new(big.Rat)}
	for _, err := range []error{&InfeasibleError{zero}, &UnboundedError{zero[:2]}, privacy.ErrNoCertificate} {
		check.That(t, fault(2, rows, objective, nil, err) != "", "%v: accepted without a proof", err)
		check.That(t, err.Error() != "", "%T has no text", err)
	}
}

func TestProgram_InvalidInput_IsRefused(t *testing.T) {
	for _, vars := range []int{-1, 0, MaxVars + 1} {
		check.Is(t, check.Err(New(vars)), ErrInvalid, "%d variables", vars)
	}
	p := program(t, 2, nil)
	for name, bad := range map[string][]Term{
		"no such variable": {{2, rat(1)}},
		"negative":         {{-1, rat(1)}},
		"twice":            {{0, rat(1)}, {0, rat(1)}},
		"no coefficient":   {{0, nil}},
		"zero":             {{0, new(big.Rat)}},
	} {
		err := p.Add(Row{Terms: bad, Bound: rat(1)})
		check.That(t, errors.Is(err, ErrInvalid), "row, %s: %v", name, err)
		check.Is(t, check.Err(p.Maximize(t.Context(), bad)), ErrInvalid, "objective, %s", name)
	}
	check.Is(t, p.Add(Row{Terms: terms(1)}), ErrInvalid, "no bound")
	check.That(t, p.Rows() == 0, "%d rows were added", p.Rows())
}

func TestCertify_WrongBasis_ReachesTheOptimum(t *testing.T) {
	e := examples()[0]
	p := e.program(t)
	if v := newVertex(p, []int{2, 2}); v != nil { // dependent: no basis at all
		t.Errorf("%v", v)
	}
	o, err := p.certify(newVertex(p, []int{2, 3}), newConstraint(Row{Terms: terms(e.objective...), Bound: new(big.Rat)}))
	e.check(t, o, err)
}

// Modulo the prime, a multiple of the prime is 0. Maximize then returns an error and no wrong
// answer. The probabilities of a law given in float64 often add up to 1 − 2⁻⁶¹, so 2⁶¹ − 1 must not
// be the prime.
func TestMaximize_MultipleOfThePrime_GivesNoWrongAnswer(t *testing.T) {
	rows := []Row{{[]Term{{0, new(big.Rat).SetInt64(prime)}}, false, rat(2)}}
	if o, err := program(t, 1, rows).Maximize(t.Context(), terms(1)); !errors.Is(err, privacy.ErrNoCertificate) || o != nil {
		t.Errorf("%v, %v", o, err)
	}
	rows[0].Terms[0].Coef.SetInt64(1<<61 - 1)
	o, err := program(t, 1, rows).Maximize(t.Context(), terms(1))
	check.Equal(t, fault(1, rows, terms(1), o, err), "", "the fault")
}

// The first two digits of this solution are those of 1/2. Only a check in the program itself
// distinguishes the two.
func TestMaximize_AmbiguousDigits_FindsTheTrueSolution(t *testing.T) {
	square := new(big.Int).Mul(big.NewInt(prime), big.NewInt(prime))
	want := new(big.Rat).SetFrac(square.Add(square, big.NewInt(1)), big.NewInt(2))
	p := program(t, 1, []Row{{Terms: []Term{{0, big.NewRat(1, 1)}}, Bound: want}})
	o, err := p.Maximize(t.Context(), []Term{{0, big.NewRat(1, 1)}})
	check.That(t, err == nil && o.X[0].Cmp(want) == 0 && o.Value.Cmp(want) == 0, "%v (%v), wanted %v", o, err, want)
}

// Each variable is at least 2⁻²⁰ times the one before. The float64 walk alone, with a tolerance of
// 1e-11, would treat all but two of them as 0.
func TestApproach_TinyVariables_ReachesExactFeasibility(t *testing.T) {
	const vars = 12
	rows := []Row{{terms(1), true, rat(1)}}
	var objective []Term
	for j := range vars {
		objective = append(objective, Term{j, rat(-1)})
		if j > 0 {
			rows = append(rows, Row{[]Term{{j - 1, rat(0x1p-20)}, {j, rat(-1)}}, false, new(big.Rat)})
		}
	}
	p := program(t, vars, rows)
	v := p.approach(newConstraint(Row{Terms: objective, Bound: new(big.Rat)}))
	off := p.farthest(v.point())
	check.That(t, off.Sign() == 0, "off by %v", off)
	o, err := p.Maximize(t.Context(), objective)
	f := fault(vars, rows, objective, o, err)
	check.Need(t, f == "", "%v", f)
	for j, x := range o.X {
		got, _ := x.Float64()
		check.That(t, got == math.Ldexp(1, -20*j), "x[%d] = %v", j, got)
	}
}

func TestSimplex_NoStepsLeft_Stops(t *testing.T) {
	for _, e := range []example{examples()[0], examples()[1]} { // a primal and a dual phase
		p := e.program(t)
		v := newVertex(p, p.walk.basis)
		objective := newConstraint(Row{Terms: terms(e.objective...), Bound: new(big.Rat)})
		x := &exact{p: p, vertex: v}
		_, _, err := x.maximize(objective.dense(2))
		check.That(t, errors.Is(err, privacy.ErrNoCertificate), "%s: without a step, %v", e.description, err)
		p.walk.steps = 0
		p.walk.improve([]float64{1, 1})
		if p.walk.feasible([]float64{1, 1}); p.walk.since != 0 {
			t.Error("the walk continued without steps left")
		}
	}
}

// countdown is a context that ends after a number of calls of Err. With a negative number it never
// ends.
type countdown struct {
	context.Context
	left, asked int
}

func (c *countdown) Err() error {
	if c.asked++; c.left == 0 {
		return context.Canceled
	}
	c.left--
	return nil
}

// If the context ends at any point, few steps follow, and the program can be solved again.
func TestMaximize_ContextEnds_StopsWithinTwelveSteps(t *testing.T) {
	vars, rows, objective := grid(4, rand.New(rand.NewPCG(9, 9)))
	tiny := examples()[0]
	for name, program := range map[string]func() (*Program, []Term){
		"walk":    func() (*Program, []Term) { return program(t, vars, rows), objective },
		"example": func() (*Program, []Term) { return tiny.program(t), terms(tiny.objective...) },
	} {
		p, c := program()
		never := &countdown{Context: t.Context(), left: -1}
		want := check.Value(p.Maximize(never, c))(t)
		check.That(t, name != "walk" || never.asked >= vars,
			"Err of the context is called %d times for a program of %d variables", never.asked, vars)
		for k := 0; k < never.asked; k += 1 + never.asked/100 {
			p, c := program()
			ctx := &countdown{Context: t.Context(), left: k}
			if o, err := p.Maximize(ctx, c); !errors.Is(err, context.Canceled) || o != nil {
				t.Fatalf("%s: ended after %d steps: %v, %v", name, k, o, err)
			}
			late := ctx.asked - k
			check.That(t, late <= 12, "%s: it continues for %d steps", name, late)
			o, err := p.Maximize(t.Context(), c)
			check.That(t, err == nil && o.Value.Cmp(want.Value) == 0,
				"%s: solved again after %d steps: %v, %v, want %v", name, k, o, err, want.Value)
		}
	}
}

// The exact method takes the most time where float64 is not enough, so it must check the context.
func TestCertify_ContextEnds_StopsWithinTwelveSteps(t *testing.T) {
	vars, rows, objective := grid(3, rand.New(rand.NewPCG(9, 9)))
	p := program(t, vars, rows)
	o := newConstraint(Row{Terms: objective, Bound: new(big.Rat)})
	never := &countdown{Context: t.Context(), left: -1}
	p.ctx = never
	check.Must(t, check.Err(p.certify(nil, o)))
	check.That(t, never.asked >= 10*vars, "asked %d times", never.asked)
	for k := 0; k < never.asked; k += 1 + never.asked/50 {
		ctx := &countdown{Context: t.Context(), left: k}
		p := program(t, vars, rows)
		p.ctx = ctx
		_, _ = p.certify(nil, o)
		late := ctx.asked - k
		check.That(t, late <= 12, "it continues for %d steps after %d", late, k)
	}
}

// grid is a program like those of differential privacy: on a square grid, three probabilities for
// each point that sum to 1 and differ between neighbours by a factor of 1.5 at most.
func grid(side int, rng *rand.Rand) (vars int, rows []Row, objective []Term) {
	vars = 3 * side * side
	for v := range side * side {
		rows = append(rows, Row{[]Term{{3 * v, rat(1)}, {3*v + 1, rat(1)}, {3*v + 2, rat(1)}}, true, rat(1)})
		for _, w := range []int{v + 1, v + side} {
			if w >= side*side || w == v+1 && w%side == 0 {
				continue
			}
			for j := range 3 {
				rows = append(rows, Row{[]Term{{3*v + j, rat(1)}, {3*w + j, rat(-1.5)}}, false, new(big.Rat)})
				rows = append(rows, Row{[]Term{{3*w + j, rat(1)}, {3*v + j, rat(-1.5)}}, false, new(big.Rat)})
			}
		}
	}
	for j := range vars {
		objective = append(objective, Term{j, rat(rng.NormFloat64())})
	}
	return vars, rows, objective
}

func TestMaximize_LargeProgram_IsProven(t *testing.T) {
	vars, rows, objective := grid(13, rand.New(rand.NewPCG(9, 9)))
	p := program(t, vars, rows)
	start := time.Now()
	o, err := p.Maximize(t.Context(), objective)
	elapsed := time.Since(start)
	f := fault(vars, rows, objective, o, err)
	check.Need(t, f == "", "%v", f)
	bits := 0
	for _, x := range o.X {
		bits = max(bits, x.Denom().BitLen())
	}
	t.Logf("%d variables, %d rows: %v; denominators of up to %d bits", vars, len(rows), elapsed, bits)
}

func BenchmarkPrivacyProgram(b *testing.B) {
	for _, side := range []int{4, 8, 13} {
		vars, rows, objective := grid(side, rand.New(rand.NewPCG(9, 9)))
		b.Run(fmt.Sprintf("%dx%d", vars, len(rows)), func(b *testing.B) {
			for b.Loop() {
				check.Must(b, check.Err(program(b, vars, rows).Maximize(b.Context(), objective)))
			}
		})
	}
}
