package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/keys"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
	"github.com/sluicedp/sluice/ledger"
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

func (a *app) receiptMakeCommand() *cobra.Command {
	var signer keys.Signer
	var out string
	cmd := &cobra.Command{
		Use:   "make SALE --out FILE",
		Short: "Write the buyer's receipt of a sale",
		Long: `Write the buyer's receipt of a sale made before, by its number: the sale and all its responses, with a proof
that the log has them, and a checkpoint of the log as it is now, signed by the signing key. It is what
"ledgerctl sell --receipt" writes. Responses of people who were forgotten before it was made are in it as a
price and a hash; so may be those that whoever passed it on has left out.

The buyer verifies it with "ledgerctl receipt verify" and the log key that "ledgerctl init" printed.`,
		Example: `  ledgerctl receipt make 7 --out receipt-7.json
  ledgerctl receipt make 7 --out - | gpg --encrypt --recipient acme`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              action(func(cmd *cobra.Command, args []string) error { return a.receiptMake(cmd, args[0], &signer, out) }),
	}
	signer.Flag(cmd)
	cmd.Flags().StringVar(&out, "out", "", "the `FILE` for the receipt, as JSON, that only its owner can read; an existing one is replaced; - is standard output")
	files.Mark(cmd.Flags(), files.Writes, files.ByName, "out")
	require(cmd, "out")
	return cmd
}

func (a *app) receiptMake(cmd *cobra.Command, number string, f *keys.Signer, path string) error {
	sale, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return fault.Usage(salesHint, "%q is not the number of a sale", number)
	}
	signer, err := f.Load(a.Files, a.db)
	if err != nil {
		return err
	}
	file, err := a.NewOutput("--out", path)
	if err != nil {
		return err
	}
	defer file.Discard()
	var receipt ledger.Receipt
	err = a.withSigner(reading, signer, func(l *ledger.Ledger) (err error) {
		receipt, err = writeReceipt(cmd.Context(), l, sale, file)
		return err
	})
	if errors.Is(err, ledger.ErrUnknown) {
		return &fault.Fault{Kind: "unknown", Code: fault.Misuse, Hint: salesHint, Err: err}
	}
	if err != nil {
		return err
	}
	return a.Print(madeReceipt{newSold(receipt), path})
}

const salesHint = `"ledgerctl sell" printed the number; "ledgerctl log" shows it with every sale`

// writeReceipt makes the receipt of a sale, and writes it to a file.
func writeReceipt(ctx context.Context, l *ledger.Ledger, sale uint64, file *files.Output) (ledger.Receipt, error) {
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

func newSold(r ledger.Receipt) soldResult {
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

// madeReceipt is what making a receipt prints.
type madeReceipt struct {
	soldResult
	Out string `json:"out"`
}

func (r madeReceipt) Table(w io.Writer) {
	r.soldResult.Table(w)
	fmt.Fprintf(w, "receipt\t%s\n", r.Out)
}

func (a *app) receiptVerifyCommand() *cobra.Command {
	var f proofFlags
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Verify a receipt",
		Long: `Verify a receipt: that the log has this sale, with exactly these responses and prices, and that the log key's
owner signed that log. ` + verifyHelp,
		Example: `  ledgerctl receipt verify receipt.json --vkey sluice-1a2b3c4d+5e6f7a8b+AaBb…
  ledgerctl receipt verify receipt.json --vkey @log-key.txt`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: oneFile,
		RunE: action(func(cmd *cobra.Command, args []string) error {
			receipt, v, err := verify(a, cmd, args[0], &f, ledger.ReadReceipt)
			if err != nil {
				return err
			}
			return a.report("receipt", args[0], v, verifiedReceipt{v, newSold(receipt)})
		}),
	}
	files.MarkArguments(cmd, files.Reads)
	f.flags(cmd)
	return cmd
}

// verifiedReceipt is what verifying a receipt found.
type verifiedReceipt struct {
	verdict
	soldResult
}

func (r verifiedReceipt) Table(w io.Writer) {
	if r.Sale > 0 {
		r.soldResult.Table(w)
	}
	r.verdict.Table(w)
}
