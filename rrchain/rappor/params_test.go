package rappor

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/privacy"
)

// A program in another language computed these filters from the description alone. Clients of all
// versions must agree on them.
func TestFilter_GoldenStrings_NeverChange(t *testing.T) {
	for _, c := range []struct {
		params Params
		cohort int
		text   string
		ones   []int
	}{
		{Params{1, 128, 2}, 0, "Emma", []int{3, 113}},
		{Params{2, 128, 2}, 1, "Emma", []int{74, 90}},
		{Params{1, 128, 1}, 0, "Emma", []int{3}},
		{Params{1, 128, 2}, 0, "Olivia", []int{83, 118}},
		{Params{64, 128, 2}, 63, "", []int{15, 27}},
		{Params{8, 100, 5}, 7, "Zoë", []int{11, 22, 87, 93, 96}},
		{Params{4, 7, 6}, 3, "a", []int{0, 1, 2, 3, 5, 6}},
		{Params{1, 2, 1}, 0, "\x00", []int{0}},
		{Params{16777, 1000, 20}, 16776, strings.Repeat("x", 100), []int{
			4, 19, 57, 94, 105, 166, 258, 282, 304, 372, 408,
			467, 502, 586, 594, 617, 760, 788, 889, 949,
		}},
		{Params{16, 1048576, 3}, 15, "Noah", []int{25646, 564278, 1043394}},
	} {
		if got := bitsOf(c.params, c.cohort, c.text); !slices.Equal(got, c.ones) {
			t.Errorf("%+v, cohort %d, %q: bits %v, want %v", c.params, c.cohort, c.text, got, c.ones)
		}
	}
}

func TestFilter_SetsExactlyHashesBits(t *testing.T) {
	for _, p := range []Params{{3, 2, 1}, {3, 3, 2}, {2, 5, 4}, {9, 128, 2}, {5, 100, 7}, {2, 4096, 4095}} {
		for i := range 50 {
			filter, err := p.Filter(i%p.Cohorts, fmt.Sprint("name ", i))
			check.Need(t, err == nil && filter.Len() == p.Bits && len(slices.Collect(filter.Ones())) == p.Hashes,
				"%+v: %d of %d bits are set, %v", p, len(slices.Collect(filter.Ones())), filter.Len(), err)
		}
	}
}

// Each pair of bits must be equally frequent, over strings and over cohorts. The hash is fixed, so
// the test is deterministic.
func TestFilter_ManyStrings_AreUniform(t *testing.T) {
	const filters = 21_000
	p := Params{filters, 7, 2}
	var pairs [][2]int
	for _, pair := range subsets(7, 2) {
		pairs = append(pairs, [2]int(pair))
	}
	for name, filter := range map[string]func(i int) []int{
		"strings": func(i int) []int { return bitsOf(p, 0, fmt.Sprint("name ", i)) },
		"cohorts": func(i int) []int { return bitsOf(p, i, "Emma") },
	} {
		counts := map[[2]int]int{}
		for i := range filters {
			counts[[2]int(filter(i))]++
		}
		stattest.Fit(counts, stattest.Uniform(pairs...)).Holds(t, "over %s", name)
	}
}

// Words that would favour small numbers, and numbers drawn before, are skipped.
func TestDistinct_UnfairOrRepeatedWords_AreSkipped(t *testing.T) {
	words := []uint64{math.MaxUint64, math.MaxUint64 - 1, 7, 4, 1, 3, 8}
	left := words
	next := func() uint64 {
		word := left[0]
		left = left[1:]
		return word
	}
	// 2⁶⁴ − 1 is a multiple of 3 and 2⁶⁴ is not, so one word is surplus. The next word is 2 modulo
	// 3.
	got := distinct(3, 3, next)
	check.That(t, slices.Equal(got, []int{2, 1, 0}) && len(left) == 1, "drawn %v, %d words left", got, len(left))
	left = words
	if got := distinct(2, 4, next); !slices.Equal(got, []int{3, 2}) || len(left) != 5 { // nothing to throw away for 4
		t.Errorf("drawn %v, %d words left", got, len(left))
	}
}

func TestDrawCohort_ManyDraws_AreUniform(t *testing.T) {
	const draws = 50_000
	p, counts := Params{5, 8, 1}, map[int]int{}
	for range draws {
		cohort, err := p.DrawCohort()
		check.Need(t, err == nil && cohort >= 0 && cohort < p.Cohorts, "%v %v", cohort, err)
		counts[cohort]++
	}
	stattest.Fit(counts, stattest.Uniform(0, 1, 2, 3, 4)).Holds(t, "cohorts")
}

