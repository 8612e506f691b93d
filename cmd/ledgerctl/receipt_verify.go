package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/ledger/evidence"
)

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
			receipt, v, err := verify(a, cmd, args[0], &f, evidence.ReadReceipt)
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
