package graph

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/privacy"
)

// subsetExcess returns the largest Pr[A | p] − e^ε Pr[A | q] − δ of all sets but the empty one.
func subsetExcess(p, q []float64, dp Privacy) float64 {
	most := math.Inf(-1)
	for set := 1; set < 1<<len(p); set++ {
		here, there := 0.0, 0.0
		for j := range p {
			if set>>j&1 == 1 {
				here += p[j]
				there += q[j]
			}
		}
		most = max(most, here-math.Exp(dp.Epsilon)*there-dp.Delta)
	}
	return most
}

// One sum is enough for all sets of up to 6 outputs, and a conflict names the worst set.
func TestLargestExcess_IsThatOfTheWorstSet(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	private := 0
	for range 20000 {
		outputs := 2 + rng.IntN(5)
		dp := Privacy{0.01 + 2*rng.Float64(), float64(rng.IntN(2)) * rng.Float64() / 4}
		p, q := randomLaw(rng, outputs), randomLaw(rng, outputs)
		if rng.IntN(3) == 0 {
			for j := range q {
				q[j] = p[j]*0.9 + 0.1*q[j]
			}
		}
		want := subsetExcess(p, q, dp)
		got, _ := largestExcess(p, q, dp)
		check.Need(t, math.Abs(got-want) <= 1e-14, "%v, %v, %v: %v, want %v", p, q, dp, got, want)
		worst := conflictOf(q, p, dp)
		if worst == nil {
			check.Need(t, want <= 1e-12, "%v, %v, %v: no conflict, though %v is too much", p, q, dp, want)
			private++
			continue
		}
		here, there := 0.0, 0.0
		for _, j := range worst.Outputs {
			here += p[j]
			there += q[j]
		}
		if !slices.IsSorted(worst.Outputs) || worst.Distance != 1 || here != worst.ToProbability || there != worst.FromProbability ||
			math.Abs(here-math.Exp(dp.Epsilon)*there-dp.Delta-want) > 1e-14 || worst.Bound != dp.Upper(there) || worst.Bound >= here {
			t.Fatalf("%v, %v, %v: %+v does not have the excess %v", p, q, dp, worst, want)
		}
	}
	check.That(t, private >= 1000 && private <= 19000, "%d of 20000 pairs are private: too one-sided a test", private)
}

func TestCheck_NotPrivate_NamesTheWorstEdge(t *testing.T) {
	g := pathGraph(t, 4)
	table := Table{{0.5, 0.3, 0.2}, {0.5, 0.3, 0.2}, {0.3, 0.2, 0.5}, {0.3, 0.3, 0.4}}
	// From 1 to 2: 0.5 − 1.5·0.3 = 0.05 and 0.3 − 1.5·0.2 = 0; from 2 to 1: 0.5 − 1.5·0.2 = 0.2.
	err := table.Check(g, Privacy{math.Log(1.5), 0.01})
	var c *ConflictError
	if !errors.As(err, &c) || c.From != 1 || c.To != 2 || !slices.Equal(c.Outputs, []int{2}) ||
		math.Abs(c.ToProbability-c.Bound-0.19) > 1e-15 || c.FromProbability != 0.2 || c.ToProbability != 0.5 {
		t.Errorf("%+v", err)
	}
	mustPass(t, g, table, Privacy{math.Log(1.5), 0.2})
	mustPass(t, graphOfEdges(t, 2), Table{{1, 0}, {0, 1}}, Privacy{Epsilon: 1}) // no edges
	mustPass(t, graphOfEdges(t, 0), nil, Privacy{Epsilon: 1})
}

// Optimal mechanisms are tight: after a small change they are no longer private.
func TestCheck_SpoiltOptimum_IsRefused(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	tried := 0
	for range 200 {
		outputs := 2 + rng.IntN(4)
		dp := Privacy{0.1 + 2*rng.Float64(), float64(rng.IntN(2)) * 0.01}
		g, p := pathGraph(t, 6), colorsOf(t, outputs, 0, 0, 0, 0, 1, 1)
		table := check.Value(balanced(g, p, dp))(t)
		spoilt := slices.Clone(table[0]) // the truth is as likely there as it may be
		if spoilt[0] == 1 {
			continue
		}
		tried++
		spoilt[0] += 1e-6 * spoilt[1]
		spoilt[1] -= 1e-6 * spoilt[1]
		table[0] = spoilt
		var c *ConflictError
		err := table.Check(g, dp)
		check.That(t, errors.As(err, &c) && c.From+c.To == 1, "%v, %d outputs: not noticed, %v", dp, outputs, err)
	}
	check.That(t, tried >= 100, "only %d were spoilt", tried)
}

func TestCheck_NoMechanism_IsRefused(t *testing.T) {
	g, good := pathGraph(t, 2), []float64{0.5, 0.5}
	for _, bad := range append(badLaws(), []float64{0.5, 0.5 + 1e-11}, []float64{0.5, 0.3, 0.2}) {
		err := Table{good, bad}.Check(g, Privacy{Epsilon: 1})
		var input *InputError
		check.That(t, errors.As(err, &input) && input.Vertex == "1" && errors.Is(err, privacy.ErrInvalid), "%v: %v", bad, err)
	}
	for _, dp := range badPrivacy() {
		check.Is(t, (Table{good, good}).Check(g, dp), privacy.ErrInvalid, "%v", dp)
	}
	for _, table := range []Table{nil, {good}, {good, good, good}, {{1}, {1}}, {nil, nil}} {
		check.Is(t, table.Check(g, Privacy{Epsilon: 1}), privacy.ErrInvalid, "%+v", table)
	}
}
