package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/lab/internal/simulate"
)

// simulateFlags are the arguments of simulate.
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
		Short: "Repeat the experiments behind the chains, and compare them with theory",
		Long: `Repeat the experiments of pan2024 (Pan, "Randomized Response with Gradual Release of Privacy Budget",
arXiv:2401.13952) on the chains that ledgers are made of, and compare what comes out with the theory.
No ledger is needed.

  binary         section 6.1: 600 ones and 400 zeros, raised in 10 rounds to what 10 noisy samplings of RAPPOR
                 give away (permanent noise at ε=1, samplings at ε=0.5), and those noisy samplings beside it
  polychotomous  section 6.2: 1500 objects with 5 values, raised from ε=0.1 to ε=1 in steps of 0.1

At each level the shares of the values are estimated, in many runs; their means and variances are to be
those of theory. Then four attacks guess the values from all responses together: by the last output,
by maximum likelihood, by the highest frequency, and by the highest frequency weighted by ε. They are
tried on equally many objects of each value, as many as the rarest value has, and none may err less
often than pan2024 Theorem 6.1 says. If several values are as good, an attack takes one of them at
random; the probability that it errs is what is counted.

Every comparison says between which numbers the measured one must lie. By bad luck alone it does not
with a probability of one in a million. All draws are random, so the numbers differ each time; within a
run each level begins where the last one ended, so that what is measured strays in the same direction.

With --out the figures 1(a) to 2(c) or 3(a) to 3(f) of the paper are written into DIR, each as PNG and SVG:
figure-1a.png and so on. Files of these names are replaced.

With --json the keys are: experiment, runs, objects, epsilon (the levels), chance (of each comparison to fail
by bad luck), comparisons (list of figure, what, quantity, epsilon, measured, theory, low, high, within; quantity
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
	flags.IntVar(&f.runs, "runs", 100, fmt.Sprintf("how many `RUNS`, %d to %d", simulate.MinRuns, simulate.MaxRuns))
	flags.StringVar(&f.out, "out", "", "the directory, `DIR`, that the pictures go to; it is made if there is none")
	// It fails only for a flag that was not defined.
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
	// A directory that cannot be written to is found out before the work, not after it.
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

// find returns the experiment that was asked for.
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
