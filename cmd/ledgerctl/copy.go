package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/ledger"
)

func (a *app) backupCommand() *cobra.Command {
	return a.copyCommand(&cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the ledger to a new file, and verify the copy",
		Long: `Copy the ledger to a new file that only its owner can read. The copy is verified as "ledgerctl audit verify" does
it, and on disk, before it gets its name; nothing that exists is overwritten. The signing key is not in it.

A backup is a ledger of its own. Used in place of the original it is a rollback: what was drawn since is
drawn anew, and people give away more than the ledger says. Whoever restores one should verify it against the
newest checkpoint first ("ledgerctl audit verify --checkpoint").

The copy is made page by page, so that what was forgotten may still be in its unused pages if it still is in those
of the original; "ledgerctl compact" leaves that out.`,
		Example: `  ledgerctl backup "/mnt/backup/ledger-$(date +%F).db"`,
	}, "copying", (*ledger.Ledger).Backup)
}

func (a *app) compactCommand() *cobra.Command {
	return a.copyCommand(&cobra.Command{
		Use:   "compact FILE",
		Short: "Write a copy of the ledger without unused pages",
		Long: `Write a copy of the ledger, record by record, to a new file that only its owner can read: it has no unused
pages, nothing that was forgotten or replaced is in it, and it is as small as it can be. The copy is verified, as
"ledgerctl audit verify" does it, and on disk, before it gets its name; nothing that exists is overwritten. The
ledger itself stays as it is: to go on with the copy, put it in the place of the ledger while nothing has that open.
"ledgerctl forget" rewrites the ledger itself.`,
		Example: `  ledgerctl compact small.db && mv small.db ledger.db`,
	}, "compacting", (*ledger.Ledger).CompactTo)
}

// copyCommand completes a command that copies the ledger.
func (a *app) copyCommand(cmd *cobra.Command, doing string, write func(*ledger.Ledger, context.Context, string, ledger.Progress) (ledger.Copied, error)) *cobra.Command {
	cmd.Args = cobra.ExactArgs(1)
	cmd.ValidArgsFunction = oneFile
	files.MarkArguments(cmd, files.Writes)
	cmd.RunE = action(func(cmd *cobra.Command, args []string) error {
		out := copyResult{File: args[0]}
		if out.File == "" {
			return fault.Usage("", "FILE is empty")
		}
		err := a.with(reading, func(l *ledger.Ledger) (err error) {
			shown, progress := a.progress(doing)
			defer shown.Clear()
			out.Copied, err = write(l, cmd.Context(), out.File, progress)
			return err
		})
		if errors.Is(err, fs.ErrExist) {
			return exists(out.File, "nothing was changed; give another FILE, or remove it")
		}
		if err != nil {
			return err
		}
		return a.Print(out)
	})
	return cmd
}

type copyResult struct {
	File string `json:"file"`
	ledger.Copied
}

func (r copyResult) Table(w io.Writer) {
	fmt.Fprintf(w, "copy, verified\t%s\nbytes\t%d\nevents\t%d\n", r.File, r.Bytes, r.Events)
}
