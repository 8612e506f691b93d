package mechanism

import (
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
)

// TestScoresBetweenTheEndsAreScores draws below the largest scores there are: half of the draws would be larger.
func TestScoresBetweenTheEndsAreScores(t *testing.T) {
	s := new(Sampler)
	for _, end := range []int64{maxScore, -maxScore} {
		for range 100 {
			got, err := s.Between(Score{}, Score{epsilonOf(t, "1"), end}, epsilonOf(t, "0.5"))
			check.Need(t, err == nil && got.check() == nil, "below the score %d: %v, %v", end, got, err)
		}
	}
}

// TestPowersAreOfFullLength looks at the numbers that a score's law is made of. A power that may depend on the truth must not
// be a short number, 0 or 1: it would be quicker to multiply, and tell by the time.
func TestPowersAreOfFullLength(t *testing.T) {
	const prec, nano = 256, 500_000_000
	d := newDecay(exact.Exp(nano, prec), nano, prec)
	for n := range uint64(20) {
		lo, hi := d.pow(n).Bounds()
		if lo.MinPrec() < prec-64 || hi.MinPrec() < prec-64 {
			t.Errorf("e^(−x·%d) is between numbers of %d and %d bits", n, lo.MinPrec(), hi.MinPrec())
		}
	}
}
