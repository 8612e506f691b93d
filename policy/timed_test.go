package policy

import (
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/privacy"
)

func TestLinear_CeilingRisesOnALine(t *testing.T) {
	p := must(t)(Linear(eps("0.25"), eps("1.05"), at(0), at(80*time.Hour), eps("0.1")))
	wantCeilings(t, p, map[time.Time]string{
		{}: "0", at(-1): "0", at(0): "0.25", at(5*time.Hour - 1): "0.25", at(5 * time.Hour): "0.3", // one hour is 0.01
		at(15*time.Hour - 1): "0.3", at(15 * time.Hour): "0.4", at(75 * time.Hour): "1",
		at(80*time.Hour - 1): "1", at(80 * time.Hour): "1.05", at(1e6 * time.Hour): "1.05", time.Unix(math.MaxInt64, 0): "1.05",
	})
	check.That(t, p.Limit() == eps("1.05"), "limit %v", p.Limit())
	want := []privacy.Epsilon{eps("0.25"), eps("0.3"), eps("0.4")}
	got := levelsOf(p.Releases(at(15*time.Hour), all))
	check.That(t, slices.Equal(got, want), "releases %v, want %v", got, want)
	if got := levelsOf(p.Releases(at(-1), all)); got == nil || len(got) != 0 {
		t.Errorf("releases %v before start, want an empty list that is not nil", got)
	}
	p.Releases(at(15*time.Hour), all)[0].Ceiling = eps("7")
	if got := levelsOf(p.Releases(at(15*time.Hour), all)); !slices.Equal(got, want) {
		t.Errorf("the caller of Releases could change the policy to %v", got)
	}
}

func TestLinear_CornerCases(t *testing.T) {
	flat := must(t)(Linear(eps("1"), eps("1"), at(0), at(2), eps("0.3")))
	wantCeilings(t, flat, map[time.Time]string{at(-1): "0", at(0): "1", at(2): "1"})
	leap := must(t)(Linear(eps("0"), eps("1"), at(0), at(2), eps("5"))) // no multiple on the way
	wantCeilings(t, leap, map[time.Time]string{at(0): "0", at(1): "0", at(2): "1"})
	steep := must(t)(Linear(eps("0"), eps("1"), at(0), at(2), eps("0.001"))) // 500 levels a nanosecond
	wantCeilings(t, steep, map[time.Time]string{at(0): "0", at(1): "0.5", at(2): "1"})
	got := levelsOf(steep.Releases(at(2), all))
	check.That(t, slices.Equal(got, []privacy.Epsilon{eps("0.5"), eps("1")}), "releases %v", got)
	long := must(t)(Linear(eps("0"), eps("1000"), time.Unix(0, 0), lastInstant.time(), eps("1")))
	wantCeilings(t, long, map[time.Time]string{time.Unix(0, -1): "0", time.Unix(0, 0): "0", lastInstant.time().Add(-1): "999", lastInstant.time(): "1000"})
	if got := len(long.Releases(lastInstant.time(), all)); got != 1000 {
		t.Errorf("%d steps", got)
	}
	most := must(t)(Linear(nanos(1), nanos(maxSteps), at(0), at(time.Hour), nanos(1)))
	if got := len(levelsOf(most.Releases(at(time.Hour), all))); got != maxSteps {
		t.Errorf("%d steps", got)
	}
}

// The definition in rational numbers must agree at every step, just before it and between steps.
func TestLinear_EachStep_AgreesWithRationals(t *testing.T) {
	g := newGenerator(t)
	for range 300 {
		from, rise := g.Int64N(1e12), 1+g.Int64N(1e12)
		if g.IntN(2) == 0 {
			from, rise = g.Int64N(50), 1+g.Int64N(50)
		}
		start := instant(g.Int64N(int64(lastInstant)))
		r := linear{nanos(from), nanos(min(from+rise, 1e12)), start, start + 1 + instant(g.Int64N(int64(lastInstant-start))), nanos(1 + rise/(1+g.Int64N(40)))}
		p := must(t)(Linear(r.from, r.to, r.start.time(), r.end.time(), r.stride))
		instants := []instant{r.start, r.start + instant(g.Int64N(int64(r.end-r.start)))}
		for _, s := range p.node.line() {
			instants = append(instants, s.at, max(r.start, s.at-1))
		}
		for _, x := range instants {
			got, want := p.Ceiling(x.time(), 0).Nano(), linearAt(r, x)
			check.Need(t, got == want, "%v at %v: %d, want %d", p, x, got, want)
		}
	}
}

