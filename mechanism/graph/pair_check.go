package graph

import (
	"fmt"
	"math"
	"slices"
)

// Property is one of those that make a pair of bounds suitable (torkamani2023 Definition 12).
type Property uint8

// The properties of a suitable pair. All of them must hold for every α in [0,1].
const (
	InRange      Property = iota + 1 // Lower(α) and Upper(α) are in [0,1], and Tradeoff(α) if there is one
	LowerBelow                       // Lower(α) ≤ α, the first half of property 1
	UpperAbove                       // α ≤ Upper(α), the second half of property 1
	LowerOfUpper                     // Lower(Upper(α)) ≤ α, the first half of property 2
	UpperOfLower                     // α ≤ Upper(Lower(α)), the second half of property 2
	Opposite                         // Upper(α) ≤ 1 − Lower(1−α), property 3
	LowerGrows                       // Lower increases: Lower(α′) ≤ Lower(α) for α′ < α
	UpperGrows                       // Upper increases: Upper(α′) ≤ Upper(α) for α′ < α
	TradeoffFits                     // |Tradeoff(α) − (1 − Upper(α))| ≤ 0, if there is a Tradeoff
)

// String returns the property as a formula.
func (p Property) String() string {
	names := [...]string{
		InRange:      "Lower(α) and Upper(α) in [0,1]",
		LowerBelow:   "Lower(α) ≤ α",
		UpperAbove:   "α ≤ Upper(α)",
		LowerOfUpper: "Lower(Upper(α)) ≤ α",
		UpperOfLower: "α ≤ Upper(Lower(α))",
		Opposite:     "Upper(α) ≤ 1 − Lower(1−α)",
		LowerGrows:   "Lower increases",
		UpperGrows:   "Upper increases",
		TradeoffFits: "Tradeoff(α) = 1 − Upper(α)",
	}
	if int(p) >= len(names) || names[p] == "" {
		return fmt.Sprintf("Property(%d)", uint8(p))
	}
	return names[p]
}

// PairError says that a pair of bounds is not suitable, and where. It wraps [ErrInvalid].
type PairError struct {
	Property Property // which does not hold
	Alpha    float64  // where the property does not hold
	// Value and Limit are the two sides of the property at α: Value should be at most Limit. For
	// [InRange] Value is the one that is not in [0,1].
	Value, Limit float64
}

func (e *PairError) Error() string {
	if e.Property == InRange {
		return fmt.Sprintf("not a suitable pair: %v does not hold at α = %v, with %v", e.Property, e.Alpha, e.Value)
	}
	return fmt.Sprintf("not a suitable pair: %v does not hold at α = %v: %v is above %v",
		e.Property, e.Alpha, e.Value, e.Limit)
}

// Unwrap returns [ErrInvalid].
func (e *PairError) Unwrap() error { return ErrInvalid }

// Check looks for an α at which a pair is not suitable: at 4,097 points at equal distances in
// [0,1], at the powers of 1/2 and as near to 1, and at the points given. It returns a [*PairError]
// with the first property that fails and the least such α, nil if none does, and [ErrInvalid] for a
// bound that is nil and points outside [0,1].
//
// It is a search, not a proof: a pair that passes may fail between the points. So give it those
// where the bounds change their form. What rounding may do is no failure, here and wherever a pair
// is used: 2^−51 in an argument that is itself a result, and [Tolerance] in a value. Both are
// needed, because Lower may be as steep as it likes: that of [Gaussian] falls from 1 to 0.977 on
// the last 10^−9 before α = 1, at μ = 4.
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
	for _, alpha := range points {
		for _, f := range []func(float64) float64{p.Lower, p.Upper, p.Tradeoff} {
			if f == nil {
				continue
			}
			if x := f(alpha); !inRange(x) {
				return &PairError{InRange, alpha, x, 1}
			}
		}
	}
	for _, test := range p.tests() {
		before := points[0]
		for _, alpha := range points {
			if left, right := test.sides(before, alpha); exceeds(left, right) {
				return &PairError{test.property, alpha, left, right}
			}
			before = alpha
		}
	}
	return nil
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

func inRange(x float64) bool { return x >= 0 && x <= 1 }

// rounding is more than a few roundings of numbers up to 1.
const rounding = 0x1p-51

// lower is Lower of an argument that has been computed, and so may be too large by its rounding.
func (p Pair) lower(alpha float64) float64 { return p.Lower(max(alpha-rounding, 0)) }

// upper is Upper of an argument that has been computed, and so may be too small by its rounding.
func (p Pair) upper(alpha float64) float64 { return p.Upper(min(alpha+rounding, 1)) }

// exceeds tells whether left ≤ right fails by more than rounding.
func exceeds(left, right float64) bool { return !(left <= right+Tolerance) }

// pairTest is a property in the form left ≤ right, at α and a point before it.
type pairTest struct {
	property Property
	sides    func(before, alpha float64) (left, right float64)
}

// tests returns the properties but [InRange].
func (p Pair) tests() []pairTest {
	tests := []pairTest{
		{LowerBelow, func(_, alpha float64) (left, right float64) { return p.Lower(alpha), alpha }},
		{UpperAbove, func(_, alpha float64) (left, right float64) { return alpha, p.Upper(alpha) }},
		{LowerOfUpper, func(_, alpha float64) (left, right float64) { return p.lower(p.Upper(alpha)), alpha }},
		{UpperOfLower, func(_, alpha float64) (left, right float64) { return alpha, p.upper(p.Lower(alpha)) }},
		{Opposite, func(_, alpha float64) (left, right float64) { return p.Upper(alpha), 1 - p.lower(1-alpha) }},
		{LowerGrows, func(before, alpha float64) (left, right float64) { return p.Lower(before), p.Lower(alpha) }},
		{UpperGrows, func(before, alpha float64) (left, right float64) { return p.Upper(before), p.Upper(alpha) }},
	}
	if p.Tradeoff != nil {
		tests = append(tests, pairTest{TradeoffFits, func(_, alpha float64) (left, right float64) {
			return math.Abs(p.Tradeoff(alpha) - (1 - p.Upper(alpha))), 0
		}})
	}
	return tests
}
