package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/mechanisms"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/privacy"
)

func (a *app) questionCommand() *cobra.Command {
	return output.Group("question", "say whether to add or to list questions", a.questionAddCommand(),
		a.questionListCommand())
}

// questionFlags are the flags of question add.
type questionFlags struct {
	values              []string
	encoding, mechanism string
}

func (a *app) questionAddCommand() *cobra.Command {
	f := &questionFlags{}
	cmd := &cobra.Command{
		Use:  "add NAME --values A,B,… [--encoding direct|unary] [--mechanism FILE]",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.addQuestion(cmd, args[0], f) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.values, "values", nil,
		"the possible `VALUES`, separated by commas; one with a comma in double quotes; "+
			"or @FILE, with one on each line")
	flags.StringVar(&f.encoding, "encoding", "",
		"what a response is: a value (direct) or a bit for each value (unary); "+
			"picked by the number of values otherwise")
	flags.StringVar(&f.mechanism, "mechanism", "",
		"the `FILE` with the question's own mechanism, as JSON; or - for standard input")
	// These fail only for a flag that was not defined.
	_ = cmd.MarkFlagFilename("mechanism", "json")
	_ = cmd.RegisterFlagCompletionFunc("encoding", cobra.FixedCompletions([]cobra.Completion{string(ledger.Direct),
		string(ledger.Unary), string(ledger.Finite)}, cobra.ShellCompDirectiveNoFileComp))
	input.Mark(flags, input.Reads, input.ByName, "mechanism")
	input.Mark(flags, input.Reads, input.Behind, "values")
	require(cmd, "values")
	return cmd
}

func (a *app) addQuestion(cmd *cobra.Command, name string, f *questionFlags) (err error) {
	q := ledger.Question{Name: name, Encoding: ledger.Encoding(f.encoding)}
	if q.Values, err = mechanisms.ReadValues(f.values); err != nil {
		return err
	}
	if f.mechanism != "" {
		source := &mechanisms.Host{Printer: a.Printer, Files: a.Files}
		if q.Mechanism, err = source.ReadMechanism(cmd.Context(), f.mechanism, q.Values); err != nil {
			return err
		}
	}
	var out output.Fields
	err = a.with(cmd.Context(), writing, func(l book) error {
		if err := l.DefineQuestion(cmd.Context(), a.key, q); err != nil {
			return err
		}
		q, err := questionNamed(cmd.Context(), l, name)
		out.Inline(q)
		out.Add("", "question", q.Name)
		out.Add("", "values", output.ListedValues(q.Values))
		out.Add("", "encoding", q.Encoding)
		if q.Mechanism != nil {
			out.Add("", "mechanism", outline(q.Mechanism))
		}
		return err
	})
	if err != nil {
		return err
	}
	return a.Print(out)
}

func (a *app) questionListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.query(cmd, func(ctx context.Context, l book) (output.Result, error) {
				all, err := l.Questions(ctx)
				var out output.Fields
				out.Add("questions", "", all)
				out.Section(func(w io.Writer) {
					output.Rows(w, "QUESTION\tENCODING\tVALUES", all, func(q ledger.Question) []any {
						values := output.ListedValues(q.Values)
						if q.Mechanism != nil {
							values += " (" + outline(q.Mechanism) + ")"
						}
						return []any{q.Name, q.Encoding, values}
					})
				})
				return out, err
			})
		},
	}
}

// outline tells the levels of a mechanism without its probabilities.
func outline(m *ledger.Mechanism) string {
	var outputs []string
	for _, names := range m.Outputs {
		outputs = append(outputs, strconv.Itoa(len(names)))
	}
	return fmt.Sprintf("ε = %s; %s outputs", output.Listed(output.LevelsOf(m)), output.Listed(outputs))
}

// atLevels adds to the error of a request at an ε what may help if the question has responses at
// other ε only.
func atLevels(ctx context.Context, l book, question string, epsilon privacy.Epsilon, err error) error {
	if !errors.Is(err, ledger.ErrInvalid) {
		return err
	}
	q, failed := questionNamed(ctx, l, question)
	if failed != nil || q.Mechanism == nil {
		return err
	}
	hint := nearest(q.Mechanism.Family.Epsilons(), epsilon)
	if hint == "" {
		return err
	}
	return &output.Error{Kind: "invalid", Code: output.ExitMisuse, Hint: hint, Err: err}
}

// nearest says which of some rising ε are next to one that is not among them. It returns "" for one
// that is.
func nearest(levels []privacy.Epsilon, epsilon privacy.Epsilon) string {
	above, found := slices.BinarySearchFunc(levels, epsilon, privacy.Epsilon.Compare)
	if found {
		return ""
	}
	switch {
	case above == 0:
		return fmt.Sprintf("the lowest is ε=%s", levels[0])
	case above == len(levels):
		return fmt.Sprintf("the highest is ε=%s", levels[above-1])
	}
	return fmt.Sprintf("the next below is ε=%s, and the next above ε=%s", levels[above-1], levels[above])
}
