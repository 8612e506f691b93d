package main

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/chart"
	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// estimated returns an estimate at some levels, of values with given estimates, all ± 10 %.
func estimated(t *testing.T, levels string, estimates ...float64) api.Estimate {
	t.Helper()
	out := api.Estimate{Question: "q"}
	for _, text := range strings.Fields(levels) {
		e, err := privacy.ParseEpsilon(text)
		check.Must(t, err)
		out.Levels = append(out.Levels, api.LevelCount{Epsilon: e, N: 50})
		out.N += 50
	}
	for v, x := range estimates {
		out.Values = append(out.Values, api.ValueEstimate{Value: fmt.Sprint("value ", v), Estimate: x, StdErr: 0.05, Low: x - 0.1, High: x + 0.1})
	}
	return out
}

func TestShownLevels_ManyLevels_AreEvenlySpaced(t *testing.T) {
	var levels []api.LevelCount
	for n := 1; n <= 50; n++ {
		e, err := privacy.ParseEpsilon(fmt.Sprint(n))
		check.Must(t, err)
		levels = append(levels, api.LevelCount{Epsilon: e})
		shown, few := shownLevels(levels)
		if p := (&plot{levels: make([]api.Estimate, len(shown)), recorded: n, few: few}); strings.Contains(strings.Join(p.notes(false), " "), "few people") {
			t.Errorf("as many people are at each of %d levels, and the picture says %q", n, p.notes(false))
		}
		if len(shown) != min(n, chart.MaxRows) || shown[0] != levels[0] || shown[len(shown)-1] != levels[n-1] {
			t.Fatalf("of %d levels %v are shown", n, shown)
		}
		narrowest, widest := math.Inf(1), 0.0
		for i := 1; i < len(shown); i++ {
			step := shown[i].Epsilon.Float64() - shown[i-1].Epsilon.Float64()
			narrowest, widest = min(narrowest, step), max(widest, step)
		}
		check.That(t, n <= 1 || narrowest >= 1 && widest-narrowest <= 1, "of %d levels %v are shown", n, shown)
	}
}

func TestShownValues_ManyValues_AreTheLargest(t *testing.T) {
	few := estimated(t, "1", 0.1, 0.5, 0.4)
	if got := shownValues(few.Values); !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("of few values %v are shown", got)
	}
	estimates, want := make([]float64, 100), []int(nil)
	for v := range estimates {
		estimates[v] = float64(v*37%100)/5000 - 0.002 // some are below 0
	}
	for rank := 99; rank > 99-mostValues; rank-- {
		want = append(want, slices.Index(estimates, float64(rank)/5000-0.002))
	}
	if got := shownValues(estimated(t, "1", estimates...).Values); !slices.Equal(got, want) {
		t.Errorf("%v are shown, not %v", got, want)
	}
}

func TestShortened_LongNames_LoseTheirMiddle(t *testing.T) {
	for name, want := range map[string]string{
		"short": "short", "": "", "1234567890": "1234567890", "12345678901": "123456…901", "ééééééééééé": "éééééé…ééé", "a\nb\tc": "a b c",
	} {
		if got := shortened(name, 10); got != want {
			t.Errorf("%q became %q, not %q", name, got, want)
		}
	}
	p := &plot{whole: estimated(t, "1", 0.5, 0.3, 0.2), values: []int{0, 1, 2}}
	if names, numbered := p.labels(); numbered || !slices.Equal(names, []string{"value 0", "value 1", "value 2"}) {
		t.Errorf("short names became %q", names)
	}
	long := strings.Repeat("x", 20)
	p.whole.Values[0].Value, p.whole.Values[2].Value = long+"1"+long, long+"2"+long
	cut := strings.Repeat("x", 18) + "…" + strings.Repeat("x", 9)
	if names, numbered := p.labels(); !numbered || !slices.Equal(names, []string{cut + " (1)", "value 1", cut + " (3)"}) {
		t.Errorf("names alike became %q", names)
	}
	if notes := p.chart().Notes; !strings.Contains(strings.Join(notes, "\n"), "\nNumbers in parentheses") {
		t.Errorf("the notes are %q", notes)
	}
}

// stranger is a served ledger whose estimates are not those that were requested.
type stranger struct {
	backend
	at  []api.LevelCount
	one api.Estimate
}

func (s stranger) Levels(context.Context, string) iter.Seq2[api.LevelCount, error] {
	return func(yield func(api.LevelCount, error) bool) {
		for _, one := range s.at {
			if !yield(one, nil) {
				return
			}
		}
	}
}

func (s stranger) Estimate(context.Context, api.EstimateRequest) (api.Estimate, error) {
	return s.one, nil
}

func TestNewPlot_EstimatesOfOtherValues_AreRefused(t *testing.T) {
	whole := estimated(t, "1", 0.4, 0.6)
	for _, one := range []api.Estimate{{}, estimated(t, "1", 1), estimated(t, "", 0.4, 0.6)} {
		if p, err := newPlot(t.Context(), stranger{at: whole.Levels, one: one}, api.EstimateRequest{}, whole); err == nil {
			t.Errorf("the picture has %+v", p.levels)
		}
	}
	if p, err := newPlot(t.Context(), stranger{at: whole.Levels, one: whole}, api.EstimateRequest{}, whole); err != nil || len(p.levels) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestShownLevels_LevelsOfFewPeople_AreLeftOut(t *testing.T) {
	at := func(epsilon string, n int64) api.LevelCount {
		e, err := privacy.ParseEpsilon(epsilon)
		check.Must(t, err)
		return api.LevelCount{Epsilon: e, N: n}
	}
	got, few := shownLevels([]api.LevelCount{at("1", 10), at("2", 1000), at("3", 9), at("4", 500)})
	if want := []api.LevelCount{at("1", 10), at("2", 1000), at("4", 500)}; !slices.Equal(got, want) || few != 1 {
		t.Errorf("shown are %v but for %d, want %v", got, few, want)
	}
}
