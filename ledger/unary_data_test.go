package ledger

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/estimate"
)

// Real data, through a ledger, in both encodings: estimates are unbiased, as exact as rrchain says, and better in the
// encoding that event.UnaryFrom says. Draws come from repeatable bits, so that a test that has passed does not fail.
// Under the race detector there are fewer people.

// attribute is a question about people whose true values are known.
type attribute struct {
	values []string
	truths []int // by person
}

// counts says how many people have each value.
func (a attribute) counts() []int64 {
	n := make([]int64, len(a.values))
	for _, v := range a.truths {
		n[v]++
	}
	return n
}

// rowsOf returns the rows of a CSV file, without its header, and the places of columns.
func rowsOf(t *testing.T, path string, columns ...string) (rows [][]string, at []int) {
	t.Helper()
	file := check.Value(os.Open(path))(t)
	defer file.Close()
	all := check.Value(csv.NewReader(file).ReadAll())(t)
	for _, name := range columns {
		i := slices.Index(all[0], name)
		check.Need(t, i >= 0, "%s has no column %q", path, name)
		at = append(at, i)
	}
	return all[1:], at
}

// babyNames are people born in proportion to the births of 2016, by their names: one of the commonest, or "other".
func babyNames(t *testing.T, births, commonest int) attribute {
	t.Helper()
	rows, at := rowsOf(t, filepath.Join("..", "testdata", "us_baby_names_2016.csv"), "name", "count")
	bySex := map[string]int64{}
	for _, row := range rows {
		n := int64(0)
		must(t, check.Err(fmt.Sscan(row[at[1]], &n)))
		bySex[row[at[0]]] += n
	}
	names := sortedKeys(bySex)
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(bySex[b], bySex[a]) })
	a := attribute{values: append(slices.Clone(names[:commonest]), "other"), truths: make([]int, births)}
	var until []int64 // how many births have this name or one before
	sum := int64(0)
	for _, name := range names {
		sum += bySex[name]
		until = append(until, sum)
	}
	random := rand.New(rand.NewPCG(2016, 1))
	for i := range a.truths {
		v, _ := slices.BinarySearch(until, random.Int64N(sum)+1)
		a.truths[i] = min(v, commonest)
	}
	return a
}

// survey asks everybody at rising ε, by a ledger, and returns the estimates at each.
func survey(t *testing.T, a attribute, encoding string, levels []privacy.Epsilon) []api.Estimate {
	t.Helper()
	l := inMemory(t, Options{Now: epoch})
	l.engine.Chances.Sampler, _ = sampler(2017)
	define(t, l, api.Question{Name: "home", Values: a.values, Encoding: encoding})
	names, truths := crowd(len(a.truths)), map[string]string{}
	for i, name := range names {
		truths[name] = a.values[a.truths[i]]
	}
	enroll(t, l, "home", "9", names...)
	var all []api.Estimate
	for _, epsilon := range levels {
		r := homesOf(t, epsilon.String(), epsilon.String())
		r.Truth = func(_ context.Context, _ string, objects []string) (values []string, err error) {
			for _, name := range objects {
				values = append(values, truths[name])
			}
			return values, nil
		}
		carryOut(t, l, r)
	}
	for _, epsilon := range levels {
		e := check.Value(l.Estimate(t.Context(), api.EstimateRequest{Question: "home", Epsilon: epsilon}))(t)
		check.That(t, e.N == int64(len(names)) && len(e.Values) == len(a.values),
			"at ε=%s %d are counted, by %d values", epsilon, e.N, len(e.Values))
		all = append(all, e)
	}
	last := levels[len(levels)-1]
	current := check.Value(l.Estimate(t.Context(), api.EstimateRequest{Question: "home"}))(t)
	check.That(t, fmt.Sprint(current) == fmt.Sprint(all[len(all)-1]), "the estimate is not that of the highest level")
	o := objectOf(t, l, names[0])
	check.That(t, o.Spent == last, "%s is spent up to ε=%s", o.Spent, last)
	return all
}

// covariance returns the covariance of the estimates of two values from a fixed population: in unary encoding bits are
// independent of each other; a randomized response is one value, and so not another.
func (a attribute) covariance(encoding string, epsilon privacy.Epsilon) func(v, w int) float64 {
	n, counts, e := float64(len(a.truths)), a.counts(), math.Exp(epsilon.Float64())
	p, q := 0.5, 1/(e+1)
	if encoding == "direct" {
		q = 1 / (e + float64(len(a.values)) - 1)
		p = e * q
	}
	scale := n * n * (p - q) * (p - q)
	return func(v, w int) float64 {
		switch {
		case v == w:
			return (float64(counts[v])*p*(1-p) + (n-float64(counts[v]))*q*(1-q)) / scale
		case encoding == "unary":
			return 0
		}
		return -(n*q*q + q*(p-q)*float64(counts[v]+counts[w])) / scale
	}
}

