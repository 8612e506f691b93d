package mechanisms

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/finite"
)

func (h *Host) subsetCommand() *cobra.Command {
	f := &familyFlags{}
	cmd := &cobra.Command{
		Use:   "subset",
		Short: "Answer by a set of values that probably has the true one",
		Long: `Make subset selection (Ye and Barg 2017, Wang et al. 2016): a response is a set of K values, e^ε times as
probable if the true value is in it. With K = 1 it is randomized response. A set is named by its values, "A+B", or
by its number where such names would be too long or alike.

At a lower ε larger sets estimate better. --size is one size, or one for each ε. From sets of one size at an ε to
sets of another at a lower one there is a way only where ε falls enough; other sizes are refused. Without --size
the sizes are those that estimate best on the whole (the product of the variances is the least) among those that
there is a way between.

There are at most 4096 values times sets, and 4096 sets at one ε times those at the next.

` + familyHelp,
		Example: `  ledgerctl mechanism family subset --values A,B,C,D,E,F --epsilon 0.5,1,2
  ledgerctl mechanism family subset --values A,B,C,D,E,F --size 2,1,1 --epsilon 0.5,1,2 --out subsets.json
  ledgerctl question add grade --values A,B,C,D,E,F --mechanism subsets.json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return h.family(cmd, f, f.subsets) },
	}
	f.flags(cmd)
	cmd.Flags().IntSliceVar(&f.sizes, "size", nil, "how many values, `K` or K1,K2,..., a response has (default: what estimates best)")
	return cmd
}

// subsets makes subset selection.
func (f *familyFlags) subsets(ctx context.Context, values []string) (mechanismFile, error) {
	sizes, err := f.sizesFor(len(values))
	if err != nil {
		return mechanismFile{}, err
	}
	var steps []step
	for i, epsilon := range f.epsilons {
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

// blockNames names blocks by their values, or by their numbers where some would be too long or alike.
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
