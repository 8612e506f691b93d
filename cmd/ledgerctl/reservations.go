package main

import (
	"context"
	"fmt"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/vocabulary"
)

func (a *app) reservationsCommand() *cobra.Command {
	f := &filter{}
	var states []string
	cmd := &cobra.Command{
		Use:   "reservations",
		Short: "List reservations, with what has become of each",
		Long: `List reservations in the order of their numbers, with their prices in minor units of the currency. The state of
each is open (it holds its budget and its price), captured (it is the sale of the same number), cancelled or expired.
With --state, only those in one of the states are listed. The refused people are those of the order who are left
out: when it was reserved, and once it is captured also then.`,
		Example: `  ledgerctl reservations
  ledgerctl reservations --state open
  ledgerctl reservations --buyer acme --json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			all, err := list(a, cmd, f, func(ctx context.Context, l book) iter.Seq2[ledger.Reservation, error] {
				return l.Reservations(ctx, f.buyer, statesOf(states)...)
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
	cmd.Flags().StringSliceVar(&states, "state", nil, "only those in this `STATE`: open, captured, cancelled or expired; may be given several times")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(stateNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// stateNames returns all states, by their names.
func stateNames() (names []cobra.Completion) {
	for _, one := range vocabulary.ReservationStates() {
		names = append(names, string(one))
	}
	return names
}

// statesOf returns the states that a flag names, of which the ledger refuses those that there are not.
func statesOf(names []string) (all []ledger.ReservationState) {
	for _, name := range names {
		all = append(all, ledger.ReservationState(name))
	}
	return all
}

type reservationsResult struct {
	Reservations []ledger.Reservation `json:"reservations"`
}

func (r reservationsResult) Table(w io.Writer) {
	if tableNothing(w, len(r.Reservations), "reservations") {
		return
	}
	fmt.Fprintf(w, "RESERVATION\tSTATE\tEXPIRES\tBUYER\tQUESTION\tε\tPEOPLE\tREFUSED\t%s\n", priceHeader(r.Reservations[0].Currency))
	for _, one := range r.Reservations {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\n", one.Number, one.State, words.Stamp(one.Expires), one.Buyer, one.Question, one.Epsilon, one.Objects, len(one.Refused), one.Price)
	}
}
