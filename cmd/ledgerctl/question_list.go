package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
	"github.com/sluicedp/sluice/ledger"
)

func (a *app) questionListCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "list",
		Short:             "List the questions",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			out := questionsResult{Questions: []ledger.Question{}}
			err := a.with(cmd.Context(), reading, func(l book) error {
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
