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

func (a *app) salesCommand() *cobra.Command {
	f := &filter{}
	cmd := &cobra.Command{
		Use:   "sales",
		Short: "List the sales",
		Long: `List the sales, in the order of their numbers, with their prices in minor units of the currency. Reservations are
none until they are carried out, though they are numbered with the sales. "ledgerctl responses --buyer NAME" lists
what was delivered, and "ledgerctl receipt make NUMBER" makes the receipt of a sale.`,
		Example: `  ledgerctl sales
  ledgerctl sales --buyer acme --question vote --json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			all, err := a.sales(cmd, f)
			if err != nil {
				return err
			}
			return a.Print(salesResult{all})
		}),
	}
	f.flags(cmd)
	return cmd
}

// sales returns the sales that a filter admits.
func (a *app) sales(cmd *cobra.Command, f *filter) ([]ledger.Sale, error) {
	all, err := list(a, cmd, f, func(ctx context.Context, l book) iter.Seq2[ledger.Sale, error] {
		return l.Sales(ctx, f.buyer)
	},
		func(s ledger.Sale) bool { return f.admits(s.Question, s.Epsilon) })
	for i := range all {
		all[i].Refused = append([]ledger.Refusal{}, all[i].Refused...)
	}
	return all, err
}

type salesResult struct {
	Sales []ledger.Sale `json:"sales"`
}

func (r salesResult) Table(w io.Writer) {
	if tableNothing(w, len(r.Sales), "sales") {
		return
	}
	fmt.Fprintf(w, "SALE\tTIME\tBUYER\tQUESTION\tε\tPEOPLE\tREFUSED\t%s\n", priceHeader(r.Sales[0].Currency))
	for _, s := range r.Sales {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%d\t%d\t%d\n", s.Number, words.Stamp(s.Time), s.Buyer, s.Question, s.Epsilon, s.Objects, len(s.Refused), s.Price)
	}
}

// priceHeader stands above prices.
func priceHeader(currency string) string {
	return fmt.Sprintf("PRICE IN MINOR UNITS OF %s", currency)
}
