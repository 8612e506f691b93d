package main

import (
	"github.com/spf13/cobra"
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

The unused pages of the copy are overwritten with zeros: nothing is in it that was forgotten before.
"ledgerctl compact" leaves these pages out.`,
		Example: `  ledgerctl backup "/mnt/backup/ledger-$(date +%F).db"`,
	}, "copying", book.Backup)
}
