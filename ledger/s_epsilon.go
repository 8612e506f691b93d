package ledger

import "github.com/sluicedp/sluice/privacy"

func lower(a, b privacy.Epsilon) privacy.Epsilon {
	if b.Less(a) {
		return b
	}
	return a
}

// plus returns a + b, or the largest ε if that is above it.
func plus(a, b privacy.Epsilon) privacy.Epsilon {
	sum, err := a.Add(b)
	if err != nil {
		return privacy.MaxEpsilon()
	}
	return sum
}

func higher(a, b privacy.Epsilon) privacy.Epsilon {
	if a.Less(b) {
		return b
	}
	return a
}

// less returns a − b, or 0 if b is above a.
func less(a, b privacy.Epsilon) privacy.Epsilon {
	rest, err := a.Sub(b)
	if err != nil {
		return privacy.Epsilon{}
	}
	return rest
}

// below returns the next lower ε.
func below(epsilon privacy.Epsilon) privacy.Epsilon {
	lower, err := privacy.EpsilonFromNano(epsilon.Nano() - 1)
	if err != nil {
		return privacy.Epsilon{}
	}
	return lower
}
