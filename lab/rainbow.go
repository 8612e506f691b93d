package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/lab/internal/figures"
	"github.com/sluicedp/sluice/privacy"
)

// rainbowFlags are the flags of mechanism rainbow.
type rainbowFlags struct {
	bounds
	boundary law
	n        int
	plot     string
}

func (p *printer) rainbowCommand() *cobra.Command {
	f := &rainbowFlags{}
	cmd := &cobra.Command{
		Use:   "rainbow",
		Short: "Show how the law of several answers changes with the distance from the boundary",
		Long: `Show the law of the answer at the distances 0 … N from the boundary, if all datasets on the boundary
have the law M1, M2, …: the probability of the answer they prefer, which is the true one, of the next
best, and so on. At each distance, and for each j, the first j answers together are as likely as they
can be (zhou2022 Theorems 4 and 5, for any number of answers and any δ).

With --plot they are drawn against the distance, as in zhou2022 Figure 2. A vertical line at τ marks, for
the preferred answer, for the first two together and so on, where growth by all that ε and δ allow ends.`,
		Example: `  go run . mechanism rainbow --boundary 0.0545,0.1636,0.7819 --epsilon 0.1823 --n 20
  go run . mechanism rainbow --boundary 0.0545,0.1636,0.7819 --epsilon 0.1823 --n 20 --plot rainbow.svg`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              action(func(ctx context.Context) error { return p.rainbow(ctx, f) }),
	}
	flags := cmd.Flags()
	flags.Var(&f.boundary, "boundary", "the probabilities, `M1,M2,...`, on the boundary, the preferred answer's first")
	f.bounds.flags(flags)
	flags.IntVar(&f.n, "n", 0, "the largest distance, `N`")
	flags.StringVar(&f.plot, "plot", "", "draw them into this `FILE`, a .png or .svg")
	// Fails only for a flag that was not defined.
	_ = cmd.MarkFlagFilename("plot", "svg", "png")
	require(cmd, "boundary", "epsilon", "n")
	return cmd
}

func (p *printer) rainbow(ctx context.Context, f *rainbowFlags) error {
	if f.n >= 0 && f.n <= maxSteps && (f.n+1)*len(f.boundary) > maxNumbers {
		return usageError("", "%d distances with %d answers; %d probabilities are possible", f.n+1, len(f.boundary),
			maxNumbers)
	}
	if f.plot != "" && len(f.boundary) > figures.MaxCurves {
		return usageError("without --plot there may be more", "--plot shows up to %d answers, not %d",
			figures.MaxCurves, len(f.boundary))
	}
	plotted, err := newPicture("--plot", f.plot)
	if err != nil {
		return err
	}
	defer plotted.discard()
	out := rainbowResult{Boundary: numbers(f.boundary), Epsilon: f.epsilon, Delta: f.delta}
	drawn := figures.Rainbow{Answers: len(f.boundary), Epsilon: f.epsilon, Delta: f.delta}
	var at []float64
	err = eachStep(ctx, f.n, func(distance int) (err error) {
		// A single step is fast, and the error of this many steps is negligible.
		const most = 1000
		if distance%most == 0 {
			at, err = f.privacy().Law(f.boundary, distance)
		} else {
			at, err = f.privacy().Law(at, 1)
		}
		out.ByDistance = append(out.ByDistance, numbers(at))
		drawn.ByDistance = append(drawn.ByDistance, at)
		return err
	})
	if err != nil {
		return err
	}
	if plotted != nil {
		axes, err := drawn.Draw()
		if err != nil {
			return err
		}
		if err := plotted.save(axes, figures.Width, drawn.Height()); err != nil {
			return err
		}
	}
	return p.print(out)
}

type rainbowResult struct {
	Boundary   []number        `json:"boundary"`
	Epsilon    privacy.Epsilon `json:"epsilon"`
	Delta      privacy.Delta   `json:"delta"`
	ByDistance [][]number      `json:"by_distance"`
}

func (r rainbowResult) Table(w io.Writer) {
	fmt.Fprint(w, "DISTANCE\tPREFERRED")
	for rank := range r.Boundary[1:] {
		fmt.Fprintf(w, "\tRANK %d", rank+2)
	}
	fmt.Fprintln(w)
	for distance, at := range r.ByDistance {
		fmt.Fprint(w, distance)
		for _, p := range at {
			fmt.Fprintf(w, "\t%.9g", p)
		}
		fmt.Fprintln(w)
	}
}
