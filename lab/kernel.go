package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

func (p *printer) kernelCommand() *cobra.Command {
	var m int
	var from, to privacy.Epsilon
	cmd := &cobra.Command{
		Use:   "kernel",
		Short: "Show the probabilities by which a response is raised",
		Long: `Show the transition probabilities that raise a randomized response from one ε to a higher one. They
depend on the number of values only; no ledger is needed. From ε=0 it is a first response.`,
		Example:           "  go run . kernel --m 4 --from 0.5 --to 1",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: action(func(context.Context) error {
			k, err := rrchain.NewKernel(m, from, to)
			if err != nil {
				return err
			}
			return p.print(newKernelResult(k))
		}),
	}
	flags := cmd.Flags()
	flags.IntVar(&m, "m", 0, "the `NUMBER` of values of the question, 2 or more")
	flags.TextVar(&from, "from", privacy.Epsilon{}, "the ε, `E`, of the response so far")
	flags.TextVar(&to, "to", privacy.Epsilon{}, "the ε, `E`, of the next response")
	require(cmd, "m", "from", "to")
	return cmd
}

type kernelResult struct {
	M           int             `json:"m"`
	From        privacy.Epsilon `json:"from"`
	To          privacy.Epsilon `json:"to"`
	PAA         number          `json:"p_aa"`
	OneMinusPAA number          `json:"one_minus_p_aa"`
	PBA         number          `json:"p_ba"`
	PBB         number          `json:"p_bb"`
	PBC         number          `json:"p_bc"`
}

func newKernelResult(k rrchain.Kernel) kernelResult {
	return kernelResult{
		k.Values, k.From, k.To,
		number(k.PAA), number(k.OneMinusPAA), number(k.PBA), number(k.PBB), number(k.PBC),
	}
}

func (r kernelResult) Table(w io.Writer) {
	fmt.Fprintf(w, "%d values, from ε=%s to ε=%s\n\n", r.M, r.From, r.To)
	fmt.Fprintln(w, "LAST RESPONSE\tNEXT RESPONSE\tPROBABILITY\tNAME")
	fmt.Fprintf(w, "the true value\tthe true value\t%.12g\tp_aa\n", r.PAA)
	fmt.Fprintf(w, "the true value\tany other value\t%.12g\tone_minus_p_aa\n", r.OneMinusPAA)
	fmt.Fprintf(w, "a false value\tthe true value\t%.12g\tp_ba\n", r.PBA)
	fmt.Fprintf(w, "a false value\tthe same false value\t%.12g\tp_bb\n", r.PBB)
	fmt.Fprintf(w, "a false value\tone particular third value\t%.12g\tp_bc\n", r.PBC)
}
