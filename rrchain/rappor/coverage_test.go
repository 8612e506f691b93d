package rappor

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/estimate"
)

// seeded returns ordinary random numbers, the same in every run.
func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 6)) }

// trial is one kind of survey of 2,000 clients. 12 candidates have clients, in geometrically
// falling numbers, and 12 have none. If unlisted, a third of the clients have one of 30 strings
// that are not among the candidates.
type trial struct {
	params   Params
	epsilon  string
	unlisted bool
}

func trials() (all []trial) {
	for _, p := range []Params{{12, 24, 2}, {24, 32, 1}} {
		for _, e := range []string{"0.5", "3", "40"} {
			all = append(all, trial{p, e, false}, trial{p, e, true})
		}
	}
	return all
}

const clients, candidates = 2000, 24

// people returns the number of clients with each string in one survey. Every survey has different
// strings, so that their hashes are independent.
func (x trial) people(number int) (listed []string, people population) {
	listed, people = names(fmt.Sprint("listed ", number), candidates), population{}
	left := clients
	for i, s := range listed[:candidates/2] {
		people[s] = int(340 * math.Pow(0.75, float64(i)))
		left -= people[s]
	}
	if x.unlisted {
		for i, s := range names(fmt.Sprint("unlisted ", number), 30) {
			people[s] = (left - i + 29) / 30
		}
	} else {
		people[listed[0]] += left
	}
	return listed, people
}

// outcome compares the result of one survey with the true shares.
type outcome struct {
	covered, short float64   // the share of candidates whose interval holds the true share, also if it were 20 % shorter
	others         float64   // 1 if the interval of the others holds their share
	errors         []float64 // by candidate
	falseAlarm     bool
	misfit         float64
}

func (x trial) run(number int, random *rand.Rand, decode func(*Tally, []string) Decoding) (o outcome) {
	listed, people := x.people(number)
	result := decode(survey(random, x.params, eps(x.epsilon), people, nil), listed)
	place := map[string]int{}
	for i, s := range listed {
		place[s] = i
	}
	o.errors, o.misfit = make([]float64, candidates), result.Misfit
	others := clients
	for _, share := range result.Shares {
		truth := float64(people[share.String]) / clients
		others -= people[share.String]
		o.errors[place[share.String]] = share.Estimate - truth
		if holds(share.Frequency, truth, 1) {
			o.covered += 1.0 / candidates
		}
		if holds(share.Frequency, truth, 0.8) {
			o.short += 1.0 / candidates
		}
		if truth == 0 && share.Significant {
			o.falseAlarm = true
		}
	}
	if holds(result.Others, float64(others)/clients, 1) {
		o.others = 1
	}
	return o
}

// holds returns whether an interval, with both sides multiplied by a factor, contains the true
// share.
func holds(f estimate.Frequency, truth, factor float64) bool {
	return f.Estimate-factor*(f.Estimate-f.Low) <= truth && truth <= f.Estimate+factor*(f.High-f.Estimate)
}

// The test runs up to 200 surveys of each kind with a fixed seed: of every fifth kind in the deep
// form, and of two kinds in the quick one. Estimates are unbiased, and intervals cover as often as
// stated. In at most 5 % of the surveys, a string of no client is called significant.
//
// The coverage may be 1 % lower because of the normal approximation. It may be 2 % higher because a
// negative excess of the residuals counts as 0.
func TestDecode_DrawnSurveys_KeepsItsPromises(t *testing.T) {
	surveys := testenv.Tries(80, 200, 200)
	alarms, all := 0, 0
	for i, x := range trials() {
		if i%testenv.Tries(7, 5, 1) != 0 {
			continue
		}
		random := seeded(uint64(i))
		var covered, short, others, misfit []float64
		errs := make([][]float64, candidates)
		for number := range surveys {
			o := x.run(number, random, func(tally *Tally, listed []string) Decoding {
				return decode(tally, listed, 0.95)
			})
			covered, short = append(covered, o.covered), append(short, o.short)
			others, misfit = append(others, o.others), append(misfit, o.misfit)
			for j, e := range o.errors {
				errs[j] = append(errs[j], e)
			}
			if o.falseAlarm {
				alarms++
			}
			all++
		}
		stattest.Mean(covered, 0.94, 0.97).Holds(t, "%+v: coverage", x)
		stattest.Mean(short, 0.94, 0.97).Fails(t, "%+v: coverage of intervals that are 20 %% too short", x)
		stattest.Mean(others, 0.94, 0.97).Holds(t, "%+v: coverage of the others", x)
		if !x.unlisted {
			stattest.Mean(misfit, 0.97, 1.01).Holds(t, "%+v: misfit", x)
		}
		for j := range errs {
			stattest.Mean(errs[j], 0, 0).Holds(t, "%+v: error of candidate %d", x, j)
		}
	}
	wantFewAlarms(t, alarms, all)
}

