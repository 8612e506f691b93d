package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/csv"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/privacy"
)

// orderFlags are the flags that say what a buyer orders.
type orderFlags struct {
	buyer, question, objects string
	epsilon                  privacy.Epsilon
	at                       moment
}

func (f *orderFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.buyer, "buyer", "", "the buyer's `NAME`")
	flags.StringVar(&f.question, "question", "", "the question's `NAME`")
	flags.TextVar(&f.epsilon, "epsilon", privacy.Epsilon{}, "the ε, `E`, of the responses")
	flags.StringVar(&f.objects, "objects", "", "the CSV `FILE` with the people to buy from, by --id-column, without those whose --value-column is empty (default: all who take part)")
	files.Mark(flags, files.Reads, files.ByName, "objects")
	f.at.flag(cmd)
	require(cmd, "buyer", "question", "epsilon")
}

// order reads who is to be bought from, and counts those left out.
func (f *orderFlags) order(a *app, cmd *cobra.Command, c csv.Columns) (o ledger.Order, skipped int, err error) {
	c.Skipped = &skipped
	people, err := csv.Panel(cmd.Context(), a.Files, f.objects, c)
	return ledger.Order{Buyer: f.buyer, Question: f.question, Epsilon: f.epsilon, Objects: people, All: people == nil}, skipped, err
}

// checkPeople refuses a file none of whose people takes part.
func (f *orderFlags) checkPeople(cmd *cobra.Command, l book, c csv.Columns, o ledger.Order) error {
	return c.CheckPeople(cmd.Context(), l, f.objects, o.Question, o.Objects)
}

func (a *app) quoteCommand() *cobra.Command {
	f := &orderFlags{}
	c := &csv.Columns{}
	cmd := &cobra.Command{
		Use:   "quote",
		Short: "Say what an order would cost and bring, charging nobody",
		Long: `Say what it would cost a buyer to get the responses of people to a question at ε, of all who
take part or of those in a file, and who of them would be refused. Nothing is drawn, charged or recorded,
and no true values are needed.

The price of a person is what the market policy asks for holding ε, less what it asks for the highest ε
that the buyer holds of that person already; it is never below 0. A quote is not binding: prices and
people may change before the sale. "ledgerctl sell --quote ID" sells exactly what was quoted, or nothing.

With --at, the quote is that of a buyer at TIME, if nothing else happens before.`,
		Example:           "  ledgerctl quote --buyer acme --question vote --epsilon 0.5",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              action(func(cmd *cobra.Command, _ []string) error { return a.quote(cmd, f, *c) }),
	}
	f.flags(cmd)
	c.Flags(cmd.Flags(), "the `COLUMN` with the true value: rows of --objects where it is empty are skipped")
	return cmd
}

func (a *app) quote(cmd *cobra.Command, f *orderFlags, c csv.Columns) error {
	if err := f.at.set(a, cmd); err != nil {
		return err
	}
	order, skipped, err := f.order(a, cmd, c)
	if err != nil {
		return err
	}
	out := quoteResult{Skipped: skipped}
	err = a.with(cmd.Context(), reading, func(l book) error {
		if err := f.checkPeople(cmd, l, c, order); err != nil {
			return err
		}
		out.Quote, err = l.Quote(cmd.Context(), order)
		return atLevels(cmd.Context(), l, order.Question, order.Epsilon, err)
	})
	if err != nil {
		return err
	}
	out.Refused = append([]ledger.Refusal{}, out.Refused...)
	return a.Print(out)
}

type quoteResult struct {
	ledger.Quote
	Skipped int `json:"skipped"` // rows without a value
}

func (r quoteResult) Table(w io.Writer) {
	tableOffer(w, r.Offer)
	fmt.Fprintf(w, "refused\t%d\nskipped, without a value\t%d\nquote\t%s\n", len(r.Refused)+r.Unlisted, r.Skipped, r.ID)
	tableInstead(w, r.Instead, r.Currency)
	tableRefused(w, r.Refused, r.Unlisted, r.Sums)
}

// tableInstead writes what would be possible where somebody is refused.
func tableInstead(w io.Writer, b *ledger.Budget, currency string) {
	if b == nil || len(b.Levels) == 0 { // of a stranger behind an address it may say nothing
		return
	}
	if b.Largest.IsZero() {
		fmt.Fprintln(w, "the largest ε for all\tnone")
	}
	for _, at := range b.Levels {
		if at.Epsilon == b.Largest {
			fmt.Fprintf(w, "the largest ε for all\t%s, for %s\n", at.Epsilon, words.Money(at.Price, currency))
		}
	}
	if top := b.Levels[len(b.Levels)-1]; top.Later > 0 {
		fmt.Fprintf(w, "who will answer at this ε by time alone\t%d more by %s\n", top.Later, top.From.Format(time.RFC3339))
	}
}

// tableOffer writes what a quote and a sale have in common.
func tableOffer(w io.Writer, o ledger.Offer) {
	fmt.Fprintf(w, "buyer\t%s\nquestion\t%s\nε\t%s\nprice\t%s\n", o.Buyer, o.Question, o.Epsilon, words.Money(o.Price, o.Currency))
	fmt.Fprintf(w, "people who answer\t%d\n", o.Objects)
	if o.Draws+o.Resales+o.Degradations+o.Insertions == o.Objects { // a buyer behind an address is not told
		fmt.Fprintf(w, "  drawn, and charged\t%d\n  recorded before\t%d\n", o.Draws, o.Resales)
		fmt.Fprintf(w, "  derived from a higher ε\t%d\n  derived from a lower and a higher ε\t%d\n", o.Degradations, o.Insertions)
	}
	fmt.Fprintf(w, "upgrades of what the buyer holds\t%d\n", o.Upgrades)
}
