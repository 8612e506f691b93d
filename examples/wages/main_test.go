package main

import (
	"bytes"
	"errors"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/examples/internal/survey"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/estimate"
)

const data = "../../testdata/cps1988_wages.csv"

// found returns the numbers in the first place of the output that an expression matches.
func found(t *testing.T, output, expression string) []float64 {
	t.Helper()
	match := regexp.MustCompile(expression).FindStringSubmatch(output)
	if match == nil {
		t.Fatalf("the output lacks %q:\n%s", expression, output)
	}
	numbers := make([]float64, len(match)-1)
	for i, text := range match[1:] {
		var err error
		if numbers[i], err = strconv.ParseFloat(text, 64); err != nil {
			t.Fatal(err)
		}
	}
	return numbers
}

// near fails unless two numbers differ by no more than a tolerance.
func near(t *testing.T, name string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s: %v, not %v ± %v", name, got, want, tolerance)
	}
}

// Every third person takes part. Everything printed about the truth is counted anew here, and every
// estimate must agree with it.
func TestWages(t *testing.T) {
	var out bytes.Buffer
	if err := run(&out, data, 3); err != nil {
		t.Fatal(err)
	}
	output := out.String()
	all, err := survey.ReadWages(data, 3)
	if err != nil {
		t.Fatal(err)
	}
	people := newStudy(nil, all, nil)
	if len(people.pilot) != 938 || len(people.panel) != 8447 {
		t.Fatalf("%d people in the pilot, %d in the panel", len(people.pilot), len(people.panel))
	}
	mean, _ := list(all.Of(all.People)).clipped(unclipped)
	near(t, "mean of all", found(t, output, `^9385 people have a mean wage of ([0-9.]+) `)[0], mean, 0.005)

	checkPilot(t, output, all.Of(people.pilot))
	bound := found(t, output, `, ε = 2: it is ([0-9]+) dollars`)[0]
	panel := list(all.Of(people.panel))
	checkMeans(t, output, panel, bound)
	checkGroup(t, output, "full-time", list(all.Of(people.members(false))), bound)
	checkGroup(t, output, "part-time", list(all.Of(people.members(true))), bound)

	once := found(t, output, `10000 such ends are ([0-9]+) dollars on average, and it is ([0-9.]+)\.`)
	share := min(once[1], bound) / bound
	near(t, "average of ends rounded anew", once[0], share*bound, 0.5+stattest.Sigmas*bound*math.Sqrt(share*(1-share)/10000))
	for _, want := range []string{`no-truth \(truth helps; the largest ε that would do is 2\)\nThe host alone is told`, `has spent ε = 2, as everybody`} {
		if !regexp.MustCompile(want).MatchString(output) {
			t.Errorf("the output lacks %q", want)
		}
	}
}

func checkPilot(t *testing.T, output string, wages []float64) {
	t.Helper()
	counts := estimate.Counts{Epsilon: epsilon("2"), ByValue: make([]int64, len(brackets))}
	for _, wage := range wages {
		counts.ByValue[bracket(wage)]++
	}
	variance, err := estimate.Variance(counts)
	if err != nil {
		t.Fatal(err)
	}
	for v, b := range brackets {
		share := 100 * float64(counts.ByValue[v]) / float64(len(wages))
		row := found(t, output, b.name+` +([0-9.]+) % +(-?[0-9.]+) ± [0-9.]+ %\n`)
		near(t, "real share "+b.name, row[0], share, 0.05)
		near(t, "share "+b.name, row[1], share, 0.05+stattest.Sigmas*100*math.Sqrt(variance[v]))
	}
}

func checkMeans(t *testing.T, output string, wages list, bound float64) {
	t.Helper()
	whole, _ := wages.clipped(unclipped)
	clipped, _ := wages.clipped(bound)
	for _, level := range []string{"0.25", "0.5", "1", "2"} {
		row := found(t, output, `\n +`+regexp.QuoteMeta(level)+` +8447 +(-?[0-9.]+) +(-?[0-9.]+) to (-?[0-9.]+) +([0-9.]+) +([0-9.]+)\n`)
		stdErr := noise(wages, len(wages), bound, epsilon(level).Float64())
		near(t, "mean at "+level, row[0], clipped, 0.05+stattest.Sigmas*stdErr)
		near(t, "middle of the interval at "+level, (row[1]+row[2])/2, row[0], 0.11)
		near(t, "clipped mean", row[3], clipped, 0.05)
		near(t, "real mean", row[4], whole, 0.05)
		// The interval is for a larger population, from which the panel was drawn; see estimate.Mean. The
		// tolerance covers what the estimated mean does to its width.
		near(t, "width at "+level, row[2]-row[1], 2*1.96*stdErr, 0.15*2*1.96*stdErr)
	}
}

