package mechanisms

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/estimate"
	"github.com/sluicedp/sluice/rrchain/finite"
)

func (h *Host) familyCommand() *cobra.Command {
	return output.Group("mechanism family", "say which mechanism to make: subset or hadamard", h.subsetCommand(),
		h.hadamardCommand())
}

// familyFlags are the flags of mechanism family.
type familyFlags struct {
	values   []string
	epsilons epsilonList
	sizes    []int
	out      string
}

func (f *familyFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.values, "values", nil,
		"the `VALUES` of the question, separated by commas; one with a comma in double quotes; or @FILE, with one "+
			"on each line")
	flags.Var(&f.epsilons, "epsilon", "the ε, `E1,E2,...`, at which there are to be responses, rising")
	flags.StringVar(&f.out, "out", "",
		"write the mechanism, as JSON, to a `FILE`; an existing one is replaced; - is standard output")
	// It fails only for a flag that was not defined.
	_ = cmd.MarkFlagFilename("out", "json")
	files.Mark(flags, files.Writes, files.ByName, "out")
	files.Mark(flags, files.Reads, files.Behind, "values")
	require(cmd, "values", "epsilon")
}

// epsilonList is a flag for a list of ε.
type epsilonList []privacy.Epsilon

// Set implements [pflag.Value].
func (e *epsilonList) Set(text string) error {
	*e = epsilonList{}
	for item := range strings.SplitSeq(text, ",") {
		epsilon, err := privacy.ParseEpsilon(item)
		if err != nil {
			return err
		}
		*e = append(*e, epsilon)
	}
	return nil
}

func (e *epsilonList) String() string { return "" } // the flag has no default
func (e *epsilonList) Type() string   { return "epsilons" }

// check refuses what makes no family, in the words of the flags.
func (f *familyFlags) check(values []string) error {
	if len(values) < 2 {
		return output.UsageError("", "--values: a question has at least two values")
	}
	for i, epsilon := range f.epsilons {
		switch {
		case epsilon.IsZero():
			return output.UsageError("", "--epsilon: ε = 0 is not above 0")
		case i > 0 && !f.epsilons[i-1].Less(epsilon):
			return output.UsageError("", "--epsilon: the ε must rise, and %v comes behind %v", epsilon, f.epsilons[i-1])
		}
	}
	return nil
}

// family makes a mechanism, and prints it.
func (h *Host) family(cmd *cobra.Command, f *familyFlags, design func(ctx context.Context,
	values []string) (mechanismFile, error)) error {
	values, err := ReadValues(f.values)
	if err != nil {
		return err
	}
	if err := f.check(values); err != nil {
		return err
	}
	file, err := h.NewOutput("--out", f.out)
	if err != nil {
		return err
	}
	defer file.Discard()
	made, err := design(cmd.Context(), values)
	if err != nil {
		return err
	}
	if err := file.Save(func(w io.Writer) error { return output.WriteJSON(w, made) }); err != nil {
		return err
	}
	return h.Print(made)
}

// step is a mechanism at one ε.
type step struct {
	epsilon privacy.Epsilon
	size    int // of the subsets; else 0
	blocks  [][]int
	matrix  *finite.Matrix
	names   []string // of the outputs
}

// meanVariance returns the variance of an estimated share from one response, on average over the
// shares, if all are equal.
func meanVariance(m *finite.Matrix) (float64, error) {
	variances, err := estimate.OutputVariance(m, slices.Repeat([]int64{1}, m.Inputs()))
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, variance := range variances {
		sum += variance
	}
	return sum, nil // the mean, of as many people as there are values, times their number
}
