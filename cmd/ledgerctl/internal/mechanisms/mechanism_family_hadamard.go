package mechanisms

import (
	"context"
	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/rrchain/finite"
)

func (h *Host) hadamardCommand() *cobra.Command {
	f := &familyFlags{}
	cmd := &cobra.Command{
		Use:   "hadamard",
		Short: "Answer by the number of a block of a Hadamard matrix",
		Long: `Make Hadamard response (Acharya, Sun and Zhang 2018): a response is the number of a block, 0, 1, …, e^ε times
as probable if the true value is in it. Each value is in half of the blocks, of which there are as many as the
smallest power of two above the number of values. There can be 2 to 63 values.

` + familyHelp,
		Example:           "  ledgerctl mechanism family hadamard --values @states.txt --epsilon 0.5,1 --out states.json",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return h.family(cmd, f, f.hadamard) },
	}
	f.flags(cmd)
	return cmd
}

// hadamard makes Hadamard response.
func (f *familyFlags) hadamard(ctx context.Context, values []string) (mechanismFile, error) {
	design, err := finite.HadamardResponse(len(values))
	if err != nil {
		return mechanismFile{}, err
	}
	var steps []step
	for _, epsilon := range f.epsilons {
		matrix, err := design.At(epsilon)
		if err != nil {
			return mechanismFile{}, err
		}
		steps = append(steps, step{epsilon: epsilon, matrix: matrix, names: numbered(matrix.Outputs())})
	}
	return newMechanismFile(ctx, values, steps)
}
