package mechanism

import (
	"math"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/mechanism/graph"
	"github.com/sluicedp/sluice/privacy"
)

func epsilonOf(t testing.TB, text string) privacy.Epsilon {
	t.Helper()
	return check.Value(privacy.ParseEpsilon(text))(t)
}

// lawAt returns the exact law of the ranks at a distance, as floats.
func lawAt(epsilon privacy.Epsilon, outputs int, distance uint64) []float64 {
	l := answerLaw{new(Sampler), epsilon, outputs, min(distance, farthest(epsilon))}
	law, below := make([]float64, outputs), exact.Int(0)
	for i, sum := range l.cumulative(256) {
		law[i] = sum.Sub(below).Float64()
		below = sum
	}
	law[outputs-1] = exact.Int(1).Sub(below).Float64()
	return law
}

// The exact law must be that of graph.Privacy.Law from the default boundary law, and with two
// outputs the balanced optimum.
func TestDraw_AnswerLaw_IsThatOfTheLine(t *testing.T) {
	for _, text := range []string{"0.001", "0.01", "0.1", "0.5", "1", "2", "5", "30"} {
		epsilon := epsilonOf(t, text)
		for _, k := range []int{2, 3, 4, 7, 40, 500} {
			boundary := check.Value(graph.Privacy{Epsilon: epsilon.Float64()}.RandomizedResponse(k))(t)
			for _, d := range []int{0, 1, 2, 3, 5, 17, 100, 1000} {
				if k >= 40 && d%17 != 0 && !testenv.Deep() { // most of the time goes there
					continue
				}
				want := check.Value((graph.Privacy{Epsilon: epsilon.Float64()}).Law(boundary, d))(t)
				got := lawAt(epsilon, k, uint64(d))
				for i := range got {
					check.Need(t, math.Abs(got[i]-want[i]) <= 1e-12,
						"ε=%s, k=%d, d=%d: rank %d has %v, want %v", text, k, d, i, got[i], want[i])
				}
				if k == 2 {
					e := epsilon.Float64()
					wrong := math.Exp(-e*float64(d)) / (1 + math.Exp(e))
					if wrong > 1e-60 && math.Abs(got[1]-wrong) > 1e-12*wrong { // 256 bits of 1 − wrong do not show less
						t.Fatalf("ε=%s, d=%d: wrong with probability %v, want %v", text, d, got[1], wrong)
					}
				}
			}
		}
	}
}

// Growth ends where the prefix passes 1/(e^ε+1), which the test finds by single steps.
func TestGrowthSteps_AgreeWithSingleSteps(t *testing.T) {
	for _, text := range []string{"0.0001", "0.01", "0.1", "0.7", "1.5", "3"} {
		epsilon := epsilonOf(t, text)
		e := math.Exp(epsilon.Float64())
		for _, k := range []int{2, 3, 10, 300, maxOutputs} {
			for i, steps := range growthSteps(epsilon, k) {
				s, want := (e+float64(i))/(e+float64(k-1)), uint64(0)
				for ; s <= 1/(e+1); s *= e {
					want++
				}
				check.That(t, steps == want, "ε=%s, k=%d, prefix %d: %d steps, want %d", text, k, i+1, steps, want)
			}
		}
	}
}

// At the smallest ε with many outputs, growth takes more than 2³² steps. Around that distance,
// prefix sums of neighbours may differ by a factor of at most e^ε.
func TestGrowthSteps_MoreThan32Bits_StayPrivate(t *testing.T) {
	epsilon := epsilonOf(t, "0.000000001")
	steps, sampler := growthSteps(epsilon, 160)[0], new(Sampler)
	want := uint64(math.Log(160./2) * 1e9)
	check.That(t, steps >= want-10 && steps <= want+10, "%d steps, want about %d", steps, want)
	sums := func(d uint64) []exact.Interval { return answerLaw{sampler, epsilon, 160, d}.cumulative(256) }
	for _, d := range []uint64{1<<32 - 1, steps - 1} {
		near, far := sums(d), sums(d+1)
		for i := range near {
			check.Need(t, !exact.Exp(epsilon.Nano(), 128).Mul(near[i]).Below(far[i]),
				"distance %d: the first %d outputs grow by more than e^ε", d, i+1)
		}
	}
}

// A guess that is too small or too large is corrected.
func TestCorrectSteps_WrongGuess_IsCorrected(t *testing.T) {
	epsilon := epsilonOf(t, "0.1")
	for i, want := range growthSteps(epsilon, 50) {
		for _, guess := range []uint64{0, 1, want, want + 1, want + 5} {
			check.Equal(t, correctSteps(epsilon, int64(i), 50, guess), want, "prefix %d, from %d: the steps", i+1, guess)
		}
	}
}

func replayed(b byte) *Sampler {
	return &Sampler{Random: exact.ReplayBits(func(p []byte) {
		for i := range p {
			p[i] = b
		}
	})}
}

func TestDraw_ExtremeBits_ReturnsFirstOrLastOutput(t *testing.T) {
	order := []int{2, 0, 3, 1}
	for _, d := range []int64{0, 1, 50, math.MaxInt64} {
		for _, text := range []string{"0.000000001", "1", "1000"} {
			at := Place{Order: order, Distance: d}
			if got, err := replayed(0).Draw(at, epsilonOf(t, text)); err != nil || got != 2 {
				t.Errorf("ε=%s, d=%d: bits of 0 give %d, %v; want the preferred output", text, d, got, err)
			}
		}
	}
	// U = 1 − 2⁻⁶⁴…: the last of the order, where it has a probability above that.
	got, err := replayed(0xff).Draw(Place{Order: order, Distance: 3}, epsilonOf(t, "1"))
	check.That(t, err == nil && got == 1, "bits of 1 give %d, %v; want the last output", got, err)
	if got, err := replayed(0xff).Draw(Place{Order: order, Distance: unreachable}, epsilonOf(t, "1")); err != nil || got != 2 {
		t.Errorf("without a boundary the answer is %d, %v", got, err)
	}
}

