package rappor

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// The test enumerates all ways to divide four clients into cohorts of given sizes, and all their
// possible reports. The mean of each estimate must be the true share, and its variance the stated
// one. The mean of the squared residuals must be the expectation that they are compared with.
func TestDecode_AllPartitions_IsUnbiased(t *testing.T) {
	for _, x := range []struct {
		params  Params
		people  []string
		sizes   []int
		epsilon string
	}{
		{Params{2, 3, 1}, []string{"Emma", "Noah", "Noah", "Emma"}, []int{2, 2}, "1"},
		{Params{3, 3, 1}, []string{"Emma", "Noah", "Ava"}, []int{1, 1, 1}, "9"},
		{Params{2, 3, 2}, []string{"Emma", "Noah", "Noah", "Noah"}, []int{1, 3}, "40"},
		{Params{2, 3, 1}, []string{"Emma", "Noah", "Noah", "Noah"}, []int{3, 1}, "6"},
		{Params{1, 4, 1}, []string{"Emma", "Noah", "Noah"}, []int{3}, "3"},
		{Params{2, 4, 1}, []string{"Emma", "Noah", "Noah"}, []int{3, 0}, "5"},
	}[testenv.Tries(1, 0, 0):testenv.Tries(3, 6, 6)] {
		candidates := slices.Compact(slices.Sorted(slices.Values(x.people)))
		truth := make([]float64, len(candidates))
		for _, s := range x.people {
			truth[slices.Index(candidates, s)] += 1 / float64(len(x.people))
		}
		mean, square, total := make([]float64, len(truth)), make([]float64, len(truth)), 0.0
		residual, others := 0.0, 0.0
		everySurvey(x.params, x.people, x.sizes, x.epsilon, func(chance float64, tally *Tally) {
			result := must(tally.Decode(candidates, 0.9))
			total += chance
			others += chance * result.Others.Estimate * result.Others.Estimate
			for _, share := range result.Shares {
				j := slices.Index(candidates, share.String)
				mean[j] += chance * share.Estimate
				square[j] += chance * (share.Estimate - truth[j]) * (share.Estimate - truth[j])
			}
			residual += chance * squaredResiduals(tally, candidates)
		})
		wantNear(t, "the sum of all probabilities", total, 1, 1e-9)
		stated := trueAudit(x.params, x.sizes, x.epsilon, candidates, truth)
		for j, s := range candidates {
			check.That(t, math.Abs(mean[j]-truth[j]) <= 1e-9,
				"%+v: the mean share of %s is %v, want %v", x, s, mean[j], truth[j])
			wantNear(t, fmt.Sprintf("%+v: variance for %s", x, s), stated.errors[j].variance(0), square[j], 1e-8)
		}
		wantNear(t, fmt.Sprintf("%+v: variance for others", x), stated.others.variance(0), others, 1e-8)
		wantNear(t, fmt.Sprintf("%+v: squared residuals", x), stated.residual, residual, 1e-8)
	}
}

// everySurvey visits each possible tally of clients with the given strings, divided into cohorts of
// the given sizes. All partitions are equally likely.
func everySurvey(
	p Params, people []string, sizes []int, epsilon string, visit func(chance float64, tally *Tally),
) {
	ways := partitions(sizes, len(people), nil)
	var found []*Tally
	chances := map[string]float64{} // by the ones of a tally
	for _, cohorts := range ways {
		var filters [][]int
		for i, s := range people {
			filters = append(filters, bitsOf(p, cohorts[i], s))
		}
		for code := range 1 << (len(people) * p.Bits) {
			tally, chance := newTally(p, epsilon), 1/float64(len(ways))
			for i, cohort := range cohorts {
				tally.clients[cohort]++
				for bit := range p.Bits {
					reported := code >> (i*p.Bits + bit) & 1
					tally.ones[cohort*p.Bits+bit] += int64(reported)
					if (reported == 1) == slices.Contains(filters[i], bit) {
						chance *= 1 - tally.noise.q
					} else {
						chance *= tally.noise.q
					}
				}
			}
			if key := fmt.Sprint(tally.ones); chance > 1e-25 {
				if chances[key] == 0 {
					found = append(found, tally)
				}
				chances[key] += chance
			}
		}
	}
	for _, tally := range found {
		visit(chances[fmt.Sprint(tally.ones)], tally)
	}
}

