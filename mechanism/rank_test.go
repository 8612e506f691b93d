package mechanism

import (
	"math"
	"math/big"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/mechanism/graph"
	"github.com/sluicedp/sluice/privacy"
)

var fractions, lineLaws = stattest.Fractions, stattest.LineLaws

// rankLawAt sums the laws of the ranks over all scores at a position up to a distance from it,
// beyond which the probability is at most e^(−ε·size).
func rankLawAt(nano int64, noise scoreTable, law []*big.Rat, z int64) []float64 {
	total := make([]float64, len(law))
	for y := z - noise.size; y <= z+noise.size; y++ {
		below := 0.0
		for j, chance := range append((rankLaw{nano, y, prefixSums(law)}).cumulative(enumerated), exact.Int(1)) {
			sum := min(chance.Float64(), 1)
			total[j] += (sum - below) * noise.at(z, z, y)
			below = sum
		}
	}
	return total
}

// For the answer yes with probability α at the boundary, the closed form must hold on both sides.
func TestRank_TwoOutputs_IsTheUnbalancedOptimum(t *testing.T) {
	for _, c := range []struct {
		epsilon string
		size    int64
	}{{"0.5", 75}, {"1.7", 25}, {"8", 6}} {
		epsilon := epsilonOf(t, c.epsilon)
		dp, noise := graph.Privacy{Epsilon: epsilon.Float64()}, newScoreTable(scoreLaw{at: epsilon.Nano()}, 0, c.size)
		for _, text := range []string{"1/1000", "1/5", "1/2", "5/7", "99/100"} {
			law := fractions(text, "0")
			law[1].Sub(big.NewRat(1, 1), law[0])
			alpha, _ := law[0].Float64()
			for z := int64(-7); z <= 7; z++ {
				start, d, right := alpha, int(z), 0
				if z < 0 {
					start, d, right = dp.Upper(1-alpha), int(-z)-1, 1 // of no at position −1
				}
				want := check.Value(dp.Law([]float64{start, 1 - start}, d))(t)
				if got := rankLawAt(epsilon.Nano(), noise, law, z)[right]; math.Abs(got-want[0]) > 2e-12 {
					t.Errorf("ε=%s, α=%s, z=%d: right with probability %v, want %v", c.epsilon, text, z, got, want[0])
				}
			}
		}
	}
}

// The same for more outputs, some with probability 0 or a small one.
func TestRank_ManyOutputs_HasTheLawsOfTheLine(t *testing.T) {
	for _, c := range []struct {
		epsilon string
		size    int64
	}{{"0.6", 62}, {"2", 20}} {
		epsilon := epsilonOf(t, c.epsilon)
		dp, noise := graph.Privacy{Epsilon: epsilon.Float64()}, newScoreTable(scoreLaw{at: epsilon.Nano()}, 0, c.size)
		for _, texts := range [][]string{
			{"1/3", "1/3", "1/3"}, {"1/100", "1/50", "0", "7/100", "9/10"}, {"0", "1/2", "1/2", "0"}, {"1", "0"},
		} {
			law := fractions(texts...)
			boundary := make([]float64, len(law))
			for j, p := range law {
				boundary[j], _ = p.Float64()
			}
			for z := range int64(6) {
				want := check.Value(dp.Law(boundary, int(z)))(t)
				for j, got := range rankLawAt(epsilon.Nano(), noise, law, z) {
					check.That(t, math.Abs(got-want[j]) <= 2e-12,
						"ε=%s, %v, z=%d: rank %d with probability %v, want %v", c.epsilon, texts, z, j, got, want[j])
				}
			}
		}
	}
}

// Scores are drawn and raised, and both are ranked. All ranks must have the laws of their ε, for
// different boundaries.
func TestRank_SystemRandomness_FollowsItsLaw(t *testing.T) {
	const z = 2
	laws := [2][]*big.Rat{fractions("1/10", "3/10", "6/10"), fractions("1/4", "3/4")}
	epsilons := [2]string{"0.3", "0.8"}
	counts := [2]map[int]int{{}, {}}
	s := new(Sampler)
	for range testenv.Tries(200, 400, 400) {
		var score Score
		for i, law := range laws {
			var err error
			if score, err = s.Raise(score, epsilonOf(t, epsilons[i]), placeOf(z)); err != nil {
				t.Fatal(err)
			}
			rank := check.Value(s.Rank(score, law))(t)
			counts[i][rank]++
		}
	}
	for i, law := range laws {
		want := map[int]float64{}
		for rank, p := range lineLaw(t, epsilons[i], law, z) {
			want[rank] = p
		}
		stattest.Cells(counts[i], want).Holds(t, "ε=%s", epsilons[i])
	}
}

func lineLaw(t *testing.T, epsilon string, law []*big.Rat, z int) []float64 {
	t.Helper()
	boundary := make([]float64, len(law))
	for j, p := range law {
		boundary[j], _ = p.Float64()
	}
	return check.Value((graph.Privacy{Epsilon: epsilonOf(t, epsilon).Float64()}).Law(boundary, z))(t)
}

// For these scores and laws, the probabilities are closest to 0, to 1 and to each other.
func TestRank_ExtremeScores_AreExact(t *testing.T) {
	close := new(big.Rat).SetFrac(big.NewInt(1), new(big.Int).Lsh(big.NewInt(1), 256))
	nearly := new(big.Rat).Sub(big.NewRat(1, 1), close)
	s := new(Sampler)
	for _, text := range []string{"0.000000001", "1", "1000"} {
		for _, c := range []struct {
			value int64
			law   []*big.Rat
			want  int
		}{
			{maxScore, fractions("1/1000", "999/1000"), 0},
			{-maxScore, fractions("999/1000", "1/1000"), 1},
			{maxScore, fractions("0", "1"), 1},
			{-maxScore, fractions("1", "0"), 0},
			{maxScore, []*big.Rat{close, nearly}, 0},
			{-maxScore, []*big.Rat{nearly, close}, 1},
			{maxScore, fractions("0", "1/2", "0", "1/2"), 1},
			{-maxScore, fractions("0", "1/2", "0", "1/2", "0"), 3},
		} {
			if got, err := s.Rank(Score{epsilonOf(t, text), c.value}, c.law); err != nil || got != c.want {
				t.Errorf("ε=%s, score %d, %v: rank %d, %v, want %d", text, c.value, c.law, got, err, c.want)
			}
		}
	}
}

func TestRank_InvalidScoreOrLaw_IsRefused(t *testing.T) {
	one := epsilonOf(t, "1")
	half := fractions("1/2", "1/2")
	for name, c := range map[string]struct {
		score Score
		law   []*big.Rat
	}{
		"no score": {Score{}, half}, "too large": {Score{one, math.MaxInt64}, half}, "too small": {Score{one, math.MinInt64}, half},
		"no law": {Score{one, 0}, nil}, "one output": {Score{one, 0}, fractions("1")}, "sum": {Score{one, 0}, fractions("1/2", "1/3")},
		"negative": {Score{one, 0}, fractions("3/2", "-1/2")}, "missing": {Score{one, 0}, []*big.Rat{nil, half[0]}},
		"too many": {Score{one, 0}, make([]*big.Rat, maxOutputs+1)},
	} {
		check.Is(t, check.Err(new(Sampler).Rank(c.score, c.law)), privacy.ErrInvalid, "%s", name)
	}
}
