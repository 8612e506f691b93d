package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// orderFlags are the flags that say what a buyer orders.
type orderFlags struct {
	Buyer    string          `flag:"buyer,required"`
	Question string          `flag:"question,required"`
	Epsilon  privacy.Epsilon `flag:"epsilon,required"`
	Objects  string          `flag:"objects,reads"`
	atFlag
	skipped int // rows without a value
}

// order reads the people to buy from, and counts those left out.
func (f *orderFlags) order(ctx context.Context, a *app, c input.Columns) (api.Order, error) {
	c.Skipped = &f.skipped
	people, err := input.ReadPanel(ctx, a.Files, f.Objects, c)
	return api.Order{Buyer: f.Buyer, Question: f.Question, Epsilon: f.Epsilon, Objects: people, All: people == nil},
		err
}

// limitFlags are the flags that say what a buyer agrees to.
type limitFlags struct {
	Quote    string `flag:"quote"`
	MaxPrice int64  `flag:"max-price"`
	Partial  bool   `flag:"partial"`
	keyFlag
}

// max returns the most that is to be paid, nil for no limit.
func (f *limitFlags) max(cmd *cobra.Command) (*int64, error) {
	if !cmd.Flags().Changed("max-price") {
		return nil, nil
	}
	if f.MaxPrice < 0 {
		return nil, output.UsageError("", "--max-price must not be below 0")
	}
	return &f.MaxPrice, nil
}

type quoteFlags struct {
	orderFlags
	input.Columns
}

func (a *app) quote(cmd *cobra.Command, _ []string, f *quoteFlags) error {
	order, err := f.order(cmd.Context(), a, f.Columns)
	if err != nil {
		return err
	}
	return a.query(cmd, func(ctx context.Context, l book) (output.Result, error) {
		if err := f.CheckPeople(ctx, l, f.Objects, order.Question, order.Objects); err != nil {
			return nil, err
		}
		q, err := l.Quote(ctx, order)
		var out output.Fields
		out.Inline(q)
		out.Section(func(w io.Writer) { tableOffer(w, q.Offer) })
		out.Add("", "refused", len(q.Refused)+q.Unlisted)
		out.Add("skipped", "skipped, without a value", f.skipped)
		out.Add("", "quote", q.ID)
		out.Section(func(w io.Writer) {
			tableInstead(w, q.Instead, q.Currency)
			tableRefused(w, q.Refused, q.Unlisted, q.Sums)
		})
		return out, atLevels(ctx, l, order.Question, order.Epsilon, err)
	})
}

// tableInstead writes what would be possible where objects are refused.
func tableInstead(w io.Writer, b *api.Budget, currency string) {
	if b == nil || len(b.Levels) == 0 { // a served ledger may return none
		return
	}
	if b.Largest.IsZero() {
		fmt.Fprintln(w, "the largest ε for all\tnone")
	}
	for _, at := range b.Levels {
		if at.Epsilon == b.Largest {
			fmt.Fprintf(w, "the largest ε for all\t%s, for %s\n", at.Epsilon, output.Money(at.Price, currency))
		}
	}
	if top := b.Levels[len(b.Levels)-1]; top.Later > 0 {
		fmt.Fprintf(w, "who will answer at this ε by time alone\t%d more by %s\n", top.Later,
			top.From.Format(time.RFC3339))
	}
}

// tableOffer writes what a quote and a sale have in common.
func tableOffer(w io.Writer, o api.Offer) {
	fmt.Fprintf(w, "buyer\t%s\nquestion\t%s\nε\t%s\nprice\t%s\n", o.Buyer, o.Question, o.Epsilon,
		output.Money(o.Price, o.Currency))
	fmt.Fprintf(w, "people who answer\t%d\n", o.Objects)
	// A server does not send these counts to buyers.
	if o.Draws+o.Resales+o.Degradations+o.Insertions == o.Objects {
		fmt.Fprintf(w, "  drawn, and charged\t%d\n  recorded before\t%d\n", o.Draws, o.Resales)
		fmt.Fprintf(w, "  derived from a higher ε\t%d\n  derived from a lower and a higher ε\t%d\n", o.Degradations,
			o.Insertions)
	}
	fmt.Fprintf(w, "upgrades of what the buyer holds\t%d\n", o.Upgrades)
}

// deliveryFlags are the flags that say where what was sold is written.
type deliveryFlags struct {
	input.TruthFlags
	Out     string `flag:"out,writes"`
	Receipt string `flag:"receipt,writes"`
	input.Signer
}