func TestBitEpsilon_NeverCostsMoreThanTheReport(t *testing.T) {
	for _, p := range []Params{{1, 2, 1}, {1, 128, 2}, {1, 128, 3}, {1, 10, 7}, {1, 1 << 20, 1000}} {
		d := int64(p.Distance())
		for _, e := range []int64{d, d + 1, 2*d - 1, 1_000_000_000, 7_777_777_777, privacy.MaxEpsilon().Nano()} {
			bit := must(p.BitEpsilon(nano(e)))
			used := d * bit.Nano()
			check.That(t, used <= e && used+d > e, "%+v: a bit at %v nano-nats in a report at %v", p, bit.Nano(), e)
			report, err := p.ReportEpsilon(bit)
			check.That(t, err == nil && report.Nano() == d*bit.Nano(),
				"%+v: a report of bits at ε=%v costs %v, %v", p, bit, report, err)
		}
	}
}

func TestDistance_IsTheMostBitsThatDiffer(t *testing.T) {
	for p, want := range map[Params]int{{1, 128, 2}: 4, {1, 128, 1}: 2, {1, 4, 2}: 4, {1, 4, 3}: 2, {1, 5, 3}: 4, {1, 2, 1}: 2} {
		check.Equal(t, p.Distance(), want, "%+v", p)
	}
}

// The loss is the number of different bits times the ε of a bit. Some pairs must reach the maximum.
func TestLoss_CountsTheBitsThatDiffer(t *testing.T) {
	p, one := Params{3, 6, 2}, eps("1")
	bit, largest := int64(250_000_000), privacy.Epsilon{}
	for i := range 30 {
		a, b := fmt.Sprint("a", i), fmt.Sprint("b", i)
		first, second := bitsOf(p, i%3, a), bitsOf(p, i%3, b)
		differ := 0
		for n := range p.Bits {
			if slices.Contains(first, n) != slices.Contains(second, n) {
				differ++
			}
		}
		loss, err := p.Loss(i%3, a, b, one)
		check.That(t, err == nil && loss.Nano() == int64(differ)*bit,
			"%v and %v: loss %v, %v", first, second, loss, err)
		if largest.Less(loss) {
			largest = loss
		}
		same, err := p.Loss(i%3, a, a, one)
		check.That(t, err == nil && same.IsZero(), "loss between a string and itself %v, %v", same, err)
	}
	check.That(t, largest == one, "the largest loss is %v, of ε=%v", largest, one)
}

func TestParams_Invalid_AreRefused(t *testing.T) {
	one := eps("1")
	for _, p := range []Params{
		{}, {0, 8, 1}, {-1, 8, 1}, {1, 1, 1}, {1, 0, 1}, {1, -8, 1}, {1, 8, 0}, {1, 8, 8}, {1, 8, 9}, {1, 8, -1},
		{1, maxBits + 1, 1}, {maxCounts/8 + 1, 8, 1}, {math.MaxInt, math.MaxInt, 1},
	} {
		_, errFilter := p.Filter(0, "a")
		_, errCohort := p.DrawCohort()
		_, errBit := p.BitEpsilon(one)
		_, errReport := p.ReportEpsilon(one)
		_, errLoss := p.Loss(0, "a", "b", one)
		_, errTally := p.NewTally(one)
		_, errClient := p.NewClient(0, "a")
		_, errNoise := Noise{0.5, 0.75, 0.25}.Loss(p, 1)
		for _, err := range []error{errFilter, errCohort, errBit, errReport, errLoss, errTally, errClient, errNoise} {
			check.That(t, errors.Is(err, privacy.ErrInvalid), "%+v: error %v", p, err)
		}
	}
	good := Params{2, 8, 2}
	for _, cohort := range []int{-1, 2} {
		if _, err := good.Filter(cohort, "secret"); !errors.Is(err, privacy.ErrInvalid) || strings.Contains(err.Error(), "secret") {
			t.Errorf("cohort %d: %v", cohort, err)
		}
		check.Is(t, check.Err(good.Loss(cohort, "a", "b", one)), privacy.ErrInvalid, "loss in cohort %d", cohort)
	}
	for _, e := range []int64{0, 3} {
		if _, err := good.BitEpsilon(nano(e)); !errors.Is(err, privacy.ErrInvalid) || !strings.Contains(err.Error(), "up to 4 bits") {
			t.Errorf("%d nano-nats for 4 bits: %v", e, err)
		}
		check.Is(t, check.Err(good.Loss(0, "a", "b", nano(e))), privacy.ErrInvalid, "loss at %d nano-nats", e)
	}
	for _, e := range []int64{privacy.MaxEpsilon().Nano()/4 + 1, privacy.MaxEpsilon().Nano()} {
		check.Is(t, check.Err(good.ReportEpsilon(nano(e))), privacy.ErrRange, "4 bits at %d nano-nats", e)
	}
}
