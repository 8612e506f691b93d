package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/alone"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/files"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/formulas"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/keys"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/progress"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/serving"
	"github.com/sluicedp/sluice/internal/ledgerfile"
	"github.com/sluicedp/sluice/ledger"
)

// app is one run of the program: its streams and its global flags.
type app struct {
	*output.Printer
	*files.Files
	db         string
	trust      keys.Trust
	keys       keys.Host
	remote     keys.Remote      // in place of db
	unclear    error            // it is not clear which of them is meant
	clock      func() time.Time // nil for the machine's
	clockAhead string           // the flag --clock-ahead
	alone      alone.File       // the flag --without-journal
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	pager, given := os.LookupEnv("PAGER")
	if !given {
		pager = output.DefaultPager
	}
	out := &output.Printer{Stdout: stdout, Stderr: stderr, Pager: pager}
	return &app{Printer: out, Files: &files.Files{Out: out, Stdin: stdin}}
}

const about = `ledgerctl keeps a privacy-budget ledger.

People ("objects") are enrolled in a question under a policy: how much ε is allowed at all, is released
when, or is for sale for how much. A raise brings their randomized responses to a higher ε, within budget,
advance to what time has released, and a sale to what a buyer orders; shares are estimated from the
responses. A query about all of them at once, such as what most of them say, is answered at a price of
its own. The people's true values are read when a draw needs them, and never stored.

  ledgerctl init
  ledgerctl question add vote --values Y,N,U,A
  ledgerctl enroll --question vote --objects people.csv --value-column vote --policy '{"kind":"fixed","ceiling":"2"}' --cap 5
  ledgerctl raise --question vote --to 0.5 --truth people.csv --value-column vote
  ledgerctl raise --question vote --to 1 --truth people.csv --value-column vote
  ledgerctl estimate --question vote
  ledgerctl answer --question vote --query winner --epsilon 0.5 --truth people.csv --value-column vote

What a policy releases as time passes, and what it sells, in minor units of the currency (cents, say):

  ledgerctl enroll --question age --objects people.csv --policy '{"kind":"steps","steps":[["2027-01-01T00:00:00Z","0.5"],["2027-07-01T00:00:00Z","1"]]}' --cap 5
  ledgerctl advance --question age --truth people.csv --value-column age

  ledgerctl enroll --question income --objects people.csv --policy '{"kind":"market","max":"2","price":[["0.5",100],["2",300]]}'
  ledgerctl quote --buyer acme --question income --epsilon 0.5
  ledgerctl sell --buyer acme --question income --epsilon 0.5 --truth people.csv --value-column income --out acme.csv

What the ledger says can be proven: to a buyer by a receipt, to a person by a statement, to an auditor by the file
and a checkpoint kept elsewhere. All are verified by the log key that init prints.

  ledgerctl receipt make 1 --out receipt.json
  ledgerctl receipt verify receipt.json --vkey sluice-1a2b3c4d+5e6f7a8b+AaBb…
  ledgerctl audit checkpoint > checkpoint.txt
  ledgerctl audit verify --checkpoint checkpoint.txt --vkey sluice-1a2b3c4d+5e6f7a8b+AaBb…

` + keys.HostHelp + `

CSV files have a header row and are UTF-8; the name - stands for standard input. The ids of objects are in the
column "id", or the one that --id-column names; with --id-rows they are the numbers of the rows, from 1. In CSV
files that are written, an apostrophe stands before a cell that a spreadsheet would run as a formula (it begins with
= + - or @ and is no number); it is taken off where such files are read. --raw-cells does neither. Of files that are
written, - stands for standard output; the result is not printed then. No command writes a file that it reads.

Exit codes: 0 done; 1 unexpected; 2 wrong usage or input; 3 refused, by a budget, a policy or a price;
4 the file is damaged, not a ledger, of another version, was replaced or rolled back, or a receipt or statement
does not verify; 5 the idempotency key was used for another request; 6 the file is in use; 7 the ledger that "serve" has served has
stopped, and is to be served again; 8 done with --without-journal, from a file whose journal is missing: the result lacks what only the journal has.`

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:               "ledgerctl",
		Short:             "Keep a privacy-budget ledger",
		Long:              about,
		Version:           version(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRunE: a.settle,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return fault.Usage("run \"ledgerctl --help\" for the commands", "no command given")
		},
	}
	root.SetIn(a.Stdin)
	root.SetErr(a.Stderr)
	flags := root.PersistentFlags()
	flags.StringVar(&a.db, "db", "", "the ledger's `FILE` (default $LEDGER_DB, then ledger.db)")
	flags.BoolVar(&a.JSON, "json", false, "print JSON, for programs: one object, or one a line for log")
	flags.BoolVar(&a.Quiet, "quiet", false, "no progress bar and no warnings")
	flags.StringVar(&a.clockAhead, "clock-ahead", "", "confirm that the clock, or --at, is right up to `TIME`: needed to write by a clock more than 366 days ahead of the log, once, or by a time of --at more than five minutes ahead of this machine's clock")
	a.alone.Flag(flags)
	a.remote.Flags(flags)
	a.trust.Flags(flags)
	a.keys.Flags(root)
	root.SetHelpCommand(helpCommand())
	root.AddCommand(
		a.initCommand(), a.questionCommand(), a.enrollCommand(), a.termsCommand(), a.raiseCommand(), a.advanceCommand(), a.budgetCommand(), a.quoteCommand(), a.sellCommand(),
		a.reserveCommand(), a.captureCommand(), a.cancelCommand(), a.salesCommand(), a.reservationsCommand(), a.buyersCommand(), a.responsesCommand(),
		a.withdrawCommand(), a.epochCommand(), a.forgetCommand(), a.estimateCommand(), a.answerCommand(), a.showCommand(), a.logCommand(), a.statsCommand(),
		a.auditCommand(), a.receiptCommand(), a.statementCommand(), a.backupCommand(), a.compactCommand(), a.takeoverCommand(),
		a.completionCommand(), a.versionCommand(), a.manCommand(),
	)
	for _, cmd := range append((&serving.Host{Printer: a.Printer, Files: a.Files, DB: &a.db, Check: a.file, Open: a.open, Health: a.health}).Commands(),
		(&formulas.Host{Printer: a.Printer, Files: a.Files}).Commands()...) {
		asAction(cmd)
		root.AddCommand(cmd)
	}
	a.completeNames(root)
	return root
}