// wantFewAlarms allows a false alarm in 5 % of the surveys. For a random seed, a correct procedure
// would fail with a probability below 10⁻⁴. The seed is fixed.
func wantFewAlarms(t *testing.T, alarms, surveys int) {
	t.Helper()
	if v := stattest.Share(alarms, surveys, 0, 0.05); v.P < 1e-4 {
		t.Errorf("surveys with a false alarm: %v", v)
	} else {
		t.Logf("surveys with a false alarm: %v", v)
	}
}

// There is little noise, and a third of the clients have one of 30 strings outside of the list. On
// average over 150 surveys, the estimated variance of the shift must be that of these strings'
// filters, Σq²·h(k−h)/(k(k−1)) for their shares q. An error of 15 % must fail the test.
func TestDecode_UnlistedStrings_ShiftIsEstimated(t *testing.T) {
	const surveys = 150
	x := trial{Params{12, 24, 2}, "40", true}
	var ratios []float64
	for number := range surveys {
		listed, people := x.people(number)
		tally := survey(seeded(uint64(number)), x.params, eps(x.epsilon), people, nil)
		squares := 0.0
		for _, n := range people {
			squares += float64(n) * float64(n) / clients / clients
		}
		for _, s := range listed {
			squares -= float64(people[s]) * float64(people[s]) / clients / clients
		}
		ratios = append(ratios, mustDesign(tally, listed).fit(0.95).shift/(squares*2*22/(24*23.0)))
	}
	stattest.Mean(ratios, 1, 1).Holds(t, "the shift, as a share of what it should be")
	stattest.Mean(ratios, 1.15, math.Inf(1)).Fails(t, "the shift, if it should be 15 %% more")
	stattest.Mean(ratios, math.Inf(-1), 0.85).Fails(t, "the shift, if it should be 15 %% less")
}

// Each case has clients with another fault.
func TestDecode_FaultyClients_AreNoticed(t *testing.T) {
	p := Params{16, 32, 2}
	listed, people := trial{p, "8", false}.people(0)
	tally := func(faulty func(cohort int, s string) (Params, int)) *Tally {
		return survey(seeded(9), p, eps("8"), people, faulty)
	}
	right := decode(tally(nil), listed, 0.95)
	if top := right.Shares[0]; top.String != listed[0] || !top.Significant || right.Misfit > 1.2 {
		t.Errorf("without a fault: %+v, misfit %v", top, right.Misfit)
	}

	next := func(cohort int, s string) (Params, int) { return p, (cohort + 1) % p.Cohorts }
	wrongCohort := decode(tally(next), listed, 0.95)
	check.That(t, wrongCohort.Misfit >= 1.5, "filters of another cohort: misfit %v", wrongCohort.Misfit)
	for _, share := range wrongCohort.Shares {
		check.That(t, share.String != listed[0] || share.High <= 0.1,
			"filters of another cohort: %+v is found all the same", share)
	}

	three := func(cohort int, s string) (Params, int) { return Params{p.Cohorts, p.Bits, 3}, cohort }
	_, err := tally(three).Decode(listed, 0.95)
	check.That(t, errors.Is(err, privacy.ErrInvalid), "filters with 3 hashes instead of 2: %v", err)
	if err == nil || !strings.Contains(err.Error(), "have 3.0") && !strings.Contains(err.Error(), "have 2.9") {
		t.Errorf("filters with 3 hashes instead of 2: the error does not say so: %v", err)
	}
	mistaken, copied := newTally(p, "6"), tally(nil)
	mistaken.clients, mistaken.ones = copied.clients, copied.ones
	check.Is(t, check.Err(mistaken.Decode(listed, 0.95)), privacy.ErrInvalid, "reports at ε=8 taken for ε=6")
}
