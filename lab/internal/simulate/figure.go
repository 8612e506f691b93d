package simulate

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Figure is the content of a picture, without its style.
type Figure struct {
	ID     string   // the number in pan2024, such as "2a"
	Title  string   // above the picture
	X, Y   string   // what the axes show
	LogY   bool     // the y axis is logarithmic
	Ticks  []Tick   // of the x axis; nil for numbers
	Series []Series // in the order of the legend
}

// Tick is a place on an axis with its name.
type Tick struct {
	At   float64 // position on the axis
	Name string  // label
}

// Series is a row of points of a figure.
type Series struct {
	Name     string    // in the legend
	Measured bool      // false for a computed series
	Look     Look      // series with the same look belong together
	X, Y     []float64 // coordinates of the points
	// Low and High, which may be nil, are the ends of bars around Y: two standard deviations away
	// (one for attacks, as in the paper), or the ends of a 95 % interval for a variance.
	Low, High []float64
}

// Look distinguishes series in a picture: a number for the colour and the mark, and a number for
// the kind of dashes.
type Look struct{ Color, Dash int }

// The colours of figures with measurements. Black is theory that belongs to no measured series.
const (
	black = iota
	blue
	red
)

// The kinds of dashes.
const (
	solid = iota
	dashed
	dotted
)

// Figures returns the figures of the result: 1(a) to 2(c) of the paper if the chains are compared
// with noisy sampling, otherwise 3(a) to 3(f).
func (r *Result) Figures() ([]Figure, error) {
	var all []Figure
	if r.Experiment.Sampling != nil {
		all = append(all, r.Experiment.Sampling.figures()...)
	}
	for _, v := range r.Experiment.Shown {
		figure, err := r.shares(v)
		if err != nil {
			return nil, err
		}
		all = append(all, figure)
	}
	if r.Experiment.Sampling != nil {
		all = append(all, r.comparedVariances())
	}
	return append(all, r.guesses()), nil
}

// figures returns Figures 1(a) to 1(c), which are theory. The paper does not have the ε_β and the K
// of the curves, so they are chosen here.
func (s *Sampling) figures() []Figure {
	const rounds = 20
	alpha, betas := s.Alpha.Float64(), []float64{0.1, 0.2, 0.5, 1}
	given := Figure{
		ID: "1a", Title: fmt.Sprintf("the ε that K noisy samplings give away (permanent noise at ε = %v)", s.Alpha),
		X: "samplings K", Y: "ε given away",
	}
	variance := Figure{
		ID: "1b", Title: "variance at the same ε, noisy sampling against chains (N = 1)",
		X: "samplings, or raises, K", Y: "variance", LogY: true,
	}
	for i, beta := range betas {
		name := fmt.Sprintf("sampling at ε = %v", beta)
		gives := func(k int) float64 { return SamplingEpsilon(alpha, beta, k) }
		sampling := func(k int) float64 { return SamplingVariance(alpha, beta, k, 1) }
		raising := func(k int) float64 { return RelaxationVariance(gives(k), 1) }
		look := Look{blue + i, solid}
		given.Series = append(given.Series, curve(name, look, rounds, gives))
		variance.Series = append(variance.Series, curve(name, look, rounds, sampling),
			curve("a chain at the same ε", Look{look.Color, dashed}, rounds, raising))
	}
	given.Series = append(given.Series, Series{
		Name: "limit: the permanent noise", Look: Look{black, dashed}, X: []float64{1, rounds},
		Y: []float64{alpha, alpha},
	})
	return []Figure{given, variance, linearRaises()}
}

// linearRaises returns Figure 1(c).
func linearRaises() Figure {
	f := Figure{
		ID: "1c", Title: "variance of chains raised from ε = 0.1 to 1 by K responses (N = 1)",
		X: "responses so far", Y: "variance", LogY: true,
	}
	for i, rounds := range []int{5, 10, 20, 40} {
		f.Series = append(f.Series, curve(fmt.Sprintf("K = %d", rounds), Look{blue + i, i}, rounds,
			func(k int) float64 {
				return RelaxationVariance(0.1+0.9*float64(k-1)/float64(rounds-1), 1)
			}))
	}
	return f
}

// curve returns the values of a theory at 1, 2, …, n.
func curve(name string, look Look, n int, theory func(k int) float64) Series {
	s := Series{Name: name, Look: look}
	for k := 1; k <= n; k++ {
		s.X, s.Y = append(s.X, float64(k)), append(s.Y, theory(k))
	}
	return s
}

