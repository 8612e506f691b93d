package mechanisms

import (
	"cmp"
	"context"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/estimate"
	"github.com/sluicedp/sluice/rrchain/finite"
)

// familyFlags are the flags of the commands that compute a family of mechanisms.
type familyFlags struct {
	Values   []string          `flag:"values,required,reads@"`
	Epsilons []privacy.Epsilon `flag:"epsilon,required"`
	Out      input.Output      `flag:"out,writes" ext:"json"`
}

// check returns an error if the values and ε cannot be those of a family. It names the flags.
func (f *familyFlags) check(values []string) error {
	if len(values) < 2 {
		return output.UsageError("", "--values: a question has at least two values")
	}
	for i, epsilon := range f.Epsilons {
		switch {
		case epsilon.IsZero():
			return output.UsageError("", "--epsilon: ε = 0 is not above 0")
		case i > 0 && !f.Epsilons[i-1].Less(epsilon):
			return output.UsageError("", "--epsilon: the ε must rise, but %v follows %v", epsilon, f.Epsilons[i-1])
		}
	}
	return nil
}

// family computes a family of mechanisms, writes it to its file, and prints it.
func (h *Host) family(cmd *cobra.Command, f *familyFlags, design func(ctx context.Context,
	values []string) (mechanismFile, error)) error {
	values, err := ReadValues(f.Values)
	if err != nil {
		return err
	}
	if err := f.check(values); err != nil {
		return err
	}
	made, err := design(cmd.Context(), values)
	if err != nil {
		return err
	}
	if err := f.Out.Save(func(w io.Writer) error { return output.WriteJSON(w, made) }); err != nil {
		return err
	}
	return h.Print(made)
}

// step is the mechanism of a family at one ε.
type step struct {
	epsilon privacy.Epsilon
	size    int // of the subsets; 0 without subsets
	blocks  [][]int
	matrix  *finite.Matrix
	names   []string // of the outputs
}

// meanVariance returns the variance of an estimated share from one response, averaged over the
// values, if all values have equal shares.
func meanVariance(m *finite.Matrix) (float64, error) {
	variances, err := estimate.Variance(estimate.Counts{Mechanism: m, ByValue: slices.Repeat([]int64{1}, m.Inputs())})
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, variance := range variances {
		sum += variance
	}
	return sum, nil // mean variance of one response per value, times the number of values
}

func (h *Host) hadamard(cmd *cobra.Command, _ []string, f *familyFlags) error {
	return h.family(cmd, f, f.hadamard)
}

// hadamard computes Hadamard response at each ε.
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

// subsetFlags are the flags of mechanism family subset.
type subsetFlags struct {
	familyFlags
	Sizes []int `flag:"size"`
}

// subset runs the command mechanism family subset.
func (h *Host) subset(cmd *cobra.Command, _ []string, f *subsetFlags) error {
	return h.family(cmd, &f.familyFlags, f.subsets)
}

// subsets computes subset selection at each ε.
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

// subsetStep returns subset selection at one ε.
func subsetStep(values, size int, epsilon privacy.Epsilon) (step, error) {
	design, err := finite.SubsetSelection(values, size)
	if err != nil {
		return step{}, err
	}
	matrix, err := design.At(epsilon)
	return step{epsilon: epsilon, size: size, blocks: design.Blocks, matrix: matrix}, err
}

// maxName is the largest length of the name of an output, in bytes.
const maxName = 256

// blockNames returns names of blocks: their values, or their numbers if a name would be too long or
// not unique.
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

// numbered returns the numbers from 0 to n-1 as names.
func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	return names
}

// sizesFor returns the size of the subsets at each ε: those of --size, of which one counts for all
// ε, or else the best ones.
func (f *subsetFlags) sizesFor(values int) ([]int, error) {
	switch n := len(f.Epsilons); len(f.Sizes) {
	case 0:
		return f.bestSizes(values)
	case 1:
		return slices.Repeat(f.Sizes, n), nil
	case n:
		return f.Sizes, nil
	default:
		return nil, output.UsageError("give one size, or one for each ε", "--size has %d sizes, and --epsilon %d ε",
			len(f.Sizes), n)
	}
}