// settle finds the ledger, and what else the flags and the environment say of all commands.
func (a *app) settle(cmd *cobra.Command, args []string) error {
	if err := files.CheckFlags(cmd.Flags()); err != nil {
		return err
	}
	a.place(cmd)
	a.trust.Settle()
	if err := a.keys.Settle(cmd); err != nil {
		return err
	}
	a.Name(cmd, args, a.db, ledgerfile.ServedAt(a.remote.Address))
	return a.CheckFiles()
}

// access says what a command does with the ledger.
type access bool

const (
	reading access = true
	writing access = false
)

// with opens the ledger for as long as use runs.
func (a *app) with(ctx context.Context, mode access, use func(book) error) error {
	return a.withOptions(ctx, ledger.Options{ReadOnly: bool(mode)}, use)
}

func (a *app) withOptions(ctx context.Context, options ledger.Options, use func(book) error) error {
	switch {
	case a.unclear != nil:
		return a.unclear
	case a.remote.Address != "":
		return a.withRemote(ctx, use)
	}
	l, err := a.open(ctx, options)
	if err != nil {
		return err
	}
	if err := a.alone.Note(ctx, l); err != nil {
		return errors.Join(err, l.Close())
	}
	if !options.ReadOnly {
		// What is done for good must be told even if nobody reads standard output any more.
		signal.Ignore(syscall.SIGPIPE)
	}
	return errors.Join(use(l), l.Close())
}

// open opens the ledger's file.
func (a *app) open(ctx context.Context, options ledger.Options) (*ledger.Ledger, error) {
	options.Now = a.clock
	var err error
	if options.ClockAhead, err = a.confirmed(); err != nil {
		return nil, err
	}
	if !options.ReadOnly {
		if err := a.checkAhead(options.ClockAhead); err != nil {
			return nil, err
		}
	}
	if err := a.alone.Set(&options); err != nil {
		return nil, err
	}
	if err := a.trust.Set(ctx, a.Files, &options); err != nil {
		return nil, err
	}
	if err := a.keys.Set(ctx, a.Files, &options); err != nil {
		return nil, err
	}
	l, err := ledger.Open(a.db, options)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &fault.Fault{
			Kind: "not-found", Code: fault.Misuse, Hint: `run "ledgerctl init" first, or give --db FILE`,
			Err: fmt.Errorf("there is no ledger at %q", a.db),
		}
	}
	if errors.Is(err, ledger.ErrCorrupt) && !errors.Is(err, ledger.ErrJournal) {
		return nil, &fault.Fault{
			Kind: "corrupt", Code: fault.Integrity, Hint: "if this is the file that is meant, restore a backup; --db or $LEDGER_DB may name the wrong one",
			Err: err,
		}
	}
	if err != nil {
		return nil, err
	}
	keys.WarnWritable(a.Printer, a.db)
	return l, nil
}

// require marks flags without which a command makes no sense.
func require(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		// It fails only for a flag that was not defined; then the command refuses its own flag in every test.
		_ = cmd.MarkFlagRequired(name)
	}
}

// keyOr returns the idempotency key given by the flag --key, or a new one.
func keyOr(cmd *cobra.Command, given string) (string, error) {
	if cmd.Flags().Changed("key") {
		return given, nil
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return "", fmt.Errorf("idempotency key: %w", err)
	}
	return id.String(), nil
}

// progress returns a bar on standard error for a long request, and what feeds it, if there is a terminal to show it.
func (a *app) progress(what string) (*progress.Bar, func(done, total int)) {
	return progress.New(a.Stderr, a.Quiet, what)
}
