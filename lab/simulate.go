package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/lab/internal/simulate"
)

// simulateFlags are the arguments and flags of simulate.
type simulateFlags struct {
	experiment, out string
	runs            int
}

const (
	simulatedBinary        = "binary"
	simulatedPolychotomous = "polychotomous"
)

func (p *printer) simulateCommand() *cobra.Command {
	f := &simulateFlags{}
	experiments := [...]string{simulatedBinary, simulatedPolychotomous}
	cmd := &cobra.Command{
		Use:   "simulate {binary|polychotomous}",
		Short: "Repeat the paper's experiments with chains, and compare them with theory",
		Long: `Repeat the experiments of pan2024 (Pan, "Randomized Response with Gradual Release of Privacy Budget",
arXiv:2401.13952) with the chains of ledgers, and compare the results with theory.
No ledger is needed.

  binary         section 6.1: 600 ones and 400 zeros, raised in 10 rounds to the ε of 10 noisy samplings of
                 RAPPOR (permanent noise at ε=1, samplings at ε=0.5), and these noisy samplings for comparison
  polychotomous  section 6.2: 1500 objects with 5 values, raised from ε=0.1 to ε=1 in steps of 0.1

At each level the shares of the values are estimated, in many runs. Their means and variances must agree
with theory. Then four attacks guess the values from all responses together: by the last output,
by maximum likelihood, by the highest frequency, and by the highest frequency weighted by ε. They are
tried on the same number of objects of each value, as many as the rarest value has. None may err less
often than in pan2024 Theorem 6.1. If several values have the same score, an attack chooses one of them
at random; the result has the probability that it errs.

Every comparison has an interval for the measured number. By chance alone, the number is outside with a
probability of one in a million. All draws are random, so the numbers differ each time. Within a run each
level continues from the last one, so that the deviations at the levels have the same direction.

With --out the figures 1(a) to 2(c) or 3(a) to 3(f) of the paper are written to DIR, each as PNG and SVG:
figure-1a.png and so on. Files of these names are replaced.

With --json the keys are: experiment, runs, objects, epsilon (the levels), chance (of each comparison to fail
by chance), comparisons (list of figure, what, quantity, epsilon, measured, theory, low, high, within; quantity
is mean or variance), outside (how many are not within), figures (list of figure, title, x_axis, y_axis, log_y,
ticks, series; a tick has at and name, a series name, measured, x, y, and low and high around y, of which ticks,
low and high may be missing), files (that were written).`,
		Example: `  go run . simulate binary
  go run . simulate polychotomous --runs 1000 --out figures`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.FixedCompletions(experiments[:], cobra.ShellCompDirectiveNoFileComp),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.experiment = args[0]
			return action(func(ctx context.Context) error { return p.simulate(ctx, f) })(cmd, args)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&f.runs, "runs", 100, fmt.Sprintf("number of `RUNS`, %d to %d", simulate.MinRuns, simulate.MaxRuns))
	flags.StringVar(&f.out, "out", "", "the directory, `DIR`, for the pictures; it is created if it does not exist")
	// Fails only for a flag that was not defined.
	_ = cmd.MarkFlagDirname("out")
	return cmd
}

func (p *printer) simulate(ctx context.Context, f *simulateFlags) error {
	x, err := f.find()
	if err != nil {
		return err
	}
	if f.runs < simulate.MinRuns || f.runs > simulate.MaxRuns {
		return usageError("", "--runs is %d; %d to %d are possible", f.runs, simulate.MinRuns, simulate.MaxRuns)
	}
	// The files are created before the work, so that a directory that cannot be written is reported
	// first.
	pictures, err := newPictures(f.out, x.FigureIDs())
	defer pictures.discard()
	if err != nil {
		return err
	}
	bar := p.newBar(f.runs)
	measured, err := x.Run(ctx, f.runs, bar.show)
	bar.clear()
	if err != nil {
		return err
	}
	figures, err := measured.Figures()
	if err != nil {
		return err
	}
	out, err := newSimulateResult(measured, figures)
	if err != nil {
		return err
	}
	if out.Files, err = pictures.save(ctx, figures); err != nil {
		return err
	}
	return p.print(out)
}

// find returns the requested experiment.
func (f *simulateFlags) find() (simulate.Experiment, error) {
	switch f.experiment {
	case simulatedBinary:
		return simulate.Binary()
	case simulatedPolychotomous:
		return simulate.Polychotomous()
	default:
		hint := fmt.Sprintf("the experiments are %s and %s", simulatedBinary, simulatedPolychotomous)
		return simulate.Experiment{}, usageError(hint, "there is no experiment %q", f.experiment)
	}
}
