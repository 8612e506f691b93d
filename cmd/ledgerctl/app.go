package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/mechanisms"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/serving"
	"github.com/sluicedp/sluice/internal/ledgerfile"
	"github.com/sluicedp/sluice/ledger"
)

// app is one run of the program: its streams, its global flags, and the flags that many commands
// have.
type app struct {
	*output.Printer
	*input.Files
	db      string
	remote  input.Remote // in place of db
	unclear error        // db or remote: the command line does not say which
	trust   input.Trust
	keys    input.HostKeys

	key        string           // the flag --key, or a new key without it
	at         string           // the flag --at
	clock      func() time.Time // that of --at; nil for the machine's
	clockAhead string           // the flag --clock-ahead
	signer     input.Signer     // the flag --signer
	sign       note.Signer      // the key of --signer once it is loaded

	withoutJournal bool  // the flag --without-journal
	incomplete     error // the error that the command ends with if the ledger was read without its journal
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	pager, given := os.LookupEnv("PAGER")
	if !given {
		pager = output.DefaultPager
	}
	out := &output.Printer{Stdout: stdout, Stderr: stderr, Pager: pager}
	return &app{Printer: out, Files: &input.Files{Out: out, Stdin: stdin}}
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:               "ledgerctl",
		Version:           version(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRunE: a.settle,
		RunE: func(*cobra.Command, []string) error {
			return output.UsageError("run \"ledgerctl --help\" for the commands", "no command given")
		},
	}
	root.SetIn(a.Stdin)
	root.SetErr(a.Stderr)
	flags := root.PersistentFlags()
	flags.StringVar(&a.db, "db", "", "the ledger's `FILE` (default $LEDGER_DB, then ledger.db)")
	flags.BoolVar(&a.JSON, "json", false, "print JSON, for programs: one object, or one a line for log")
	flags.BoolVar(&a.Quiet, "quiet", false, "no progress bar and no warnings")
	flags.StringVar(&a.clockAhead, "clock-ahead", "", "confirm that the clock, or --at, is right up to `TIME`: "+
		"needed to write by a clock more than 366 days ahead of the log, once, or by a time of --at more than five "+
		"minutes ahead of this machine's clock")
	flags.BoolVar(&a.withoutJournal, "without-journal", false, "read a file whose journal is missing, "+
		"for commands that only read: what only the journal has is missing then, and the exit code is 8")
	a.remote.Flags(flags)
	a.trust.Flags(flags)
	a.keys.Flags(root)
	root.SetHelpCommand(helpCommand())
	root.AddCommand(
		a.initCommand(), a.questionCommand(), a.enrollCommand(), a.termsCommand(), a.raiseCommand(), a.advanceCommand(),
		a.budgetCommand(), a.quoteCommand(), a.sellCommand(), a.reserveCommand(), a.captureCommand(), a.cancelCommand(),
		a.salesCommand(), a.reservationsCommand(), a.buyersCommand(), a.responsesCommand(), a.withdrawCommand(),
		a.epochCommand(),
		a.forgetCommand(), a.estimateCommand(), a.answerCommand(), a.showCommand(), a.logCommand(), a.statsCommand(),
		a.auditCommand(), a.receiptCommand(), a.statementCommand(), a.backupCommand(), a.compactCommand(),
		a.takeoverCommand(),
		a.completionCommand(), a.versionCommand(), a.manCommand(),
	)
	served := &serving.Host{Printer: a.Printer, Files: a.Files, DB: &a.db, Check: a.file, Open: a.open,
		Health: a.health}
	root.AddCommand(served.Commands()...)
	root.AddCommand((&mechanisms.Host{Printer: a.Printer, Files: a.Files}).Commands()...)
	describe(root, sections(helpText))
	complete(root)
	a.completeNames(root)
	return root
}

// complete completes the commands below a command: each is run as an action, and takes no arguments
// unless it says so.
func complete(cmd *cobra.Command) {
	for _, below := range cmd.Commands() {
		below.RunE = action(below.RunE)
		if below.Args == nil {
			below.Args = cobra.NoArgs
		}
		if below.ValidArgsFunction == nil && below.ValidArgs == nil {
			below.ValidArgsFunction = cobra.NoFileCompletions
		}
		complete(below)
	}
}

// settle finds the ledger, and what else the flags and the environment say of all commands.
func (a *app) settle(cmd *cobra.Command, args []string) (err error) {
	if err := input.CheckFlags(cmd.Flags()); err != nil {
		return err
	}
	a.place(cmd)
	a.trust.Settle()
	if err := a.keys.Settle(cmd); err != nil {
		return err
	}
	if a.key == "" {
		id, err := uuid.NewRandom()
		if err != nil {
			return fmt.Errorf("idempotency key: %w", err)
		}
		a.key = id.String()
	}
	if a.at != "" {
		at, err := parseTime("--at", a.at, timeHint)
		if err != nil {
			return err
		}
		a.clock = func() time.Time { return at }
	}
	a.Name(cmd, args, a.db, ledgerfile.ServedAt(a.remote.Address))
	return a.CheckFiles()
}

// keyFlag adds the flag --key. note is appended to its help.
func (a *app) keyFlag(cmd *cobra.Command, note string) {
	cmd.Flags().StringVar(&a.key, "key", "", "the idempotency `KEY`"+note+" (default: a new one)")
}

// atFlag adds the flag --at.
func (a *app) atFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.at, "at", "",
		"work as if the clock said `TIME`, such as 2027-01-31T09:00:00Z (default: now)")
}

// require marks flags without which a command makes no sense.
func require(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		// It fails only for a flag that was not defined; then the command refuses its own flag in
		// every test.
		_ = cmd.MarkFlagRequired(name)
	}
}

// progress returns a bar on standard error for a long request, and what feeds it, if there is a
// terminal to show it.
func (a *app) progress(what string) (*output.Bar, func(done, total int)) {
	return output.NewBar(a.Stderr, a.Quiet, what)
}

// query prints what use reads from the ledger.
func (a *app) query(cmd *cobra.Command, use func(ctx context.Context, l book) (output.Result, error)) error {
	var out output.Result
	err := a.with(cmd.Context(), reading, func(l book) (err error) {
		out, err = use(cmd.Context(), l)
		return err
	})
	if err != nil {
		return err
	}
	return a.Print(out)
}

// change prints the result of a request that use makes under the key of --key. done says what is
// done for good by then.
func (a *app) change(cmd *cobra.Command, use func(ctx context.Context, l book) (done string, out output.Result,
	err error)) error {
	var done string
	var out output.Result
	err := a.with(cmd.Context(), writing, func(l book) (err error) {
		done, out, err = use(cmd.Context(), l)
		return output.WithKey(a.key, err)
	})
	if err != nil {
		return err
	}
	return a.PrintDone(done, a.key, out)
}

// span is a range of events.
type span struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

// String implements [fmt.Stringer].
func (s span) String() string { return fmt.Sprintf("%d to %d", s.First, s.Last) }

// questionNamed returns a question of a ledger, or an error that wraps [ledger.ErrUnknown].
func questionNamed(ctx context.Context, l book, name string) (ledger.Question, error) {
	all, err := l.Questions(ctx)
	for _, q := range all {
		if q.Name == name {
			return q, err
		}
	}
	if err == nil {
		err = fmt.Errorf("question %.256q: %w", name, ledger.ErrUnknown)
	}
	return ledger.Question{}, err
}
