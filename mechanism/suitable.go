package mechanism

import (
	"fmt"
	"math"
	"slices"
)

// Property is one of those that make a pair of bounds suitable (torkamani2023 Definition 12).
type Property uint8

// The properties of a suitable pair. All of them must hold for every α in [0,1].
const (
	InRange      Property = iota + 1 // Lower(α) and Upper(α) are in [0,1]
	LowerBelow                       // Lower(α) ≤ α, the first half of property 1
	UpperAbove                       // α ≤ Upper(α), the second half of property 1
	LowerOfUpper                     // Lower(Upper(α)) ≤ α, the first half of property 2
	UpperOfLower                     // α ≤ Upper(Lower(α)), the second half of property 2
	Opposite                         // Upper(α) ≤ 1 − Lower(1−α), property 3
	LowerGrows                       // Lower increases: Lower(α′) ≤ Lower(α) for α′ < α
	UpperGrows                       // Upper increases: Upper(α′) ≤ Upper(α) for α′ < α
)

// String returns the property as a formula.
func (p Property) String() string {
	names := [...]string{
		InRange: "Lower(α) and Upper(α) in [0,1]", LowerBelow: "Lower(α) ≤ α", UpperAbove: "α ≤ Upper(α)",
		LowerOfUpper: "Lower(Upper(α)) ≤ α", UpperOfLower: "α ≤ Upper(Lower(α))", Opposite: "Upper(α) ≤ 1 − Lower(1−α)",
		LowerGrows: "Lower increases", UpperGrows: "Upper increases",
	}
	if int(p) >= len(names) || names[p] == "" {
		return fmt.Sprintf("Property(%d)", uint8(p))
	}
	return names[p]
}

// PairError says that a pair of bounds is not suitable, and where. It wraps [ErrInvalid].
type PairError struct {
	Property Property
	Alpha    float64 // where the property does not hold
	// Value and Limit are the two sides of the property at α: Value should be at most Limit. For [InRange]
	// Value is the one that is not in [0,1].
	Value, Limit float64
}

func (e *PairError) Error() string {
	if e.Property == InRange {
		return fmt.Sprintf("not a suitable pair: %v does not hold at α = %v, with %v", e.Property, e.Alpha, e.Value)
	}
	return fmt.Sprintf("not a suitable pair: %v does not hold at α = %v: %v is above %v", e.Property, e.Alpha, e.Value, e.Limit)
}

// Unwrap returns [ErrInvalid].
func (e *PairError) Unwrap() error { return ErrInvalid }

// Check looks for an α at which a pair is not suitable: at 4,097 points at equal distances in [0,1], at
// the powers of 1/2 and as near to 1, and at the points given. It returns a [*PairError] with the first
// property that fails and the least such α, nil if none does, and [ErrInvalid] for a bound that is nil and
// points outside [0,1].
//
// It is a search, not a proof: a pair that passes may fail between the points. So give it those where
// the bounds change their form. What rounding may do is no failure: 2^−51 in the argument of a bound and
// [Tolerance] in its value.
func (p Pair) Check(points ...float64) error {
	if p.Lower == nil || p.Upper == nil {
		return invalid("a pair without both of its bounds")
	}
	for _, x := range points {
		if !(x >= 0 && x <= 1) {
			return invalid("point %v is not in [0,1]", x)
		}
	}
	points = append(grid(), points...)
	slices.Sort(points)
	if err := p.checkRange(points); err != nil {
		return err
	}
	for _, test := range p.tests() {
		if err := test.at(points); err != nil {
			return err
		}
	}
	return p.checkGrowth(points)
}

// grid returns the points that every pair is tested at.
func grid() []float64 {
	const cells = 1 << 12
	points := make([]float64, 0, cells+1200)
	for i := range cells + 1 {
		points = append(points, float64(i)/cells)
	}
	for x := 0.5; x > 0; x /= 2 {
		points = append(points, x)
		if x > 1e-16 {
			points = append(points, 1-x)
		}
	}
	return points
}