// shares returns the figure with the estimated share of a value at each level: 2(a), 3(a) to 3(e).
func (r *Result) shares(v int) (Figure, error) {
	x := r.Experiment
	axis, places, ticks := x.axis()
	f := Figure{
		ID: x.shareFigure(v), X: axis, Y: "estimated share", Ticks: ticks,
		Title: fmt.Sprintf("share of the value %s, estimated from %d objects in %d runs", x.Values[v], x.Objects(),
			r.Runs),
	}
	measured := Series{Name: "measured: mean ± 2σ", Measured: true, Look: Look{blue, solid}, X: places}
	theory := Series{Name: "theory: mean ± 2σ", Look: Look{black, dashed}, X: places}
	for i, level := range x.Levels {
		variances, err := x.variances(level)
		if err != nil {
			return f, err
		}
		theory.add(x.share(v), 2*math.Sqrt(variances[v]))
		mean, deviation := stat.MeanStdDev(r.Shares[i][v], nil)
		measured.add(mean, 2*deviation)
	}
	f.Series = []Series{measured, theory}
	return f, nil
}

// add adds a point, with a bar that reaches the same distance to each side.
func (s *Series) add(y, reach float64) {
	s.Y, s.Low, s.High = append(s.Y, y), append(s.Low, y-reach), append(s.High, y+reach)
}

// addVariance adds the variance among runs, with a 95 % interval for the true variance.
func (s *Series) addVariance(runs []float64) {
	const outside = 0.05
	chi, variance := distuv.ChiSquared{K: float64(len(runs) - 1)}, stat.Variance(runs, nil)
	s.Y = append(s.Y, variance)
	s.Low = append(s.Low, variance*chi.K/chi.Quantile(1-outside/2))
	s.High = append(s.High, variance*chi.K/chi.Quantile(outside/2))
}

// axis returns the x axis of figures over the levels: ε, or rounds where the ε would be crowded at
// one end.
func (x Experiment) axis() (name string, places []float64, ticks []Tick) {
	for i, level := range x.Levels {
		at := level.Float64()
		if x.Sampling != nil {
			at = float64(i + 1)
			ticks = append(ticks, Tick{at, fmt.Sprintf("%d\n%.2f", i+1, level.Float64())})
		}
		places = append(places, at)
	}
	if ticks == nil {
		return "ε", places, nil
	}
	return "round, and its ε", places, ticks
}

// comparedVariances returns Figure 2(b).
func (r *Result) comparedVariances() Figure {
	x := r.Experiment
	ones := x.Shown[0]
	axis, places, ticks := x.axis()
	f := Figure{
		ID: "2b", Title: fmt.Sprintf("variance of the estimated share of ones (%d objects, %d runs)", x.Objects(),
			r.Runs),
		X: axis, Y: "variance, 95 % intervals", LogY: true, Ticks: ticks,
	}
	sampled := Series{Name: "noisy sampling, measured", Measured: true, Look: Look{red, solid}, X: places}
	sampling := Series{Name: "noisy sampling, Eq. (68)", Look: Look{red, dotted}, X: places}
	raised := Series{Name: "chains, measured", Measured: true, Look: Look{blue, solid}, X: places}
	raising := Series{Name: "chains, Eq. (67)", Look: Look{blue, dashed}, X: places}
	for i, level := range x.Levels {
		sampled.addVariance(r.Sampled[i])
		sampling.Y = append(sampling.Y, x.Sampling.variance(i+1, x.Objects()))
		raised.addVariance(r.Shares[i][ones])
		raising.Y = append(raising.Y, RelaxationVariance(level.Float64(), x.Objects()))
	}
	f.Series = []Series{sampled, sampling, raised, raising}
	return f
}

// guesses returns the figure with the attacks: 2(c), 3(f).
func (r *Result) guesses() Figure {
	x := r.Experiment
	f := Figure{
		ID: x.attackFigure(), Y: "error rate",
		Title: fmt.Sprintf("how often attacks guess wrong (ε = %.3g, %d objects, %d runs)",
			x.Last().Float64(), len(x.Values)*x.Guessed(), r.Runs),
	}
	measured := Series{Name: "measured: mean ± σ of a run", Measured: true, Look: Look{blue, solid}}
	for i, name := range Attacks() {
		measured.X = append(measured.X, float64(i))
		measured.add(stat.MeanStdDev(r.Errors[i], nil))
		f.Ticks = append(f.Ticks, Tick{float64(i), strings.Replace(name, " ", "\n", 1)})
	}
	ends := []float64{-0.5, float64(len(f.Ticks)) - 0.5}
	f.Series = []Series{measured, {
		Name: "bound of Theorem 6.1", Look: Look{black, dashed}, X: ends, Y: slices.Repeat([]float64{x.Bound()}, 2),
	}}
	return f
}
