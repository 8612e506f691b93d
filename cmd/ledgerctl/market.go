package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// orderFlags are the flags for the order of a buyer.
type orderFlags struct {
	Buyer    string          `flag:"buyer,required"`
	Question string          `flag:"question,required"`
	Epsilon  privacy.Epsilon `flag:"epsilon,required"`
	Objects  string          `flag:"objects,reads"`
	atFlag
	skipped int // rows without a value
}

// order returns the order, with the people in the file. It counts the rows without a value.
func (f *orderFlags) order(ctx context.Context, a *app, c input.Columns) (api.Order, error) {
	c.Skipped = &f.skipped
	people, err := a.panel(ctx, f.Objects, f.Question, c)
	return api.Order{Buyer: f.Buyer, Question: f.Question, Epsilon: f.Epsilon, Objects: people, All: people == nil},
		err
}

// limitFlags are the flags for what the buyer accepts.
type limitFlags struct {
	Quote    string       `flag:"quote"`
	MaxPrice input.Amount `flag:"max-price"`
	Partial  bool         `flag:"partial"`
	keyFlag
}

type quoteFlags struct {
	orderFlags
	input.Columns
}

// quote runs the command quote, which prints what an order would cost and deliver.
func (a *app) quote(cmd *cobra.Command, _ []string, f *quoteFlags) error {
	order, err := f.order(cmd.Context(), a, f.Columns)
	if err != nil {
		return err
	}
	return a.query(cmd, func(ctx context.Context, l backend) (output.Result, error) {
		q, err := l.Quote(ctx, order)
		var out output.Fields
		out.Inline(q, offerRows(q.Offer)...)
		out.Add("", "refused", len(q.Refused)+q.Unlisted)
		out.Add("skipped", "skipped, without a value", f.skipped)
		out.Add("", "quote", q.ID)
		out.Section(func(t *output.Table) {
			tableInstead(t, q.Instead, q.Currency)
			tableRefused(t, q.Refused, q.Unlisted, q.Sums)
		})
		return out, atLevels(ctx, l, order.Question, order.Epsilon, err)
	})
}

// tableInstead writes what would be possible in place of an order with refusals.
func tableInstead(t *output.Table, b *api.Budget, currency string) {
	if b == nil || len(b.Levels) == 0 { // a served ledger may return none
		return
	}
	if b.Largest.IsZero() {
		t.Row("the largest ε for all", "none")
	}
	for _, at := range b.Levels {
		if at.Epsilon == b.Largest {
			t.Row("the largest ε for all", fmt.Sprintf("%s, for %s", at.Epsilon, output.Money(at.Price, currency)))
		}
	}
	if top := b.Levels[len(b.Levels)-1]; top.Later > 0 {
		more := fmt.Sprintf("%d more by %s", top.Later, output.Stamp(top.From))
		t.Row("people who will answer at this ε later", more)
	}
}

// offerRows are the rows of a table about an offer (see [output.Fields.Inline]).
func offerRows(o api.Offer) []string {
	rows := []string{"buyer", "question", "epsilon", "price", "objects people who answer"}
	// A server does not send these counts to buyers.
	if o.Draws+o.Resales+o.Degradations+o.Insertions == o.Objects {
		rows = append(rows, "draws   drawn, and charged", "resales   recorded before",
			"degradations   derived from a higher ε", "insertions   derived from a lower and a higher ε")
	}
	return append(rows, "upgrades upgrades of what the buyer holds")
}

// deliveryFlags are the flags for the files of a sale.
type deliveryFlags struct {
	input.TruthFlags
	Out     input.Output `flag:"out,writes"`
	Receipt input.Output `flag:"receipt,writes"`
	input.Signer
}

// check checks the flags. read are the other files that the command reads.
func (f *deliveryFlags) check(read ...string) error {
	if f.Receipt.Path == "" && f.Path != "" {
		return output.UsageError("add --receipt FILE, or omit --signer",
			"--signer is given, but nothing is signed without --receipt")
	}
	if f.Path == "-" && slices.Contains(read, "-") {
		return output.UsageError("", "--signer and another file cannot both be standard input")
	}
	return nil
}

// pendingSale is a sale before it is executed.
type pendingSale struct {
	*deliveryFlags
	partial, captured bool
	quote             string // the ID of the quote in the request, or ""
	skipped           int    // rows without a value
	// sell executes the sale.
	sell func(ctx context.Context, l backend, truth api.TruthFunc, progress func(done, total int)) (api.Sale, error)
}

