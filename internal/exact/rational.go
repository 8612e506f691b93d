package exact

import "math/big"

// Below tells whether a uniform real number in [0,1) is below a rational one; next returns its next 64
// bits. The answer is yes with a probability of exactly that number.
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
