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
	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/csv"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/keys"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/vocabulary"
)

// sellFlags are the flags of sell.
type sellFlags struct {
	orderFlags
	csv.TruthFlags
	limitFlags
	deliveryFlags
}

// limitFlags are the flags that say what a buyer agrees to, and under which key.
type limitFlags struct {
	quote, key string
	maxPrice   int64
	partial    bool
}

func (f *limitFlags) flags(cmd *cobra.Command, does string) {
	flags := cmd.Flags()
	flags.StringVar(&f.quote, "quote", "", does+" exactly what was quoted under this `ID`, or nothing")
	flags.Int64Var(&f.maxPrice, "max-price", 0, "the most to be paid in all, `N` minor units of the currency (default: no limit)")
	flags.BoolVar(&f.partial, "partial", false, "leave out those who are refused")
	flags.StringVar(&f.key, "key", "", "the idempotency `KEY` (default: a new one)")
}

// max returns the most that is to be paid, nil for no limit.
func (f *limitFlags) max(cmd *cobra.Command) (*int64, error) {
	if !cmd.Flags().Changed("max-price") {
		return nil, nil
	}
	if f.maxPrice < 0 {
		return nil, fault.Usage("", "--max-price must not be below 0")
	}
	return &f.maxPrice, nil
}

// deliveryFlags are the flags that say where goes what was sold.
type deliveryFlags struct {
	out, receipt string
	signer       keys.Signer
}

func (f *deliveryFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.out, "out", "", "write the responses and prices to a CSV `FILE` that only its owner can read; an existing one is replaced; - is standard output")
	flags.StringVar(&f.receipt, "receipt", "", "write the buyer's receipt, as JSON, to a `FILE` that only its owner can read; an existing one is replaced; - is standard output")
	files.Mark(flags, files.Writes, files.ByName, "out", "receipt")
	f.signer.Flag(cmd)
}

// check refuses what makes no sense beside the other files that are read.
func (f *deliveryFlags) check(cmd *cobra.Command, read ...string) error {
	if f.receipt == "" && cmd.Flags().Changed("signer") {
		return fault.Usage("add --receipt FILE, or leave out --signer", "--signer is given, but nothing is to be signed")
	}
	if f.signer.Path == "-" && slices.Contains(read, "-") {
		return fault.Usage("", "--signer and another file cannot both be standard input")
	}
	return nil
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

The CSV file of --out has all that an estimate needs: for each response the question, ε, sale, number of values, and
the probabilities p and q with which it counts for the true value and for any other one (empty in finite encoding). A
response at a higher ε replaces those of the same person at a lower one: count each person once.

With --receipt, the buyer's receipt goes to a file: the sale and all its responses, with a proof that the log
has them, signed by the signing key. "ledgerctl receipt verify" needs nothing else but the log key. The receipt of
a sale made before is to be had by the same --key, or from "ledgerctl receipt make".

` + csv.TruthHelp + `

` + atHelp,
		Example: `  ledgerctl sell --buyer acme --question vote --epsilon 0.5 --truth people.csv --out acme.csv
  ledgerctl sell --buyer acme --question vote --epsilon 1 --truth people.csv --max-price 50000 --key order-7
  ledgerctl sell --buyer acme --question vote --epsilon 1 --truth people.csv --out acme.csv --receipt receipt.json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              action(func(cmd *cobra.Command, _ []string) error { return a.sell(cmd, f) }),
	}
	f.orderFlags.flags(cmd)
	f.TruthFlags.Flags(cmd.Flags())
	f.limitFlags.flags(cmd, "sell")
	f.deliveryFlags.flags(cmd)
	return cmd
}

func (a *app) sell(cmd *cobra.Command, f *sellFlags) error {
	request, skipped, err := a.sellRequest(cmd, f)
	if err != nil {
		return err
	}
	work, err := a.newSelling(cmd.Context(), &f.deliveryFlags, f.Columns.Raw)
	if err != nil {
		return err
	}
	defer work.discard()
	err = work.open(cmd.Context(), a, func(l book) error {
		if err := f.checkPeople(cmd, l, f.Columns, request.Order); err != nil {
			return err
		}
		request.Truth = f.Source(a.Files, l, f.partial).Ask
		err := work.sell(cmd.Context(), a, l, request)
		a.WarnTruths(work.sale.TruthChanged, work.sale.TruthInvalid)
		return fault.WithKey(request.Key, fault.Refusal(err, f.partial))
	})
	if err != nil {
		return err
	}
	work.warnErased(a)
	out := newSellResult(&f.deliveryFlags, request.Key, work)
	out.ID, out.Skipped = f.quote, skipped
	return a.printSale(work, request.Key, out)
}

// warnErased says that not all is handed out that was delivered.
func (w *selling) warnErased(a *app) {
	if w.erased > 0 {
		a.Warn(fmt.Sprintf("%s left out: what this sale delivered of them has been destroyed since, because they were forgotten", words.Counted(w.erased, "object")))
	}
}

// printSale prints the result of a sale, which is made whatever becomes of that.
func (a *app) printSale(w *selling, key string, out output.Result) error {
	return fault.WithKey(key, fault.Unfinished(saleDone(w.sale)+", but the result is not printed", w.sale.Number, a.Print(out)))
}

func saleDone(s ledger.Sale) string { return fmt.Sprintf("sale %d is made", s.Number) }

