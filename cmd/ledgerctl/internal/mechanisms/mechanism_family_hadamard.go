package mechanisms

import (
	"context"
	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/rrchain/finite"
)

func (h *Host) hadamardCommand() *cobra.Command {
	f := &familyFlags{}
	cmd := &cobra.Command{
		Use:  "hadamard",
		RunE: func(cmd *cobra.Command, _ []string) error { return h.family(cmd, f, f.hadamard) },
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