func checkGroup(t *testing.T, output, name string, wages list, bound float64) {
	t.Helper()
	whole, _ := wages.clipped(unclipped)
	clipped, _ := wages.clipped(bound)
	row := found(t, output, name+` +([0-9]+) +([0-9.]+) +([0-9.]+)`+strings.Repeat(` +(-?[0-9.]+) ± [0-9.]+`, 4)+`\n`)
	near(t, name, row[0], float64(len(wages)), 0)
	near(t, name+", real mean", row[1], whole, 0.05)
	near(t, name+", clipped mean", row[2], clipped, 0.05)
	for i, level := range []float64{0.25, 0.5, 1, 2} {
		near(t, name+" mean", row[3+i], clipped, 0.05+stattest.Sigmas*noise(wages, len(wages), bound, level))
	}
}

// The whole survey, with numbers that were computed apart from this code.
func TestClippingOfTheSurvey(t *testing.T) {
	all, err := survey.ReadWages(data, 1)
	if err != nil {
		t.Fatal(err)
	}
	wages := list(all.Of(all.People))
	for _, want := range []struct{ bound, above, cut, quarter, two float64 }{
		{1000, 0.1231, 52.9, 23.90, 3.51}, {2000, 0.0133, 8.6, 47.81, 7.08}, {2500, 0.0022, 4.3, 59.73, 8.66}, {20000, 0, 0, 475.96, 54.59},
	} {
		near(t, "above", wages.above(want.bound), want.above, 0.00005)
		near(t, "cut off", cut(wages, want.bound), want.cut, 0.05)
		near(t, "noise at 0.25", noise(wages, len(wages), want.bound, 0.25), want.quarter, 0.005)
		near(t, "noise at 2", noise(wages, len(wages), want.bound, 2), want.two, 0.005)
		near(t, "error at 2", totalError(wages, len(wages), want.bound, 2), math.Hypot(want.cut, want.two), 0.05)
	}
	for epsilon, want := range map[float64]float64{0.25: 1500, 0.5: 2000, 1: 2000, 2: 2500} {
		if got := best(wages, len(wages), bounds(), epsilon); got != want {
			t.Errorf("the best bound at %v is %v, not %v", epsilon, got, want)
		}
	}
	guess, err := fitLognormal(500, 1-wages.above(500), 1000, 1-wages.above(1000))
	if err != nil {
		t.Fatal(err)
	}
	// The real median is 522.32. The guess must lead to an error not much above the smallest one, 9.7.
	near(t, "median", guess.median(), 522.32, 10)
	near(t, "error of the bound guessed", totalError(wages, len(wages), best(guess, len(wages), bounds(), 2), 2), 10, 1.2)
}

// Wages that are at an end already are not rounded, and the noise is that of randomized response alone.
func TestNoiseWithoutRounding(t *testing.T) {
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
		near(t, "noise at "+level, noise(wages, len(wages), 800, e.Float64()), want, 1e-9*want)
	}
}

func TestLognormal(t *testing.T) {
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
		wages[i] = math.Exp(want.mu + want.sigma*normalQuantile((float64(i)+0.5)/n))
	}
	for _, bound := range []float64{200, 500, 2000, unclipped} {
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

func TestBracket(t *testing.T) {
	for wage, want := range map[float64]int{50.05: 0, 500: 0, 500.01: 1, 1000: 1, 1000.01: 2, 18777.2: 2} {
		if got := bracket(wage); got != want {
			t.Errorf("%v is in bracket %d, not %d", wage, got, want)
		}
	}
}

func TestBadData(t *testing.T) {
	if err := run(new(bytes.Buffer), "nowhere.csv", 1); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "top of the repository") {
		t.Errorf("error %v", err)
	}
	if err := run(new(bytes.Buffer), data, 20000); err == nil {
		t.Error("a panel of one was enough")
	}
}
