package main

import (
	"fmt"
	"io"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/ledger"
)

func (a *app) questionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "question",
		Short: "Add or list questions",
		Args:  cobra.NoArgs,
		RunE: action(func(*cobra.Command, []string) error {
			return usageError(`run "ledgerctl question --help"`, "say whether to add or to list questions")
		}),
	}
	cmd.AddCommand(a.questionAddCommand(), a.questionListCommand())
	return cmd
}

func (a *app) questionAddCommand() *cobra.Command {
	var values []string
	cmd := &cobra.Command{
		Use:   "add NAME --values A,B,…",
		Short: "Add a question with its possible values",
		Long: `Add a question with the list of its possible values, which never changes afterwards. Adding the
same question again does nothing.`,
		Example:           "  ledgerctl question add vote --values Y,N,U,A",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: action(func(cmd *cobra.Command, args []string) error {
			key, err := uuid.NewRandom()
			if err != nil {
				return err
			}
			q := questionResult{ledger.Question{Name: args[0], Values: values}}
			err = a.with(writing, func(l *ledger.Ledger) error { return l.DefineQuestion(cmd.Context(), key.String(), q.Question) })
			if err != nil {
				return err
			}
			return a.print(q)
		}),
	}
	cmd.Flags().StringSliceVar(&values, "values", nil, "the possible `VALUES`, separated by commas; one with a comma in double quotes")
	require(cmd, "values")
	return cmd
}

type questionResult struct{ ledger.Question }

func (r questionResult) table(w io.Writer) {
	fmt.Fprintf(w, "question\t%s\nvalues\t%s\n", r.Name, listed(r.Values))
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
			return a.print(out)
		}),
	}
}

type questionsResult struct {
	Questions []ledger.Question `json:"questions"`
}

func (r questionsResult) table(w io.Writer) {
	fmt.Fprintln(w, "QUESTION\tVALUES")
	for _, q := range r.Questions {
		fmt.Fprintf(w, "%s\t%s\n", q.Name, listed(q.Values))
	}
}