// deliver executes a sale, writes its files, and prints its result. The files were created before.
func (a *app) deliver(cmd *cobra.Command, d pendingSale) (err error) {
	ctx := cmd.Context()
	if d.Receipt.Path != "" {
		if err := a.loadSigner(ctx, d.Signer); err != nil {
			return err
		}
	}
	var sale api.Sale
	erased := 0
	err = a.with(ctx, writing, func(l backend) error {
		sale, err = d.sell(ctx, l, d.Source(a.Files, l, d.partial).Ask, a.Progress("selling"))
		a.WarnTruths(sale.TruthChanged, sale.TruthInvalid)
		if err == nil {
			erased, err = d.write(ctx, l, sale.Number)
			err = output.Unfinished(saleDone(sale)+", but not all of its files are written", sale.Number, err)
		}
		return output.WithKey(a.key, output.Refusal(err, d.partial))
	})
	if err != nil {
		return err
	}
	if erased > 0 {
		a.Warn(output.Counted(erased, "object") +
			" left out: the responses that this sale delivered for them are destroyed, because they were forgotten")
	}
	out := a.sold(sale, d, erased)
	return output.WithKey(a.key, output.Unfinished(saleDone(sale)+", but the result is not printed", sale.Number,
		a.Print(out)))
}

func saleDone(s api.Sale) string { return fmt.Sprintf("sale %d is done", s.Number) }

// sold returns the result of a sale as it is printed.
func (a *app) sold(s api.Sale, d pendingSale, erased int) (out output.Fields) {
	out.AddNonZero("id", "", d.quote)
	rows, skipped := append([]string{"sale", "time"}, offerRows(s.Offer)...), "skipped, without a value"
	if d.captured {
		rows, skipped = append(rows, "refund to be refunded"), ""
	}
	out.InlineDone(s, rows...)
	addRefused(&out, s.Refused, 0, a.key)
	out.Add("skipped", skipped, d.skipped)
	out.Add("", "key", a.key)
	out.AddNonZero("out", "responses and prices", d.Out.Path)
	out.AddNonZero("forgotten", "", erased)
	out.AddNonZero("receipt", "receipt", d.Receipt.Path)
	return out
}