// selling is a sale being made, with everything it needs ready before anything is sold.
type selling struct {
	out, receipt *files.Output
	signer       note.Signer // nil without a receipt
	sale         ledger.Sale
	raw          bool // cells are written as they are
	erased       int  // objects forgotten since the sale, if it was made before
}

func (a *app) newSelling(ctx context.Context, f *deliveryFlags, raw bool) (*selling, error) {
	w := &selling{raw: raw}
	var err error
	if f.receipt != "" {
		if w.signer, err = a.signerOf(ctx, &f.signer); err != nil {
			return nil, err
		}
	}
	if w.out, err = a.NewOutput("--out", f.out); err != nil {
		return nil, err
	}
	if w.receipt, err = a.NewOutput("--receipt", f.receipt); err != nil {
		w.discard()
		return nil, err
	}
	return w, nil
}

func (w *selling) discard() {
	w.out.Discard()
	w.receipt.Discard()
}

func (w *selling) open(ctx context.Context, a *app, use func(book) error) error {
	if w.signer == nil {
		return a.with(ctx, writing, use)
	}
	return a.withSigner(ctx, writing, w.signer, use)
}

func (w *selling) sell(ctx context.Context, a *app, l book, request ledger.SellRequest) (err error) {
	shown, progress := a.progress("selling")
	defer shown.Clear()
	request.Progress = progress
	if w.sale, err = l.Sell(ctx, request); err != nil {
		return atLevels(ctx, l, request.Question, request.Epsilon, err)
	}
	return w.deliver(ctx, l)
}

// deliver writes the files of a sale that is made, whatever becomes of that.
func (w *selling) deliver(ctx context.Context, l book) error {
	return fault.Unfinished(saleDone(w.sale)+", but not all of its files are", w.sale.Number, w.write(ctx, l))
}

// write writes the files of a sale.
func (w *selling) write(ctx context.Context, l book) error {
	err := csv.Save(w.out, w.raw, func(out csv.Writer) (err error) {
		w.erased, err = writeDeliveries(ctx, l, w.sale.Number, out)
		return err
	})
	if err != nil || w.receipt == nil {
		return err
	}
	_, err = writeReceipt(ctx, l, w.sale.Number, w.receipt)
	return err
}

// sellRequest puts the flags together, and counts the people left out for want of a value.
func (a *app) sellRequest(cmd *cobra.Command, f *sellFlags) (r ledger.SellRequest, skipped int, err error) {
	r = ledger.SellRequest{Partial: f.partial, QuoteID: f.quote}
	if err := errors.Join(f.check(cmd, f.objects, f.Truth), csv.CheckStdin(f.objects, f.Truth)); err != nil {
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
	c := f.Columns
	c.Optional = true // the file with the true values may be another
	r.Order, skipped, err = f.order(a, cmd, c)
	return r, skipped, err
}

// writeDeliveries writes what a sale delivered, but what was destroyed since, and counts that.
func writeDeliveries(ctx context.Context, l book, sale uint64, out csv.Writer) (erased int, err error) {
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
		row := append([]string{d.Object, d.Value, strconv.FormatInt(d.Price, 10), strconv.FormatUint(d.Sale, 10)}, channelCells(d.Response, d.Channel)...)
		if err := out.Row(row...); err != nil {
			return erased, err
		}
	}
	return erased, nil
}

// sellResult is what a sale did.
type sellResult struct {
	ID   string `json:"id,omitempty"` // of the quote that was asked for
	Sale uint64 `json:"sale"`
	ledger.Offer
	Refused   []ledger.Refusal    `json:"refused"`
	Sums      []ledger.RefusalSum `json:"sums,omitempty"` // of the refused, by reason
	Skipped   int                 `json:"skipped"`        // rows without a value
	Time      time.Time           `json:"time"`
	Events    span                `json:"events"`
	Key       string              `json:"key"`
	Out       string              `json:"out,omitempty"`       // the file with the responses
	Forgotten int                 `json:"forgotten,omitempty"` // objects that are left out there
	Receipt   string              `json:"receipt,omitempty"`   // the file with the receipt
}

func newSellResult(f *deliveryFlags, key string, w *selling) sellResult {
	s := w.sale
	return sellResult{
		Sale: s.Number, Offer: s.Offer, Refused: append([]ledger.Refusal{}, s.Refused...), Sums: vocabulary.SumRefusals(s.Refused), Time: s.Time, Events: span{s.First, s.Last}, Key: key,
		Out: f.out, Receipt: f.receipt, Forgotten: w.erased,
	}
}

func (r sellResult) Table(w io.Writer) {
	fmt.Fprintf(w, "sale\t%d\ntime\t%s\n", r.Sale, words.Stamp(r.Time))
	tableOffer(w, r.Offer)
	fmt.Fprintf(w, "refused, and left out\t%d\nskipped, without a value\t%d\n", len(r.Refused), r.Skipped)
	fmt.Fprintf(w, "events\t%d to %d\nkey\t%s\n", r.Events.First, r.Events.Last, r.Key)
	r.tableFiles(w)
	tableRefusals(w, r.Refused)
}

// tableFiles says where the files are.
func (r sellResult) tableFiles(w io.Writer) {
	if r.Out != "" {
		fmt.Fprintf(w, "responses and prices\t%s\n", r.Out)
	}
	if r.Receipt != "" {
		fmt.Fprintf(w, "receipt\t%s\n", r.Receipt)
	}
}
