package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/ledger"
)

// sellFlags are the flags of sell.
type sellFlags struct {
	orderFlags
	truthFlags
	quote, key, out string
	maxPrice        int64
	partial         bool
}

func (a *app) sellCommand() *cobra.Command {
	f := &sellFlags{}
	cmd := &cobra.Command{
		Use:   "sell",
		Short: "Sell a buyer people's responses to a question at ε",
		Long: `Sell a buyer the responses of people to a question at ε, of all who take part or of those in a
file. What is not recorded yet is drawn, and charged to the person; what is, or follows from what is, costs
nobody any budget. Each person is credited with a price: see "ledgerctl help quote".

If anybody is refused, nothing is sold and the exit code is 3; with --partial, those people are left
out. Nothing is sold either if the price is above --max-price, or if the order is not what was quoted as
--quote ID. The same command with the same --key sells nothing twice and prints the same.

` + truthHelp + `

` + atHelp,
		Example: `  ledgerctl sell --buyer acme --question vote --epsilon 0.5 --truth people.csv --out acme.csv
  ledgerctl sell --buyer acme --question vote --epsilon 1 --truth people.csv --max-price 50000 --key order-7`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              action(func(cmd *cobra.Command, _ []string) error { return a.sell(cmd, f) }),
	}
	f.orderFlags.flags(cmd)
	flags := cmd.Flags()
	f.truthFlags.flags(flags)
	flags.StringVar(&f.quote, "quote", "", "sell exactly what was quoted under this `ID`, or nothing")
	flags.Int64Var(&f.maxPrice, "max-price", 0, "the most to be paid in all, `N` minor units of the currency (default: no limit)")
	flags.BoolVar(&f.partial, "partial", false, "leave out those who are refused")
	flags.StringVar(&f.key, "key", "", "the idempotency `KEY` (default: a new one)")
	flags.StringVar(&f.out, "out", "", "write the responses and prices to a CSV `FILE` that only its owner can read; an existing one is replaced")
	return cmd
}

func (a *app) sell(cmd *cobra.Command, f *sellFlags) error {
	request, skipped, err := a.sellRequest(cmd, f)
	if err != nil {
		return err
	}
	file, err := a.newOutput(f.out, f.truth, f.objects)
	if err != nil {
		return err
	}
	defer file.discard()
	a.warnAhead()
	var sale ledger.Sale
	err = a.with(writing, func(l *ledger.Ledger) error {
		if sale, err = l.Sell(cmd.Context(), request); err == nil {
			err = file.save(func(out *csv.Writer) error { return writeDeliveries(cmd.Context(), l, sale.Number, out) })
		}
		return withKey(request.Key, refusal(err, f.partial))
	})
	if err != nil {
		return err
	}
	return a.print(newSellResult(f, request.Key, sale, skipped))
}

// sellRequest puts the flags together, and counts the people left out for want of a value.
func (a *app) sellRequest(cmd *cobra.Command, f *sellFlags) (r ledger.SellRequest, skipped int, err error) {
	r = ledger.SellRequest{Partial: f.partial, QuoteID: f.quote, Truth: f.source(a).ask}
	if err := f.check(cmd); err != nil {
		return r, 0, err
	}
	if cmd.Flags().Changed("max-price") {
		r.MaxPrice = &f.maxPrice
	}
	if err := f.at.set(a, cmd); err != nil {
		return r, 0, err
	}
	if r.Key, err = keyOr(cmd, f.key); err != nil {
		return r, 0, err
	}
	c := f.columns
	c.optional = true // the file with the true values may be another
	r.Order, skipped, err = f.order(a, cmd, c)
	return r, skipped, err
}

func (f *sellFlags) check(cmd *cobra.Command) error {
	switch {
	case f.maxPrice < 0:
		return usageError("", "--max-price must not be below 0")
	case f.quote == "" && cmd.Flags().Changed("quote"):
		return usageError(`"ledgerctl quote" prints the ID`, "--quote is empty")
	}
	return checkStdin(f.objects, f.truth)
}

func writeDeliveries(ctx context.Context, l *ledger.Ledger, sale uint64, out *csv.Writer) error {
	if err := out.Write([]string{"object", "response", "price"}); err != nil {
		return err
	}
	for d, err := range l.Deliveries(ctx, sale) {
		if err != nil {
			return err
		}
		if err := out.Write([]string{d.Object, d.Value, strconv.FormatInt(d.Price, 10)}); err != nil {
			return err
		}
	}
	return nil
}

// sellResult is what a sale did.
type sellResult struct {
	ID   string `json:"id,omitempty"` // of the quote that was asked for
	Sale uint64 `json:"sale"`
	ledger.Offer
	Refused []ledger.Refusal `json:"refused"`
	Skipped int              `json:"skipped"` // rows without a value
	Time    time.Time        `json:"time"`
	Events  span             `json:"events"`
	Key     string           `json:"key"`
	Out     string           `json:"out,omitempty"` // the file with the responses
}

func newSellResult(f *sellFlags, key string, s ledger.Sale, skipped int) sellResult {
	return sellResult{
		ID: f.quote, Sale: s.Number, Offer: s.Offer,
		Refused: append([]ledger.Refusal{}, s.Refused...), Skipped: skipped, Time: s.Time, Events: span{s.First, s.Last}, Key: key, Out: f.out,
	}
}

func (r sellResult) table(w io.Writer) {
	fmt.Fprintf(w, "sale\t%d\ntime\t%s\n", r.Sale, stamp(r.Time))
	tableOffer(w, r.Offer)
	fmt.Fprintf(w, "refused, and left out\t%d\nskipped, without a value\t%d\n", len(r.Refused), r.Skipped)
	fmt.Fprintf(w, "events\t%d to %d\nkey\t%s\n", r.Events.First, r.Events.Last, r.Key)
	if r.Out != "" {
		fmt.Fprintf(w, "responses and prices\t%s\n", r.Out)
	}
	tableRefusals(w, r.Refused)
}
