package exact

// DrawRank returns a rank from 0 to n, where n is the number of cumulative probabilities given: it
// is at most j with probability cumulative[j], which rise with j. weights encloses them more
// tightly the higher the precision, as for [NewMixture]. word is the first 64 bits of U, and source
// has those that come after them.
//
// Unlike a Mixture, whose thresholds are public and kept, these may depend on the truth: nothing is
// kept, and all of U is compared with all of them, whichever decides.
func DrawRank(source *Bits, word uint64, n int, weights func(prec uint) []Interval) int {
	x := newLazyReal(source, word, 1)
	for {
		rank, open := n, false
		for _, t := range weights(uint(2*x.length + guard)) {
			below, above := x.cell(1).Cmp(t.lo) <= 0, x.cell(0).Cmp(t.hi) >= 0
			open = open || !below && !above
			if below {
				rank--
			}
		}
		if !open {
			return rank
		}
		x.extend()
	}
}
