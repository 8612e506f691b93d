package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/rrchain"
)

func (a *app) questionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "question",
		Short: "Add or list questions",
		Args:  cobra.NoArgs,
		RunE: action(func(*cobra.Command, []string) error {
			return fault.Usage(`run "ledgerctl question --help"`, "say whether to add or to list questions")
		}),
	}
	cmd.AddCommand(a.questionAddCommand(), a.questionListCommand())
	return cmd
}

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
	if q.Values, err = readValues(f.values); err != nil {
		return err
	}
	if cmd.Flags().Changed("mechanism") {
		if q.Mechanism, err = a.readMechanism(f.mechanism, q.Values); err != nil {
			return err
		}
	}
	err = a.with(writing, func(l *ledger.Ledger) error {
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

// readValues returns the values that a flag lists, or those in the file that it names. A question has more than
// one value, so that a single one that begins with @ cannot be meant as such.
func readValues(values []string) ([]string, error) {
	if !slices.ContainsFunc(values, func(v string) bool { return strings.HasPrefix(v, "@") }) {
		return values, nil
	}
	if len(values) > 1 {
		return nil, fault.Usage("a file's name cannot have a comma in it; a value that begins with @ can stand in a file", "--values takes a list of values or one @FILE, not both")
	}
	text, err := readText(values[0][1:], rrchain.MaxValues*(256+2))
	if err != nil {
		return nil, fault.Input("", "--values: %w", err)
	}
	lines := strings.Split(strings.TrimSuffix(strings.TrimPrefix(text, "\ufeff"), "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSuffix(line, "\r")
		if strings.TrimSpace(lines[i]) != lines[i] {
			return nil, fault.Input("", "--values: line %d of %s begins or ends with a blank", i+1, values[0][1:])
		}
	}
	return lines, nil
}

// readText reads a regular file of up to so many bytes.
func readText(path string, most int64) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > most {
		return "", errors.Join(err, fmt.Errorf("%q is not a file of up to %d bytes", path, most))
	}
	text, err := io.ReadAll(io.LimitReader(file, most))
	return string(text), err
}

type questionResult struct{ ledger.Question }

func (r questionResult) Table(w io.Writer) {
	fmt.Fprintf(w, "question\t%s\nvalues\t%s\nencoding\t%s\n", r.Name, words.ListedValues(r.Values), r.Encoding)
	if r.Mechanism != nil {
		fmt.Fprintf(w, "mechanism\t%s\n", outline(r.Mechanism))
	}
}

func (a *app) questionListCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "list",
		Short:             "List the questions",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			out := questionsResult{Questions: []ledger.Question{}}
			err := a.with(reading, func(l *ledger.Ledger) error {
				all, err := l.Questions(cmd.Context())
				out.Questions = append(out.Questions, all...)
				return err
			})
			if err != nil {
				return err
			}
			return a.Print(out)
		}),
	}
}

type questionsResult struct {
	Questions []ledger.Question `json:"questions"`
}

func (r questionsResult) Table(w io.Writer) {
	fmt.Fprintln(w, "QUESTION\tENCODING\tVALUES")
	for _, q := range r.Questions {
		fmt.Fprintf(w, "%s\t%s\t%s", q.Name, q.Encoding, words.ListedValues(q.Values))
		if q.Mechanism != nil {
			fmt.Fprintf(w, " (%s)", outline(q.Mechanism))
		}
		fmt.Fprintln(w)
	}
}
