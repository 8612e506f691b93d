package rappor

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// Over all reports of three clients, the mean of a bit's estimate must be the number of clients
// that have it set, and its variance must be Noise.
func TestTally_BitCounts_AreUnbiased(t *testing.T) {
	p := Params{2, 3, 1}
	people := []string{"a", "b", "c"}
	for _, e := range []string{"0.1", "2", "9"} {
		q := newTally(p, e).noise.q
		mean, square, noise := make([]float64, p.Bits), make([]float64, p.Bits), 0.0
		holders := make([]float64, p.Bits)
		for _, s := range people {
			for _, bit := range bitsOf(p, 1, s) {
				holders[bit]++
			}
		}
		for code := range 1 << (len(people) * p.Bits) {
			tally, chance := newTally(p, e), 1.0
			for i, s := range people {
				var ones []int
				truth := bitsOf(p, 1, s)
				for bit := range p.Bits {
					reported := code>>(i*p.Bits+bit)&1 == 1
					if reported {
						ones = append(ones, bit)
					}
					if reported == slices.Contains(truth, bit) {
						chance *= 1 - q
					} else {
						chance *= q
					}
				}
				add(t, tally, Report{1, tally.epsilon, bitsWith(p.Bits, ones...)})
			}
			check.Need(t, tally.Clients() == 3, "%d clients", tally.Clients())
			for bit, ones := range tally.cohortOnes(1) {
				estimate := tally.noise.estimate(ones, 3)
				mean[bit] += chance * estimate
				square[bit] += chance * (estimate - holders[bit]) * (estimate - holders[bit])
			}
			noise = 3 * tally.noise.variance()
		}
		for bit := range mean {
			check.That(t, math.Abs(mean[bit]-holders[bit]) <= 1e-10,
				"ε=%s, bit %d: mean %v, want %v", e, bit, mean[bit], holders[bit])
			wantNear(t, fmt.Sprintf("ε=%s: the variance of bit %d", e, bit), noise, square[bit], 1e-10)
		}
	}
}

// noisyRow is a row of noisy_sampling.json (testdata/README.md).
type noisyRow struct {
	Alpha   string `json:"eps_alpha"`
	Beta    string `json:"eps_beta"`
	K       int    `json:"K"`
	Loss    string `json:"eps_ns"`
	Noisy   string `json:"variance_noisy_sampling_n1"`
	Relaxed string `json:"variance_relaxation_n1"`
}

func noisyRows(t *testing.T) []noisyRow {
	t.Helper()
	return check.Vectors[noisyRow](t, "../../testdata/vectors/noisy_sampling.json", 20)
}

func number(text string) float64 { return must(strconv.ParseFloat(text, 64)) }

// TestTallyVariance_AgreesWithVectors checks pan2024 Eq. (67) with N = 1.
func TestTallyVariance_AgreesWithVectors(t *testing.T) {
	for i, row := range noisyRows(t) {
		wantNear(t, fmt.Sprint("row ", i), newChannel(number(row.Loss)).variance(), number(row.Relaxed), 1e-12)
	}
}

func TestTally_Merged_CountsBoth(t *testing.T) {
	p := Params{2, 4, 2}
	all, parts := newTally(p, "1"), []*Tally{newTally(p, "1"), newTally(p, "1")}
	for i := range 20 {
		report := Report{i % 3 % 2, all.epsilon, bitsWith(4, i%4, i%3)}
		add(t, all, report)
		add(t, parts[i%2], report)
	}
	check.Must(t, parts[0].Merge(parts[1]))
	check.That(t, slices.Equal(parts[0].ones, all.ones) && slices.Equal(parts[0].clients, all.clients) &&
		all.Clients() == 20 && parts[1].Clients() == 10, "merged %+v, want %+v", parts[0], all)
	check.That(t, all.params == p && all.epsilon == eps("1"), "a tally of %+v at ε=%v", all.params, all.epsilon)
	for _, other := range []*Tally{newTally(Params{2, 4, 1}, "1"), newTally(Params{4, 2, 1}, "1"), newTally(p, "2")} {
		if err := all.Merge(other); !errors.Is(err, privacy.ErrInvalid) || all.Clients() != 20 {
			t.Errorf("merging another kind of tally: %v", err)
		}
	}
}

func TestTally_InvalidReports_AreRefused(t *testing.T) {
	tally := newTally(Params{2, 4, 1}, "1")
	for name, report := range map[string]Report{
		"another ε":      {0, eps("2"), bitsWith(4, 1)},
		"another length": {0, eps("1"), bitsWith(5, 1)},
		"no bits":        {0, eps("1"), rrchain.Bits{}},
		"no cohort":      {2, eps("1"), bitsWith(4, 1)},
		"cohort −1":      {-1, eps("1"), bitsWith(4, 1)},
	} {
		err := tally.Add(report)
		check.That(t, errors.Is(err, privacy.ErrInvalid) && tally.Clients() == 0 && slices.Max(tally.ones) == 0,
			"%s: %v", name, err)
	}
}

func newTally(p Params, epsilon string) *Tally { return must(p.NewTally(eps(epsilon))) }

func add(t *testing.T, tally *Tally, report Report) {
	t.Helper()
	check.Must(t, tally.Add(report))
}

func bitsWith(n int, ones ...int) rrchain.Bits {
	packed := make([]byte, (n+7)/8)
	for _, i := range ones {
		packed[i/8] |= 1 << (i % 8)
	}
	return must(rrchain.NewBits(n, packed))
}