// wantAsPlanned compares the estimates of a survey with the truth.
func wantAsPlanned(t *testing.T, a attribute, encoding string, e api.Estimate) (total float64) {
	t.Helper()
	epsilon, n := e.Levels[0].Epsilon, float64(len(a.truths))
	truth := estimate.Counts{Epsilon: epsilon, ByValue: a.counts(), Unary: encoding == "unary"}
	planned := check.Value(estimate.Variance(truth))(t)
	what := fmt.Sprintf("%s at ε=%s", encoding, epsilon)
	cov := a.covariance(encoding, epsilon)
	errs, bias, ofBias := make([]float64, len(a.values)), 0.0, 0.0
	for v, one := range e.Values {
		if one.Value != a.values[v] || math.Abs(planned[v]/cov(v, v)-1) > 1e-9 {
			t.Errorf("%s: %q has the variance %g, by the formula %g", what, one.Value, planned[v], cov(v, v))
		}
		errs[v] = one.Estimate - float64(truth.ByValue[v])/n
		total += errs[v] * errs[v]
		bias += errs[v] / math.Sqrt(planned[v])
		for w := range errs {
			ofBias += cov(v, w) / math.Sqrt(planned[v]*planned[w])
		}
	}
	stattest.Squares(errs, func(v int) float64 { return 1 / planned[v] }, cov).Holds(t, "%s: squared standardized errors", what)
	stattest.Squares(errs, func(int) float64 { return 1 }, cov).Holds(t, "%s: squared errors", what)
	stattest.Normal(bias, math.Sqrt(ofBias)).Holds(t, "%s: the sum of the standardized errors", what)
	return total
}

// wantBothEncodings asks in both encodings, and compares which one plans call better with what event.UnaryFrom says.
// It returns the total squared errors at each ε, direct and unary.
func wantBothEncodings(t *testing.T, a attribute, levels ...privacy.Epsilon) (totals [][2]float64) {
	t.Helper()
	direct, unary := survey(t, a, "direct", levels), survey(t, a, "unary", levels)
	for i, epsilon := range levels {
		was := [2]float64{wantAsPlanned(t, a, "direct", direct[i]), wantAsPlanned(t, a, "unary", unary[i])}
		truth := estimate.Counts{Epsilon: epsilon, ByValue: a.counts()}
		ofDirect := check.Value(estimate.Variance(truth))(t)
		truth.Unary = true
		ofUnary := check.Value(estimate.Variance(truth))(t)
		planned := [2]float64{total(ofDirect), total(ofUnary)}
		if isBetter := len(a.values) >= event.UnaryFrom(epsilon); isBetter != (planned[1] < planned[0]) {
			t.Errorf("ε=%s: that unary encoding of %d values is better is %v, and planned are %g in direct encoding and %g in unary",
				epsilon, len(a.values), isBetter, planned[0], planned[1])
		}
		t.Logf("ε=%s: direct is ×%.2f of unary, planned ×%.2f; unary is to be better from %d values on", epsilon, was[0]/was[1], planned[0]/planned[1], event.UnaryFrom(epsilon))
		totals = append(totals, was)
	}
	return totals
}

func total(all []float64) (sum float64) {
	for _, x := range all {
		sum += x
	}
	return sum
}

// The names of babies: 500 that are common and all others, raised from 1 over 2 to 4.
func TestBabyNamesAreEstimatedAsPlanned(t *testing.T) {
	births := int64(20_000 / oneIn(4))
	a := babyNames(t, int(births), 500)
	other := a.counts()[500]
	if rare := slices.Min(a.counts()); len(a.values) != 501 || other < births*3/10 || other > births*6/10 || rare > 30 {
		t.Fatalf("%d values, %d births of others, %d of the rarest", len(a.values), other, rare)
	}
	// Plans differ by a factor of 2.7 or more. A total of 501 values varies by a 16th of itself, so that the other order
	// would be 10 standard deviations off.
	for _, was := range wantBothEncodings(t, a, eps(t, "1"), eps(t, "2"), eps(t, "4")) {
		check.That(t, !(was[1] >= was[0]),
			"the total squared error is %g in direct encoding, and %g in unary", was[0], was[1])
	}
}

// The native countries of the Adult data set (B. Becker and R. Kohavi, UCI Machine Learning Repository, DOI
// 10.24432/C5XW20; adult.data): how many of the 32,561 people have each of 42 values, "?" among them. The data set
// itself is not part of this project.
func nativeCountries() []int {
	return []int{
		29170, 643, 583, 198, 137, 121, 114, 106, 100, 95, 90, 81, 80, 75, 73, 70, 67, 64, 62, 60, 59,
		51, 44, 43, 37, 34, 31, 29, 29, 28, 24, 20, 19, 19, 18, 18, 16, 14, 13, 13, 12, 1,
	}
}

func TestNativeCountriesAreEstimatedAsPlanned(t *testing.T) {
	a := attribute{values: valuesOf(len(nativeCountries()))}
	step := oneIn(8)
	for v, n := range nativeCountries() {
		a.truths = append(a.truths, slices.Repeat([]int{v}, (n+step-1)/step)...)
	}
	wantBothEncodings(t, a, eps(t, "1"), eps(t, "2"), eps(t, "4"))
}