// write writes the files of a sale. It leaves out responses that are destroyed, and counts them.
func (f *deliveryFlags) write(ctx context.Context, l backend, sale uint64) (erased int, err error) {
	err = f.Out.SaveCSV(f.Columns.Raw, func(out input.RowWriter) error {
		if err := out.Row(append([]string{"object", "response", "price", "sale"}, channelColumns()...)...); err != nil {
			return err
		}
		for d, err := range l.Deliveries(ctx, sale) {
			switch {
			case err != nil:
				return err
			case d.Erased:
				erased++
				continue
			}
			row := []string{d.Object, d.Value, strconv.FormatInt(d.Price, 10), strconv.FormatUint(d.Sale, 10)}
			if err := out.Row(append(row, channelCells(d.Response, d.Channel)...)...); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && f.Receipt.Path != "" {
		_, err = writeReceipt(ctx, l, sale, &f.Receipt)
	}
	return erased, err
}

type sellFlags struct {
	orderFlags
	deliveryFlags
	limitFlags
}

// sell runs the command sell, which executes an order.
func (a *app) sell(cmd *cobra.Command, _ []string, f *sellFlags) (err error) {
	r := api.SellRequest{Key: a.key, Partial: f.Partial, QuoteID: f.Quote, MaxPrice: f.MaxPrice.Units}
	if err := errors.Join(f.check(f.Objects, f.Truth), input.CheckStdin(f.Objects, f.Truth)); err != nil {
		return err
	}
	c := f.Columns
	c.Optional = true // the file of people needs no column of values: they may be in another file
	if r.Order, err = f.order(cmd.Context(), a, c); err != nil {
		return err
	}
	sell := func(ctx context.Context, l backend, truth api.TruthFunc, show func(done, total int)) (api.Sale, error) {
		r.Truth, r.Progress = truth, show
		sale, err := l.Sell(ctx, r)
		return sale, atLevels(ctx, l, r.Question, r.Epsilon, err)
	}
	return a.deliver(cmd, pendingSale{deliveryFlags: &f.deliveryFlags, partial: r.Partial, quote: r.QuoteID,
		skipped: f.skipped, sell: sell})
}

type reserveFlags struct {
	orderFlags
	input.Columns
	limitFlags
	Expires string `flag:"expires,required"`
}

// reserve runs the command reserve, which holds an order while the buyer pays.
func (a *app) reserve(cmd *cobra.Command, _ []string, f *reserveFlags) (err error) {
	r := api.ReserveRequest{Key: a.key, Partial: f.Partial, QuoteID: f.Quote, MaxPrice: f.MaxPrice.Units}
	if r.For, r.Until, err = parseExpiry(f.Expires); err != nil {
		return err
	}
	if r.Order, err = f.order(cmd.Context(), a, f.Columns); err != nil {
		return err
	}
	return a.change(cmd, func(ctx context.Context, l backend) (string, output.Result, error) {
		held, err := l.Reserve(ctx, r)
		err = output.Refusal(atLevels(ctx, l, r.Question, r.Epsilon, err), r.Partial)
		var out output.Fields
		out.Inline(held, "sale reservation", "state", "expires", "buyer", "question", "epsilon", "price price, at most",
			"objects people held", "key")
		out.Add("events", "events", output.Span{First: held.First, Last: held.Last})
		out.Add("skipped", "skipped, without a value", f.skipped)
		addRefused(&out, held.Refused, 0, held.Key)
		return fmt.Sprintf("reservation %d is granted", held.Number), out, err
	})
}

// parseExpiry parses --expires. It returns a duration from the grant of the reservation on, or a
// time, and leaves the other one zero.
func parseExpiry(text string) (during time.Duration, until time.Time, err error) {
	const hint = "a duration above 0, such as 90m or 24h, or " + timeHint
	if during, err = time.ParseDuration(text); err != nil {
		until, err = parseTime("--expires", text, hint)
	} else if during <= 0 {
		err = output.UsageError(hint, "--expires %q is not above 0", text)
	}
	return during, until, err
}

type captureFlags struct {
	deliveryFlags
	Partial bool `flag:"partial"`
	keyFlag
	atFlag
}

// capture runs the command capture, which turns a reservation into a sale.
func (a *app) capture(cmd *cobra.Command, args []string, f *captureFlags) (err error) {
	r := api.CaptureRequest{Key: a.key, Partial: f.Partial}
	if r.Reservation, err = numberOf("reservation", args[0], reservationsHint); err != nil {
		return err
	}
	if err := f.check(f.Truth); err != nil {
		return err
	}
	sell := func(ctx context.Context, l backend, truth api.TruthFunc, show func(done, total int)) (api.Sale, error) {
		r.Truth, r.Progress = truth, show
		sale, err := l.Capture(ctx, r)
		return sale, output.WithHint(err, api.ErrUnknown, reservationsHint)
	}
	return a.deliver(cmd, pendingSale{deliveryFlags: &f.deliveryFlags, partial: f.Partial, captured: true, sell: sell})
}

// Hints about the numbers of reservations and of sales.
const (
	reservationsHint = `"ledgerctl reserve" printed the number; "ledgerctl reservations" lists them all`
	salesHint        = `"ledgerctl sell" printed the number; "ledgerctl sales" lists it with every sale`
)

// numberOf parses the number of a reservation or a sale. what is one of these two words, and hint
// says where the user finds the number.
func numberOf(what, text, hint string) (uint64, error) {
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil || number == 0 {
		return 0, output.UsageError(hint, "%q is not the number of a %s", text, what)
	}
	return number, nil
}

// cancel runs the command cancel, which ends a reservation.
func (a *app) cancel(cmd *cobra.Command, args []string, _ *keyFlag) error {
	number, err := numberOf("reservation", args[0], reservationsHint)
	if err != nil {
		return err
	}
	return a.change(cmd, func(ctx context.Context, l backend) (string, output.Result, error) {
		var out output.Fields
		out.Add("sale", "cancelled", number) // a captured reservation is the sale with its number
		out.Add("key", "key", a.key)
		err := output.WithHint(l.Cancel(ctx, a.key, number), api.ErrUnknown, reservationsHint)
		return fmt.Sprintf("reservation %d is cancelled", number), out, err
	})
}

type budgetFlags struct {
	Question string            `flag:"question,required"`
	Buyer    string            `flag:"buyer"`
	Epsilons []privacy.Epsilon `flag:"epsilon,repeated"`
	Objects  string            `flag:"objects,reads"`
	input.Columns
	atFlag
}

// budget runs the command budget, which prints how many people can answer at which ε, and when.
func (a *app) budget(cmd *cobra.Command, _ []string, f *budgetFlags) (err error) {
	r := api.BudgetRequest{Question: f.Question, Buyer: f.Buyer, Epsilons: f.Epsilons}
	skipped := 0
	f.Skipped = &skipped
	if r.Objects, err = a.panel(cmd.Context(), f.Objects, f.Question, f.Columns); err != nil {
		return err
	}
	r.All = r.Objects == nil
	return a.query(cmd, func(ctx context.Context, l backend) (output.Result, error) {
		b, err := l.Budget(ctx, r)
		currency := ""
		if r.Buyer != "" {
			currency = l.About().Currency
		}
		return forecast(b, skipped, currency), err
	})
}

// forecast returns the result of budget as it is printed. It has a column of prices if currency is
// not "". skipped is the number of rows of the file of people without a value.
func forecast(b api.Budget, skipped int, currency string) (out output.Fields) {
	out.Inline(b, "question", "objects people", "event as of event")
	largest := b.Largest.String()
	if b.Largest.IsZero() {
		largest = "none"
	}
	out.Add("", "largest ε for all", largest)
	out.Add("skipped", "", skipped)
	out.AddNonZero("", "skipped, without a value", skipped)
	out.Section(func(t *output.Table) {
		columns := "epsilon can=can_answer_now later=more_later from=by"
		if currency != "" {
			columns += " price=price_now"
		}
		t.Line("")
		output.Rows(t, columns, currency, b.Levels)
		if len(b.Levels) > 0 { // a served ledger may return none
			columns = "reason=refused_at_ε=%s count=people largest=largest_ε_for_all_of_them " +
				"from=time_will_have_helped_all_by"
			tableFirst(t, fmt.Sprintf(columns, b.Levels[len(b.Levels)-1].Epsilon), "", b.Refused)
		}
	})
	return out
}