// linearAt returns the ceiling by the definition, from start on.
func linearAt(r linear, x instant) int64 {
	if x >= r.end {
		return r.to.Nano()
	}
	value := big.NewRat(int64(x-r.start), int64(r.end-r.start))
	value.Mul(value, big.NewRat(r.to.Nano()-r.from.Nano(), 1))
	value.Add(value, big.NewRat(r.from.Nano(), 1))
	value.Quo(value, big.NewRat(r.stride.Nano(), 1))
	multiple := new(big.Int).Quo(value.Num(), value.Denom()).Int64()
	return max(r.from.Nano(), multiple*r.stride.Nano())
}

func TestLinear_InvalidParameters_AreRefused(t *testing.T) {
	zero, one, two := eps("0"), eps("1"), eps("2")
	wantInvalid(t, "not before end")(Linear(zero, one, at(1), at(1), one))
	wantInvalid(t, "not before end")(Linear(zero, one, at(1), at(0), one))
	wantInvalid(t, "above to")(Linear(two, one, at(0), at(1), one))
	wantInvalid(t, "to is 0")(Linear(zero, zero, at(0), at(1), one))
	wantInvalid(t, "stride is 0")(Linear(zero, one, at(0), at(1), zero))
	wantInvalid(t, "start is not a time")(Linear(zero, one, time.Time{}, at(1), one))
	wantInvalid(t, "end is not a time")(Linear(zero, one, at(0), lastInstant.time().Add(1), one))
	wantInvalid(t, "end is not a time")(Linear(zero, one, at(0), time.Unix(math.MaxInt64, 0), one))
	wantInvalid(t, "1024 steps")(Linear(nanos(1), nanos(maxSteps+1), at(0), at(1), nanos(1)))
}

func TestSteps_CeilingIsTheLatestStep(t *testing.T) {
	p := must(t)(Steps(Step{at(0), eps("0.5")}, Step{at(time.Hour), eps("1")}))
	wantCeilings(t, p, map[time.Time]string{{}: "0", at(-1): "0", at(0): "0.5", at(time.Hour - 1): "0.5", at(time.Hour): "1", at(1e6 * time.Hour): "1"})
	check.That(t, p.Limit() == eps("1") && p.Ceiling(at(0).In(time.FixedZone("", 3600)), 0) == eps("0.5"),
		"wrong limit, or zones matter")
	given := []Step{{at(0), eps("1")}}
	p = must(t)(Steps(given...))
	given[0].Ceiling = eps("9")
	check.That(t, p.Limit() == eps("1"), "the caller of Steps could change the policy")
	edges := must(t)(Steps(Step{time.Unix(0, 0), nanos(1)}, Step{lastInstant.time(), nanos(2)}))
	wantCeilings(t, edges, map[time.Time]string{
		time.Unix(0, -1): "0", time.Unix(math.MinInt64, 0): "0", time.Unix(0, 0): "1e-9", lastInstant.time().Add(-1): "1e-9",
		lastInstant.time(): "2e-9", lastInstant.time().Add(1): "2e-9",
	})
	many := make([]Step, maxSteps+1)
	for i := range many {
		many[i] = Step{at(time.Duration(i)), nanos(int64(i + 1))}
	}
	must(t)(Steps(many[:maxSteps]...))
	wantInvalid(t, "1024 steps")(Steps(many...))
	wantInvalid(t, "list of steps is empty")(Steps())
	wantInvalid(t, "step 2: the times do not rise")(Steps(Step{at(0), eps("1")}, Step{at(0), eps("2")}))
	wantInvalid(t, "step 2: ε does not rise")(Steps(Step{at(0), eps("1")}, Step{at(1), eps("1")}))
	wantInvalid(t, "step 1: ε does not rise")(Steps(Step{at(0), eps("0")}))
	wantInvalid(t, "step 1: the time is not")(Steps(Step{time.Time{}, eps("1")}))
}
