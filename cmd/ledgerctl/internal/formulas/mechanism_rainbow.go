package formulas

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/picture"
	"github.com/sluicedp/sluice/mechanism/graph"
	"github.com/sluicedp/sluice/privacy"
)

// rainbowFlags are the flags of mechanism rainbow.
type rainbowFlags struct {
	bounds
	boundary law
	n        int
	plot     string
}

func (h *Host) rainbowCommand() *cobra.Command {
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
		Example: `  ledgerctl mechanism rainbow --boundary 0.0545,0.1636,0.7819 --epsilon 0.1823 --n 20
  ledgerctl mechanism rainbow --boundary 0.0545,0.1636,0.7819 --epsilon 0.1823 --n 20 --plot rainbow.svg`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return h.rainbow(cmd.Context(), f) },
	}
	flags := cmd.Flags()
	flags.Var(&f.boundary, "boundary", "the probabilities, `M1,M2,...`, on the boundary, the preferred answer's first")
	f.bounds.flags(flags)
	flags.IntVar(&f.n, "n", 0, "the largest distance, `N`")
	flags.StringVar(&f.plot, "plot", "", "draw them into this `FILE`, a .png or .svg")
	// It fails only for a flag that was not defined.
	_ = cmd.MarkFlagFilename("plot", "svg", "png")
	files.Mark(flags, files.Writes, files.ByName, "plot")
	require(cmd, "boundary", "epsilon", "n")
	return cmd
}

func (h *Host) rainbow(ctx context.Context, f *rainbowFlags) error {
	if f.n >= 0 && f.n <= maxSteps && (f.n+1)*len(f.boundary) > maxNumbers {
		return fault.Usage("", "%d distances with %d answers; %d probabilities are possible", f.n+1, len(f.boundary), maxNumbers)
	}
	drawn, err := picture.NewRainbow(h.Files, "--plot", f.plot, len(f.boundary))
	if err != nil {
		return err
	}
	defer drawn.Discard()
	out := rainbowResult{Boundary: numbers(f.boundary), Epsilon: f.epsilon, Delta: f.delta}
	var at []float64
	err = eachStep(ctx, f.n, func(distance int) (err error) {
		// A single step is quick, and so many add up to no error that matters.
		const most = 1000
		if distance%most == 0 {
			at, err = graph.Line(f.boundary, f.privacy(), distance)
		} else {
			at, err = graph.Line(at, f.privacy(), 1)
		}
		out.ByDistance = append(out.ByDistance, numbers(at))
		return err
	})
	if err != nil {
		return f.boundary.explain(err)
	}
	if err := drawn.SaveRainbow(picture.Rainbow(out)); err != nil {
		return err
	}
	return h.Print(out)
}

type rainbowResult struct {
	Boundary   []output.Number   `json:"boundary"`
	Epsilon    privacy.Epsilon   `json:"epsilon"`
	Delta      privacy.Delta     `json:"delta"`
	ByDistance [][]output.Number `json:"by_distance"`
}

func (r rainbowResult) Table(w io.Writer) {
	fmt.Fprint(w, "DISTANCE\tPREFERRED")
	for rank := range r.Boundary[1:] {
		fmt.Fprintf(w, "\tRANK %d", rank+2)
	}
	fmt.Fprintln(w)
	for distance, at := range r.ByDistance {
		fmt.Fprintf(w, "%d%s\n", distance, cells(at))
	}
}
