package main

import (
	"github.com/spf13/cobra"
)

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
	}, "compacting", book.CompactTo)
}
