package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/formulas"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
	"github.com/sluicedp/sluice/ledger"
)

// questionFlags are the flags of question add.
type questionFlags struct {
	values              []string
	encoding, mechanism string
}

func (a *app) questionAddCommand() *cobra.Command {
	f := &questionFlags{}
	cmd := &cobra.Command{
		Use:   "add NAME --values A,B,… [--encoding direct|unary] [--mechanism FILE]",
		Short: "Add a question with its possible values",
		Long: `Add a question with the list of its possible values, which never changes afterwards. Adding the
same question again does nothing.

A response is one of the values (direct encoding, randomized response), or a row with a 0 or 1 for each of
them (unary encoding), which tells more about questions of many values. Unless told, the ledger picks what
estimates better at ε=2: unary encoding from 21 values on.

With --mechanism, a response is what a mechanism of yours puts out (finite encoding), at a few ε: an object of JSON
in a file of up to 1 MiB.

  {"family":{"levels":[[["3/5","2/5"],["2/5","3/5"]], [["3/4","1/4"],["1/4","3/4"]]]}, "outputs":[["Y","N"],["Y","N"]]}

There is a level for each ε, by rising ε; in it a list for each value, in their order, of the probabilities of the
outputs. They are fractions or decimals. The ε of a level is the logarithm of the largest ratio of two probabilities
of one output. "outputs" names the outputs of each level; without it they are called 0, 1, …. Each level must be a
degradation of the next: what it answers can be made from what the next one answers, by a channel that does not
know the truth. Then a response can be raised from one to the next for the difference of their ε. The family may
have the "channels"; if not, they are searched for, which takes minutes where outputs multiply to some thousands.
"ledgerctl mechanism family" makes such files. People are raised to, and buyers are sold, the ε of the levels only;
"ledgerctl advance" releases the highest level that a policy allows.`,
		Example: `  ledgerctl question add vote --values Y,N,U,A
  ledgerctl question add name --values @names.txt
  ledgerctl question add vote --values Y,N,U,A --mechanism subsets.json
  ledgerctl mechanism family subset --values Y,N,U,A --epsilon 0.5,1,2 --json | ledgerctl question add vote --values Y,N,U,A --mechanism -`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              action(func(cmd *cobra.Command, args []string) error { return a.addQuestion(cmd, args[0], f) }),
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.values, "values", nil, "the possible `VALUES`, separated by commas; one with a comma in double quotes; or @FILE, with one on each line")
	flags.StringVar(&f.encoding, "encoding", "", "what a response is: a value (direct) or a bit for each value (unary); picked by the number of values otherwise")
	flags.StringVar(&f.mechanism, "mechanism", "", "the `FILE` with the question's own mechanism, as JSON; or - for standard input")
	// These fail only for a flag that was not defined.
	_ = cmd.MarkFlagFilename("mechanism", "json")
	_ = cmd.RegisterFlagCompletionFunc("encoding", cobra.FixedCompletions([]cobra.Completion{string(ledger.Direct), string(ledger.Unary), string(ledger.Finite)}, cobra.ShellCompDirectiveNoFileComp))
	files.Mark(flags, files.Reads, files.ByName, "mechanism")
	files.Mark(flags, files.Reads, files.Behind, "values")
	require(cmd, "values")
	return cmd
}

func (a *app) addQuestion(cmd *cobra.Command, name string, f *questionFlags) error {
	key, err := uuid.NewRandom()
	if err != nil {
		return err
	}
	q := ledger.Question{Name: name, Encoding: ledger.Encoding(f.encoding)}
	if q.Values, err = formulas.ReadValues(f.values); err != nil {
		return err
	}
	if cmd.Flags().Changed("mechanism") {
		if q.Mechanism, err = (&formulas.Host{Printer: a.Printer, Files: a.Files}).ReadMechanism(cmd.Context(), f.mechanism, q.Values); err != nil {
			return err
		}
	}
	err = a.with(cmd.Context(), writing, func(l book) error {
		if err := l.DefineQuestion(cmd.Context(), key.String(), q); err != nil {
			return err
		}
		all, err := l.Questions(cmd.Context())
		if at := slices.IndexFunc(all, func(other ledger.Question) bool { return other.Name == q.Name }); at >= 0 {
			q = all[at]
		}
		return err
	})
	if err != nil {
		return err
	}
	return a.Print(questionResult{q})
}

type questionResult struct{ ledger.Question }

func (r questionResult) Table(w io.Writer) {
	fmt.Fprintf(w, "question\t%s\nvalues\t%s\nencoding\t%s\n", r.Name, words.ListedValues(r.Values), r.Encoding)
	if r.Mechanism != nil {
		fmt.Fprintf(w, "mechanism\t%s\n", outline(r.Mechanism))
	}
}
