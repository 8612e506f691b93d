package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/keys"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/evidence"
)

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
		ValidArgsFunction: a.saleNumbers,
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
	signer, err := a.signerOf(cmd.Context(), f)
	if err != nil {
		return err
	}
	file, err := a.NewOutput("--out", path)
	if err != nil {
		return err
	}
	defer file.Discard()
	var receipt evidence.Receipt
	err = a.withSigner(cmd.Context(), reading, signer, func(l book) (err error) {
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

const salesHint = `"ledgerctl sell" printed the number; "ledgerctl sales" lists it with every sale`

// madeReceipt is what making a receipt prints.
type madeReceipt struct {
	soldResult
	Out string `json:"out"`
}

func (r madeReceipt) Table(w io.Writer) {
	r.soldResult.Table(w)
	fmt.Fprintf(w, "receipt\t%s\n", r.Out)
}
