package simulate

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

func figures(t *testing.T, x Experiment, runs int) (*Result, map[string]Figure) {
	t.Helper()
	r := must[*Result](t)(x.Run(t.Context(), runs, nil))
	of := map[string]Figure{}
	for i, f := range must[[]Figure](t)(r.Figures()) {
		if want := x.FigureIDs()[i]; f.ID != want {
			t.Errorf("figure %d is %s, want %s", i, f.ID, want)
		}
		of[f.ID] = f
	}
	if len(of) != len(x.FigureIDs()) {
		t.Errorf("%d figures, want %v", len(of), x.FigureIDs())
	}
	return r, of
}

func TestFigures_EachFigure_IsComplete(t *testing.T) {
	for _, x := range []Experiment{smaller(t, Binary, 4, 6), smaller(t, Polychotomous, 1, 2, 3, 4, 5)} {
		_, all := figures(t, x, 5)
		for id, f := range all {
			if f.Title == "" || f.Y == "" || len(f.Series) < 2 {
				t.Errorf("figure %s: %+v", id, f)
			}
			looks := map[Look]string{}
			for _, s := range f.Series {
				if len(s.X) < 2 || len(s.X) != len(s.Y) || len(s.Low) != len(s.High) || s.Low != nil && len(s.Low) != len(s.Y) {
					t.Errorf("figure %s, %s: %+v", id, s.Name, s)
				}
				for i := range s.Low {
					if !(s.Low[i] <= s.Y[i] && s.Y[i] <= s.High[i]) {
						t.Errorf("figure %s, %s: %v is not between %v and %v", id, s.Name, s.Y[i], s.Low[i], s.High[i])
					}
				}
				if other, taken := looks[s.Look]; taken {
					t.Errorf("figure %s: %s looks like %s", id, s.Name, other)
				}
				looks[s.Look] = s.Name
			}
		}
	}
}

// The theory in the figures is that of the reference numbers, which are for one object.
func TestFigures_Theory_HasReferenceNumbers(t *testing.T) {
	x := smaller(t, Binary, 4, 6)
	_, all := figures(t, x, 5)
	checked := 0
	for _, row := range references(t) {
		if row.Alpha != "1" || row.K > 20 {
			continue
		}
		for i, s := range all["1a"].Series {
			if s.Name != "sampling at ε = "+row.Beta {
				continue
			}
			checked++
			wantNear(t, "Figure 1(a)", s.Y[row.K-1], decimal(t, row.Given))
			wantNear(t, "Figure 1(b), noisy sampling", all["1b"].Series[2*i].Y[row.K-1], decimal(t, row.Sampling))
			wantNear(t, "Figure 1(b), chains", all["1b"].Series[2*i+1].Y[row.K-1], decimal(t, row.Relaxation))
		}
		if row.Beta == "0.5" && row.K <= 10 {
			wantNear(t, "Figure 2(b), noisy sampling", all["2b"].Series[1].Y[row.K-1], decimal(t, row.Sampling)/10)
			// The level is rounded down to a nano-nat.
			if got, want := all["2b"].Series[3].Y[row.K-1], decimal(t, row.Relaxation)/10; math.Abs(got/want-1) > 1e-7 {
				t.Errorf("Figure 2(b), chains: %v, want %v", got, want)
			}
		}
	}
	if checked < 10 {
		t.Errorf("%d points were checked", checked)
	}
	for _, s := range all["1c"].Series {
		wantNear(t, "Figure 1(c), the first response", s.Y[0], RelaxationVariance(0.1, 1))
		wantNear(t, "Figure 1(c), the last response", s.Y[len(s.Y)-1], RelaxationVariance(1, 1))
	}
}

// The figures show the comparisons: the measured means, and theory with two standard deviations.
func TestFigures_EachComparison_IsShown(t *testing.T) {
	for _, x := range []Experiment{smaller(t, Binary, 4, 6), smaller(t, Polychotomous, 1, 2, 3, 4, 5)} {
		r, all := figures(t, x, 5)
		at := map[string]int{}
		for _, c := range must[[]Comparison](t)(r.Compare(badLuck)) {
			f := all[c.Figure]
			i := at[c.Figure+c.What+string(c.Quantity)]
			at[c.Figure+c.What+string(c.Quantity)]++
			switch {
			case c.Figure == x.attackFigure():
				i = at["attack"]
				at["attack"]++
				wantNear(t, c.What, f.Series[0].Y[i], c.Measured)
				wantNear(t, "the bound", f.Series[1].Y[0], c.Theory)
			case c.Figure == "2b" && c.Quantity == Variance:
				s := 0
				if c.What == "share of 1" {
					s = 2
				}
				wantNear(t, c.What, f.Series[s].Y[i], c.Measured)
				wantNear(t, c.What, f.Series[s+1].Y[i], c.Theory)
			case c.Quantity == Mean && c.Figure != "2b":
				wantNear(t, c.What, f.Series[0].Y[i], c.Measured)
				wantNear(t, c.What, f.Series[1].Y[i], c.Theory)
			case c.Quantity == Variance:
				reach := f.Series[1].High[i] - f.Series[1].Y[i]
				if math.Abs(reach*reach/4-c.Theory) > 1e-9*c.Theory {
					t.Errorf("%s: figure %s has ± %v, the variance is %v", c.What, c.Figure, reach, c.Theory)
				}
			}
		}
		if at["attack"] != len(Attacks()) {
			t.Errorf("%d attacks in figure %s", at["attack"], x.attackFigure())
		}
	}
}

// What is measured has bars: two standard deviations of the runs to each side, one for attacks, and
// for a variance the interval outside of which it is with 5 %.
func TestBars_MeasuredValues_HaveTheirInterval(t *testing.T) {
	x := smaller(t, Binary, 4, 6)
	r, all := figures(t, x, 7)
	last := len(x.Levels) - 1
	deviation := stat.StdDev(r.Shares[last][1], nil)
	shares, attacks := all["2a"].Series[0], all["2c"].Series[0]
	wantNear(t, "the upper end of the last share", shares.High[last], shares.Y[last]+2*deviation)
	wantNear(t, "the lower end of the last share", shares.Low[last], shares.Y[last]-2*deviation)
	for i := range Attacks() {
		wantNear(t, "the upper end of "+Attacks()[i], attacks.High[i], attacks.Y[i]+stat.StdDev(r.Errors[i], nil))
		wantNear(t, "the lower end of "+Attacks()[i], attacks.Low[i], attacks.Y[i]-stat.StdDev(r.Errors[i], nil))
	}
	chi := distuv.ChiSquared{K: float64(r.Runs - 1)}
	for _, s := range []Series{all["2b"].Series[0], all["2b"].Series[2]} {
		for i, y := range s.Y {
			// With the true variance at one end, such a small, or large, one would be measured in
			// one case of 40.
			wantNear(t, s.Name, chi.CDF(chi.K*y/s.High[i]), 0.025)
			wantNear(t, s.Name, chi.Survival(chi.K*y/s.Low[i]), 0.025)
		}
	}
}
