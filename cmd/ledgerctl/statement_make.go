package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/keys"
	"github.com/sluicedp/sluice/ledger/evidence"
)

// statementFlags are the flags of statement make.
type statementFlags struct {
	signer   keys.Signer
	key, out string
}

func (a *app) statementMakeCommand() *cobra.Command {
	f := &statementFlags{}
	cmd := &cobra.Command{
		Use:   "make OBJECT --out FILE",
		Short: "Write a statement about a person: everything that was ever released of them",
		Long: `Write a statement about a person, for that person: everything that was ever released of them (or since they were
last forgotten), to whom it was sold and for how much, what it cost of their ε and what they earned; with a
proof that the log has all this, and that nothing is left out, signed by the signing key.

That a statement was made is an event of the log, which lists all others about the person. The same command with
the same --key makes the same statement again, without another event.

The person verifies it with "ledgerctl statement verify" and the log key that "ledgerctl init" printed.`,
		Example:           "  ledgerctl statement make 17 --out statement-17.json",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              action(func(cmd *cobra.Command, args []string) error { return a.statementMake(cmd, args[0], f) }),
	}
	f.signer.Flag(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.key, "key", "", "the idempotency `KEY` (default: a new one)")
	flags.StringVar(&f.out, "out", "", "the `FILE` for the statement, as JSON, that only its owner can read; an existing one is replaced; - is standard output")
	files.Mark(flags, files.Writes, files.ByName, "out")
	require(cmd, "out")
	return cmd
}

func (a *app) statementMake(cmd *cobra.Command, object string, f *statementFlags) error {
	key, err := keyOr(cmd, f.key)
	if err != nil {
		return err
	}
	signer, err := a.signerOf(cmd.Context(), &f.signer)
	if err != nil {
		return err
	}
	file, err := a.NewOutput("--out", f.out)
	if err != nil {
		return err
	}
	defer file.Discard()
	var statement evidence.Statement
	err = a.withSigner(cmd.Context(), writing, signer, func(l book) (err error) {
		if statement, err = l.Statement(cmd.Context(), key, object); err == nil {
			err = fault.Unfinished("the statement is recorded, but not written", 0, writeDocument(file, statement))
		}
		return fault.WithKey(key, err)
	})
	if err = unknownPerson(err); err != nil {
		return err
	}
	return a.PrintDone("the statement is recorded", key, madeStatement{newStated(statement), key, f.out})
}

// madeStatement is what making a statement prints.
type madeStatement struct {
	statedResult
	Key string `json:"key"`
	Out string `json:"out"`
}

func (r madeStatement) Table(w io.Writer) {
	r.statedResult.Table(w)
	fmt.Fprintf(w, "key\t%s\nstatement\t%s\n", r.Key, r.Out)
}
