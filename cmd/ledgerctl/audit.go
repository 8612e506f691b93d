package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
	"github.com/sluicedp/sluice/ledger/evidence"
)

func (a *app) auditCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Verify the whole ledger, or sign a checkpoint of its log",
		Args:  cobra.NoArgs,
		RunE: action(func(*cobra.Command, []string) error {
			return fault.Usage(`run "ledgerctl audit --help"`, "say whether to verify the ledger or to sign a checkpoint")
		}),
	}
	cmd.AddCommand(a.auditVerifyCommand(), a.auditCheckpointCommand())
	return cmd
}

// tableHead writes the size of a log and its root.
func tableHead(w io.Writer, h evidence.Head) {
	fmt.Fprintf(w, "log\t%s\nevents\t%d\nroot\t%s\n", words.OneLine(h.Origin), h.Events, h.Root)
}
