package exact

import "math/big"

// Below returns true if a uniform real number in [0,1) is below a rational number. Each call of
// next returns the next 64 bits of the uniform number. The result is true with exactly the
// probability `number`.
func Below(next func() uint64, number *big.Rat) bool {
	rest, cell, word := new(big.Int).Set(number.Num()), new(big.Int), new(big.Int)
	for {
		cell.QuoRem(rest.Lsh(rest, 64), number.Denom(), rest) // the next 64 bits of the rational number
		if order := word.SetUint64(next()).Cmp(cell); order != 0 {
			return order < 0
		}
	}
}

// LawFault returns why rational numbers are not a law, or "" if they are one.
func LawFault(p []*big.Rat) string {
	sum := new(big.Rat)
	for _, x := range p {
		if x == nil || x.Sign() < 0 {
			return "a probability is missing or negative"
		}
		sum.Add(sum, x)
	}
	if sum.Cmp(big.NewRat(1, 1)) != 0 {
		return "the probabilities do not add up to 1"
	}
	return ""
}
