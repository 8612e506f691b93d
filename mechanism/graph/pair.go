package graph

// Pair is a suitable pair of bounds (torkamani2023 Definition 12): if a dataset answers j with
// probability α, each neighbour answers j with a probability in [Lower(α), Upper(α)]. Both
// functions map [0,1] to [0,1] and increase. [Pair.Check] looks for a place where a pair is not
// suitable.
type Pair struct {
	Lower, Upper func(alpha float64) float64 // the least and the most that a neighbour answers j
	// Tradeoff is 1 − Upper(α) with all its digits, the trade-off function of Dong, Roth and Su
	// (see [Gaussian]). It may be nil. Then the error beside a neighbour whose α is small is 1 −
	// Upper(α) as a difference, with an absolute error of 2^−53: where Upper(α) rounds to 1, that
	// is 0.
	Tradeoff func(alpha float64) float64
}
