package exact

// DrawRank returns a rank from 0 to n. weights returns enclosures of n cumulative probabilities c_0
// ≤ … ≤ c_(n−1), smaller ones for a higher precision, as for [NewMixture]. The rank is at most j
// with probability c_j. It is the number of probabilities that are not above a uniform real number
// U. word holds the first 64 bits of U, and source returns the bits after them.
//
// Unlike the thresholds of a [Mixture], which are public and cached, these may depend on the true
// value. So nothing is cached, and all of U is compared with all thresholds.
func DrawRank(source *Bits, word uint64, n int, weights func(prec uint) []Interval) int {
	r := newLazyReal(source, word, 1)
	for {
		rank, open := n, false // open: U has too few bits for at least one threshold
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
