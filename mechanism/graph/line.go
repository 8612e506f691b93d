package graph

import (
	"fmt"
	"math"
	"slices"
)

// tolerance is what rounding may do to a law: its sum may differ from 1, and the probability of a
// set of outputs may exceed what (ε,δ) allows, by so much.
const tolerance = 1e-12

// Law returns the optimal law of a dataset at a distance from the boundary of its region, when all
// datasets on that boundary have the same law (a homogeneous boundary). Both laws are in preference
// order, the true answer first.
//
// With S_j the sum of the first j probabilities, S_j(d) = U^d(S_j(0)), where U is [Privacy.Upper].
// Every mechanism on any graph has S_j(d) ≤ U(S_j(d−1)), for to answer only whether the output is
// among the first j is a mechanism too; so all prefix sums are at their maximum at once, and the
// law dominates every other. And it is private: from δ at 0 on, U is a line of slope e^ε, then of
// e^−ε, then of 0 over the last δ. So a step adds δ to the first probability, cuts δ from the last
// ones, and multiplies what remains of each, part by part, by e^ε or e^−ε. No set of outputs can
// grow beyond e^ε times its probability plus δ, or shrink to less than e^−ε times what the cut
// leaves of it.
//
// For three outputs and δ = 0 this is zhou2022 Theorems 4 and 5 and Corollary 1; for any number of
// outputs and any δ it is the optimum of Gu et al., "Generalized Rainbow Differential Privacy"
// (Journal of Privacy and Confidentiality 14(2), 2024). For two outputs the first probability is
// p(d, α) of torkamani2023 Definition 9 (doliveira2021 Theorem 4).
//
// The time does not depend on the distance. Results are at least 0 and sum to 1 within 1e-15 times
// their number; rounding makes the laws of two neighbours violate (ε,δ) by about 1e-15, also where
// e^ε is large. Law returns [privacy.ErrInvalid] for a law that does not sum to 1 within 1e-12, of
// fewer than 2 or more than 1,024 outputs, or with anything but numbers of at least 0 in it;
// for ε and δ that [Privacy.Validate] refuses; and for a negative distance.
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
		below, _ := l.turning()
		// In the last step before a prefix sum passes the threshold, what the output that holds the
		// threshold gets is too small to be found as a difference to 1. That step is made by
		// itself.
		if leap := min(distance, l.growing()-1); leap > 0 {
			l.walk(leap)
			distance -= leap
		}
		if distance > 0 {
			l.walk(1)
			distance--
			// Where e^ε is all but 1, rounding may hide for ever that the sum has passed. Both
			// slopes come to the same there, so it counts as beyond.
			if l.dp.Epsilon < 1e-9 {
				l.most = max(0, below-1)
			}
		}
	}
	return l.law, nil
}

// lawFault says what keeps p from being a law of so many outputs; "" if nothing does.
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

// line walks away from a homogeneous boundary. It keeps the law and not its prefix sums:
// differences of sums would lose small probabilities, and with them the privacy when e^ε is large.
type line struct {
	dp        Privacy
	threshold float64 // where U changes its slope from e^ε to e^−ε; 0 if that is below all float64
	top       float64 // e^ε times the threshold
	most      int     // prefix sums that may still be below the threshold
	law       []float64
}

func newLine(boundary []float64, dp Privacy) *line {
	top := (1 - dp.Delta) / (1 + math.Exp(-dp.Epsilon))
	return &line{dp, top * math.Exp(-dp.Epsilon), top, len(boundary) - 1, slices.Clone(boundary)}
}

// turning returns the output whose part of [0,1] holds the threshold, and the sum of those before
// it.
func (l *line) turning() (output int, before float64) {
	for output < l.most && before+l.law[output] <= l.threshold {
		before += l.law[output]
		output++
	}
	return output, before
}

// growing returns the number of steps in which the last prefix sum below the threshold still grows
// by the slope e^ε, until it has passed the threshold. If there is no such sum, it is as good as
// infinite.
func (l *line) growing() int {
	const forever = math.MaxInt
	output, before := l.turning()
	if output == 0 {
		return forever
	}
	// n steps grow S to e^(nε)(S+q) − q with q = δ/(e^ε−1); all is multiplied by e^ε, lest it
	// underflow.
	q := l.dp.Delta / -math.Expm1(-l.dp.Epsilon)
	risen := grown(before, l.dp.Epsilon, 1)
	// The quotient of both plus q would be 1 for a large q.
	steps := 1 + math.Floor(math.Log1p((l.top-risen)/(risen+q))/l.dp.Epsilon)
	if !(steps < forever) {
		return forever
	}
	return max(1, int(steps))
}

// walk goes a number of steps, in which no prefix sum may pass the threshold but in the last.
func (l *line) walk(steps int) {
	turning, before := l.turning()
	held := l.law[turning]
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
		below := min(max(l.threshold-before, 0), held)
		// e^ε·below, also where that is lost.
		risen := min(max(l.top-grown(before, l.dp.Epsilon, 1), 0), grown(held, l.dp.Epsilon, 1))
		l.law[turning] = risen + grown(max(held-below-cut, 0), -l.dp.Epsilon, 1)
		turning = largest(l.law)
	}
	// Rounding is made good where it is the smallest part.
	l.law[turning] = 0
	l.law[turning] = max(0, 1-sum(l.law))
}

// added returns δ(1 + e^ε + … + e^((steps−1)ε)): what that many growing steps add to all prefix
// sums, and what as many shrinking steps cut from the end before they shrink it.
func (l *line) added(steps int) float64 {
	return grown(l.dp.Delta*math.Expm1(-float64(steps)*l.dp.Epsilon)/math.Expm1(-l.dp.Epsilon), l.dp.Epsilon, steps-1)
}

// cut takes an amount from the end of the law, down to the turning output. It returns what that one
// has still to lose.
func (l *line) cut(turning int, amount float64) float64 {
	for i := len(l.law) - 1; i > turning && amount > 0; i-- {
		taken := min(amount, l.law[i])
		l.law[i] -= taken
		amount -= taken
	}
	return amount
}

// grown returns x·e^(steps·rate) with an error of a few units in the last place. Above all float64
// it is +Inf; but what is not 0 does not fall below tiny.
func grown(x, rate float64, steps int) float64 {
	if x == 0 {
		return 0
	}
	exponent := float64(steps) * rate
	lost := math.FMA(float64(steps), rate, -exponent)
	half := math.Exp(exponent / 2) // e^exponent itself may be above all float64
	return max(tiny, x*half*half*(1+max(-0.5, min(lost, 0.5))))
}

func largest(p []float64) int {
	at := 0
	for i, x := range p {
		if x > p[at] {
			at = i
		}
	}
	return at
}

func sum(p []float64) float64 {
	total := 0.0
	for _, x := range p {
		total += x
	}
	return total
}
