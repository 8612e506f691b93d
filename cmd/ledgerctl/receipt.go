package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/privacy"
)

func (a *app) receiptCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "receipt",
		Short: "Make or verify a buyer's receipt of a sale",
		Args:  cobra.NoArgs,
		RunE: action(func(*cobra.Command, []string) error {
			return fault.Usage(`run "ledgerctl receipt --help"`, "say whether to make or to verify a receipt")
		}),
	}
	cmd.AddCommand(a.receiptMakeCommand(), a.receiptVerifyCommand())
	return cmd
}

// writeReceipt makes the receipt of a sale, and writes it to a file.
func writeReceipt(ctx context.Context, l book, sale uint64, file *files.Output) (evidence.Receipt, error) {
	r, err := l.Receipt(ctx, sale)
	if err == nil {
		err = writeDocument(file, r)
	}
	return r, err
}

// soldResult is what a receipt says of a sale.
type soldResult struct {
	Sale      uint64          `json:"sale"`
	Buyer     string          `json:"buyer"`
	Question  string          `json:"question"`
	Epsilon   privacy.Epsilon `json:"epsilon"`
	Price     int64           `json:"price"`
	Currency  string          `json:"currency"`
	Time      time.Time       `json:"time"`
	Responses int             `json:"responses"`
	Erased    int             `json:"erased"` // responses of which only the price is left
}

func newSold(r evidence.Receipt) soldResult {
	out := soldResult{
		Sale: r.Sale, Buyer: r.Buyer, Question: r.Question, Epsilon: r.Epsilon, Price: r.Price, Currency: r.Currency, Time: r.Time,
		Responses: len(r.Responses),
	}
	for _, one := range r.Responses {
		if one.Erased {
			out.Erased++
		}
	}
	return out
}

func (r soldResult) Table(w io.Writer) {
	fmt.Fprintf(w, "sale\t%d\ntime\t%s\nbuyer\t%s\nquestion\t%s\nε\t%s\n", r.Sale, words.Stamp(r.Time), words.OneLine(r.Buyer), words.OneLine(r.Question), r.Epsilon)
	fmt.Fprintf(w, "price\t%s\nresponses\t%d\n  of them not shown\t%d\n", words.Money(r.Price, words.OneLine(r.Currency)), r.Responses, r.Erased)
}