// partitions returns all ways to give n clients their cohorts, after those in start.
func partitions(sizes []int, n int, start []int) [][]int {
	if len(start) == n {
		return [][]int{start}
	}
	var all [][]int
	for cohort, size := range sizes {
		used := 0
		for _, c := range start {
			if c == cohort {
				used++
			}
		}
		if used < size {
			all = append(all, partitions(sizes, n, append(start[:len(start):len(start)], cohort))...)
		}
	}
	return all
}

func squaredResiduals(tally *Tally, candidates []string) float64 {
	d := mustDesign(tally, candidates)
	fitted, sum := d.combine(d.solve()), 0.0
	for i, count := range d.counts {
		sum += d.clients[i/d.params.Bits] * (count - fitted[i]) * (count - fitted[i])
	}
	return sum
}

func mustDesign(tally *Tally, candidates []string) *design {
	return must(newDesign(tally, candidates))
}

type stated struct {
	errors   []parts
	others   parts
	residual float64
}

// trueAudit returns the variances that the package states for the true shares.
func trueAudit(p Params, sizes []int, epsilon string, candidates []string, truth []float64) stated {
	tally := newTally(p, epsilon)
	for cohort, n := range sizes {
		tally.clients[cohort] = int64(n)
	}
	d := mustDesign(tally, candidates)
	a := newAudit(d, truth)
	var result stated
	all := make([]float64, d.candidates)
	for j := range truth {
		coefficients := make([]float64, d.candidates)
		for s := range coefficients {
			coefficients[s] = d.inverse.At(j, s)
		}
		p, _ := a.candidate(j, d.combine(coefficients))
		result.errors = append(result.errors, p)
		floats.Add(all, coefficients)
	}
	result.others, _ = a.estimate(d.combine(all), a.others)
	result.residual = a.expectation(float64(d.independent() - d.candidates))
	return result
}

// The test enumerates all filters of two strings outside of the list and all partitions of the
// clients, without noise. Let q be the shares of the two strings. The variance of an estimate must
// be that of the partition plus Σq²·spread times its squared length. The squared residuals must be
// as expected, plus that shift. The package assumes many strings outside of the list and omits Σq²
// from the first parts. The test includes it.
func TestDecode_UnlistedStrings_HaveTheStatedVariance(t *testing.T) {
	for _, x := range []struct {
		params Params
		sizes  []int
	}{{Params{2, 4, 1}, []int{3, 3}}, {Params{2, 4, 1}, []int{4, 2}}, {Params{2, 3, 2}, []int{2, 4}}} {
		people := []int{0, 0, 1, 2, 2, 3} // numbers of strings; 2 and 3 are not listed
		candidates := []string{"Emma", "Noah"}
		tally := newTally(x.params, "1")
		for cohort, n := range x.sizes {
			tally.clients[cohort] = int64(n)
		}
		d := mustDesign(tally, candidates)
		d.variance = 0
		truth, q := []float64{2.0 / 6, 1.0 / 6}, 4.0/36+1.0/36
		square, residual, surveys := make([]float64, 2), 0.0, 0.0
		everyFilter(d, func(filters [][][]float64) {
			for _, cohorts := range partitions(x.sizes, len(people), nil) {
				clear(d.counts)
				for i, cohort := range cohorts {
					floats.AddScaled(d.row(d.counts, cohort), 1/d.clients[cohort], filters[cohort][people[i]])
				}
				shares := d.solve()
				for j := range square {
					square[j] += (shares[j] - truth[j]) * (shares[j] - truth[j])
				}
				fitted := d.combine(shares)
				for i, count := range d.counts {
					residual += d.clients[i/x.params.Bits] * (count - fitted[i]) * (count - fitted[i])
				}
				surveys++
			}
		})

		a := newAudit(d, truth)
		a.others -= q
		shift, scale := q*d.spread(), 0.0
		for j := range candidates {
			p, _ := a.candidate(j, d.combine(mat.Row(nil, j, &d.inverse)))
			wantNear(t, fmt.Sprintf("%+v: variance of candidate %d", x, j), p.variance(shift), square[j]/surveys, 1e-10)
		}
		for c, n := range d.clients {
			scale += n * (float64(x.params.Bits-1) - a.leverage[c])
		}
		expected := a.expectation(1) - q*a.finite()*float64(len(d.clients))*d.length() + shift*scale
		wantNear(t, fmt.Sprintf("%+v: squared residuals", x), expected, residual/surveys, 1e-10)
	}
}

