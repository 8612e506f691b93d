package rappor

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// TestReportsAreKept goes up, down and between, and restarts: no report changes.
func TestReportsAreKept(t *testing.T) {
	p, sampler := Params{4, 16, 2}, rrchain.NewSampler()
	client := newClient(t, p, 3, "Emma")
	if !client.Spent().IsZero() || len(client.Reports()) != 0 || client.Cohort() != 3 {
		t.Fatalf("a new client in cohort %d has spent %v", client.Cohort(), client.Spent())
	}
	drawn := map[string]Report{}
	for _, step := range []struct {
		draw  func(*rrchain.Sampler, privacy.Epsilon) (Report, error)
		at    string
		spent string
	}{
		{client.Raise, "1", "1"}, {client.Raise, "3", "3"}, {client.Insert, "2", "3"},
		{client.Degrade, "0.25", "3"}, {client.Raise, "8", "8"},
	} {
		report, err := step.draw(sampler, eps(t, step.at))
		if err != nil {
			t.Fatal(err)
		}
		if report.Cohort != 3 || report.Epsilon != eps(t, step.at) || report.Bits.Len() != 16 {
			t.Errorf("at ε=%s: %+v", step.at, report)
		}
		if client.Spent() != eps(t, step.spent) {
			t.Errorf("after ε=%s the client has spent %v", step.at, client.Spent())
		}
		drawn[step.at] = report
	}
	restarted := newClient(t, p, 3, "Emma", client.Reports()...)
	for _, c := range []*Client{client, restarted} {
		for i, at := range []string{"0.25", "1", "2", "3", "8"} {
			if got, ok := c.At(eps(t, at)); !ok || got != drawn[at] || c.Reports()[i] != drawn[at] {
				t.Errorf("at ε=%s: %+v, was %+v", at, got, drawn[at])
			}
		}
		for _, at := range []string{"0.5", "9", "0"} {
			if got, ok := c.At(eps(t, at)); ok {
				t.Errorf("nobody drew a report at ε=%s: %+v", at, got)
			}
		}
	}
}

// TestReportsAreTrueAtALargeEpsilon: at the largest ε there is no noise left, and the report is the filter.
func TestReportsAreTrueAtALargeEpsilon(t *testing.T) {
	p := Params{1, 64, 3}
	client := raise(t, rrchain.NewSampler(), newClient(t, p, 0, "Emma"), privacy.MaxEpsilon())
	if got := slices.Collect(client.Reports()[0].Bits.Ones()); !slices.Equal(got, bitsOf(t, p, 0, "Emma")) {
		t.Errorf("bits %v", got)
	}
}

// TestWhatDoesNotDivideIsNotSpent reports at ε=1 with D = 6: 4 nano-nats are left.
func TestWhatDoesNotDivideIsNotSpent(t *testing.T) {
	p, sampler := Params{1, 16, 3}, rrchain.NewSampler()
	client := newClient(t, p, 0, "Emma")
	report, err := client.Raise(sampler, eps(t, "1"))
	want := eps(t, "0.999999996")
	if err != nil || client.Spent() != want || report.Epsilon != want || report != client.Reports()[0] {
		t.Errorf("spent %v for %+v, %v", client.Spent(), report, err)
	}
	tally, err := NewTally(p, eps(t, "1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := tally.Add(client.Reports()[0]); err != nil {
		t.Error(err)
	}
	if report, ok := client.At(eps(t, "1")); !ok || report != client.Reports()[0] {
		t.Errorf("at ε=1: %+v", report)
	}
	_, err = client.Raise(sampler, eps(t, "1.000000001"))
	if !errors.Is(err, rrchain.ErrInvalid) || len(client.Reports()) != 1 {
		t.Errorf("a raise by less than D nano-nats: %v", err)
	}
	newClient(t, p, 0, "Emma", client.Reports()...)
}

func TestClientRefuses(t *testing.T) {
	p, sampler, one := Params{4, 16, 2}, rrchain.NewSampler(), eps(t, "1")
	client := raise(t, sampler, newClient(t, p, 3, "secret"), one)
	before := client.Reports()
	for name, draw := range map[string]func() (Report, error){
		"raise to the same":     func() (Report, error) { return client.Raise(sampler, one) },
		"raise to less":         func() (Report, error) { return client.Raise(sampler, eps(t, "0.5")) },
		"raise to 0":            func() (Report, error) { return client.Raise(sampler, privacy.Epsilon{}) },
		"degrade to the same":   func() (Report, error) { return client.Degrade(sampler, one) },
		"degrade to next to 0":  func() (Report, error) { return client.Degrade(sampler, nano(t, 3)) },
		"insert above":          func() (Report, error) { return client.Insert(sampler, eps(t, "2")) },
		"insert with one level": func() (Report, error) { return client.Insert(sampler, eps(t, "0.5")) },
	} {
		report, err := draw()
		if !errors.Is(err, rrchain.ErrInvalid) || report != (Report{}) || !slices.Equal(client.Reports(), before) {
			t.Errorf("%s: %+v, %v", name, report, err)
		}
	}

	good := before[0]
	with := func(change func(*Report)) []Report {
		report := good
		change(&report)
		return []Report{report}
	}
	for name, recorded := range map[string][]Report{
		"another cohort":   with(func(r *Report) { r.Cohort = 2 }),
		"another length":   with(func(r *Report) { r.Bits = bitsWith(t, 8, 0) }),
		"no bits":          with(func(r *Report) { r.Bits = rrchain.Bits{} }),
		"ε=0":              with(func(r *Report) { r.Epsilon = privacy.Epsilon{} }),
		"ε nobody reports": with(func(r *Report) { r.Epsilon = nano(t, 1_000_000_001) }),
		"the same twice":   {good, good},
	} {
		c, err := NewClient(p, 3, "secret", recorded...)
		if c != nil || !errors.Is(err, rrchain.ErrInvalid) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewClient(p, 4, "secret"); !errors.Is(err, rrchain.ErrInvalid) || strings.Contains(err.Error(), "secret") {
		t.Errorf("cohort 4 of 4: %v", err)
	}
}
