package formulas

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

func (h *Host) kernelCommand() *cobra.Command {
	var m int
	var from, to privacy.Epsilon
	cmd := &cobra.Command{
		Use:   "kernel",
		Short: "Show the probabilities by which a response is raised",
		Long: `Show the transition probabilities that raise a randomized response from one ε to a higher one. They
depend on the number of values only; no ledger is needed. From ε=0 it is a first response.`,
		Example:           "  ledgerctl kernel --m 4 --from 0.5 --to 1",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			k, err := rrchain.NewKernel(m, from, to)
			if err != nil {
				return err
			}
			return h.Print(newKernelResult(k))
		},
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
	PAA         output.Number   `json:"p_aa"`
	OneMinusPAA output.Number   `json:"one_minus_p_aa"`
	PBA         output.Number   `json:"p_ba"`
	PBB         output.Number   `json:"p_bb"`
	PBC         output.Number   `json:"p_bc"`
}

func newKernelResult(k rrchain.Kernel) kernelResult {
	return kernelResult{k.Values, k.From, k.To, output.Number(k.PAA), output.Number(k.OneMinusPAA), output.Number(k.PBA), output.Number(k.PBB), output.Number(k.PBC)}
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
