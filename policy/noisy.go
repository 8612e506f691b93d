package policy

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/privacy"
)

// NoisySampling returns the policy that allows the privacy loss of RAPPOR's repeated noisy
// sampling. After K rounds (pan2024 Eq. (65)), this loss is
//
//	ε(K) = ln((e^α·e^(Kβ) + 1)/(e^α + e^(Kβ))), rounded down to a nano-nat,
//
// where alpha is the ε of the permanent randomized response and beta the ε of each sample. Round K
// is at start + (K−1)·period. There are 1 to 1,024 rounds.
//
// NoisySampling needs alpha and beta above 0, start and the last round from 1970 to 2261, and
// period above 0.
func NoisySampling(alpha, beta privacy.Epsilon, start time.Time, period time.Duration, rounds int) (Policy, error) {
	return build(noisy{alpha, beta, instantOf(start), period, int64(rounds)})
}

// noisy is the rule of kind "noisy-sampling".
type noisy struct {
	alpha, beta privacy.Epsilon
	start       instant
	period      time.Duration
	rounds      int64
}

func (noisy) kind() string { return "noisy-sampling" }

// code implements [rule]: it reads or writes the parameters.
func (r noisy) code(c *coder) rule {
	c.epsilon("eps_alpha", &r.alpha)
	c.epsilon("eps_beta", &r.beta)
	c.instant("start", &r.start)
	c.duration("period", &r.period)
	c.integer("rounds", &r.rounds)
	return r
}

// shape checks the parameters. The limit is the level after the last round.
func (r noisy) shape() (shape, error) {
	if err := r.start.check("start"); err != nil {
		return shape{}, err
	}
	switch {
	case r.alpha.IsZero() || r.beta.IsZero():
		return shape{}, errors.New("eps_alpha or eps_beta is 0: nothing would ever be released")
	case r.period <= 0:
		return shape{}, errors.New("period is not above 0")
	case r.rounds < 1 || r.rounds > maxSteps:
		return shape{}, fmt.Errorf("%d rounds; 1 to %d are allowed", r.rounds, maxSteps)
	case r.rounds > 1 && int64(r.period) > int64(lastInstant-r.start)/(r.rounds-1):
		return shape{}, errors.New("the last round is after 2261")
	}
	return shape{steps: int(r.rounds), isTimed: true, limit: nanos(r.level(r.rounds))}, nil
}

// line returns a step for each round that raises the level, up to the largest nano-nat below alpha.
func (r noisy) line() []step {
	line := make([]step, 0, r.rounds)
	for k := int64(1); k <= r.rounds; k++ {
		at := r.start + instant(r.period)*instant(k-1)
		level := r.level(k)
		line = appendStep(line, step{at, nanos(level)})
		if level == r.alpha.Nano()-1 {
			break // ε(K) stays below α
		}
	}
	return line
}

// level returns ⌊ε(k)⌋ in nano-nats, for the loss ε(k) after k rounds ([NoisySampling]). It
// computes with intervals only where floating-point numbers do not decide, because intervals are
// slower.
func (r noisy) level(k int64) int64 {
	alpha, beta := r.alpha.Nano(), r.beta.Nano()
	lowest, highest := noisyBounds(alpha, k*beta)
	if lowest == highest {
		return lowest
	}
	return noisyEpsilon(alpha, beta, k, lowest, 128)
}

// noisyEpsilon returns ⌊ε(k)⌋ in nano-nats. It starts with a guess n and a precision prec, and
// improves both until intervals decide.
//
// This terminates. ε(k) = n for an integer n above 0 would mean e^(α+kβ) + 1 = e^(n+α) + e^(n+kβ).
// The Lindemann–Weierstrass theorem excludes this for rational exponents unless the terms cancel,
// which they do only if α or β is 0.
func noisyEpsilon(alpha, beta, k, n int64, prec uint) int64 {
	bound := min(alpha, k*beta) // ε(k) is below bound, so n = bound is impossible
	for {
		ratio, floor, next := noisyRatio(alpha, beta, k, prec), exact.Exp(n, prec), exact.Exp(n+1, prec)
		switch {
		case n > 0 && ratio.Below(floor):
			// ε(k) is below n.
			n--
		case n+1 < bound && next.Below(ratio):
			// ε(k) is above n+1.
			n++
		case (n == 0 || floor.Below(ratio)) && (n+1 >= bound || ratio.Below(next)):
			return n
		default:
			prec *= 2
		}
	}
}

// noisyRatio returns an interval that contains e^ε(k) = (e^α·e^(kβ) + 1)/(e^α + e^(kβ)).
func noisyRatio(alpha, beta, k int64, prec uint) exact.Interval {
	a, b := exact.Exp(alpha, prec), exact.Exp(beta, prec).Pow(uint64(k))
	return a.Mul(b).Add(exact.Int(1)).Quo(a.Add(b))
}

// noisyBounds returns two integers with ⌊ε(k)⌋ in nano-nats between them. They are nearly always
// equal. sampled is kβ. With x ≤ y for α and kβ, ε = x + ln(1+e^(−x−y)) − ln(1+e^(x−y)). x is an
// integer of nano-nats, and the two logarithms are at most ln 2. Exponentials and logarithms are
// exact to 8 units of the last place. The error of the difference is therefore below 40·2⁻⁵³ nats,
// which is below 10⁻⁵ nano-nats.
//
// For any parameters, few rounds are that close to an integer. Consider the rounds where ε is 1
// nano-nat or more, except those in the last nano-nat below the bound, which the bound decides.
// There one round of 1,024 changes ε by more than 10⁻⁴ nano-nats.
func noisyBounds(alpha, sampled int64) (lowest, highest int64) {
	const margin = 1e-5
	x, y := min(alpha, sampled), max(alpha, sampled)
	// over is ε − x in nano-nats, which is at most 0.
	over := 1e9 * (math.Log1p(math.Exp(-float64(x+y)/1e9)) - math.Log1p(math.Exp(-float64(y-x)/1e9)))
	within := func(n float64) int64 { return max(0, min(x+int64(math.Floor(n)), x-1)) } // 0 < ε < x
	return within(over - margin), within(over + margin)
}
