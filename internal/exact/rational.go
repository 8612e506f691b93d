package exact

import "math/big"

// Below tells whether a uniform real number in [0,1) is below a rational one; next returns its next
// 64 bits. The answer is yes with a probability of exactly that number.
func Below(next func() uint64, number *big.Rat) bool {
	rest, cell, word := new(big.Int).Set(number.Num()), new(big.Int), new(big.Int)
	for {
		cell.QuoRem(rest.Lsh(rest, 64), number.Denom(), rest) // the 64 bits that the number itself begins with
		if order := word.SetUint64(next()).Cmp(cell); order != 0 {
			return order < 0
		}
	}
}

// LawFault says what keeps rational numbers from being a law; "" if nothing does.
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