// sequence is a choice of sizes for the first (lowest) ε, such that subset selection at each of
// them is a degradation of that at the next one. A degradation is a function of the other response
// and of randomness, without the true value.
type sequence struct {
	last  step    // at the highest ε of the sequence
	sizes []int   // of the subsets, by rising ε
	cost  float64 // the sum of the logarithms of the variances
}

// bestSizes returns the sizes with the least product of the variances, among those for which subset
// selection at each ε is a degradation of that at the next. The best size at each ε alone need not
// fulfil that. It uses dynamic programming: for each size at an ε, it keeps only the best sequence
// that ends with it.
func (f *subsetFlags) bestSizes(values int) ([]int, error) {
	sequences := []sequence{{}}
	for _, epsilon := range f.Epsilons {
		candidates, err := f.candidates(values, epsilon)
		if err != nil {
			return nil, err
		}
		sequences, err = extend(sequences, candidates, values)
		if err != nil {
			return nil, err
		}
	}
	return slices.MinFunc(sequences, byCost).sizes, nil
}

// byCost compares sequences by their costs.
func byCost(a, b sequence) int { return cmp.Compare(a.cost, b.cost) }

// extend returns, for each candidate at the next higher ε, the best sequence that ends with it, if
// there is one. The result is not empty, because the size may stay the same. The first sequence is
// empty (sizes is nil), and can be extended by each candidate.
func extend(sequences []sequence, candidates []step, values int) ([]sequence, error) {
	var longer []sequence
	for _, c := range candidates {
		variance, err := meanVariance(c.matrix)
		if err != nil {
			return nil, err
		}
		var below []sequence
		for _, s := range sequences {
			if s.sizes == nil || canDegrade(values, c, s.last) {
				below = append(below, s)
			}
		}
		if len(below) > 0 {
			best := slices.MinFunc(below, byCost)
			sizes := append(slices.Clone(best.sizes), c.size)
			longer = append(longer, sequence{c, sizes, best.cost + math.Log(variance)})
		}
	}
	return longer, nil
}

// candidates returns subset selection at an ε for all sizes of which there are at most 64 subsets;
// with a single ε, for all sizes that [finite.SubsetSelection] accepts.
func (f *subsetFlags) candidates(values int, epsilon privacy.Epsilon) ([]step, error) {
	most := math.MaxInt
	if len(f.Epsilons) > 1 {
		most = 64 // subsets, which limits the size of the channel to the next ε
	}
	var all []step
	for size := 1; size == 1 || size < values; size++ {
		s, err := subsetStep(values, size, epsilon)
		if err != nil && size == 1 {
			return nil, err
		}
		if err == nil && len(s.blocks) <= most {
			all = append(all, s)
		}
	}
	return all, nil
}

// canDegrade reports whether subset selection at a lower ε is a degradation of that at a higher
// one, by the condition of [finite.SubsetSelection]. It returns false for pairs that are too near
// the border for float64, or that would take a linear program of several seconds.
// [finite.NewFamily] proves the degradation afterwards.
func canDegrade(values int, higher, lower step) bool {
	if higher.size == lower.size {
		return true
	}
	const most, margin = 1000, 1 + 1e-6
	if len(higher.blocks)*len(lower.blocks) > most {
		return false
	}
	// The condition is Theorem 4 on finite mechanisms in docs/gradual.md, with s′ = t, E = up and
	// E′ = down. The margin is for rounding.
	m, s, t := float64(values), float64(higher.size), float64(lower.size)
	up, down := math.Exp(higher.epsilon.Float64()), math.Exp(lower.epsilon.Float64())
	if t > s {
		return t*(down-1)*margin <= s*(up-1)
	}
	return down*((s-t)*up+m-s)*margin <= up*(m-t)
}
