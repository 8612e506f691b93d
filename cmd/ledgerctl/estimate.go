package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// estimateFlags are the flags of estimate.
type estimateFlags struct {
	Question   string          `flag:"question,required"`
	Epsilon    privacy.Epsilon `flag:"epsilon,positive"`
	Confidence float64         `flag:"confidence" default:"0.95"`
	Pool       bool            `flag:"pool"`
	Population bool            `flag:"population"`
	Plot       input.Output    `flag:"plot,writes" ext:"svg"`
	Objects    string          `flag:"objects,reads"`
	input.IDColumn
}

// estimate runs the command estimate, which prints the estimated shares of a question's values, and
// with --plot draws them.
func (a *app) estimate(cmd *cobra.Command, _ []string, f *estimateFlags) error {
	if !(f.Confidence > 0 && f.Confidence < 1) {
		return output.UsageError("", "--confidence must be between 0 and 1")
	}
	r := api.EstimateRequest{Question: f.Question, Epsilon: f.Epsilon, Confidence: f.Confidence, Pool: f.Pool,
		Population: f.Population}
	people, err := a.panel(cmd.Context(), f.Objects, f.Question, input.Columns{IDColumn: f.IDColumn})
	if err != nil {
		return err
	}
	if people != nil {
		if a.Remote.Address != "" {
			return output.UsageError("omit --objects, or use --db on the machine with the file",
				"--objects is for a ledger in a file: with --addr, estimates are of all people")
		}
		r.Include = among(people)
	}
	if f.Plot.Path != "" && !strings.EqualFold(filepath.Ext(f.Plot.Path), ".svg") {
		return output.UsageError("name a file that ends in .svg", "--plot: %q is not an .svg file", f.Plot.Path)
	}
	return a.query(cmd, func(ctx context.Context, l backend) (output.Result, error) {
		e, err := l.Estimate(ctx, r)
		if err != nil || f.Plot.Path == "" {
			return estimateResult{e, r.Confidence}, err
		}
		p, err := newPlot(ctx, l, r, e)
		if err != nil {
			return nil, err
		}
		return estimateResult{e, r.Confidence}, f.Plot.Save(p.chart().Write)
	})
}

// among returns a function that reports whether an object is in a list.
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

// shown is the smallest share, as a fraction, that [output.Percent] does not print as 0.
const shown = 0.00005

// Table implements [output.Result].
func (r estimateResult) Table(t *output.Table) {
	t.Row("VALUE", "SHARE", fmt.Sprintf("%.4g %% INTERVAL", 100*r.Confidence), "STANDARD ERROR")
	outside := false
	for _, v := range r.Values {
		t.Row(v.Value, output.Percent(v.Estimate), output.Percent(v.Low)+" to "+output.Percent(v.High),
			output.Percent(v.StdErr))
		outside = outside || v.Low < -shown || v.High > 1+shown
	}
	responses, separator := fmt.Sprintf("%d responses", r.N), ": "
	for _, level := range r.Levels {
		responses += fmt.Sprintf("%s%d at ε=%s", separator, level.N, level.Epsilon)
		separator = ", "
	}
	t.Line("")
	t.Line("%s", responses)
	if r.Covers == "population" {
		t.Line("The intervals are for a population of which these people are a random sample.")
	} else {
		t.Line("The intervals are for these people; --population is for a larger group that they represent.")
	}
	if outside {
		t.Line("The estimates are unbiased, so they are not cut off at 0 %% and 100 %%.")
	}
	r.tableLevels(t)
}

// unlikely is the p-value below which levels are reported to disagree.
const unlikely = 0.01

// tableLevels writes lines to the table: how the levels are combined, and a warning if their
// estimates differ by more than chance. With one level, Disagreement is nil, and it writes nothing.
func (r estimateResult) tableLevels(t *output.Table) {
	if r.Disagreement == nil {
		return
	}
	how := "The levels are stratified: each counts in proportion to its people."
	warning := "Note: the shares at the levels differ by more than chance. The estimate above allows for that; " +
		"--pool would not."
	if r.Method == "pooled" {
		how = "The levels are pooled by precision, which assumes that a person's ε is independent of the value."
		warning = "Warning: the shares at the levels differ by more than chance. This estimate is biased: omit --pool."
	}
	t.Line("%s Disagreement of the levels: p = %.2g.", how, *r.Disagreement)
	if *r.Disagreement < unlikely {
		t.Line("%s", warning)
	}
}
