package finite

import (
	"math/big"

	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/privacy"
)

// oddsAt returns the fraction E with the smallest denominator such that e^(ε−10⁻⁹) < E < e^ε. A
// mechanism whose probabilities of an output differ by a factor of at most E, and whose largest
// factor is E, has exactly this ε in nano-nats. (e^ε itself is irrational, and any fraction above
// it has the next ε.) oddsAt returns [privacy.ErrInvalid] for ε = 0.
func oddsAt(epsilon privacy.Epsilon) (*big.Rat, error) {
	if epsilon.IsZero() {
		return nil, invalid("ε is 0; a mechanism of a design needs ε > 0")
	}
	const prec = 128 // the ends are 2⁻³⁰ apart, and their intervals are far smaller
	_, low := exact.Exp(epsilon.Nano()-1, prec).Bounds()
	high, _ := exact.Exp(epsilon.Nano(), prec).Bounds()
	l, _ := low.Rat(nil)
	h, _ := high.Rat(nil)
	return simplest(l, h), nil
}

// simplest returns the fraction with the smallest denominator strictly between low and high, 0 ≤
// low < high. If there are several, it returns the smallest one. It follows the common part of the
// two continued fractions.
func simplest(low, high *big.Rat) *big.Rat {
	whole := new(big.Rat).SetInt(new(big.Int).Quo(low.Num(), low.Denom())) // ⌊low⌋
	one := big.NewRat(1, 1)
	if next := new(big.Rat).Add(whole, one); next.Cmp(high) < 0 {
		return next
	}
	// Both numbers are in [whole, whole+1]. The rest is the inverse of the simplest fraction
	// between their inverses.
	least := new(big.Rat).Inv(new(big.Rat).Sub(high, whole))
	rest := new(big.Rat).Sub(low, whole)
	if rest.Sign() == 0 { // its inverse is infinite: the simplest one is the next integer above least
		least.Add(least, one)
		least.SetInt(new(big.Int).Quo(least.Num(), least.Denom()))
		return whole.Add(whole, least.Inv(least))
	}
	inverse := simplest(least, rest.Inv(rest))
	return whole.Add(whole, inverse.Inv(inverse))
}
