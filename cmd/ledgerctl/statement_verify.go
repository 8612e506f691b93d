package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/ledger/evidence"
)

func (a *app) statementVerifyCommand() *cobra.Command {
	var f proofFlags
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Verify a statement",
		Long: `Verify a statement: that the log has everything that it says of the person, that by the log this is all, and
that the log key's owner signed that log. ` + verifyHelp + `

That it is all rests on an event of the log, which the ledger records only if it is so. Who wrote the log with
another program could cheat: "ledgerctl audit verify" finds that.`,
		Example: `  ledgerctl statement verify statement.json --vkey sluice-1a2b3c4d+5e6f7a8b+AaBb…
  ledgerctl statement verify statement.json --vkey @log-key.txt`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: oneFile,
		RunE: action(func(cmd *cobra.Command, args []string) error {
			statement, v, err := verify(a, cmd, args[0], &f, evidence.ReadStatement)
			if err != nil {
				return err
			}
			return a.report("statement", args[0], v, verifiedStatement{v, newStated(statement)})
		}),
	}
	files.MarkArguments(cmd, files.Reads)
	f.flags(cmd)
	return cmd
}

// verifiedStatement is what verifying a statement found.
type verifiedStatement struct {
	verdict
	statedResult
}

func (r verifiedStatement) Table(w io.Writer) {
	if r.Object != "" {
		r.statedResult.Table(w)
	}
	r.verdict.Table(w)
}
