package exact

import "math/big"

// Below returns true if a uniform real number in [0,1) is below a rational number from 0 to 1, so
// with exactly the probability `number`. Each call of next returns the next 64 bits of the uniform
// number. Below compares them with the next 64 bits of the rational number, found by long division,
// until they differ.
func Below(next func() uint64, number *big.Rat) bool {
	rest, cell, word := new(big.Int).Set(number.Num()), new(big.Int), new(big.Int)
	for {
		cell.QuoRem(rest.Lsh(rest, 64), number.Denom(), rest) // the next 64 bits of the rational number
		if order := word.SetUint64(next()).Cmp(cell); order != 0 {
			return order < 0
		}
	}
}

// LawFault returns the reason why rational numbers are not a probability law, or "" if they are
// one: none is nil or negative, and they sum to 1.
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
