package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/mechanisms"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/serving"
	"github.com/sluicedp/sluice/internal/ledgerfile"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/evidence"
)

// app is one run of the program: its streams, its global flags, and the flags that are common to
// many commands.
type app struct {
	*output.Printer
	*input.Files
	globals
	ambiguous error // the command line names two ledgers

	key    string           // the idempotency key of the request: --key, or a new random one
	clock  func() time.Time // returns the time of --at; nil for the machine's clock
	signer note.Signer      // the key of --signer once it is loaded

	// checkPanel returns an error if the file of people is probably a wrong one: see panel.
	checkPanel func(ctx context.Context, l backend) error
	// after is the error with which the command ends after its result is printed: the result was
	// read without the ledger's journal, or all objects were refused.
	after error
}

// globals are the flags of all commands.
type globals struct {
	DB             string       `flag:"db"`
	Remote         input.Remote // in place of DB
	Trust          input.Trust
	Keys           input.HostKeys
	ClockAhead     string `flag:"clock-ahead"`
	WithoutJournal bool   `flag:"without-journal"`
}

// keyFlag is the flag of commands that change the ledger.
type keyFlag struct {
	Key string `flag:"key"` // see app.key
}

// atFlag is the flag of commands whose result depends on the time.
type atFlag struct {
	At string `flag:"at"` // see app.clock
}

// newApp returns a run of the program with these streams.
func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	pager, given := os.LookupEnv("PAGER")
	if !given {
		pager = output.DefaultPager
	}
	out := &output.Printer{Stdout: stdout, Stderr: stderr, Pager: pager}
	return &app{Printer: out, Files: &input.Files{Out: out, Stdin: stdin}}
}

// rootCommand returns the command ledgerctl, with all commands below it, their flags and help.
func (a *app) rootCommand() *cobra.Command {
	info, _ := debug.ReadBuildInfo()
	texts := sections(helpText)
	root := &cobra.Command{
		Use:               "ledgerctl",
		Version:           cmp.Or(newVersion(info).Version, unknown),
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRunE: a.prepare,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().NFlag() > 0 {
				return output.UsageError("run \"ledgerctl --help\" for the commands", "no command given")
			}
			if _, err := io.WriteString(a.Stdout, texts["overview"]+"\n"); err != nil {
				return &started{err}
			}
			return nil
		},
	}
	root.SetIn(a.Stdin)
	root.SetErr(a.Stderr)
	input.Define(root, root.PersistentFlags(), a.Printer)
	input.Define(root, root.PersistentFlags(), &a.globals)
	// Fails only for a flag that is not defined.
	_ = root.RegisterFlagCompletionFunc("noise-key-current",
		func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return a.Keys.Names(), cobra.ShellCompDirectiveNoFileComp
		})
	root.SetHelpCommand(helpCommand())
	root.SetHelpFunc(help)
	root.AddCommand(&cobra.Command{Use: topic}) // only for "ledgerctl help flags"
	root.AddCommand(a.commands()...)
	served := &serving.Host{Printer: a.Printer, Files: a.Files, DB: &a.DB, Check: a.requireFile, Open: a.open,
		Health: a.health}
	root.AddCommand(served.Commands()...)
	root.AddCommand((&mechanisms.Host{Printer: a.Printer, Files: a.Files}).Commands()...)
	describe(root, texts)
	complete(root)
	a.completeNames(root)
	return root
}

// commands returns the commands except those of packages serving and mechanisms.
func (a *app) commands() []*cobra.Command {
	s := a.Files
	return []*cobra.Command{
		input.Command(s, "init", a.init),
		input.Group("question", "no command given: add or list",
			input.Command(s, "add NAME --values A,B,… [--encoding direct|unary] [--mechanism FILE]", a.addQuestion),
			input.Command(s, "list", a.listQuestions)),
		input.Command(s, "enroll", a.enroll),
		input.Command(s, "terms", a.terms),
		input.Command(s, "withdraw OBJECT…", a.withdraw),
		input.Command(s, "epoch OBJECT", a.epoch),
		input.Command(s, "forget OBJECT", a.forget),
		input.Command(s, "show OBJECT", a.show),

		input.Command(s, "raise", a.raise),
		input.Command(s, "advance", a.advance),
		input.Command(s, "estimate", a.estimate),
		input.Command(s, "answer", a.answer),

		input.Command(s, "budget", a.budget),
		input.Command(s, "quote", a.quote),
		input.Command(s, "sell", a.sell),
		input.Command(s, "reserve", a.reserve),
		input.Command(s, "capture NUMBER", a.capture),
		input.Command(s, "cancel NUMBER", a.cancel),
		input.Command(s, "sales", a.sales),
		input.Command(s, "reservations", a.reservations),
		input.Command(s, "buyers", a.buyers),
		input.Command(s, "responses", a.responses),

		input.Command(s, "log", a.log),
		input.Command(s, "stats", a.stats),
		input.Group("audit", "no command given: verify or checkpoint",
			input.Command(s, "verify", a.auditVerify),
			input.Command(s, "checkpoint", a.auditCheckpoint)),
		input.Group("receipt", "no command given: make or verify",
			input.Command(s, "make SALE --out FILE", a.makeReceipt),
			verifyCommand(a, "receipt", evidence.ReadReceipt, newSold)),
		input.Group("statement", "no command given: make or verify",
			input.Command(s, "make OBJECT --out FILE", a.makeStatement),
			verifyCommand(a, "statement", evidence.ReadStatement, newStated)),
		a.copyCommand("backup FILE", "copying", backend.Backup),
		a.copyCommand("compact FILE", "compacting", backend.CompactTo),
		input.Command(s, "takeover --addr ADDRESS", a.takeOver),

		a.completionCommand(),
		input.Command(s, "version", a.version),
		input.Command(s, "man DIR", a.man),
	}
}

