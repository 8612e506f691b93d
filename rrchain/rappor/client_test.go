package rappor

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// No report changes when further reports are drawn above, below and between, or after a restart.
func TestClient_RaisedAndRestarted_KeepsItsReports(t *testing.T) {
	p, sampler := Params{4, 16, 2}, new(rrchain.Sampler)
	client := newClient(p, 3, "Emma")
	check.Need(t, client.Spent().IsZero() && len(client.Reports()) == 0, "a new client has spent %v", client.Spent())
	drawn := map[string]Report{}
	for _, step := range []struct {
		draw  func(*rrchain.Sampler, privacy.Epsilon) (Report, error)
		at    string
		spent string
	}{
		{client.Raise, "1", "1"}, {client.Raise, "3", "3"}, {client.Insert, "2", "3"},
		{client.Insert, "0.25", "3"}, {client.Raise, "8", "8"},
	} {
		report := must(step.draw(sampler, eps(step.at)))
		check.That(t, report.Cohort == 3 && report.Epsilon == eps(step.at) && report.Bits.Len() == 16,
			"at ε=%s: %+v", step.at, report)
		check.That(t, client.Spent() == eps(step.spent), "after ε=%s the client has spent %v", step.at, client.Spent())
		drawn[step.at] = report
	}
	restarted := newClient(p, 3, "Emma", client.Reports()...)
	for _, c := range []*Client{client, restarted} {
		for i, at := range []string{"0.25", "1", "2", "3", "8"} {
			if got := c.Reports(); len(got) != 5 || got[i] != drawn[at] {
				t.Errorf("report %d of %d is %+v, was %+v", i, len(got), got[i], drawn[at])
			}
		}
	}
}

// At the largest ε there is no noise, so the report is the filter.
func TestClient_LargestEpsilon_ReportsTheFilter(t *testing.T) {
	p := Params{1, 64, 3}
	client := raise(t, new(rrchain.Sampler), newClient(p, 0, "Emma"), privacy.MaxEpsilon())
	got := slices.Collect(client.Reports()[0].Bits.Ones())
	check.That(t, slices.Equal(got, bitsOf(p, 0, "Emma")), "bits %v", got)
}

// At ε=1 with D = 6, 4 nano-nats are not spent.
func TestClient_EpsilonNotDivisible_SpendsTheMultiple(t *testing.T) {
	p, sampler := Params{1, 16, 3}, new(rrchain.Sampler)
	client := newClient(p, 0, "Emma")
	report, err := client.Raise(sampler, eps("1"))
	want := eps("0.999999996")
	check.That(t, err == nil && client.Spent() == want && report.Epsilon == want && report == client.Reports()[0],
		"spent %v for %+v, %v", client.Spent(), report, err)
	tally := must(p.NewTally(eps("1")))
	check.OK(t, tally.Add(client.Reports()[0]))
	_, err = client.Raise(sampler, eps("1.000000001"))
	check.That(t, errors.Is(err, privacy.ErrInvalid) && len(client.Reports()) == 1,
		"a raise by less than D nano-nats: %v", err)
	newClient(p, 0, "Emma", client.Reports()...)
}

func TestClient_InvalidCalls_AreRefused(t *testing.T) {
	p, sampler, one := Params{4, 16, 2}, new(rrchain.Sampler), eps("1")
	client := raise(t, sampler, newClient(p, 3, "secret"), one)
	before := client.Reports()
	for name, draw := range map[string]func() (Report, error){
		"raise to the same":   func() (Report, error) { return client.Raise(sampler, one) },
		"raise to less":       func() (Report, error) { return client.Raise(sampler, eps("0.5")) },
		"raise to 0":          func() (Report, error) { return client.Raise(sampler, privacy.Epsilon{}) },
		"insert at the same":  func() (Report, error) { return client.Insert(sampler, one) },
		"insert at next to 0": func() (Report, error) { return client.Insert(sampler, nano(3)) },
		"insert above":        func() (Report, error) { return client.Insert(sampler, eps("2")) },
	} {
		report, err := draw()
		check.That(t, errors.Is(err, privacy.ErrInvalid) && report == (Report{}) &&
			slices.Equal(client.Reports(), before), "%s: %+v, %v", name, report, err)
	}

	for at, reason := range map[string]string{
		"1":         "there is already a report at ε=1",
		"1.0000001": "at ε=1.0000001 needs a report above ε=1.0000001; the last one is at ε=1",
	} {
		if _, err := client.Insert(sampler, eps(at)); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("an insertion at ε=%s: %v, want an error that says %q", at, err, reason)
		}
	}

	good := before[0]
	with := func(change func(*Report)) []Report {
		report := good
		change(&report)
		return []Report{report}
	}
	for name, recorded := range map[string][]Report{
		"another cohort":          with(func(r *Report) { r.Cohort = 2 }),
		"another length":          with(func(r *Report) { r.Bits = bitsWith(8, 0) }),
		"no bits":                 with(func(r *Report) { r.Bits = rrchain.Bits{} }),
		"ε=0":                     with(func(r *Report) { r.Epsilon = privacy.Epsilon{} }),
		"an ε that no report has": with(func(r *Report) { r.Epsilon = nano(1_000_000_001) }),
		"the same twice":          {good, good},
	} {
		c, err := p.NewClient(3, "secret", recorded...)
		check.That(t, c == nil && errors.Is(err, privacy.ErrInvalid) && !strings.Contains(err.Error(), "secret"),
			"%s: %v", name, err)
	}
	if _, err := p.NewClient(4, "secret"); !errors.Is(err, privacy.ErrInvalid) || strings.Contains(err.Error(), "secret") {
		t.Errorf("cohort 4 of 4: %v", err)
	}
}
