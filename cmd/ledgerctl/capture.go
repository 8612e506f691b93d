package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/csv"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
	"github.com/sluicedp/sluice/ledger"
)

// captureFlags are the flags of capture.
type captureFlags struct {
	csv.TruthFlags
	deliveryFlags
	key     string
	partial bool
	at      moment
}

func (a *app) captureCommand() *cobra.Command {
	f := &captureFlags{}
	cmd := &cobra.Command{
		Use:   "capture NUMBER",
		Short: "Carry a reservation out: the buyer has paid",
		Long: `Carry a reservation out, by the number that "ledgerctl reserve" printed: the sale that comes of it has the same
number. It is made as by "ledgerctl sell", at the reserved price, whatever the terms say now, less what the buyer has
paid for the same people since. A reservation that has expired, was cancelled or was captured already is refused: the
error says which, with the number of the sale, and the exit code is 3.

If somebody cannot answer any more, who has withdrawn, say, nothing is sold and the exit code is 3; with --partial,
those people are left out, and their price is to be refunded; what is printed as refused includes those whom the
reservation left out. The same command with the same --key sells nothing
twice and prints the same.

` + csv.TruthHelp + `

` + atHelp,
		Example: `  ledgerctl capture 7 --truth people.csv --out acme.csv
  ledgerctl capture 7 --truth people.csv --out acme.csv --receipt receipt.json --key paid-7`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.reservationNumbers,
		RunE:              action(func(cmd *cobra.Command, args []string) error { return a.capture(cmd, args[0], f) }),
	}
	f.TruthFlags.Flags(cmd.Flags())
	f.deliveryFlags.flags(cmd)
	cmd.Flags().BoolVar(&f.partial, "partial", false, "leave out those who cannot answer any more")
	cmd.Flags().StringVar(&f.key, "key", "", "the idempotency `KEY`, not that of the reservation (default: a new one)")
	f.at.flag(cmd)
	return cmd
}

func (a *app) capture(cmd *cobra.Command, number string, f *captureFlags) error {
	r, err := a.captureRequest(cmd, number, f)
	if err != nil {
		return err
	}
	work, err := a.newSelling(cmd.Context(), &f.deliveryFlags, f.Columns.Raw)
	if err != nil {
		return err
	}
	defer work.discard()
	err = work.open(cmd.Context(), a, func(l book) error {
		r.Truth = f.Source(a.Files, l, f.partial).Ask
		err := work.capture(cmd.Context(), a, l, r)
		a.WarnTruths(work.sale.TruthChanged, work.sale.TruthInvalid)
		return fault.WithKey(r.Key, fault.Refusal(reservationFault(err), f.partial))
	})
	if err != nil {
		return err
	}
	work.warnErased(a)
	return a.printSale(work, r.Key, captureResult{newSellResult(&f.deliveryFlags, r.Key, work), work.sale.Refund})
}

func (a *app) captureRequest(cmd *cobra.Command, number string, f *captureFlags) (r ledger.CaptureRequest, err error) {
	r.Partial = f.partial
	if r.Reservation, err = reservationNumber(number); err != nil {
		return r, err
	}
	if err := f.check(cmd, f.Truth); err != nil {
		return r, err
	}
	if err := f.at.set(a, cmd); err != nil {
		return r, err
	}
	r.Key, err = keyOr(cmd, f.key)
	return r, err
}

// reservationsHint says where the numbers of reservations are.
const reservationsHint = `"ledgerctl reserve" printed the number; "ledgerctl reservations" lists them all`

// reservationNumber reads the number of a reservation.
func reservationNumber(text string) (uint64, error) {
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil || number == 0 {
		return 0, fault.Usage(reservationsHint, "%q is not the number of a reservation", text)
	}
	return number, nil
}

// capture carries a reservation out, and writes the files.
func (w *selling) capture(ctx context.Context, a *app, l book, r ledger.CaptureRequest) (err error) {
	shown, progress := a.progress("selling")
	defer shown.Clear()
	r.Progress = progress
	if w.sale, err = l.Capture(ctx, r); err != nil {
		return err
	}
	return w.deliver(ctx, l)
}

// captureResult is what the sale did that a reservation has become.
type captureResult struct {
	sellResult
	Refund int64 `json:"refund"` // what the reservation promised to cost beyond the price
}

func (r captureResult) Table(w io.Writer) {
	fmt.Fprintf(w, "sale\t%d\ntime\t%s\n", r.Sale, words.Stamp(r.Time))
	tableOffer(w, r.Offer)
	fmt.Fprintf(w, "to be refunded\t%s\nrefused, and left out\t%d\n", words.Money(r.Refund, r.Currency), len(r.Refused))
	fmt.Fprintf(w, "events\t%d to %d\nkey\t%s\n", r.Events.First, r.Events.Last, r.Key)
	r.tableFiles(w)
	tableRefusals(w, r.Refused)
}
