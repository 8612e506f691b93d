package rappor

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// contest compares the published noise with chains that are raised at the same cost. It holds the
// reports of the same clients by both methods, and the true counts by cohort and bit.
type contest struct {
	params  Params
	noise   Noise
	noisy   []rrchain.Bits // permanent filters
	chains  []*Client
	cohorts []int
	clients []int64   // by cohort
	truth   [][]int64 // how many clients have the bit set
	ones    [][]int64 // how often it was set in all noisy reports so far
}

// After several reports, chains have a smaller variance than noise that is drawn again for each, at
// the same total ε. Both variances agree with theory (pan2024 Eq. (68), (67)). The tolerance is 6.5
// times 1.6 %, the standard error of the mean of 8,192 squared errors, and a little more because
// they are not quite normal.
func TestRaisedChains_HaveLessVarianceThanRepeatedNoise(t *testing.T) {
	c := newContest(Params{Cohorts: 64, Bits: 128, Hashes: 1}, Noise{F: 0.5, P: 0.75, Q: 0.25}, 2000)
	reports, chains, random := 0, new(rrchain.Sampler), rand.New(rand.NewPCG(1, 2))
	for _, upTo := range []int{1, 2, 4, 8, 16} {
		for ; reports < upTo; reports++ {
			c.reportNoisily(random)
		}
		noisy := c.measure(func(cohort, bit int) (float64, error) {
			return c.noise.Estimate(c.ones[cohort][bit], c.clients[cohort], reports)
		})
		noisyTheory := must(c.noise.Variance(reports, 0))
		chain, chainTheory := c.raise(t, chains, reports)
		if math.Abs(noisy/noisyTheory-1) > 0.12 || math.Abs(chain/chainTheory-1) > 0.12 {
			t.Errorf("after %d reports the variances are %v and %v, and should be %v and %v", reports, noisy, chain, noisyTheory, chainTheory)
		}
		check.That(t, (reports > 1) == (noisyTheory/chainTheory > 1.1),
			"after %d reports the noise has %v of the variance of the chains", reports, noisyTheory/chainTheory)
	}
}

func newContest(p Params, noise Noise, clients int) *contest {
	c := &contest{params: p, noise: noise, clients: make([]int64, p.Cohorts)}
	for range p.Cohorts {
		c.truth, c.ones = append(c.truth, make([]int64, p.Bits)), append(c.ones, make([]int64, p.Bits))
	}
	random := rand.New(rand.NewPCG(3, 4))
	for i := range clients {
		name := fmt.Sprint("name ", i%(1+i/7)) // some are common
		cohort := must(p.DrawCohort())
		filter := must(p.Filter(cohort, name))
		noisy := redrawn(random, filter, 1-noise.F/2, noise.F/2)
		c.noisy, c.chains, c.cohorts = append(c.noisy, noisy), append(c.chains, newClient(p, cohort, name)), append(c.cohorts, cohort)
		c.clients[cohort]++
		countBits(c.truth[cohort], filter)
	}
	return c
}

func countBits(counts []int64, bits rrchain.Bits) {
	for i := range bits.Ones() {
		counts[i]++
	}
}

// redrawn sets each bit with probability `set` if it is set, and with probability `unset`
// otherwise.
func redrawn(random *rand.Rand, bits rrchain.Bits, set, unset float64) rrchain.Bits {
	var ones []int
	for i := range bits.Len() {
		if random.Float64() < [...]float64{unset, set}[bits.Bit(i)] {
			ones = append(ones, i)
		}
	}
	return bitsWith(bits.Len(), ones...)
}

// reportNoisily adds one more report of each client.
func (c *contest) reportNoisily(random *rand.Rand) {
	for i, permanent := range c.noisy {
		countBits(c.ones[c.cohorts[i]], redrawn(random, permanent, c.noise.P, c.noise.Q))
	}
}

// raise raises the chains to the cost of the noisy reports. It returns their measured variance and
// the theoretical one.
func (c *contest) raise(t *testing.T, s *rrchain.Sampler, reports int) (measured, theory float64) {
	t.Helper()
	loss := must(c.noise.Loss(c.params, reports))
	level := must(privacy.EpsilonFromNano(int64(loss * 1e9))) // rounded down: the chains get no more
	tally := must(c.params.NewTally(level))
	for _, client := range c.chains {
		report := must(client.Raise(s, level))
		check.Must(t, tally.Add(report))
	}
	return c.measure(func(cohort, bit int) (float64, error) {
		return tally.noise.estimate(tally.cohortOnes(cohort)[bit], tally.clients[cohort]), nil
	}), tally.noise.variance()
}

// measure returns the mean squared error of the count of a bit, for one client.
func (c *contest) measure(estimate func(cohort, bit int) (float64, error)) float64 {
	sum, bits := 0.0, 0.0
	for cohort, clients := range c.clients {
		if clients == 0 {
			continue
		}
		for bit, truth := range c.truth[cohort] {
			estimated := must(estimate(cohort, bit))
			away := estimated - float64(truth)
			sum, bits = sum+away*away/float64(clients), bits+1
		}
	}
	return sum / bits
}
