package state

import "github.com/sluicedp/sluice/privacy"

// Sums and differences of budgets do not overflow. They stop at 0 and at the largest ε, so that a
// sum that is too large never becomes a small one. Where that could hide a fault, callers use
// package privacy, which returns an error.

// Lower returns the lower of two ε.
func Lower(a, b privacy.Epsilon) privacy.Epsilon {
	if b.Less(a) {
		return b
	}
	return a
}

// Plus returns a + b, or the largest ε if that is above it.
func Plus(a, b privacy.Epsilon) privacy.Epsilon {
	sum, err := a.Add(b)
	if err != nil {
		return privacy.MaxEpsilon()
	}
	return sum
}

// Higher returns the higher of two ε.
func Higher(a, b privacy.Epsilon) privacy.Epsilon {
	if a.Less(b) {
		return b
	}
	return a
}

// Minus returns a − b, or 0 if b is above a.
func Minus(a, b privacy.Epsilon) privacy.Epsilon {
	rest, err := a.Sub(b)
	if err != nil {
		return privacy.Epsilon{}
	}
	return rest
}

// Below returns the next lower ε, which is one nano-nat less, or 0 for 0.
func Below(epsilon privacy.Epsilon) privacy.Epsilon {
	lower, err := privacy.EpsilonFromNano(epsilon.Nano() - 1)
	if err != nil {
		return privacy.Epsilon{}
	}
	return lower
}
