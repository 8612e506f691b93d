package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain/finite"
	finiteestimate "github.com/sluicedp/sluice/rrchain/finite/estimate"
)

func (a *app) familyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "family",
		Short: "Make a mechanism at several ε by which a question can be answered",
		Args:  cobra.NoArgs,
		RunE: action(func(*cobra.Command, []string) error {
			return fault.Usage(`run "ledgerctl mechanism family --help"`, "say which mechanism to make: subset or hadamard")
		}),
	}
	cmd.AddCommand(a.subsetCommand(), a.hadamardCommand())
	return cmd
}

// familyHelp explains what the commands that make mechanisms print.
const familyHelp = `What is printed is, for each ε, the variance of an estimated share from the response of one person, beside that of
randomized response, which is what a question is answered by without a mechanism (direct encoding). N people have
an Nth of it. It is the mean over all values when they are equally common.

The mechanism itself goes to the file --out, and with --json to standard output: "ledgerctl question add
--mechanism" takes it. The values must be those of the question, in their order. ε must rise.`

// familyFlags are the flags of mechanism family.
type familyFlags struct {
	values   []string
	epsilons epsilonList
	sizes    []int
	out      string
}

func (f *familyFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.values, "values", nil, "the `VALUES` of the question, separated by commas; one with a comma in double quotes; or @FILE, with one on each line")
	flags.Var(&f.epsilons, "epsilon", "the ε, `E1,E2,...`, at which there are to be responses, rising")
	flags.StringVar(&f.out, "out", "", "write the mechanism, as JSON, to a `FILE`; an existing one is replaced; - is standard output")
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

func (a *app) subsetCommand() *cobra.Command {
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
		RunE:              action(func(cmd *cobra.Command, _ []string) error { return a.family(cmd, f, f.subsets) }),
	}
	f.flags(cmd)
	cmd.Flags().IntSliceVar(&f.sizes, "size", nil, "how many values, `K` or K1,K2,..., a response has (default: what estimates best)")
	return cmd
}

func (a *app) hadamardCommand() *cobra.Command {
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
		RunE:              action(func(cmd *cobra.Command, _ []string) error { return a.family(cmd, f, f.hadamard) }),
	}
	f.flags(cmd)
	return cmd
}

// family makes a mechanism, and prints it.
func (a *app) family(cmd *cobra.Command, f *familyFlags, design func(values []string) (mechanismFile, error)) error {
	values, err := readValues(f.values)
	if err != nil {
		return err
	}
	file, err := a.NewOutput("--out", f.out)
	if err != nil {
		return err
	}
	defer file.Discard()
	made, err := design(values)
	if err != nil {
		return err
	}
	if err := file.Save(func(w io.Writer) error { return output.WriteJSON(w, made) }); err != nil {
		return err
	}
	return a.Print(made)
}

// subsets makes subset selection.
func (f *familyFlags) subsets(values []string) (mechanismFile, error) {
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
	return newMechanismFile(values, steps)
}

// hadamard makes Hadamard response.
func (f *familyFlags) hadamard(values []string) (mechanismFile, error) {
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
	return newMechanismFile(values, steps)
}

// step is a mechanism at one ε.
type step struct {
	epsilon privacy.Epsilon
	size    int // of the subsets; else 0
	blocks  [][]int
	matrix  *finite.Matrix
	names   []string // of the outputs
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

// meanVariance returns the variance of an estimated share from one response, on average over the shares, if all are
// equal.
func meanVariance(m *finite.Matrix) (float64, error) {
	variances, err := finiteestimate.Variance(m, slices.Repeat([]int64{1}, m.Inputs()))
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, variance := range variances {
		sum += variance
	}
	return sum, nil // the mean, of as many people as there are values, times their number
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

// familyLevel tells what a mechanism at one ε is good for.
type familyLevel struct {
	Epsilon  privacy.Epsilon `json:"epsilon"`
	Size     int             `json:"size,omitempty"` // of the subsets
	Outputs  int             `json:"outputs"`
	Variance output.Number   `json:"variance"` // of an estimated share from one response
	Direct   output.Number   `json:"variance_randomized_response"`
}

// newMechanismFile makes the family of some mechanisms by rising ε.
func newMechanismFile(values []string, steps []step) (mechanismFile, error) {
	out := mechanismFile{Values: values}
	var matrices []*finite.Matrix
	for _, s := range steps {
		level, err := newFamilyLevel(s)
		if err != nil {
			return out, err
		}
		out.Levels, out.Outputs = append(out.Levels, level), append(out.Outputs, s.names)
		matrices = append(matrices, s.matrix)
	}
	family, err := finite.NewFamily(matrices...)
	var game *finite.NotDegradationError
	if errors.As(err, &game) {
		return out, &fault.Fault{Kind: "invalid", Code: fault.Misuse, Hint: degradedHint + "; other sizes, or ε farther apart, may do", Err: err}
	}
	out.Family = family
	return out, err
}

func newFamilyLevel(s step) (familyLevel, error) {
	level := familyLevel{Epsilon: s.epsilon, Size: s.size, Outputs: s.matrix.Outputs()}
	variance, err := meanVariance(s.matrix)
	if err != nil {
		return level, err
	}
	direct, err := subsetStep(s.matrix.Inputs(), 1, s.epsilon)
	if err != nil {
		return level, err
	}
	usual, err := meanVariance(direct.matrix)
	level.Variance, level.Direct = output.Number(variance), output.Number(usual)
	return level, err
}

func (r mechanismFile) Table(w io.Writer) {
	fmt.Fprintln(w, "ε\tSUBSETS OF\tOUTPUTS\tVARIANCE\tRANDOMIZED RESPONSE\tRATIO")
	for _, l := range r.Levels {
		size := "–"
		if l.Size > 0 {
			size = strconv.Itoa(l.Size)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%.6g\t%.6g\t%.4g\n", l.Epsilon, size, l.Outputs, l.Variance, l.Direct, l.Variance/l.Direct)
	}
	fmt.Fprintln(w, "\nThe variance is that of an estimated share from one response; N people have an Nth of it.")
}
