package graph

import (
	"fmt"
	"math"
	"slices"
)

// tolerance is the error of a law that is allowed for rounding. Its sum may differ from 1 by this
// much, and the probability of a set of outputs may exceed the bound of (ε,δ) by this much.
const tolerance = 1e-12

// Law returns the optimal law of a dataset at a distance from the boundary of its region, if all
// datasets on that boundary have the same law (a homogeneous boundary). Both laws are in preference
// order, with the true answer first.
//
// Let S_j be the sum of the first j probabilities. Then S_j(d) = U^d(S_j(0)), where U is
// [Privacy.Upper]. Every mechanism on any graph has S_j(d) ≤ U(S_j(d−1)), because answering only
// whether the output is among the first j is a mechanism too. So all prefix sums are at their
// maximum at the same time, and the law dominates every other.
//
// The law is private. U starts with δ at 0 and is linear with slope e^ε, then with e^−ε, then with
// 0 over the last δ. So a step adds δ to the first probability and cuts δ from the last ones. It
// multiplies what remains of each, part by part, by e^ε or e^−ε. No set of outputs can grow beyond
// e^ε times its probability plus δ, or shrink below e^−ε times what remains of it after the cut.
//
// For three outputs and δ = 0 this is zhou2022 Theorems 4 and 5 and Corollary 1. For any number of
// outputs and any δ it is the optimum of Gu et al., "Generalized Rainbow Differential Privacy"
// (Journal of Privacy and Confidentiality 14(2), 2024). For two outputs the first probability is
// p(d, α) of torkamani2023 Definition 9 (doliveira2021 Theorem 4).
//
// The time does not depend on the distance. Results are at least 0 and sum to 1 within 1e-15 times
// their number. Rounding makes the laws of two neighbours violate (ε,δ) by about 1e-15, also if e^ε
// is large. Law returns [privacy.ErrInvalid] for a law that does not sum to 1 within 1e-12, has
// fewer than 2 or more than 1,024 outputs, or contains a negative or non-finite number. It also
// does so for ε and δ that [Privacy.Validate] refuses, and for a negative distance.
func (dp Privacy) Law(boundary []float64, distance int) ([]float64, error) {
	if err := dp.Validate(); err != nil {
		return nil, err
	}
	if reason := lawFault(boundary, len(boundary)); reason != "" {
		return nil, invalid("boundary %v: %s", boundary, reason)
	}
	if distance < 0 {
		return nil, invalid("distance %d is negative", distance)
	}
	l := newLine(boundary, dp)
	for distance > 0 {
		below, _ := l.turning() // the number of prefix sums below the threshold
		// In the last step before a prefix sum passes the threshold, the gain of the output at the
		// threshold is too small to be computed as a difference to 1. So that step is done
		// separately.
		if leap := min(distance, l.growing()-1); leap > 0 {
			l.walk(leap)
			distance -= leap
		}
		if distance > 0 {
			l.walk(1)
			distance--
			// If e^ε is almost 1, rounding may hide that the sum has passed the threshold. Both
			// slopes are almost equal there, so the sum counts as above it.
			if l.dp.Epsilon < 1e-9 {
				l.most = max(0, below-1)
			}
		}
	}
	return l.law, nil
}

// lawFault returns the reason why p is not a law with the given number of outputs, or "" if it is
// one.
func lawFault(p []float64, outputs int) string {
	if len(p) != outputs {
		return fmt.Sprintf("it has %d outputs, not %d", len(p), outputs)
	}
	if len(p) < 2 || len(p) > maxOutputs {
		return "a law has 2 to 1024 outputs"
	}
	total := sum(p)
	if !(slices.Min(p) >= 0) {
		return "a probability is not a number of at least 0"
	}
	if !(math.Abs(total-1) <= tolerance) {
		return fmt.Sprintf("the probabilities do not sum to 1: they sum to %.15g, and no more than 1e-12 may be "+
			"missing, so give 13 decimals of what has more", total)
	}
	return ""
}

// line computes the law of [Privacy.Law] step by step, away from a homogeneous boundary. It stores
// the law and not its prefix sums (S_j, the sum of the first j probabilities). Differences of sums
// would lose small probabilities, and with them the privacy if e^ε is large.
type line struct {
	dp        Privacy
	threshold float64 // the point where the slope of U changes from e^ε to e^−ε; 0 if it underflows
	top       float64 // e^ε times the threshold, without underflow
	most      int     // the number of prefix sums that may still be below the threshold
	law       []float64
}