func TestDraw_InvalidPlaceOrEpsilon_IsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		at      Place
		epsilon string
	}{
		"ε = 0":             {Place{Order: []int{0, 1}}, "0"},
		"no order":          {Place{}, "1"},
		"one output":        {Place{Order: []int{0}}, "1"},
		"lacks an output":   {Place{Order: []int{0, 0}}, "1"},
		"unknown output":    {Place{Order: []int{0, 2}}, "1"},
		"below 0":           {Place{Order: []int{-1, 0}, Distance: unreachable}, "1"},
		"negative distance": {Place{Order: []int{0, 1}, Distance: -2}, "1"},
	} {
		check.Is(t, check.Err(new(Sampler).Draw(c.at, epsilonOf(t, c.epsilon))), privacy.ErrInvalid, "%s", name)
	}
}

// 10,000 draws against the law, in the quick form 4,000.
func TestDraw_SystemRandomness_FollowsTheLaw(t *testing.T) {
	s, at, epsilon := new(Sampler), Place{Order: []int{1, 2, 0}, Distance: 1}, epsilonOf(t, "0.6")
	counts, law := map[int]int{}, map[int]float64{}
	for range testenv.Tries(4_000, 10_000, 10_000) {
		got := check.Value(s.Draw(at, epsilon))(t)
		counts[got]++
	}
	for rank, p := range lawAt(epsilon, 3, 1) {
		law[at.Order[rank]] = p
	}
	stattest.Cells(counts, law).Holds(t, "the draws")
}

func TestPick_ReturnsTheOutputOfARank(t *testing.T) {
	order := []int{5, 0, 1023, 7}
	for rank, want := range order {
		check.Equal(t, pick(order, rank), want, "rank %d", rank)
	}
}

// keepAt returns the retention of a degradation as a float.
func keepAt(k int, from, to privacy.Epsilon) float64 {
	return retention(int64(k), from, to, 128).Float64()
}

// A degraded answer must be ε₁-private for every pair of laws that ε₂ allows. The worst pairs are
// extreme ones, which the grid contains.
func TestDegrade_AllPairsOfLaws_IsPrivate(t *testing.T) {
	for _, c := range []struct{ from, to string }{{"1", "0.5"}, {"2", "0.1"}, {"0.3", "0.29"}, {"6", "3"}, {"0.01", "0.001"}} {
		from, to := epsilonOf(t, c.from), epsilonOf(t, c.to)
		e1, e2 := math.Exp(to.Float64()), math.Exp(from.Float64())
		for _, k := range []int{2, 3, 5, 30} {
			r, worst := keepAt(k, from, to), 0.0
			for i := range 20001 {
				q := float64(i) / 20000
				p := min(e2*q, 1-(1-q)/e2)
				for outputs := 1; outputs < k; outputs++ {
					c := float64(outputs) * (1 - r) / float64(k)
					worst = max(worst, (r*p+c)/(r*q+c))
				}
			}
			check.That(t, worst <= e1*(1+1e-12),
				"from ε=%s to %s, k=%d: a ratio of e^%v", c.from, c.to, k, math.Log(worst))
			q := 1 / (e2 + 1)
			if tight := (r*e2*q + (1-r)/float64(k)) / (r*q + (1-r)/float64(k)); math.Abs(tight-e1) > 1e-9*e1 {
				t.Errorf("from ε=%s to %s, k=%d: the worst ratio is %v, and could be %v", c.from, c.to, k, tight, e1)
			}
		}
	}
}

// With two outputs, randomized response at ε₂ becomes randomized response at ε₁.
func TestDegrade_TwoOutputs_IsThatOfChains(t *testing.T) {
	from, to := epsilonOf(t, "2"), epsilonOf(t, "0.5")
	lambda := func(e privacy.Epsilon) float64 { return math.Tanh(e.Float64() / 2) }
	got, want := keepAt(2, from, to), lambda(to)/lambda(from)
	check.That(t, math.Abs(got-want) <= 1e-14, "retention %v, want %v", got, want)
}

func TestDegrade_ExtremeBitsAndInvalidArguments(t *testing.T) {
	one, half := epsilonOf(t, "1"), epsilonOf(t, "0.5")
	got, err := replayed(0).Degrade(4, 2, one, half)
	check.That(t, err == nil && got == 2, "bits of 0 give %d, %v; want the answer itself", got, err)
	if got, err := replayed(0xff).Degrade(4, 2, one, half); err != nil || got != 3 {
		t.Errorf("bits of 1 give %d, %v; want the last uniform value", got, err)
	}
	for name, c := range map[string]struct {
		outputs, answer int
		from, to        privacy.Epsilon
	}{
		"one output": {1, 0, one, half}, "answer beyond": {3, 3, one, half}, "negative answer": {3, -1, one, half},
		"upwards": {3, 0, half, one}, "same": {3, 0, one, one}, "to 0": {3, 0, one, privacy.Epsilon{}},
	} {
		check.Is(t, check.Err(new(Sampler).Degrade(c.outputs, c.answer, c.from, c.to)), privacy.ErrInvalid, "%s", name)
	}
}
