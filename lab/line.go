package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/privacy"
)

// lineFlags are the flags of mechanism line.
type lineFlags struct {
	bounds
	alpha probability
	n     int
}

func (p *printer) lineCommand() *cobra.Command {
	f := &lineFlags{}
	cmd := &cobra.Command{
		Use:   "line",
		Short: "Show how the true answer's probability grows with the distance from the boundary",
		Long: `Show the probability of the true answer at the distances 0 … N from the boundary, if it is A at all
datasets on the boundary of that answer. It is the largest possible with two answers, and on every graph
(torkamani2023 Definition 9, doliveira2021 Theorem 4).`,
		Example:           "  go run . mechanism line --alpha 0.5 --epsilon 0.5 --n 10",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              action(func(ctx context.Context) error { return p.line(ctx, f) }),
	}
	flags := cmd.Flags()
	flags.Var(&f.alpha, "alpha", "the probability, `A`, of the true answer on the boundary")
	f.bounds.flags(flags)
	flags.IntVar(&f.n, "n", 0, "the largest distance, `N`")
	require(cmd, "alpha", "epsilon", "n")
	return cmd
}

func (p *printer) line(ctx context.Context, f *lineFlags) error {
	out := lineResult{Alpha: number(f.alpha), Epsilon: f.epsilon, Delta: f.delta}
	err := eachStep(ctx, f.n, func(distance int) error {
		law, err := f.privacy().Law([]float64{float64(f.alpha), 1 - float64(f.alpha)}, distance)
		if err == nil {
			out.Truthful = append(out.Truthful, number(law[0]))
		}
		return err
	})
	if err != nil {
		return err
	}
	return p.print(out)
}

type lineResult struct {
	Alpha    number          `json:"alpha"`
	Epsilon  privacy.Epsilon `json:"epsilon"`
	Delta    privacy.Delta   `json:"delta"`
	Truthful []number        `json:"truthful_probability_by_distance"`
}

func (r lineResult) Table(w io.Writer) {
	fmt.Fprintln(w, "DISTANCE\tPROBABILITY OF THE TRUE ANSWER")
	for distance, truth := range r.Truthful {
		fmt.Fprintf(w, "%d\t%.12g\n", distance, truth)
	}
}
