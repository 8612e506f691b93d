package exact

// DrawRank returns a rank from 0 to n, where n is the number of cumulative probabilities. The rank
// is at most j with probability cumulative[j], which rises with j. weights returns enclosures of
// these probabilities, smaller for a higher precision, as for [NewMixture]. word holds the first 64
// bits of U, and source returns the bits after them.
//
// Unlike the thresholds of a Mixture, which are public and cached, these may depend on the true
// value. So nothing is cached, and all of U is compared with all thresholds.
func DrawRank(source *Bits, word uint64, n int, weights func(prec uint) []Interval) int {
	r := newLazyReal(source, word, 1)
	for {
		rank, open := n, false
		for _, t := range weights(uint(2*r.length + guard)) {
			below, above := r.cell(1).Cmp(t.lo) <= 0, r.cell(0).Cmp(t.hi) >= 0
			open = open || !below && !above
			if below {
				rank--
			}
		}
		if !open {
			return rank
		}
		r.extend()
	}
}
