package mechanism

import "testing"

// TestScoresBetweenTheEndsAreScores draws below the largest scores there are: half of the draws would be larger.
func TestScoresBetweenTheEndsAreScores(t *testing.T) {
	s := NewSampler()
	for _, end := range []int64{MaxScore, -MaxScore} {
		for range 100 {
			got, err := s.Between(Score{}, Score{epsilonOf(t, "1"), end}, epsilonOf(t, "0.5"))
			if err != nil || got.check() != nil {
				t.Fatalf("below the score %d: %v, %v", end, got, err)
			}
		}
	}
}
