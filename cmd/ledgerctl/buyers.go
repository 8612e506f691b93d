package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/ledger"
)

func (a *app) buyersCommand() *cobra.Command {
	f := &filter{}
	cmd := &cobra.Command{
		Use:   "buyers",
		Short: "List the buyers, with what they have bought and paid",
		Long: `List the buyers, in the order of their first orders, with the number of their sales and what they have paid in
all, in minor units of the currency. With --question or --epsilon, only such sales count, and only buyers who have
some are listed.`,
		Example: `  ledgerctl buyers
  ledgerctl buyers --question vote`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			all, err := a.buyers(cmd, f)
			if err != nil {
				return err
			}
			return a.Print(buyersResult{all})
		}),
	}
	f.flags(cmd)
	return cmd
}

// buyers returns the buyers whom a filter admits.
func (a *app) buyers(cmd *cobra.Command, f *filter) (found []ledger.BuyerState, err error) {
	err = a.with(cmd.Context(), reading, func(l book) error {
		if err := f.check(cmd.Context(), cmd, l); err != nil {
			return err
		}
		if found, err = l.Buyers(cmd.Context()); err != nil || f.question == "" && f.epsilon.IsZero() {
			return err
		}
		found, err = onlySales(cmd, l, f, found)
		return err
	})
	found = slices.DeleteFunc(found, func(b ledger.BuyerState) bool { return f.buyer != "" && b.Buyer != f.buyer })
	return append([]ledger.BuyerState{}, found...), err
}

// onlySales counts of what buyers have bought only what a filter admits, and leaves out those who have none of it.
func onlySales(cmd *cobra.Command, l book, f *filter, all []ledger.BuyerState) ([]ledger.BuyerState, error) {
	place := map[string]int{}
	for i := range all {
		place[all[i].Buyer], all[i].Sales, all[i].Paid = i, 0, 0
	}
	for s, err := range l.Sales(cmd.Context(), f.buyer) {
		if err != nil {
			return nil, err
		}
		if i, known := place[s.Buyer]; known && f.admits(s.Question, s.Epsilon) { // else it is newer than the list
			all[i].Sales, all[i].Paid = all[i].Sales+1, all[i].Paid+s.Price
		}
	}
	return slices.DeleteFunc(all, func(b ledger.BuyerState) bool { return b.Sales == 0 }), nil
}

type buyersResult struct {
	Buyers []ledger.BuyerState `json:"buyers"`
}

func (r buyersResult) Table(w io.Writer) {
	if tableNothing(w, len(r.Buyers), "buyers") {
		return
	}
	fmt.Fprintf(w, "BUYER\tSALES\tPAID IN MINOR UNITS OF %s\n", r.Buyers[0].Currency)
	for _, b := range r.Buyers {
		fmt.Fprintf(w, "%s\t%d\t%d\n", b.Buyer, b.Sales, b.Paid)
	}
}
