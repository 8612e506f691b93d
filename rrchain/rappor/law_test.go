package rappor

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/sluicedp/sluice/internal/check"
)

// Over all filters in all cohorts, each tail must be the share of filters with a sum that is at
// least as large.
func TestFilterSum_AllFilters_HasExactTails(t *testing.T) {
	random := seeded(11)
	for _, p := range []Params{{1, 6, 1}, {3, 5, 1}, {2, 6, 2}, {2, 7, 3}, {2, 5, 4}, {3, 4, 2}} {
		table := make([]float64, p.Cohorts*p.Bits)
		for i := range table {
			table[i] = random.NormFloat64() * float64(1+i%3*i%2) // some larger, so that steps are uneven
		}
		l := newFilterSum(p, table, 0)
		sums := []int{0}
		for c := range p.Cohorts {
			var longer []int
			for _, ones := range subsets(p.Bits, p.Hashes) {
				for i := range ones {
					ones[i] += c * p.Bits
				}
				for _, sum := range sums {
					longer = append(longer, sum+l.at(ones))
				}
			}
			sums = longer
		}
		for at := slices.Min(sums) - 1; at <= slices.Max(sums)+1; at++ {
			want := 0.0
			for _, sum := range sums {
				if sum >= at {
					want += 1 / float64(len(sums))
				}
			}
			got := l.tail(at, 0)
			check.That(t, math.Abs(got-want) <= 1e-12, "%+v: the tail from %d is %v, want %v", p, at, got, want)
			if got := l.tail(at, 0.01); got < want-1e-12 || got > want+0.01+1e-12 {
				t.Errorf("%+v: the tail from %d is %v, want %v and up to 0.01 more", p, at, got, want)
			}
		}
	}
}

// There are more filters than a float64 can count. If all values are 0, the tail is that of the
// normal addend. If half of the values are 1 and half −1, it is nearly that of a normal number.
func TestFilterSum_ManyBits_HasExactTails(t *testing.T) {
	p := Params{1, 1200, 500}
	table := make([]float64, p.Bits)
	l := newFilterSum(p, table, 1)
	for _, z := range []float64{-2, 0, 1, 4} {
		at := int(math.Round(z / l.unit))
		want := distuv.UnitNormal.Survival((float64(at) - 0.5) * l.unit)
		wantNear(t, fmt.Sprintf("nothing but the addend, above %v", z), l.tail(at, 0), want, 1e-9)
	}
	l.normal = 0
	for i := range l.values {
		l.values[i] = i%2*2 - 1
	}
	deviation := math.Sqrt(500 * float64(1200-500) / 1199)
	wantNear(t, "two values", l.tail(30, 0), distuv.UnitNormal.Survival((30-1)/deviation), 0.02)
}

// For fixed reports, one candidate gets every possible filter. A p-value that is valid for any
// strings is at most x for at most a share x of the filters. There are few cohorts, and no client
// has a candidate, so the check is exact.
func TestPValue_AnyFilter_IsValid(t *testing.T) {
	for i, x := range []struct {
		params  Params
		epsilon string
		others  population
	}{
		{Params{1, 12, 1}, "40", population{"common": 400, "rare": 30}},
		{Params{2, 8, 1}, "8", population{"common": 500, "rare": 40, "rarer": 20}},
		{Params{3, 4, 1}, "8", population{"common": 300, "rare": 100}},
		{Params{2, 5, 2}, "6", population{"common": 700}},
		{Params{2, 6, 1}, "0.5", population{"common": 300, "rare": 100}},
	} {
		tally := survey(seeded(uint64(i)), x.params, eps(x.epsilon), x.others, nil)
		var p []float64
		for _, s := range everyFilterOnce(x.params) {
			p = append(p, mustDesign(tally, []string{s}).fit(0.95).candidates[0].p)
		}
		slices.Sort(p)
		for rank, value := range p {
			if share := float64(rank+1) / float64(len(p)); value < share-1e-9 && (rank+1 == len(p) || p[rank+1] > value) {
				t.Errorf("%+v: %d of %d filters have a p-value of at most %v", x, rank+1, len(p), value)
			}
		}
		check.That(t, p[0] <= 1.01/float64(len(p)), "%+v: the least p-value of %d filters is %v", x, len(p), p[0])
	}
}

// everyFilterOnce returns a string for each combination of filters in all cohorts.
func everyFilterOnce(p Params) []string {
	ways := int(math.Pow(float64(len(subsets(p.Bits, p.Hashes))), float64(p.Cohorts)))
	found := map[string]bool{}
	var all []string
	for i := 0; len(all) < ways; i++ {
		s, key := fmt.Sprint("any/", i), ""
		for c := range p.Cohorts {
			ones := bitsOf(p, c, s)
			slices.Sort(ones)
			key += fmt.Sprint(ones)
		}
		if !found[key] {
			found[key], all = true, append(all, s)
		}
	}
	return all
}
