package graph

import "math"

// Ternary returns the optimal law of three outputs at a distance from a homogeneous boundary, for δ
// = 0, in the closed form of zhou2022: Eq. (12) of Theorem 4 for the preferred output ("blue"),
// (21) and (22) of Theorem 5 for the second ("red") and (29) of Corollary 1 for the last ("green").
// Laws are in preference order.
//
// The steps τ_B and τ_R, up to which the first probability and the sum of the first two grow by e^ε
// each, are those of Eq. (2) and (3); their brackets must be read as floors. Terms are collected so
// that nothing overflows, but differences to 1 remain, with errors of about 1e-16: [Line], which
// has none and gives the same, is the one to use.
//
// It returns [ErrInvalid] where Line does.
func Ternary(boundary [3]float64, epsilon float64, distance int) ([3]float64, error) {
	if err := (Privacy{Epsilon: epsilon}).Validate(); err != nil {
		return [3]float64{}, err
	}
	if reason := lawFault(boundary[:]); reason != "" {
		return [3]float64{}, invalid("boundary %v: %s", boundary, reason)
	}
	if distance < 0 {
		return [3]float64{}, invalid("distance %d is negative", distance)
	}
	b0, r0, i := boundary[0], boundary[1], distance
	tauB, tauR := turn(b0, epsilon), turn(b0+r0, epsilon)
	power := func(x float64, n int) float64 { return grown(x, epsilon, n) }

	mid := func(i int) float64 { // R_Mid, Eq. (22) in the form of Eq. (25)
		return 1 - power(b0, i) - power(1-power(b0+r0, tauR), tauR-i)
	}
	var blue, red, green float64
	if i <= tauB {
		blue = power(b0, i)
	} else {
		blue = 1 - power(1-power(b0, tauB), tauB-i)
	}
	switch {
	case i <= tauR:
		red = power(r0, i)
	case i <= tauB:
		red = mid(i)
	default:
		red = power(mid(tauB), tauB-i)
	}
	if i <= tauR {
		green = 1 - power(b0+r0, i)
	} else {
		green = power(1-power(b0+r0, tauR), tauR-i)
	}
	return [3]float64{blue, max(0, red), max(0, green)}, nil
}

// turn is the threshold τ of zhou2022 Eq. (2) and (3) for a probability x at the boundary: the
// steps during which it grows by e^ε each.
func turn(x, epsilon float64) int {
	// ln(x(e^ε+1)), without e^ε
	ln := logarithm(x) + epsilon + math.Log1p(math.Exp(-epsilon))
	tau := math.Floor(max(0, 1-ln/epsilon))
	if !(tau < math.MaxInt) {
		return math.MaxInt // x = 0 grows for ever, and never turns
	}
	return int(tau)
}