func (p Pair) checkRange(points []float64) error {
	for _, alpha := range points {
		for _, x := range [2]float64{p.Lower(alpha), p.Upper(alpha)} {
			if !(x >= 0 && x <= 1) {
				return &PairError{Property: InRange, Alpha: alpha, Value: x, Limit: 1}
			}
		}
	}
	return nil
}

// pairTest is a property in the form left ≤ right.
type pairTest struct {
	property    Property
	left, right func(alpha float64) float64
}

// tests returns the properties that concern one α. Arguments that have been computed may be wrong by their
// rounding, which a steep bound makes a large difference; as bounds increase, it can be allowed for by
// moving the argument.
func (p Pair) tests() []pairTest {
	itself := func(alpha float64) float64 { return alpha }
	lower := func(x float64) float64 { return p.Lower(max(x-rounding, 0)) }
	upper := func(x float64) float64 { return p.Upper(min(x+rounding, 1)) }
	return []pairTest{
		{LowerBelow, p.Lower, itself},
		{UpperAbove, itself, p.Upper},
		{LowerOfUpper, func(alpha float64) float64 { return lower(p.Upper(alpha)) }, itself},
		{UpperOfLower, itself, func(alpha float64) float64 { return upper(p.Lower(alpha)) }},
		{Opposite, p.Upper, func(alpha float64) float64 { return 1 - lower(1-alpha) }},
	}
}

func (t pairTest) at(points []float64) error {
	for _, alpha := range points {
		left, right := t.left(alpha), t.right(alpha)
		if !(left <= right+Tolerance) {
			return &PairError{t.property, alpha, left, right}
		}
	}
	return nil
}

func (p Pair) checkGrowth(points []float64) error {
	for i := 1; i < len(points); i++ {
		before, alpha := points[i-1], points[i]
		if left, right := p.Lower(before), p.Lower(alpha); !(left <= right+Tolerance) {
			return &PairError{LowerGrows, alpha, left, right}
		}
		if left, right := p.Upper(before), p.Upper(alpha); !(left <= right+Tolerance) {
			return &PairError{UpperGrows, alpha, left, right}
		}
	}
	return nil
}

// Gaussian returns the bounds of μ-Gaussian differential privacy (J. Dong, A. Roth, W. Su, "Gaussian
// Differential Privacy", Journal of the Royal Statistical Society B 84(1), 2022): Upper(α) = Φ(Φ⁻¹(α)+μ)
// and Lower(α) = Φ(Φ⁻¹(α)−μ), where Φ is the standard normal distribution function. Answers of
// neighbours are then no easier to tell apart than two normal variables of variance 1 whose
// means differ by μ: of an output that the one gives with probability α, the test that decides for the
// other has level α and power at most Upper(α).
//
// These are a suitable pair: each is the inverse of the other, and Upper(α) = 1 − Lower(1−α). At
// distance d, μd takes the place of μ. It returns [ErrInvalid] unless 0 < μ ≤ 1000.
func Gaussian(mu float64) (Pair, error) {
	if !(mu > 0 && mu <= 1000) {
		return Pair{}, invalid("μ = %v is not above 0 and at most 1000", mu)
	}
	return Pair{
		Lower: func(alpha float64) float64 { return min(alpha, normal(normalQuantile(alpha)-mu)) },
		Upper: func(alpha float64) float64 { return max(alpha, normal(normalQuantile(alpha)+mu)) },
	}, nil
}

// normal is Φ.
func normal(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

// normalQuantile is Φ⁻¹. (That of package math, Erfcinv, has no digits in the lower tail.)
func normalQuantile(p float64) float64 {
	if p > 0.5 {
		return -normalQuantile(1 - p)
	}
	if p == 0 {
		return math.Inf(-1)
	}
	x := math.Sqrt2 * math.Erfinv(2*p-1)
	if p < 1e-6 { // Φ(x) ~ e^(−x²/2)/(−x√(2π))
		square := -2 * math.Log(p)
		x = -math.Sqrt(square - math.Log(2*math.Pi*square))
	}
	// Newton's method on the logarithm of Φ, which is nearly a parabola in the tail.
	for range 4 {
		phi := normal(x)
		x -= (math.Log(phi) - math.Log(p)) * phi * math.Sqrt(2*math.Pi) * math.Exp(x*x/2)
	}
	return x
}