// completionCommand returns the command that prints the completion scripts of cobra.
func (a *app) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:                   "completion bash|zsh|fish",
		ValidArgs:             []string{"bash", "zsh", "fish"},
		Args:                  cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch root := cmd.Root(); args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.Stdout, true)
			case "zsh":
				return root.GenZshCompletion(a.Stdout)
			default:
				return root.GenFishCompletion(a.Stdout, true)
			}
		},
	}
}

// complete sets defaults of all commands below a command. Each is wrapped by [action], so that its
// errors are not taken for wrong usage. It takes no arguments unless it has another rule.
func complete(cmd *cobra.Command) {
	for _, below := range cmd.Commands() {
		if below.RunE != nil {
			below.RunE = action(below.RunE)
		}
		if below.Args == nil {
			below.Args = cobra.NoArgs
		}
		complete(below)
	}
}

// prepare runs before each command. It checks the flags, chooses the ledger from the global flags
// and the environment, sets the idempotency key and the clock, and checks that no output file is
// also an input.
func (a *app) prepare(cmd *cobra.Command, args []string) (err error) {
	if err := input.CheckFlags(cmd.Flags()); err != nil {
		return err
	}
	a.chooseLedger(cmd)
	a.Trust.Settle()
	if err := a.Keys.Settle(cmd); err != nil {
		return err
	}
	if a.key = given(cmd, "key"); a.key == "" {
		id, err := uuid.NewRandom()
		if err != nil {
			return fmt.Errorf("idempotency key: %w", err)
		}
		a.key = id.String()
	}
	if text := given(cmd, "at"); text != "" {
		at, err := parseTime("--at", text, timeHint)
		if err != nil {
			return err
		}
		a.clock = func() time.Time { return at }
	}
	a.Name(cmd, args, a.DB, ledgerfile.ServedAt(a.Remote.Address))
	return a.CheckFiles()
}

// panel returns the people in the file of a request about a question, or nil for path "". Before
// the ledger is used, checkPanel checks that some of them are enrolled. Otherwise the ids could be
// true values, which the request may print and record.
func (a *app) panel(ctx context.Context, path, question string, c input.Columns) (people []string, err error) {
	people, err = input.ReadPanel(ctx, a.Files, path, c)
	a.checkPanel = func(ctx context.Context, l backend) error { return c.CheckPeople(ctx, l, path, question, people) }
	return people, err
}

// given returns the text of a flag, or "" if it is not given or the command does not have it.
func given(cmd *cobra.Command, flag string) string {
	if f := cmd.Flags().Lookup(flag); f != nil {
		return f.Value.String()
	}
	return ""
}

// query opens the ledger for reading, calls use, and prints its result.
func (a *app) query(cmd *cobra.Command, use func(ctx context.Context, l backend) (output.Result, error)) error {
	var out output.Result
	err := a.with(cmd.Context(), reading, func(l backend) (err error) {
		out, err = use(cmd.Context(), l)
		return err
	})
	if err != nil {
		return err
	}
	return a.Print(out)
}

// change opens the ledger for writing, calls use, which makes a request with the key of --key, and
// prints its result. done describes what is done permanently after that.
func (a *app) change(cmd *cobra.Command, use func(ctx context.Context, l backend) (done string, out output.Result,
	err error)) error {
	var done string
	var out output.Result
	err := a.with(cmd.Context(), writing, func(l backend) (err error) {
		done, out, err = use(cmd.Context(), l)
		return output.WithKey(a.key, err)
	})
	if err != nil {
		return err
	}
	return a.PrintDone(done, a.key, out)
}

// questionNamed returns the question with a name, or an error that wraps [api.ErrUnknown].
func questionNamed(ctx context.Context, l backend, name string) (api.Question, error) {
	all, err := api.Collect(l.Questions(ctx))
	for _, q := range all {
		if q.Name == name {
			return q, err
		}
	}
	if err == nil {
		err = fmt.Errorf("question %.256q: %w", name, api.ErrUnknown)
	}
	return api.Question{}, err
}