// everyFilter visits all filters of two strings outside of the list, in two cohorts: the centred
// filters by cohort and string, the candidates' first.
func everyFilter(d *design, visit func(filters [][][]float64)) {
	sets := subsets(d.params.Bits, d.params.Hashes)
	centred := func(ones []int, first int) []float64 {
		filter := make([]float64, d.params.Bits)
		floats.AddConst(-d.density(), filter)
		for _, i := range ones {
			filter[i-first]++
		}
		return filter
	}
	for code := range len(sets) * len(sets) * len(sets) * len(sets) {
		filters := make([][][]float64, 2)
		for c := range filters {
			for j := range d.candidates {
				filters[c] = append(filters[c], centred(d.set(c, j), c*d.params.Bits))
			}
			for range 2 {
				filters[c] = append(filters[c], centred(sets[code%len(sets)], 0))
				code /= len(sets)
			}
		}
		visit(filters)
	}
}

// A QR factorization of the same regression must give the same solution. A column for the strings
// outside of the list has h/k for every bit.
func TestDecode_IsTheLeastSquaresSolution(t *testing.T) {
	p, candidates := Params{5, 16, 2}, names("x", 12)
	tally := survey(seeded(1), p, eps("3"), population{"x/0": 90, "x/1": 60, "x/5": 30, "y": 40}, nil)
	tally.clients[4] = 0 // a cohort without clients
	for i := range p.Bits {
		tally.ones[4*p.Bits+i] = 0
	}
	rows := (p.Cohorts - 1) * p.Bits
	left, right := mat.NewDense(rows, len(candidates)+1, nil), mat.NewVecDense(rows, nil)
	for c := range p.Cohorts - 1 {
		clients := tally.clients[c]
		weight := math.Sqrt(float64(clients))
		for i, ones := range tally.cohortOnes(c) {
			right.SetVec(c*p.Bits+i, weight*tally.noise.estimate(ones, clients)/float64(clients))
			left.Set(c*p.Bits+i, len(candidates), weight*float64(p.Hashes)/float64(p.Bits))
		}
		for j, s := range candidates {
			for _, i := range bitsOf(p, c, s) {
				left.Set(c*p.Bits+i, j, weight)
			}
		}
	}
	var qr mat.QR
	qr.Factorize(left)
	var want mat.VecDense
	check.Must(t, qr.SolveVecTo(&want, false, right))
	result := decode(tally, candidates, 0.95)
	sum := 0.0
	for _, share := range result.Shares {
		sum += share.Estimate
		wantNear(t, share.String, 1+share.Estimate, 1+want.AtVec(slices.Index(candidates, share.String)), 1e-10)
	}
	wantNear(t, "others", 1+result.Others.Estimate, 2-sum, 1e-12)
}

func decode(tally *Tally, candidates []string, confidence float64) Decoding {
	return must(tally.Decode(candidates, confidence))
}

// 4,000 clients report and raise, and both reports are decoded.
func TestDecode_RealClients_FindsTheirShares(t *testing.T) {
	p, sampler := Params{16, 32, 1}, new(rrchain.Sampler)
	people := population{"Emma": 1600, "Olivia": 1000, "Noah": 600, "Ava": 0, "Liam": 300, "not listed": 500}
	candidates := []string{"Ava", "Emma", "Liam", "Noah", "Olivia", "no client"}
	low, high := newTally(p, "1"), newTally(p, "5")
	for s, n := range people {
		for range n {
			cohort := must(p.DrawCohort())
			client := newClient(p, cohort, s)
			for _, tally := range []*Tally{low, high} {
				report := must(client.Raise(sampler, tally.epsilon))
				add(t, tally, report)
			}
		}
	}
	for _, tally := range []*Tally{low, high} {
		result := decode(tally, candidates, 0.95)
		for _, share := range result.Shares {
			stattest.Normal(share.Estimate-float64(people[share.String])/4000, share.StdErr).Holds(t, "%s", share.String)
		}
		stattest.Normal(result.Others.Estimate-500.0/4000, result.Others.StdErr).Holds(t, "others")
	}
	result := decode(high, candidates, 0.95)
	if top := result.Shares[0]; top.String != "Emma" || !top.Significant || top.P > 1e-6 || top.StdErr > 0.02 {
		t.Errorf("the commonest name: %+v", top)
	}
	if !slices.IsSortedFunc(result.Shares, func(a, b Share) int { return cmp.Compare(b.Estimate, a.Estimate) }) {
		t.Errorf("not sorted: %+v", result.Shares)
	}
}

