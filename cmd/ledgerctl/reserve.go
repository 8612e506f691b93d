package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/csv"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/vocabulary"
)

// reserveFlags are the flags of reserve.
type reserveFlags struct {
	orderFlags
	limitFlags
	expires string
}

func (a *app) reserveCommand() *cobra.Command {
	f := &reserveFlags{}
	c := &csv.Columns{}
	cmd := &cobra.Command{
		Use:   "reserve",
		Short: "Hold an order while the buyer pays",
		Long: `Hold an order until --expires, a time or a duration such as 24h: the budget that it needs counts as spent for everybody else, and its price
does not rise. Nothing is drawn, nobody is charged, and no true values are needed. What is printed first is the
number of the reservation: "ledgerctl capture NUMBER" carries it out, "ledgerctl cancel NUMBER" gives it up, and
what has expired holds nothing any more. "ledgerctl reservations" lists them all, each with its state.

If anybody is refused, nothing is held and the exit code is 3; with --partial, those people are left out. The same
command with the same --key holds nothing twice: it prints the same while the reservation is open. After it was
captured, cancelled or has expired the command is refused and the exit code is 3, so charge a buyer only if it is 0.

` + atHelp,
		Example: `  ledgerctl reserve --buyer acme --question vote --epsilon 0.5 --expires 2027-01-31T09:00:00Z
  ledgerctl reserve --buyer acme --question vote --epsilon 0.5 --expires 24h --key order-6
  ledgerctl reserve --buyer acme --question vote --epsilon 1 --expires 2027-01-31T09:00:00Z --max-price 50000 --key order-7`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              action(func(cmd *cobra.Command, _ []string) error { return a.reserve(cmd, f, *c) }),
	}
	f.orderFlags.flags(cmd)
	f.limitFlags.flags(cmd, "hold")
	cmd.Flags().StringVar(&f.expires, "expires", "", "the `TIME or DURATION` from which, or after which, nothing is held any more, such as 2027-01-31T09:00:00Z or 24h")
	require(cmd, "expires")
	c.Flags(cmd.Flags(), "the `COLUMN` with the true value: rows of --objects where it is empty are skipped")
	return cmd
}

func (a *app) reserve(cmd *cobra.Command, f *reserveFlags, c csv.Columns) error {
	r, skipped, err := a.reserveRequest(cmd, f, c)
	if err != nil {
		return err
	}
	out := reserveResult{Skipped: skipped}
	err = a.with(cmd.Context(), writing, func(l book) error {
		if err := f.checkPeople(cmd, l, c, r.Order); err != nil {
			return err
		}
		out.Reservation, err = l.Reserve(cmd.Context(), r)
		return fault.WithKey(r.Key, fault.Refusal(atLevels(cmd.Context(), l, r.Question, r.Epsilon, err), f.partial))
	})
	if err != nil {
		return err
	}
	out.Refused, out.Sums = append([]ledger.Refusal{}, out.Refused...), vocabulary.SumRefusals(out.Refused)
	return a.PrintDone(fmt.Sprintf("reservation %d is made", out.Number), r.Key, out)
}

// reserveRequest puts the flags together, and counts the people left out for want of a value.
func (a *app) reserveRequest(cmd *cobra.Command, f *reserveFlags, c csv.Columns) (r ledger.ReserveRequest, skipped int, err error) {
	r = ledger.ReserveRequest{Partial: f.partial, QuoteID: f.quote}
	if r.For, r.Until, err = parseExpiry(f.expires); err != nil {
		return r, 0, err
	}
	if r.MaxPrice, err = f.max(cmd); err != nil {
		return r, 0, err
	}
	if err := f.at.set(a, cmd); err != nil {
		return r, 0, err
	}
	if r.Key, err = keyOr(cmd, f.key); err != nil {
		return r, 0, err
	}
	r.Order, skipped, err = f.order(a, cmd, c)
	return r, skipped, err
}

// parseExpiry reads --expires: a duration from when the reservation is granted, or a time.
func parseExpiry(text string) (during time.Duration, until time.Time, err error) {
	const hint = "a duration above 0, such as 90m or 24h, or " + timeHint
	if during, err := time.ParseDuration(text); err == nil {
		if during <= 0 {
			return 0, until, fault.Usage(hint, "--expires %q is not above 0", text)
		}
		return during, until, nil
	}
	until, err = parseTime("--expires", text, hint)
	return 0, until, err
}

// reserveResult is what is held.
type reserveResult struct {
	ledger.Reservation
	Sums    []ledger.RefusalSum `json:"sums,omitempty"` // of the refused, by reason
	Skipped int                 `json:"skipped"`        // rows without a value
}

func (r reserveResult) Table(w io.Writer) {
	fmt.Fprintf(w, "reservation\t%d\nstate\t%s\nexpires\t%s\nbuyer\t%s\nquestion\t%s\nε\t%s\n", r.Number, r.State, words.Stamp(r.Expires), r.Buyer, r.Question, r.Epsilon)
	fmt.Fprintf(w, "price, at most\t%s\npeople held\t%d\n", words.Money(r.Price, r.Currency), r.Objects)
	fmt.Fprintf(w, "refused, and left out\t%d\nskipped, without a value\t%d\n", len(r.Refused), r.Skipped)
	fmt.Fprintf(w, "events\t%d to %d\nkey\t%s\n", r.First, r.Last, r.Key)
	tableRefusals(w, r.Refused)
}