// check refuses what makes no sense beside the other files that are read.
func (f *deliveryFlags) check(read ...string) error {
	if f.Receipt == "" && f.Path != "" {
		return output.UsageError("add --receipt FILE, or leave out --signer",
			"--signer is given, but nothing is to be signed")
	}
	if f.Path == "-" && slices.Contains(read, "-") {
		return output.UsageError("", "--signer and another file cannot both be standard input")
	}
	return nil
}

// delivering is a sale that is about to be made.
type delivering struct {
	*deliveryFlags
	partial, captured bool
	quote             string // the ID of the quote that was asked for, or ""
	skipped           int    // rows without a value
	// sell makes the sale.
	sell func(ctx context.Context, l book, truth api.TruthFunc, progress api.Progress) (api.Sale, error)
}

// deliver makes a sale, writes its files, which are open before anything is sold, and prints its
// result.
func (a *app) deliver(cmd *cobra.Command, d delivering) (err error) {
	ctx := cmd.Context()
	if d.Receipt != "" {
		if err := a.loadSigner(ctx, d.Signer); err != nil {
			return err
		}
	}
	responses, err := a.NewOutput("--out", d.Out)
	if err != nil {
		return err
	}
	defer responses.Discard()
	receipt, err := a.NewOutput("--receipt", d.Receipt)
	if err != nil {
		return err
	}
	defer receipt.Discard()
	var sale api.Sale
	erased := 0
	err = a.with(ctx, writing, func(l book) error {
		shown, progress := a.progress("selling")
		sale, err = d.sell(ctx, l, d.Source(a.Files, l, d.partial).Ask, progress)
		shown.Clear()
		a.WarnTruths(sale.TruthChanged, sale.TruthInvalid)
		if err == nil {
			erased, err = writeSale(ctx, l, sale.Number, responses, d.Columns.Raw, receipt)
			err = output.Unfinished(saleDone(sale)+", but not all of its files are", sale.Number, err)
		}
		return output.WithKey(a.key, output.Refusal(err, d.partial))
	})
	if err != nil {
		return err
	}
	if erased > 0 {
		a.Warn(output.Counted(erased, "object") +
			" left out: what this sale delivered of them has been destroyed since, because they were forgotten")
	}
	out := a.sold(sale, d, erased)
	return output.WithKey(a.key, output.Unfinished(saleDone(sale)+", but the result is not printed", sale.Number,
		a.Print(out)))
}

func saleDone(s api.Sale) string { return fmt.Sprintf("sale %d is made", s.Number) }

// sold is the result of a sale.
func (a *app) sold(s api.Sale, d delivering, erased int) (out output.Fields) {
	out.AddNonZero("id", "", d.quote)
	out.Add("sale", "sale", s.Number)
	out.Inline(s.Offer)
	out.Add("time", "time", s.Time)
	out.Section(func(w io.Writer) { tableOffer(w, s.Offer) })
	addRefused(&out, s.Refused, 0, a.key)
	if d.captured {
		out.Add("refund", "", s.Refund)
		out.Add("", "to be refunded", output.Money(s.Refund, s.Currency))
		out.Add("skipped", "", d.skipped)
	} else {
		out.Add("skipped", "skipped, without a value", d.skipped)
	}
	out.Add("events", "events", span{s.First, s.Last})
	out.Add("key", "key", a.key)
	out.AddNonZero("out", "responses and prices", d.Out)
	out.AddNonZero("forgotten", "", erased)
	out.AddNonZero("receipt", "receipt", d.Receipt)
	return out
}

// writeSale writes the files of a sale.
func writeSale(ctx context.Context, l book, sale uint64, responses *input.Output, raw bool,
	receipt *input.Output) (erased int, err error) {
	err = input.SaveCSV(responses, raw, func(out input.RowWriter) (err error) {
		erased, err = writeDeliveries(ctx, l, sale, out)
		return err
	})
	if err == nil && receipt != nil {
		_, err = writeReceipt(ctx, l, sale, receipt)
	}
	return erased, err
}

// writeDeliveries writes what a sale delivered, but what was destroyed since, and counts that.
func writeDeliveries(ctx context.Context, l book, sale uint64, out input.RowWriter) (erased int, err error) {
	header := append([]string{"object", "response", "price", "sale"}, channelColumns()...)
	if err := out.Row(header...); err != nil {
		return 0, err
	}
	for d, err := range l.Deliveries(ctx, sale) {
		if err != nil {
			return erased, err
		}
		if d.Erased {
			erased++
			continue
		}
		row := append([]string{d.Object, d.Value, strconv.FormatInt(d.Price, 10), strconv.FormatUint(d.Sale, 10)},
			channelCells(d.Response, d.Channel)...)
		if err := out.Row(row...); err != nil {
			return erased, err
		}
	}
	return erased, nil
}