func TestHolm_CorrectsPValues(t *testing.T) {
	for _, c := range []struct{ p, want []float64 }{
		{[]float64{0.01, 0.04, 0.03, 0.005}, []float64{0.03, 0.06, 0.06, 0.02}},
		{[]float64{0.5, 0.9, 0.001}, []float64{1, 1, 0.003}},
		{[]float64{0.2}, []float64{0.2}},
		{[]float64{0, 1}, []float64{0, 1}},
	} {
		for i, got := range holm(c.p) {
			wantNear(t, fmt.Sprintf("%v, number %d", c.p, i), got, c.want[i], 1e-15)
		}
	}
}

// With nearly no noise, or nearly only noise, for one client and one cohort, all results are
// finite.
func TestDecode_ExtremeNoise_IsFinite(t *testing.T) {
	candidates := []string{"a", "n/0"}
	for _, p := range []Params{{1, 8, 1}, {1, 8, 2}, {4, 16, 3}} {
		for _, e := range []int64{int64(p.Distance()), 1_000_000, 1_000_000_000, privacy.MaxEpsilon().Nano()} {
			for _, people := range []population{{"a": 1}, {"a": 2}, {"a": 40, "b": 7}} {
				result := decode(survey(seeded(uint64(e)), p, nano(e), people, nil), candidates, 0.95)
				for _, s := range append(result.Shares, Share{Frequency: result.Others}) {
					x := s.Estimate + s.StdErr + s.Low + s.High + s.P + result.Misfit
					check.That(t, !math.IsNaN(x) && !math.IsInf(x, 0) && s.StdErr > 0 && s.P >= 0 && s.P <= 1,
						"%+v at %d nano-nats, %v: %+v, misfit %v", p, e, people, s, result.Misfit)
				}
				if e == privacy.MaxEpsilon().Nano() && len(people) == 1 { // no noise left
					top := result.Shares[0]
					found := p.Cohorts > 1 // in one cohort of 8 bits nothing can be
					check.That(t, top.String == "a" && math.Abs(top.Estimate-1) <= 1e-9 && top.Significant == found &&
						result.Misfit <= 2, "%+v without noise: %+v", p, result)
				}
			}
		}
	}
}

// The fit explains the report completely. The confidence is the smallest, the largest, or between.
func TestDecode_AnyConfidence_HasValidIntervals(t *testing.T) {
	tally := newTally(Params{1, 4, 1}, "1")
	add(t, tally, Report{0, tally.epsilon, bitsWith(4)})
	for _, confidence := range []float64{math.SmallestNonzeroFloat64, 0.5, 1 - 0x1p-52, math.Nextafter(1, 0)} {
		result := decode(tally, []string{"a"}, confidence)
		for _, s := range append(result.Shares, Share{Frequency: result.Others}) {
			check.That(t, s.Low <= s.Estimate && s.Estimate <= s.High && s.High-s.Low <= 2,
				"confidence %v: %+v", confidence, s)
		}
	}
}

