package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/mechanism/graph"
	"github.com/sluicedp/sluice/privacy"
)

func (a *app) mechanismCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mechanism",
		Short: "Compute differentially private mechanisms",
		Long: `Compute differentially private mechanisms. No ledger is needed.

line, rainbow and solve compute optimal (ε,δ)-differentially private mechanisms on a graph whose vertices are
datasets: an edge joins two that differ by one individual, and the colour of a vertex is its true answer. A vertex
with a neighbour of another colour is on the boundary. What is given there decides all the rest; the farther from
the boundary, the likelier the true answer.

family makes mechanisms by which single people answer a question, at several ε.`,
		Args: cobra.NoArgs,
		RunE: action(func(*cobra.Command, []string) error {
			return fault.Usage(`run "ledgerctl mechanism --help"`, "say which mechanism to compute: line, rainbow, solve or family")
		}),
	}
	cmd.AddCommand(a.lineCommand(), a.rainbowCommand(), a.solveCommand(), a.familyCommand())
	return cmd
}

// bounds are the flags --epsilon and --delta.
type bounds struct {
	epsilon privacy.Epsilon
	delta   privacy.Delta
}

func (b *bounds) flags(flags *pflag.FlagSet) {
	flags.TextVar(&b.epsilon, "epsilon", privacy.Epsilon{}, "the ε, `E`, between neighbours")
	flags.TextVar(&b.delta, "delta", privacy.Delta{}, "the δ, `D`, between neighbours, below 1")
}

func (b *bounds) privacy() graph.Privacy {
	return graph.Privacy{Epsilon: b.epsilon.Float64(), Delta: b.delta.Float64()}
}

// probability is a flag for a number from 0 to 1.
type probability float64

// Set implements [pflag.Value].
func (p *probability) Set(text string) error {
	value, err := parseProbability(text)
	*p = probability(value)
	return err
}

func (p *probability) String() string { return "" } // the flags have no defaults
func (p *probability) Type() string   { return "probability" }

func parseProbability(text string) (float64, error) {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || strings.Trim(text, "0123456789.eE+-") != "" || !(value >= 0 && value <= 1) || math.Signbit(value) {
		return 0, fmt.Errorf("%q is not a decimal number from 0 to 1", text)
	}
	return value, nil
}

// law is a flag for a list of probabilities.
type law []float64

// Set implements [pflag.Value].
func (l *law) Set(text string) error {
	*l = law{}
	for item := range strings.SplitSeq(text, ",") {
		value, err := parseProbability(item)
		if err != nil {
			return err
		}
		*l = append(*l, value)
	}
	return nil
}

func (l *law) String() string { return "" } // the flags have no defaults
func (l *law) Type() string   { return "law" }

// explain adds to an error about a law what it sums to.
func (l law) explain(err error) error {
	sum := 0.0
	for _, x := range l {
		sum += x
	}
	if errors.Is(err, graph.ErrInvalid) && math.Abs(sum-1) > graph.Tolerance {
		hint := fmt.Sprintf("they sum to %.15g; no more than %g may be missing, so give 13 decimals of what has more", sum, graph.Tolerance)
		return &fault.Fault{Kind: "invalid", Code: fault.Misuse, Hint: hint, Err: err}
	}
	return err
}

// maxSteps is the largest --n, and maxNumbers how many probabilities one command prints at most.
const (
	maxSteps   = 1_000_000
	maxNumbers = 5_000_000
)

// eachStep calls do for the distances 0 … n.
func eachStep(ctx context.Context, n int, do func(distance int) error) error {
	if n < 0 || n > maxSteps {
		return fault.Usage("", "--n is %d; 0 to %d steps are possible", n, maxSteps)
	}
	for distance := range n + 1 {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := do(distance); err != nil {
			return err
		}
	}
	return nil
}

func numbers(values []float64) []output.Number {
	out := make([]output.Number, len(values))
	for i, value := range values {
		out[i] = output.Number(value)
	}
	return out
}

// lineFlags are the flags of mechanism line.
type lineFlags struct {
	bounds
	alpha probability
	n     int
}

func (a *app) lineCommand() *cobra.Command {
	f := &lineFlags{}
	cmd := &cobra.Command{
		Use:   "line",
		Short: "Show how the true answer's probability grows with the distance from the boundary",
		Long: `Show the probability of the true answer at the distances 0 … N from the boundary, if it is A at all
datasets on the boundary of that answer. It is the largest possible with two answers, and on every graph
(torkamani2023 Definition 9, doliveira2021 Theorem 4).`,
		Example:           "  ledgerctl mechanism line --alpha 0.5 --epsilon 0.5 --n 10",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              action(func(cmd *cobra.Command, _ []string) error { return a.line(cmd.Context(), f) }),
	}
	flags := cmd.Flags()
	flags.Var(&f.alpha, "alpha", "the probability, `A`, of the true answer on the boundary")
	f.bounds.flags(flags)
	flags.IntVar(&f.n, "n", 0, "the largest distance, `N`")
	require(cmd, "alpha", "epsilon", "n")
	return cmd
}

func (a *app) line(ctx context.Context, f *lineFlags) error {
	out := lineResult{Alpha: output.Number(f.alpha), Epsilon: f.epsilon, Delta: f.delta}
	err := eachStep(ctx, f.n, func(distance int) error {
		truth, err := f.privacy().Truthful(float64(f.alpha), distance)
		out.Truthful = append(out.Truthful, output.Number(truth))
		return err
	})
	if err != nil {
		return err
	}
	return a.Print(out)
}

type lineResult struct {
	Alpha    output.Number   `json:"alpha"`
	Epsilon  privacy.Epsilon `json:"epsilon"`
	Delta    privacy.Delta   `json:"delta"`
	Truthful []output.Number `json:"truthful_probability_by_distance"`
}

func (r lineResult) Table(w io.Writer) {
	fmt.Fprintln(w, "DISTANCE\tPROBABILITY OF THE TRUE ANSWER")
	for distance, truth := range r.Truthful {
		fmt.Fprintf(w, "%d\t%.12g\n", distance, truth)
	}
}

// rainbowFlags are the flags of mechanism rainbow.
type rainbowFlags struct {
	bounds
	boundary law
	n        int
	plot     string
}

func (a *app) rainbowCommand() *cobra.Command {
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
		RunE:              action(func(cmd *cobra.Command, _ []string) error { return a.rainbow(cmd.Context(), f) }),
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

func (a *app) rainbow(ctx context.Context, f *rainbowFlags) error {
	if f.n >= 0 && f.n <= maxSteps && (f.n+1)*len(f.boundary) > maxNumbers {
		return fault.Usage("", "%d distances with %d answers; %d probabilities are possible", f.n+1, len(f.boundary), maxNumbers)
	}
	picture, err := a.newRainbowPicture(f)
	if err != nil {
		return err
	}
	defer picture.file.Discard()
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
	if err := picture.save(out); err != nil {
		return err
	}
	return a.Print(out)
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

// cells returns probabilities as cells of a table, behind what is there.
func cells(probabilities []output.Number) string {
	var text strings.Builder
	for _, p := range probabilities {
		fmt.Fprintf(&text, "\t%.9g", p)
	}
	return text.String()
}