type sellFlags struct {
	orderFlags
	deliveryFlags
	limitFlags
}

func (a *app) sell(cmd *cobra.Command, _ []string, f *sellFlags) (err error) {
	r := api.SellRequest{Key: a.key, Partial: f.Partial, QuoteID: f.Quote}
	if err := errors.Join(f.check(f.Objects, f.Truth), input.CheckStdin(f.Objects, f.Truth)); err != nil {
		return err
	}
	if r.MaxPrice, err = f.max(cmd); err != nil {
		return err
	}
	c := f.Columns
	c.Optional = true // the file with the true values may be another
	if r.Order, err = f.order(cmd.Context(), a, c); err != nil {
		return err
	}
	sell := func(ctx context.Context, l book, truth api.TruthFunc, progress api.Progress) (api.Sale, error) {
		if err := c.CheckPeople(ctx, l, f.Objects, r.Question, r.Objects); err != nil {
			return api.Sale{}, err
		}
		r.Truth, r.Progress = truth, progress
		sale, err := l.Sell(ctx, r)
		return sale, atLevels(ctx, l, r.Question, r.Epsilon, err)
	}
	return a.deliver(cmd, delivering{deliveryFlags: &f.deliveryFlags, partial: r.Partial, quote: r.QuoteID,
		skipped: f.skipped, sell: sell})
}

type reserveFlags struct {
	orderFlags
	input.Columns
	limitFlags
	Expires string `flag:"expires,required"`
}

func (a *app) reserve(cmd *cobra.Command, _ []string, f *reserveFlags) (err error) {
	r := api.ReserveRequest{Key: a.key, Partial: f.Partial, QuoteID: f.Quote}
	if r.For, r.Until, err = parseExpiry(f.Expires); err != nil {
		return err
	}
	if r.MaxPrice, err = f.max(cmd); err != nil {
		return err
	}
	if r.Order, err = f.order(cmd.Context(), a, f.Columns); err != nil {
		return err
	}
	return a.change(cmd, func(ctx context.Context, l book) (string, output.Result, error) {
		if err := f.CheckPeople(ctx, l, f.Objects, r.Question, r.Objects); err != nil {
			return "", nil, err
		}
		held, err := l.Reserve(ctx, r)
		err = output.Refusal(atLevels(ctx, l, r.Question, r.Epsilon, err), r.Partial)
		return fmt.Sprintf("reservation %d is made", held.Number), reserved(held, f.skipped), err
	})
}

// reserved is the result of a reservation.
func reserved(r api.Reservation, skipped int) (out output.Fields) {
	out.Inline(r)
	out.Add("", "reservation", r.Number)
	out.Add("", "state", r.State)
	out.Add("", "expires", r.Expires)
	out.Add("", "buyer", r.Buyer)
	out.Add("", "question", r.Question)
	out.Add("", "ε", r.Epsilon)
	out.Add("", "price, at most", output.Money(r.Price, r.Currency))
	out.Add("", "people held", r.Objects)
	out.AddNonZero("sums", "", api.SumRefusals(r.Refused))
	out.Add("", "refused, and left out", len(r.Refused))
	out.Add("skipped", "skipped, without a value", skipped)
	out.Add("", "events", span{r.First, r.Last})
	out.Add("", "key", r.Key)
	out.Section(func(w io.Writer) { tableRefusals(w, r.Refused) })
	return out
}

// parseExpiry reads --expires: a duration from when the reservation is granted, or a time.
func parseExpiry(text string) (during time.Duration, until time.Time, err error) {
	const hint = "a duration above 0, such as 90m or 24h, or " + timeHint
	if during, err := time.ParseDuration(text); err == nil {
		if during <= 0 {
			return 0, until, output.UsageError(hint, "--expires %q is not above 0", text)
		}
		return during, until, nil
	}
	until, err = parseTime("--expires", text, hint)
	return 0, until, err
}

type captureFlags struct {
	deliveryFlags
	Partial bool `flag:"partial"`
	keyFlag
	atFlag
}

