package exact

import "math/big"

// Below tells whether a uniform real number in [0,1) is below a rational one; next returns its next
// 64 bits. The answer is yes with a probability of exactly that number.
func Below(next func() uint64, number *big.Rat) bool {
	rest := new(big.Rat).Set(number)
	scale := new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), 64))
	for {
		rest.Mul(rest, scale)
		cell := new(big.Int).Div(rest.Num(), rest.Denom()) // the 64 bits that the number itself begins with
		if order := new(big.Int).SetUint64(next()).Cmp(cell); order != 0 {
			return order < 0
		}
		rest.Sub(rest, new(big.Rat).SetInt(cell))
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