func TestDecode_InvalidArguments_AreRefused(t *testing.T) {
	p := Params{2, 4, 2}
	empty, full := newTally(p, "1"), survey(seeded(3), p, eps("1"), population{"a": 50, "b": 50}, nil)
	for _, c := range []struct {
		name       string
		tally      *Tally
		candidates []string
		confidence float64
		says       string
	}{
		{"confidence 0", full, []string{"a"}, 0, "confidence 0 "},
		{"confidence 1", full, []string{"a"}, 1, "confidence 1 "},
		{"confidence NaN", full, []string{"a"}, math.NaN(), "confidence NaN"},
		{"no candidates", full, nil, 0.9, "no candidates"},
		{"a candidate twice", full, []string{"a", "b", "a"}, 0.9, `"a" is given twice`},
		{"no reports", empty, []string{"a"}, 0.9, "no reports"},
	} {
		result, err := c.tally.Decode(c.candidates, c.confidence)
		check.That(t, errors.Is(err, privacy.ErrInvalid) && strings.Contains(err.Error(), c.says) &&
			result.Shares == nil, "%s: %v", c.name, err)
	}
}

// No counts can distinguish these candidates. The error states the reason.
func TestDecode_IndistinguishableCandidates_AreRefused(t *testing.T) {
	p := Params{1, 4, 2}
	tally := survey(seeded(4), p, eps("1"), population{"a": 50}, nil)
	byFilter := map[string][]string{}
	for _, s := range names("s", 60) {
		filter := must(p.Filter(0, s))
		byFilter[filter.String()] = append(byFilter[filter.String()], s)
	}
	alike := byFilter["0110"][:2]
	opposite := []string{byFilter["1100"][0], byFilter["0011"][0]} // a filter and its complement sum to a constant
	independent := []string{byFilter["1100"][0], byFilter["1010"][0], byFilter["1001"][0]}
	for _, c := range []struct {
		candidates []string
		alike      bool
		says       string
	}{
		{alike, true, fmt.Sprintf("%q and %q have the same filter", alike[0], alike[1])},
		{independent, false, "3 counts cannot distinguish 3 candidates"},
		{opposite, false, "filters of the 2 candidates are linearly dependent"},
	} {
		_, err := tally.Decode(c.candidates, 0.9)
		var undecodable *UndecodableError
		check.Need(t, errors.As(err, &undecodable) && errors.Is(err, privacy.ErrInvalid), "%q: %v", c.candidates, err)
		if undecodable.Candidates != len(c.candidates) || undecodable.Counts != 3 ||
			(len(undecodable.Alike) == 2) != c.alike ||
			!strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "more cohorts or bits") {
			t.Errorf("%q: %+v, %v", c.candidates, undecodable, err)
		}
	}
	decode(tally, independent[:2], 0.9)
}

// Only a cohort with one of two billion clients distinguishes the two candidates.
func TestDecode_NearlyIndistinguishableCandidates_AreRefused(t *testing.T) {
	p := Params{2, 4, 1}
	var alike, different []string
	for _, s := range names("s", 60) {
		if bitsOf(p, 1, s)[0] == 0 {
			if bitsOf(p, 0, s)[0] == 0 {
				alike = append(alike, s)
			} else {
				different = append(different, s)
			}
		}
	}
	candidates := []string{alike[0], different[0]}
	tally := newTally(p, "1")
	tally.clients = []int64{1, 2_000_000_000}
	for i := range tally.ones {
		often := tally.noise.q
		if i%p.Bits == 0 {
			often += tally.noise.gap
		}
		tally.ones[i] = int64(often * float64(tally.clients[i/p.Bits]))
	}
	_, err := tally.Decode(candidates, 0.9)
	var undecodable *UndecodableError
	check.That(t, errors.As(err, &undecodable) && strings.Contains(err.Error(), "linearly dependent"), "error %v", err)
	tally.clients[0] = 1_000_000_000
	for i := range p.Bits {
		tally.ones[i] = tally.ones[p.Bits+i] / 2
	}
	decode(tally, candidates, 0.9)
}

func TestPossible_MovesSharesIntoRange(t *testing.T) {
	for _, c := range []struct {
		shares, moved []float64
		others        float64
	}{
		{[]float64{0.5, -0.1, 0.2}, []float64{0.5, 0, 0.2}, 0.3},
		{[]float64{1.5, -0.9, 0.5}, []float64{0.75, 0, 0.25}, 0},
		{[]float64{-1, -2}, []float64{0, 0}, 1},
	} {
		moved, others := possible(c.shares)
		check.That(t, floats.EqualApprox(moved, c.moved, 1e-15) && math.Abs(others-c.others) <= 1e-15,
			"%v: %v and %v", c.shares, moved, others)
	}
}
