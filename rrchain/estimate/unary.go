package estimate

import (
	"fmt"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// UnaryCounts says in how many responses in unary encoding the bit of each value was set, among
// objects at one ε.
type UnaryCounts struct {
	Epsilon privacy.Epsilon // above 0
	Objects int64           // how many responses there are
	ByValue []int64         // one count for each of the m values, at most Objects
}

// UnaryFrequencies returns the share of each value from responses in unary encoding, each object
// counted once, at the level it has reached.
//
// Within one level the estimate is π̂ = (n_v/n − q)/(1/2 − q) with q = 1/(e^ε+1). With
// [Options.Pool] the weights of levels are proportional to the inverse of their variance when all
// values are equally common. Everything else, the errors included, is as for [Frequencies].
func UnaryFrequencies(o Options, levels ...UnaryCounts) ([]Frequency, error) {
	return shares(o, levels, newUnaryStratum)
}

// UnaryDisagreement is [Disagreement] for responses in unary encoding.
func UnaryDisagreement(levels ...UnaryCounts) (float64, error) {
	return disagreement(levels, newUnaryStratum)
}

// UnaryVariance returns, for each value, the exact variance of the estimate in unary encoding from
// a fixed population of objects whose true values have the given counts and who all answer at the
// same ε: (n_v/4 + (n−n_v)·q(1−q)) / (n²(1/2−q)²). Errors are those of [Frequencies].
func UnaryVariance(truth Counts) ([]float64, error) {
	return planned(truth, func(c Counts) (stratum, error) {
		n := 0.0
		for _, count := range c.ByValue {
			n += float64(count)
		}
		return unaryStratum(c, n)
	})
}

func newUnaryStratum(c UnaryCounts) (stratum, error) {
	for v, count := range c.ByValue {
		if count > c.Objects {
			return stratum{}, fmt.Errorf("%w: value %d was counted %d times in %d responses",
				rrchain.ErrInvalid, v, count, c.Objects)
		}
	}
	return unaryStratum(Counts{c.Epsilon, c.ByValue}, float64(c.Objects))
}

func unaryStratum(c Counts, n float64) (stratum, error) {
	s, err := countStratum(c)
	if err != nil {
		return s, err
	}
	bit, err := firstResponse(2, c.Epsilon) // of each hidden bit
	if err != nil {
		return s, err
	}
	s.n = n
	s.q, s.gap = bit.OneMinusPAA, gap(bit)/2
	s.excess = 1 // (1/4 − q(1−q))/(1/2 − q)²
	s.bits = true
	often := s.q + s.gap/float64(len(c.ByValue))
	s.prior = often * (1 - often)
	return s, nil
}