func (a *app) capture(cmd *cobra.Command, args []string, f *captureFlags) (err error) {
	r := api.CaptureRequest{Key: a.key, Partial: f.Partial}
	if r.Reservation, err = reservationNumber(args[0]); err != nil {
		return err
	}
	if err := f.check(f.Truth); err != nil {
		return err
	}
	sell := func(ctx context.Context, l book, truth api.TruthFunc, progress api.Progress) (api.Sale, error) {
		r.Truth, r.Progress = truth, progress
		sale, err := l.Capture(ctx, r)
		return sale, output.WithHint(err, api.ErrUnknown, reservationsHint)
	}
	return a.deliver(cmd, delivering{deliveryFlags: &f.deliveryFlags, partial: f.Partial, captured: true, sell: sell})
}

// reservationsHint says where the numbers of reservations are.
const reservationsHint = `"ledgerctl reserve" printed the number; "ledgerctl reservations" lists them all`

// reservationNumber reads the number of a reservation.
func reservationNumber(text string) (uint64, error) {
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil || number == 0 {
		return 0, output.UsageError(reservationsHint, "%q is not the number of a reservation", text)
	}
	return number, nil
}

func (a *app) cancel(cmd *cobra.Command, args []string, _ *keyFlag) error {
	number, err := reservationNumber(args[0])
	if err != nil {
		return err
	}
	return a.change(cmd, func(ctx context.Context, l book) (string, output.Result, error) {
		var out output.Fields
		out.Add("sale", "cancelled", number) // the number of the sale that would have come of it
		out.Add("key", "key", a.key)
		err := output.WithHint(l.Cancel(ctx, a.key, number), api.ErrUnknown, reservationsHint)
		return fmt.Sprintf("reservation %d is cancelled", number), out, err
	})
}

type budgetFlags struct {
	Question string   `flag:"question,required"`
	Buyer    string   `flag:"buyer"`
	Epsilons []string `flag:"epsilon,repeated"`
	Objects  string   `flag:"objects,reads"`
	input.Columns
	atFlag
}

func (a *app) budget(cmd *cobra.Command, _ []string, f *budgetFlags) (err error) {
	r := api.BudgetRequest{Question: f.Question, Buyer: f.Buyer}
	for _, text := range f.Epsilons {
		epsilon, err := privacy.ParseEpsilon(text)
		if err != nil {
			return output.UsageError("", "--epsilon %q: %w", text, err)
		}
		r.Epsilons = append(r.Epsilons, epsilon)
	}
	skipped := 0
	f.Skipped = &skipped
	if r.Objects, err = input.ReadPanel(cmd.Context(), a.Files, f.Objects, f.Columns); err != nil {
		return err
	}
	r.All = r.Objects == nil
	return a.query(cmd, func(ctx context.Context, l book) (output.Result, error) {
		if err := f.CheckPeople(ctx, l, f.Objects, r.Question, r.Objects); err != nil {
			return nil, err
		}
		b, err := l.Budget(ctx, r)
		currency := ""
		if r.Buyer != "" {
			currency = l.About().Currency
		}
		return forecast(b, skipped, currency), err
	})
}

// forecast is the result of a budget. Prices are shown where there is a currency.
func forecast(b api.Budget, skipped int, currency string) (out output.Fields) {
	out.Inline(b)
	out.Add("", "question", b.Question)
	out.Add("", "people", b.Objects)
	out.Add("", "as of event", b.Event)
	out.Add("", "largest ε for all", orNone(b.Largest))
	out.Add("skipped", "", skipped)
	out.AddNonZero("", "skipped, without a value", skipped)
	out.Section(func(w io.Writer) { tableBudget(w, b, currency) })
	return out
}

func tableBudget(w io.Writer, b api.Budget, currency string) {
	header := "\nε\tCAN ANSWER NOW\tMORE LATER\tBY"
	if currency != "" {
		header += "\tPRICE NOW"
	}
	output.Rows(w, header, b.Levels, func(at api.BudgetLevel) []any {
		row := []any{at.Epsilon, at.Can, at.Later, orDash(at.From)}
		if currency != "" {
			row = append(row, output.Money(at.Price, currency))
		}
		return row
	})
	if len(b.Refused) == 0 || len(b.Levels) == 0 { // a served ledger may return no levels
		return
	}
	const columns = "\nREFUSED AT ε=%s\tPEOPLE\tLARGEST ε FOR ALL OF THEM\tTIME WILL HAVE HELPED ALL BY"
	output.Rows(w, fmt.Sprintf(columns, b.Levels[len(b.Levels)-1].Epsilon), b.Refused,
		func(sum api.RefusalSum) []any {
			return []any{sum.Reason, sum.Count, orNone(sum.Largest), orDash(sum.From)}
		})
}

func orNone(e privacy.Epsilon) string {
	if e.IsZero() {
		return "none"
	}
	return e.String()
}

func orDash(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.Format(time.RFC3339)
}
