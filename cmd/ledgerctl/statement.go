package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/keys"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/privacy"
)

func (a *app) statementCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "statement",
		Short: "Make or verify a statement for one person",
		Args:  cobra.NoArgs,
		RunE: action(func(*cobra.Command, []string) error {
			return fault.Usage(`run "ledgerctl statement --help"`, "say whether to make or to verify a statement")
		}),
	}
	cmd.AddCommand(a.statementMakeCommand(), a.statementVerifyCommand())
	return cmd
}

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
	signer, err := f.signer.Load(a.Files, a.db)
	if err != nil {
		return err
	}
	file, err := a.NewOutput("--out", f.out)
	if err != nil {
		return err
	}
	defer file.Discard()
	var statement ledger.Statement
	err = a.withSigner(writing, signer, func(l *ledger.Ledger) (err error) {
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

// statedResult is what a statement comes to.
type statedResult struct {
	Object    string               `json:"object"`
	Event     uint64               `json:"event"`
	Time      time.Time            `json:"time"`
	Cap       privacy.Epsilon      `json:"cap"`
	Spent     privacy.Epsilon      `json:"spent"`
	Earned    int64                `json:"earned"`
	Currency  string               `json:"currency"`
	Responses int                  `json:"responses"`
	Charges   int                  `json:"charges"`
	Sales     int                  `json:"sales"`
	Forgotten uint64               `json:"forgotten"` // the event that destroyed what came before, or 0
	Chains    []ledger.StatedChain `json:"chains"`
}

func newStated(st ledger.Statement) statedResult {
	return statedResult{
		Object: st.Object, Event: st.Event, Time: st.Time, Cap: st.Cap, Spent: st.Spent, Earned: st.Earned, Currency: st.Currency,
		Responses: len(st.Released), Charges: len(st.Charges), Sales: len(st.Sales), Forgotten: st.Forgotten,
		Chains: append([]ledger.StatedChain{}, st.Chains...),
	}
}

func (r statedResult) Table(w io.Writer) {
	fmt.Fprintf(w, "object\t%s\ntime\t%s\ncap\t%s\nspent\t%s\n", words.OneLine(r.Object), words.Stamp(r.Time), r.Cap, r.Spent)
	for _, c := range r.Chains {
		fmt.Fprintf(w, "  on %s\t%s\n", words.OneLine(c.Question), c.Spent)
	}
	fmt.Fprintf(w, "earned\t%s\nresponses\t%d\ncharges for answers\t%d\nsales\t%d\n", words.Money(r.Earned, words.OneLine(r.Currency)), r.Responses, r.Charges, r.Sales)
	if r.Forgotten > 0 {
		fmt.Fprintf(w, "forgotten before\tby event %d; what that had cost counts as spent\n", r.Forgotten)
	}
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
			statement, v, err := verify(a, cmd, args[0], &f, ledger.ReadStatement)
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
