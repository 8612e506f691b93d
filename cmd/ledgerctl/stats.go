package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/observe"
)

func (a *app) statsCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "stats",
		Short:             "Count what is in the ledger",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			var out statsResult
			err := a.with(cmd.Context(), reading, func(l book) (err error) {
				out.About = l.About()
				out.Stats, err = l.Stats(cmd.Context())
				return err
			})
			if err != nil {
				return err
			}
			return a.Print(out)
		}),
	}
}

// health is [ledger.Ledger.Health] of the ledger that is named.
func (a *app) health(ctx context.Context) (out observe.Health, err error) {
	err = a.with(ctx, reading, func(l book) (err error) {
		out, err = l.Health(ctx)
		return err
	})
	return out, err
}

// statsResult has the currency of Stats. That of About, one level further down, is the same.
type statsResult struct {
	creation
	ledger.Stats
}

type creation struct{ ledger.About }

func (r statsResult) Table(w io.Writer) {
	fmt.Fprintf(w, "ledger\t%s\ncreated\t%s\nlog\t%s\n", r.ID, r.Created.Format(time.RFC3339), r.Origin)
	if r.LogKey != "" {
		fmt.Fprintf(w, "log key\t%s\n", r.LogKey)
	}
	fmt.Fprintf(w, "objects\t%d\nquestions\t%d\nchains\t%d\nevents\t%d\n", r.Objects, r.Questions, r.Chains, r.Events)
	fmt.Fprintf(w, "buyers\t%d\nsales\t%d\nrevenue\t%s\n", r.Buyers, r.Sales, words.Money(r.Revenue, r.Currency))
	fmt.Fprintf(w, "bytes\t%d\n", r.Bytes)
	if r.MissingJournal != "" {
		fmt.Fprintf(w, "journal\tMISSING (%s): what only it has is not counted\n", r.MissingJournal)
	}
}
