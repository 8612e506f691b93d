package graph

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
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

// TestOneSumStandsForAllSets enumerates the sets of up to 6 outputs.
func TestOneSumStandsForAllSets(t *testing.T) {
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
		worst := worstSet(p, q, dp)
		if math.Abs(worst.Excess-want) > 1e-14 {
			t.Fatalf("%v, %v, %v: %v, want %v", p, q, dp, worst.Excess, want)
		}
		here, there := 0.0, 0.0
		for _, j := range worst.Outputs {
			here += p[j]
			there += q[j]
		}
		if !slices.IsSorted(worst.Outputs) || math.Abs(here-math.Exp(dp.Epsilon)*there-dp.Delta-want) > 1e-14 {
			t.Fatalf("%v, %v, %v: set %v does not have the excess %v", p, q, dp, worst.Outputs, want)
		}
		if want <= 0 {
			private++
		}
	}
	if private < 1000 || private > 19000 {
		t.Errorf("%d of 20000 pairs are private: too one-sided a test", private)
	}
}

// tableOf returns the table with the given rows.
func tableOf(rows ...[]float64) *Table {
	t := NewTable(len(rows), len(rows[0]))
	for v, row := range rows {
		copy(t.At(v), row)
	}
	return t
}

func TestCheckFindsTheWorst(t *testing.T) {
	g := pathOf(t, 4)
	table := tableOf([]float64{0.5, 0.3, 0.2}, []float64{0.5, 0.3, 0.2}, []float64{0.3, 0.2, 0.5}, []float64{0.3, 0.3, 0.4})
	dp := Privacy{math.Log(1.5), 0.01}
	// From 1 to 2: 0.5 − 1.5·0.3 = 0.05 and 0.3 − 1.5·0.2 = 0; from 2 to 1: 0.5 − 1.5·0.2 = 0.2.
	r, err := Check(g, table, dp)
	if err != nil {
		t.Fatal(err)
	}
	w := r.Worst
	if r.Edges != 3 || w.From != 2 || w.To != 1 || !slices.Equal(w.Outputs, []int{2}) || math.Abs(w.Excess-0.19) > 1e-15 {
		t.Errorf("%+v", r)
	}
	var edge *EdgeError
	if !errors.As(r.Err(), &edge) || edge.From != 2 || edge.Excess != w.Excess {
		t.Errorf("%v", r.Err())
	}
	dp.Delta = 0.25
	if r, err = Check(g, table, dp); err != nil || r.Err() != nil || math.Abs(r.Worst.Excess+0.05) > 1e-15 {
		t.Errorf("with enough δ: %+v, %v, %v", r, err, r.Err())
	}
	// Equal laws leave room e^ε − 1 on the least likely output.
	dp = Privacy{Epsilon: math.Log(1.5)}
	r, err = Check(pathOf(t, 2), tableOf([]float64{0.9, 0.1}, []float64{0.9, 0.1}), dp)
	if err != nil || math.Abs(r.Worst.Excess+0.05) > 1e-15 || !slices.Equal(r.Worst.Outputs, []int{1}) {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = Check(edgesOf(t, 2), tableOf([]float64{1, 0}, []float64{0, 1}), dp)
	if err != nil || r.Err() != nil || r.Edges != 0 || r.Worst.Outputs != nil || r.Worst.Excess != 0 {
		t.Errorf("no edges: %+v, %v", r, err)
	}
}

// TestCheckTestsTheTest spoils optimal mechanisms, which leave no room, by a little.
func TestCheckTestsTheTest(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	tried := 0
	for range 200 {
		outputs := 2 + rng.IntN(4)
		dp := Privacy{0.1 + 2*rng.Float64(), float64(rng.IntN(2)) * 0.01}
		law, err := DefaultLaw(outputs, dp.Epsilon)
		if err != nil {
			t.Fatal(err)
		}
		p, err := ColorsOf(outputs, []int{0, 0, 0, 0, 1, 1})
		if err != nil {
			t.Fatal(err)
		}
		g := pathOf(t, 6)
		table, err := Homogeneous(g, p, dp, slices.Repeat([][]float64{law}, outputs))
		if err != nil {
			t.Fatal(err)
		}
		spoilt := table.At(0) // the truth is as likely there as it may be
		if spoilt[0] == 1 {
			continue
		}
		tried++
		spoilt[0] += 1e-6 * spoilt[1]
		spoilt[1] -= 1e-6 * spoilt[1]
		if r, err := Check(g, table, dp); err != nil || r.Err() == nil || r.Worst.From+r.Worst.To != 1 {
			t.Errorf("%v, %d outputs: not noticed, %+v, %v", dp, outputs, r, err)
		}
	}
	if tried < 100 {
		t.Errorf("only %d were spoilt", tried)
	}
}

func TestCheckRefusesTables(t *testing.T) {
	g, good := pathOf(t, 2), []float64{0.5, 0.5}
	for _, bad := range [][]float64{{0.5, 0.4}, {-0.5, 1.5}, {math.NaN(), 1}, {math.Inf(1), 0}, {0, 0}, {0.5, 0.5 + 1e-11}} {
		_, err := Check(g, tableOf(good, bad), Privacy{Epsilon: 1})
		var input *InputError
		if !errors.As(err, &input) || input.Vertex != "1" || !errors.Is(err, ErrInvalid) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	for _, dp := range badPrivacy() {
		if _, err := Check(g, tableOf(good, good), dp); !errors.Is(err, ErrInvalid) {
			t.Errorf("%v: %v", dp, err)
		}
	}
	for _, table := range []*Table{tableOf(good), tableOf(good, good, good), NewTable(0, 2), {}, NewTable(2, 1)} {
		if _, err := Check(g, table, Privacy{Epsilon: 1}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", table, err)
		}
	}
}
