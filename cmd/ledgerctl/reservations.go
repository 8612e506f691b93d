package main

import (
	"context"
	"fmt"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
	"github.com/sluicedp/sluice/ledger"
)

func (a *app) reservationsCommand() *cobra.Command {
	f := &filter{}
	cmd := &cobra.Command{
		Use:   "reservations",
		Short: "List the reservations that hold now",
		Long: `List the reservations that hold now, in the order of their numbers, with their prices in minor units of the
currency. What has expired, was cancelled or has been carried out is not among them: "ledgerctl log" has it all.`,
		Example: `  ledgerctl reservations
  ledgerctl reservations --buyer acme --json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			all, err := list(a, cmd, f, func(ctx context.Context, l book) iter.Seq2[ledger.Reservation, error] {
				return l.Reservations(ctx, f.buyer)
			},
				func(r ledger.Reservation) bool { return f.admits(r.Question, r.Epsilon) })
			if err != nil {
				return err
			}
			for i := range all {
				all[i].Refused = append([]ledger.Refusal{}, all[i].Refused...)
			}
			return a.Print(reservationsResult{all})
		}),
	}
	f.flags(cmd)
	return cmd
}

type reservationsResult struct {
	Reservations []ledger.Reservation `json:"reservations"`
}

func (r reservationsResult) Table(w io.Writer) {
	if tableNothing(w, len(r.Reservations), "reservations that hold") {
		return
	}
	fmt.Fprintf(w, "RESERVATION\tEXPIRES\tBUYER\tQUESTION\tε\tPEOPLE\tREFUSED\t%s\n", priceHeader(r.Reservations[0].Currency))
	for _, one := range r.Reservations {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%d\t%d\t%d\n", one.Number, words.Stamp(one.Expires), one.Buyer, one.Question, one.Epsilon, one.Objects, len(one.Refused), one.Price)
	}
}
