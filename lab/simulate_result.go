package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sluicedp/sluice/lab/internal/simulate"
	"github.com/sluicedp/sluice/privacy"
)

// simulateChance is the probability that a comparison fails by chance.
const simulateChance = 1e-6

type simulateResult struct {
	Experiment  string             `json:"experiment"`
	Runs        int                `json:"runs"`
	Objects     int                `json:"objects"`
	Epsilon     []privacy.Epsilon  `json:"epsilon"` // of the levels
	Chance      number             `json:"chance"`
	Comparisons []comparisonResult `json:"comparisons"`
	Outside     int                `json:"outside"` // number of comparisons that are not within
	Figures     []figureResult     `json:"figures"`
	Files       []string           `json:"files"`
}

type comparisonResult struct {
	Figure   string            `json:"figure"`
	What     string            `json:"what"`
	Quantity simulate.Quantity `json:"quantity"`
	Epsilon  privacy.Epsilon   `json:"epsilon"`
	Measured number            `json:"measured"`
	Theory   number            `json:"theory"`
	Low      number            `json:"low"`
	High     number            `json:"high"`
	Within   bool              `json:"within"`
}

type figureResult struct {
	Figure string         `json:"figure"`
	Title  string         `json:"title"`
	X      string         `json:"x_axis"`
	Y      string         `json:"y_axis"`
	LogY   bool           `json:"log_y"`
	Ticks  []tickResult   `json:"ticks,omitempty"`
	Series []seriesResult `json:"series"`
}

type tickResult struct {
	At   number `json:"at"`
	Name string `json:"name"`
}

type seriesResult struct {
	Name     string   `json:"name"`
	Measured bool     `json:"measured"`
	X        []number `json:"x"`
	Y        []number `json:"y"`
	Low      []number `json:"low,omitempty"`
	High     []number `json:"high,omitempty"`
}

func newSimulateResult(r *simulate.Result, figures []simulate.Figure) (simulateResult, error) {
	x := r.Experiment
	out := simulateResult{
		Experiment: x.Name, Runs: r.Runs, Objects: x.Objects(), Epsilon: x.Levels, Chance: simulateChance,
		Files: []string{},
	}
	comparisons, err := r.Compare(simulateChance)
	if err != nil {
		return out, err
	}
	for _, c := range comparisons {
		if !c.Within() {
			out.Outside++
		}
		out.Comparisons = append(out.Comparisons, comparisonResult{
			c.Figure, c.What, c.Quantity, c.Epsilon,
			number(c.Measured), number(c.Theory), number(c.Low), number(c.High), c.Within(),
		})
	}
	for _, f := range figures {
		out.Figures = append(out.Figures, newFigureResult(f))
	}
	return out, nil
}

func newFigureResult(f simulate.Figure) figureResult {
	out := figureResult{Figure: f.ID, Title: f.Title, X: f.X, Y: f.Y, LogY: f.LogY}
	for _, tick := range f.Ticks {
		out.Ticks = append(out.Ticks, tickResult{number(tick.At), lines(tick.Name)})
	}
	for _, s := range f.Series {
		out.Series = append(out.Series, seriesResult{
			s.Name, s.Measured, numbers(s.X), numbers(s.Y), numbers(s.Low), numbers(s.High),
		})
	}
	return out
}

// lines joins the lines of a name that is broken for a picture.
func lines(name string) string { return strings.ReplaceAll(name, "\n", " ") }

// Table writes a part for each estimated share, with a line for each level, and a part for the
// attacks.
func (r simulateResult) Table(w io.Writer) {
	fmt.Fprintf(w, "experiment\t%s\nobjects\t%d\nruns\t%d\n", r.Experiment, r.Objects, r.Runs)
	rest, what := r.Comparisons, ""
	for len(rest) > 1 && rest[1].Quantity == simulate.Variance {
		mean, variance := rest[0], rest[1]
		if mean.What != what {
			what = mean.What
			fmt.Fprintf(w, "\nThe %s: %s\nε\tMEAN\tTHEORY\tVARIANCE\tTHEORY\n", what, figuresOf(mean, variance))
		}
		tableShare(w, mean, variance)
		rest = rest[2:]
	}
	for i, c := range rest {
		if i == 0 {
			fmt.Fprintf(w, "\nAttacks at ε=%.3f: %s\nERROR RATE\tMEAN\tTHEORY\n", c.Epsilon.Float64(), figuresOf(c))
		}
		fmt.Fprintf(w, "%s\t%.4f%s\t%s\n", strings.TrimPrefix(c.What, "error rate "), c.Measured, c.mark(),
			c.errorRate())
	}
	fmt.Fprintf(w, "\n%s\n", r.verdict())
	for _, file := range r.Files {
		fmt.Fprintf(w, "wrote %s\n", file)
	}
}

func tableShare(w io.Writer, mean, variance comparisonResult) {
	fmt.Fprintf(w, "%.3f\t%.4f%s\t%.4f ± %.4f\t%.3g%s\t%.3g (%.3g to %.3g)\n", mean.Epsilon.Float64(),
		mean.Measured, mean.mark(), mean.Theory, mean.High-mean.Theory,
		variance.Measured, variance.mark(), variance.Theory, variance.Low, variance.High)
}

// figuresOf returns the names of the figures of comparisons.
func figuresOf(comparisons ...comparisonResult) string {
	var names []string
	for _, c := range comparisons {
		name := c.Figure[:1] + "(" + c.Figure[1:] + ")"
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 1 {
		return "Figure " + names[0]
	}
	return "Figures " + strings.Join(names, ", ")
}

// errorRate returns the theoretical error rate of an attack.
func (c comparisonResult) errorRate() string {
	if c.High == 1 {
		return fmt.Sprintf("%.4f or more (± %.4f)", c.Theory, c.Theory-c.Low)
	}
	return fmt.Sprintf("%.4f ± %.4f", c.Theory, c.Theory-c.Low)
}

// mark returns a mark for a number that does not agree with theory.
func (c comparisonResult) mark() string {
	if c.Within {
		return ""
	}
	return " !"
}

func (r simulateResult) verdict() string {
	if r.Outside == 0 {
		return fmt.Sprintf("All %d measured numbers agree with theory.", len(r.Comparisons))
	}
	return fmt.Sprintf("%d of %d measured numbers do not agree with theory, and are marked with !; by chance, each "+
		"does so once in %.0f times.",
		r.Outside, len(r.Comparisons), 1/r.Chance)
}
