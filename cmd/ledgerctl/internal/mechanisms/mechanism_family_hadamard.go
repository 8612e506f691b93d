package mechanisms

import (
	"context"
	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/rrchain/finite"
)

func (h *Host) hadamard(cmd *cobra.Command, _ []string, f *familyFlags) error {
	return h.family(cmd, f, f.hadamard)
}

// hadamard makes Hadamard response.
func (f *familyFlags) hadamard(ctx context.Context, values []string) (mechanismFile, error) {
	design, err := finite.HadamardResponse(len(values))
	if err != nil {
		return mechanismFile{}, err
	}
	var steps []step
	for _, epsilon := range f.Epsilons {
		matrix, err := design.At(epsilon)
		if err != nil {
			return mechanismFile{}, err
		}
		steps = append(steps, step{epsilon: epsilon, matrix: matrix, names: numbered(matrix.Outputs())})
	}
	return newMechanismFile(ctx, values, steps)
}
