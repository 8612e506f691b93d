package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/ledger"
)

func (a *app) showCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "show OBJECT",
		Short:             "Show the budget and all responses of one person",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: action(func(cmd *cobra.Command, args []string) error {
			var out objectResult
			err := a.with(reading, func(l *ledger.Ledger) (err error) {
				out.ObjectState, err = l.Object(cmd.Context(), args[0])
				return err
			})
			if err != nil {
				return err
			}
			return a.print(out)
		}),
	}
}

type objectResult struct{ ledger.ObjectState }

func (r objectResult) table(w io.Writer) {
	fmt.Fprintf(w, "object\t%s\ncap\t%s\nspent\t%s\nremaining\t%s\n\n", r.Object, r.Cap, r.Spent, r.Remaining)
	fmt.Fprintln(w, "QUESTION\tε\tFOR ANSWERS\tCEILING\tRESPONSE\tALL RESPONSES")
	for _, c := range r.Chains {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", c.Question, c.Epsilon, c.Answered, c.Ceiling, c.Response, levels(c.Levels))
	}
}

func levels(all []ledger.LevelState) string {
	if len(all) == 0 {
		return "none yet"
	}
	texts := make([]string, len(all))
	for i, at := range all {
		texts[i] = fmt.Sprintf("%s at ε=%s (event %d)", at.Response, at.Epsilon, at.Event)
	}
	return strings.Join(texts, ", ")
}
