package simulate

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/estimate"
)

// Comparison is a measured number with its theoretical value.
type Comparison struct {
	Figure   string          // the figure that it belongs to, such as "2a"
	What     string          // what was measured, such as "share of 1"
	Quantity Quantity        // mean or variance over all runs
	Epsilon  privacy.Epsilon // the level
	Measured float64         // over all runs
	Theory   float64         // the expected value, or a bound
	// Low and High bound Measured if the theory is right, except with the given chance. If the
	// theory is a lower bound, High is 1.
	Low, High float64
}

// Quantity is a statistic of the runs.
type Quantity string

// The mean over the runs, and the variance among them.
const (
	Mean     Quantity = "mean"
	Variance Quantity = "variance"
)

// Within reports whether measurement and theory agree.
func (c Comparison) Within() bool { return c.Low <= c.Measured && c.Measured <= c.High }

// Compare compares all measurements with theory. chance, which is above 0 and small, is the
// probability that a single comparison fails by chance.
//
// Means are of many thousand independent responses, and therefore normal. The variance of nearly
// normal estimates has a χ² distribution with one degree of freedom less than the number of runs.
func (r *Result) Compare(chance float64) ([]Comparison, error) {
	t := tolerance{runs: float64(r.Runs), chance: chance}
	var all []Comparison
	for _, v := range r.Experiment.Shown {
		shares, err := r.compareShares(t, v)
		if err != nil {
			return nil, err
		}
		all = append(all, shares...)
	}
	all = append(all, r.compareSampling(t)...)
	return append(all, r.compareAttacks(t)...), nil
}

func (r *Result) compareShares(t tolerance, v int) ([]Comparison, error) {
	x := r.Experiment
	var all []Comparison
	for i, level := range x.Levels {
		variances, err := x.variances(level)
		if err != nil {
			return nil, err
		}
		mean := Comparison{Figure: x.shareFigure(v), What: "share of " + x.Values[v], Epsilon: level,
			Theory: x.share(v)}
		variance := mean
		variance.Figure, variance.Theory = x.varianceFigure(v), variances[v]
		mean.Measured, variance.Measured = stat.MeanVariance(r.Shares[i][v], nil)
		all = append(all, t.mean(mean, variances[v]), t.variance(variance))
	}
	return all, nil
}

func (r *Result) compareSampling(t tolerance) []Comparison {
	x := r.Experiment
	if x.Sampling == nil {
		return nil
	}
	what := "share of " + x.Values[1] + " by noisy sampling"
	var all []Comparison
	for i, level := range x.Levels {
		mean := Comparison{Figure: x.varianceFigure(1), What: what, Epsilon: level, Theory: x.share(1)}
		variance := mean
		variance.Theory = x.Sampling.variance(i+1, x.Objects())
		mean.Measured, variance.Measured = stat.MeanVariance(r.Sampled[i], nil)
		all = append(all, t.mean(mean, variance.Theory), t.variance(variance))
	}
	return all
}

// share returns the true share of a value.
func (x Experiment) share(v int) float64 { return float64(x.Holders[v]) / float64(x.Objects()) }

// variances returns the variance of each value's share at a level, for a fixed population: pan2024
// Appendix G, which for two values is Eq. (67).
func (x Experiment) variances(level privacy.Epsilon) ([]float64, error) {
	truth := estimate.Counts{Epsilon: level}
	for _, holders := range x.Holders {
		truth.ByValue = append(truth.ByValue, int64(holders))
	}
	return estimate.Variance(truth)
}

func (r *Result) compareAttacks(t tolerance) []Comparison {
	x := r.Experiment
	var all []Comparison
	for i, name := range Attacks() {
		c := Comparison{
			Figure: x.attackFigure(), What: "error rate by " + name, Epsilon: x.Last(),
			Measured: stat.Mean(r.Errors[i], nil), Theory: x.Bound(),
		}
		guesses := float64(len(x.Values) * x.Guessed())
		if i < bayes {
			all = append(all, t.mean(c, c.Theory*(1-c.Theory)/guesses))
			continue
		}
		// The error rate of these attacks is not known, only a lower bound. The standard deviation
		// of a share is at most 1/2.
		c = t.mean(c, 1/(4*guesses))
		c.High = 1
		all = append(all, c)
	}
	return all
}

// Bound returns the smallest possible error rate of the attacks, by Theorem 6.1.
func (x Experiment) Bound() float64 { return ErrorBound(x.Last().Float64(), len(x.Values)) }

// tolerance computes the interval for a measurement.
type tolerance struct{ runs, chance float64 }

// mean takes the variance of a single run.
func (t tolerance) mean(c Comparison, variance float64) Comparison {
	reach := -distuv.UnitNormal.Quantile(t.chance/2) * math.Sqrt(variance/t.runs)
	c.Quantity, c.Low, c.High = Mean, c.Theory-reach, c.Theory+reach
	return c
}

func (t tolerance) variance(c Comparison) Comparison {
	chi := distuv.ChiSquared{K: t.runs - 1}
	c.Quantity = Variance
	c.Low, c.High = c.Theory*chi.Quantile(t.chance/2)/chi.K, c.Theory*chi.Quantile(1-t.chance/2)/chi.K
	return c
}

// The names of the figures, by the part of the paper that has the experiment.

func (x Experiment) shareFigure(v int) string {
	if x.Sampling != nil {
		return "2a"
	}
	return fmt.Sprintf("3%c", 'a'+rune(v))
}

func (x Experiment) varianceFigure(v int) string {
	if x.Sampling != nil {
		return "2b"
	}
	return x.shareFigure(v)
}

func (x Experiment) attackFigure() string {
	if x.Sampling != nil {
		return "2c"
	}
	return "3f"
}
