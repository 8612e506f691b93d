package main

import (
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/examples/internal/kit"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/estimate"
)

const wagesFile = "testdata/cps1988_wages.csv"

// near fails unless two numbers differ by no more than a tolerance.
func near(t *testing.T, name string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s: %v, not %v ± %v", name, got, want, tolerance)
	}
}

// The real errors do not vary from run to run. The shares that the pilot estimates do, by at most
// seven standard errors of 1 %.
func TestRun_Wages_PrintsErrorsOfBounds(t *testing.T) {
	t.Chdir("../..")
	var out strings.Builder
	if err := run(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`^PILOT   2815 men answer in ranges: `, `the mean of the 25340 others`, ` 1000 +52\.2 +3\.7 +52\.3 +`, ` 2500 +4\.0 +9\.1 +9\.9 +`,
		` 20000 +0\.0 +57\.5 +57\.5 +`, `The pilot chooses a bound of [123][05]00 dollars\. The best is 2500\.\n$`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("the output lacks %q:\n%s", want, &out)
		}
	}
	pilot := regexp.MustCompile(`: ([\d.]+) % earn up to 500 dollars, and ([\d.]+) % up to 1,000`).FindStringSubmatch(out.String())
	if pilot == nil {
		t.Fatalf("no pilot:\n%s", &out)
	}
	for i, real := range []float64{47.6, 87.0} {
		share, err := strconv.ParseFloat(pilot[i+1], 64)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "share", share, real, 7)
	}
}

func TestRun_MissingData_ErrorSaysWhereToRun(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := run(new(strings.Builder)); err == nil || !strings.Contains(err.Error(), "top of the repository") {
		t.Errorf("error %v", err)
	}
}

// above returns the share of the wages above a bound.
func above(l list, bound float64) float64 {
	n := 0
	for _, wage := range l {
		if wage > bound {
			n++
		}
	}
	return float64(n) / float64(len(l))
}

// The numbers for the whole survey are those of an independent computation.
func TestBest_WholeSurvey_MatchesIndependentNumbers(t *testing.T) {
	all, err := kit.ReadWages(filepath.Join("../..", wagesFile), 1)
	if err != nil {
		t.Fatal(err)
	}
	wages := list(all.Of(all.People))
	for _, want := range []struct{ bound, above, cut, quarter, two float64 }{
		{1000, 0.1231, 52.9, 23.90, 3.51}, {2000, 0.0133, 8.6, 47.81, 7.08}, {2500, 0.0022, 4.3, 59.73, 8.66}, {20000, 0, 0, 475.96, 54.59},
	} {
		near(t, "above", above(wages, want.bound), want.above, 0.00005)
		near(t, "cut off", cut(wages.clipped, want.bound), want.cut, 0.05)
		near(t, "noise at 0.25", noise(wages.clipped, len(wages), want.bound, 0.25), want.quarter, 0.005)
		near(t, "noise at 2", noise(wages.clipped, len(wages), want.bound, 2), want.two, 0.005)
		near(t, "error at 2", totalError(wages.clipped, len(wages), want.bound, 2), math.Hypot(want.cut, want.two), 0.05)
	}
	for epsilon, want := range map[float64]float64{0.25: 1500, 0.5: 2000, 1: 2000, 2: 2500} {
		if got := best(wages.clipped, len(wages), epsilon); got != want {
			t.Errorf("the best bound at %v is %v, not %v", epsilon, got, want)
		}
	}
	guess, err := fitLognormal(500, 1-above(wages, 500), 1000, 1-above(wages, 1000))
	if err != nil {
		t.Fatal(err)
	}
	// The real median is 522.32. The guess must lead to an error not much above the smallest one,
	// 9.7.
	near(t, "median", math.Exp(guess.mu), 522.32, 10)
	near(t, "error of the bound guessed", totalError(wages.clipped, len(wages), best(guess.clipped, len(wages), 2), 2), 10, 1.2)
}

// Wages at an end are not rounded, and the noise is only that of randomized response.
func TestNoise_WagesAtTheEnds_IsOfRandomizedResponse(t *testing.T) {
	wages := list{0, 0, 0, 800, 800}
	for _, level := range []string{"0.1", "1", "5"} {
		e, err := privacy.ParseEpsilon(level)
		if err != nil {
			t.Fatal(err)
		}
		variance, err := estimate.Variance(estimate.Counts{Epsilon: e, ByValue: []int64{3, 2}})
		if err != nil {
			t.Fatal(err)
		}
		want := 800 * math.Sqrt(variance[1])
		near(t, "noise at "+level, noise(wages.clipped, len(wages), 800, e.Float64()), want, 1e-9*want)
	}
}

func TestFitLognormal_TwoShares_GiveTheDistribution(t *testing.T) {
	want := lognormal{mu: 6, sigma: 0.7}
	share := func(bound float64) float64 { return normalShare((math.Log(bound) - want.mu) / want.sigma) }
	got, err := fitLognormal(300, share(300), 900, share(900))
	if err != nil {
		t.Fatal(err)
	}
	near(t, "mu", got.mu, want.mu, 1e-9)
	near(t, "sigma", got.sigma, want.sigma, 1e-9)
	// The wages at the middles of a million equal shares.
	const n = 1_000_000
	wages := make(list, n)
	for i := range wages {
		wages[i] = math.Exp(want.mu + want.sigma*math.Sqrt2*math.Erfinv(2*(float64(i)+0.5)/n-1))
	}
	for _, bound := range []float64{200, 500, 2000, 1e9} {
		mean, square := want.clipped(bound)
		wantMean, wantSquare := wages.clipped(bound)
		near(t, "mean", mean, wantMean, 1e-4*wantMean)
		near(t, "mean of squares", square, wantSquare, 1e-3*wantSquare)
	}
	for _, shares := range [][2]float64{{0, 0.5}, {-0.1, 0.5}, {0.5, 0.5}, {0.6, 0.5}, {0.5, 1}, {0.5, 1.1}, {math.NaN(), 0.5}} {
		if got, err := fitLognormal(500, shares[0], 1000, shares[1]); err == nil {
			t.Errorf("shares %v: %v", shares, got)
		}
	}
}

func TestBracket_Bound_IsInTheLowerBracket(t *testing.T) {
	for wage, want := range map[float64]int{50.05: 0, 500: 0, 500.01: 1, 1000: 1, 1000.01: 2, 18777.2: 2} {
		if got := bracket(wage); got != want {
			t.Errorf("%v is in bracket %d, not %d", wage, got, want)
		}
	}
}