// newLine returns the line at distance 0, with a copy of the boundary law.
func newLine(boundary []float64, dp Privacy) *line {
	top := (1 - dp.Delta) / (1 + math.Exp(-dp.Epsilon))
	return &line{dp, top * math.Exp(-dp.Epsilon), top, len(boundary) - 1, slices.Clone(boundary)}
}

// turning returns the output whose part of [0,1] contains the threshold, and the sum of the
// probabilities before it. The part of an output is from the sum of the probabilities before it to
// that sum plus its own.
func (l *line) turning() (output int, before float64) {
	for output < l.most && before+l.law[output] <= l.threshold {
		before += l.law[output]
		output++
	}
	return output, before
}

// growing returns the number of steps after which the last prefix sum below the threshold has
// passed it. In these steps the sum grows with slope e^ε. It returns at least 1. If there is no
// such sum, or the number is too large for an int, it returns the largest int.
func (l *line) growing() int {
	const forever = math.MaxInt
	output, before := l.turning()
	if output == 0 {
		return forever
	}
	// n steps increase S to e^(nε)(S+q) − q with q = δ/(e^ε−1). All numbers are multiplied by e^ε
	// to avoid underflow.
	q := l.dp.Delta / -math.Expm1(-l.dp.Epsilon)
	risen := grown(before, l.dp.Epsilon, 1)
	// If q is large, the quotient of the two numbers plus q would round to 1, so Log1p is used.
	steps := 1 + math.Floor(math.Log1p((l.top-risen)/(risen+q))/l.dp.Epsilon)
	if !(steps < forever) {
		return forever
	}
	return max(1, int(steps))
}

// walk goes a number of steps away from the boundary and changes the law. A prefix sum may pass the
// threshold only in the last one. Outputs before the turning one grow by e^ε in each step, and
// those after it shrink by it.
func (l *line) walk(steps int) {
	turning, before := l.turning()
	held := l.law[turning] // its probability before the steps
	added := l.added(steps)
	cut := l.cut(turning, added)
	for i := range turning {
		l.law[i] = grown(l.law[i], l.dp.Epsilon, steps)
	}
	for i := turning + 1; i < len(l.law); i++ {
		l.law[i] = grown(l.law[i], -l.dp.Epsilon, steps)
	}
	if turning > 0 {
		l.law[0] += added
	}
	if turning > 0 && steps == 1 {
		// The part of the turning output below the threshold grows, and the part above it shrinks.
		below := min(max(l.threshold-before, 0), held)
		// risen is e^ε·below, also if below has underflowed.
		risen := min(max(l.top-grown(before, l.dp.Epsilon, 1), 0), grown(held, l.dp.Epsilon, 1))
		l.law[turning] = risen + grown(max(held-below-cut, 0), -l.dp.Epsilon, 1)
		turning = largest(l.law)
	}
	// The law must sum to 1. The rounding error is added to the turning output or, after a single
	// step, to the largest one, where it is relatively smallest.
	l.law[turning] = 0
	l.law[turning] = max(0, 1-sum(l.law))
}

// added returns δ(1 + e^ε + … + e^((steps−1)ε)). This is the amount that the given number of
// growing steps add to all prefix sums. The same number of shrinking steps cut this amount from the
// end before they shrink it.
func (l *line) added(steps int) float64 {
	return grown(l.dp.Delta*math.Expm1(-float64(steps)*l.dp.Epsilon)/math.Expm1(-l.dp.Epsilon), l.dp.Epsilon, steps-1)
}

// cut removes an amount from the end of the law: from the last outputs, and at most down to the one
// after the turning output. It returns the rest of the amount, which the turning output has still
// to lose.
func (l *line) cut(turning int, amount float64) float64 {
	for i := len(l.law) - 1; i > turning && amount > 0; i-- {
		taken := min(amount, l.law[i])
		l.law[i] -= taken
		amount -= taken
	}
	return amount
}

// grown returns x·e^(steps·rate) with an error of a few units in the last place. It returns +Inf on
// overflow. A result for x ≠ 0 is at least tiny, 1e-300.
func grown(x, rate float64, steps int) float64 {
	if x == 0 {
		return 0
	}
	exponent := float64(steps) * rate
	lost := math.FMA(float64(steps), rate, -exponent) // the rounding error of the exponent
	half := math.Exp(exponent / 2)                    // e^exponent itself may overflow
	return max(tiny, x*half*half*(1+max(-0.5, min(lost, 0.5))))
}

// largest returns the index of the largest number, the first one if there are several.
func largest(p []float64) int {
	at := 0
	for i, x := range p {
		if x > p[at] {
			at = i
		}
	}
	return at
}

// sum returns the sum of the numbers.
func sum(p []float64) float64 {
	total := 0.0
	for _, x := range p {
		total += x
	}
	return total
}
