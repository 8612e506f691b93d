package mechanisms

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// subsetFlags are the flags of mechanism family subset.
type subsetFlags struct {
	familyFlags
	Sizes []int `flag:"size"`
}

func (h *Host) subset(cmd *cobra.Command, _ []string, f *subsetFlags) error {
	return h.family(cmd, &f.familyFlags, f.subsets)
}

// subsets makes subset selection.
func (f *subsetFlags) subsets(ctx context.Context, values []string) (mechanismFile, error) {
	sizes, err := f.sizesFor(len(values))
	if err != nil {
		return mechanismFile{}, err
	}
	var steps []step
	for i, epsilon := range f.Epsilons {
		s, err := subsetStep(len(values), sizes[i], epsilon)
		if err != nil {
			return mechanismFile{}, err
		}
		s.names = blockNames(values, s.blocks)
		steps = append(steps, s)
	}
	return newMechanismFile(ctx, values, steps)
}

// subsetStep is subset selection at one ε.
func subsetStep(values, size int, epsilon privacy.Epsilon) (step, error) {
	design, err := finite.SubsetSelection(values, size)
	if err != nil {
		return step{}, err
	}
	matrix, err := design.At(epsilon)
	return step{epsilon: epsilon, size: size, blocks: design.Blocks(), matrix: matrix}, err
}

// maxName is the most bytes that the name of an output can have.
const maxName = 256

// blockNames names blocks by their values, or by their numbers where some would be too long or
// alike.
func blockNames(values []string, blocks [][]int) []string {
	names, seen := make([]string, len(blocks)), map[string]bool{}
	for b, block := range blocks {
		parts := make([]string, len(block))
		for i, value := range block {
			parts[i] = values[value]
		}
		names[b] = strings.Join(parts, "+")
		if len(names[b]) > maxName || seen[names[b]] {
			return numbered(len(blocks))
		}
		seen[names[b]] = true
	}
	return names
}

// numbered returns the numbers from 0 on as names.
func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	return names
}
