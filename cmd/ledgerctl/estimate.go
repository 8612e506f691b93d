package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// estimateFlags are the flags of estimate.
type estimateFlags struct {
	Question   string          `flag:"question,required"`
	Epsilon    privacy.Epsilon `flag:"epsilon"`
	Confidence float64         `flag:"confidence" default:"0.95"`
	Pool       bool            `flag:"pool"`
	Population bool            `flag:"population"`
	Plot       string          `flag:"plot,writes" ext:"svg"`
	Objects    string          `flag:"objects,reads"`
	input.IDColumn
}

func (a *app) estimate(cmd *cobra.Command, _ []string, f *estimateFlags) error {
	if cmd.Flags().Changed("epsilon") && f.Epsilon.IsZero() {
		return output.UsageError("", "--epsilon must be above 0")
	}
	if !(f.Confidence > 0 && f.Confidence < 1) {
		return output.UsageError("", "--confidence must be between 0 and 1")
	}
	r := api.EstimateRequest{Question: f.Question, Epsilon: f.Epsilon, Confidence: f.Confidence, Pool: f.Pool,
		Population: f.Population}
	people, err := input.ReadPanel(cmd.Context(), a.Files, f.Objects, input.Columns{IDColumn: f.IDColumn})
	if err != nil {
		return err
	}
	if people != nil {
		if a.Remote.Address != "" {
			return output.UsageError("leave out --objects, or use --db where the file is",
				"--objects is for a ledger in a file: behind an address estimates are of all people")
		}
		r.Include = among(people)
	}
	if err := checkPlot(f.Plot); err != nil {
		return err
	}
	picture, err := a.NewOutput("--plot", f.Plot)
	if err != nil {
		return err
	}
	defer picture.Discard()
	var out estimateResult
	err = a.with(cmd.Context(), reading, func(l book) error {
		if err := f.CheckPeople(cmd.Context(), l, f.Objects, f.Question, people); err != nil {
			return err
		}
		e, err := l.Estimate(cmd.Context(), r)
		if err != nil {
			return err
		}
		out = estimateResult{e, r.Confidence}
		if picture == nil {
			return nil
		}
		p, err := newPlot(cmd.Context(), l, r, e)
		if err != nil {
			return err
		}
		return picture.Save(p.chart().Write)
	})
	if err != nil {
		return err
	}
	return a.Print(out)
}

// among returns a function that reports whether an object is one of these.
func among(people []string) func(string) bool {
	set := make(map[string]struct{}, len(people))
	for _, object := range people {
		set[object] = struct{}{}
	}
	return func(object string) bool {
		_, is := set[object]
		return is
	}
}

// estimateResult is an estimate as it is printed.
type estimateResult struct {
	api.Estimate
	Confidence float64 `json:"confidence"`
}

// shown is the smallest share that percent shows as anything but 0.
const shown = 0.00005

func (r estimateResult) Table(w io.Writer) {
	fmt.Fprintf(w, "VALUE\tSHARE\t%.4g %% INTERVAL\tSTANDARD ERROR\n", 100*r.Confidence)
	outside := false
	for _, v := range r.Values {
		fmt.Fprintf(w, "%s\t%s\t%s to %s\t%s\n", v.Value,
			output.Percent(v.Estimate), output.Percent(v.Low), output.Percent(v.High), output.Percent(v.StdErr))
		outside = outside || v.Low < -shown || v.High > 1+shown
	}
	fmt.Fprintf(w, "\n%d responses", r.N)
	for i, level := range r.Levels {
		fmt.Fprintf(w, "%s%d at ε=%s", separator(i), level.N, level.Epsilon)
	}
	fmt.Fprintln(w)
	if r.Covers == "population" {
		fmt.Fprintln(w, "The intervals are for a population of which these people are a random sample.")
	} else {
		fmt.Fprintln(w, "The intervals are for these people; --population is for a larger group that they represent.")
	}
	if outside {
		fmt.Fprintln(w, "The estimates are unbiased, so they are not cut off at 0 % and 100 %.")
	}
	r.tableLevels(w)
}

// unlikely is the p-value below which levels are reported to disagree.
const unlikely = 0.01

// tableLevels describes how levels are combined, and warns if they disagree.
func (r estimateResult) tableLevels(w io.Writer) {
	if r.Disagreement == nil {
		return
	}
	pooled := r.Method == "pooled"
	if pooled {
		fmt.Fprintf(w,
			"The levels are pooled by precision, which assumes that a person's ε is independent of the value.")
	} else {
		fmt.Fprintf(w, "The levels are stratified: each counts in proportion to its people.")
	}
	fmt.Fprintf(w, " Disagreement of the levels: p = %.2g.\n", *r.Disagreement)
	switch {
	case *r.Disagreement >= unlikely:
	case pooled:
		fmt.Fprintln(w,
			"Warning: the shares at the levels differ by more than chance. This estimate is biased: leave out --pool.")
	default:
		fmt.Fprintln(w,
			"Note: the shares at the levels differ by more than chance. The estimate above allows for that; --pool "+
				"would not.")
	}
}

func separator(i int) string {
	if i == 0 {
		return ": "
	}
	return ", "
}
