package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/input"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/ledgerclient"
	"github.com/sluicedp/sluice/ledger/observe"
	"github.com/sluicedp/sluice/privacy"
)

// book is a ledger as commands know it: a file that they have open, or one that is served.
type book interface {
	About() api.About
	Stats(ctx context.Context) (api.Stats, error)
	Health(ctx context.Context) (observe.Health, error)
	Close() error

	Questions(ctx context.Context) iter.Seq2[api.Question, error]
	DefineQuestion(ctx context.Context, key string, q api.Question) error
	Enroll(ctx context.Context, r api.EnrollRequest) (api.EnrollResult, error)
	ChangeTerms(ctx context.Context, r api.ChangeTermsRequest) (api.ChangeTermsResult, error)
	Raise(ctx context.Context, r api.RaiseRequest) (api.RaiseResult, error)
	Advance(ctx context.Context, r api.AdvanceRequest) (api.AdvanceResult, error)
	Answer(ctx context.Context, r api.AnswerRequest) (api.AnswerResult, error)
	QuoteAnswer(ctx context.Context, r api.AnswerRequest) (api.AnswerQuote, error)
	BeginEpoch(ctx context.Context, r api.EpochRequest) error
	Withdraw(ctx context.Context, r api.ObjectRequest) error
	Forget(ctx context.Context, r api.ObjectRequest) error

	Budget(ctx context.Context, r api.BudgetRequest) (api.Budget, error)
	Quote(ctx context.Context, o api.Order) (api.Quote, error)
	Sell(ctx context.Context, r api.SellRequest) (api.Sale, error)
	Reserve(ctx context.Context, r api.ReserveRequest) (api.Reservation, error)
	Capture(ctx context.Context, r api.CaptureRequest) (api.Sale, error)
	Cancel(ctx context.Context, key string, reservation uint64) error
	Sales(ctx context.Context, buyer string) iter.Seq2[api.Sale, error]
	Reservations(ctx context.Context, buyer string, states ...string) iter.Seq2[api.Reservation,
		error]
	Buyers(ctx context.Context) iter.Seq2[api.BuyerState, error]
	Deliveries(ctx context.Context, sale uint64) iter.Seq2[api.Delivery, error]

	Object(ctx context.Context, name string) (api.ObjectState, error)
	Estimate(ctx context.Context, r api.EstimateRequest) (api.Estimate, error)
	Levels(ctx context.Context, question string) iter.Seq2[api.LevelCount, error]
	Responses(ctx context.Context, question string, epsilon privacy.Epsilon) iter.Seq2[api.Response, error]
	Events(ctx context.Context, from uint64) iter.Seq2[event.Event, error]
	Watch(ctx context.Context, from uint64) iter.Seq2[event.Event, error]
	Refusals(ctx context.Context, key string, from uint64) iter.Seq2[event.Event, error]

	Checkpoint(ctx context.Context) ([]byte, error)
	Head(ctx context.Context, events uint64) (api.Head, error)
	Receipt(ctx context.Context, sale uint64) (evidence.Receipt, error)
	Statement(ctx context.Context, r api.ObjectRequest) (evidence.Statement, error)
	Verify(ctx context.Context, r api.VerifyRequest) (api.Verification, error)
	Backup(ctx context.Context, path string, progress func(done, total int)) (api.Copied, error)
	CompactTo(ctx context.Context, path string, progress func(done, total int)) (api.Copied, error)
	Compact(ctx context.Context, progress func(done, total int)) error
}

var (
	_ book = (*ledger.Ledger)(nil)
	_ book = (*ledgerclient.Client)(nil)
)

// place settles which ledger is meant. What a flag says goes before the environment; two that say
// it alike are refused where the ledger is needed, so that nothing is done to the wrong one.
func (a *app) place(cmd *cobra.Command) {
	byFile, byAddress := cmd.Flags().Changed("db"), cmd.Flags().Changed("addr")
	file, address := os.Getenv("LEDGER_DB"), os.Getenv("LEDGER_ADDR")
	a.unclear = nil
	switch {
	case byFile && byAddress:
		a.unclear = output.UsageError("leave one of them out", "--db and --addr are both given, and name a ledger each")
	case !byFile && !byAddress && file != "" && address != "":
		a.unclear = output.UsageError("give --db or --addr",
			"$LEDGER_DB and $LEDGER_ADDR are both set, and name a ledger each")
	}
	if !byFile {
		a.DB = cmp.Or(file, "ledger.db")
	}
	if byFile {
		a.Remote.Address = ""
	} else if !byAddress {
		a.Remote.Address = address
	}
}

// file refuses a command that is about a file where the ledger is served.
func (a *app) file(cmd *cobra.Command) error {
	if a.unclear != nil {
		return a.unclear
	}
	if a.Remote.Address != "" {
		return output.UsageError("give --db FILE; whoever serves that address has its file",
			"%q is about a file, and an address is given", cmd.CommandPath())
	}
	return nil
}

// access says what a command does with the ledger.
type access bool

const (
	reading access = true
	writing access = false
)

// with opens the ledger, in its file or at its address, for as long as use runs.
func (a *app) with(ctx context.Context, mode access, use func(book) error) error {
	l, err := a.find(ctx, mode)
	if err != nil {
		return err
	}
	if err := a.noteIncomplete(ctx, l); err != nil {
		return errors.Join(err, l.Close())
	}
	if mode == writing || a.Remote.Address != "" {
		// What is done for good must be reported even if standard output is closed.
		signal.Ignore(syscall.SIGPIPE)
	}
	if a.sign != nil {
		err = input.CheckSigner(a.sign, l.About().LogKey)
	}
	if err == nil && a.checkPanel != nil {
		err = a.checkPanel(ctx, l)
	}
	if err == nil {
		err = use(l)
	}
	closed := l.Close()
	if a.Remote.Address != "" {
		return err // the connection was only read from, or its request is answered
	}
	return errors.Join(err, closed)
}

// find opens the ledger that the command line names.
func (a *app) find(ctx context.Context, mode access) (book, error) {
	switch {
	case a.unclear != nil:
		return nil, a.unclear
	case a.Remote.Address != "":
		return a.dial(ctx)
	}
	l, err := a.open(ctx, ledger.Options{ReadOnly: bool(mode), Signer: a.sign})
	if a.sign != nil && errors.Is(err, api.ErrInvalid) {
		return nil, output.UsageError(input.OtherSigner, "%w", err)
	}
	return l, err
}

// open opens the ledger's file.
func (a *app) open(ctx context.Context, options ledger.Options) (*ledger.Ledger, error) {
	options.Now = a.clock
	for _, set := range []func(*ledger.Options) error{
		a.confirmClock, a.allowNoJournal,
		func(o *ledger.Options) error { return a.Trust.Set(ctx, a.Files, o) },
		func(o *ledger.Options) error { return a.Keys.Set(ctx, a.Files, o) },
	} {
		if err := set(&options); err != nil {
			return nil, err
		}
	}
	l, err := ledger.Open(ctx, a.DB, options)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, output.NotFound(`run "ledgerctl init" first, or give --db FILE`, "there is no ledger at %q", a.DB)
	case errors.Is(err, api.ErrCorrupt) && !errors.Is(err, api.ErrJournal):
		return nil, &output.Error{
			Kind: "corrupt", Code: output.ExitIntegrity, Err: err,
			Hint: "if this is the file that is meant, restore a backup; --db or $LEDGER_DB may name the wrong one",
		}
	case err != nil:
		return nil, err
	}
	input.WarnWritable(a.Printer, a.DB)
	return l, nil
}

// dial returns the ledger at the address. What is for a file is refused.
func (a *app) dial(ctx context.Context) (*ledgerclient.Client, error) {
	for _, flag := range []struct {
		isGiven         bool
		name, why, hint string
	}{
		{a.clock != nil, "--at is", "the clock of the server counts", "leave out --at, or use --db"},
		{a.ClockAhead != "", "--clock-ahead is", "the clock of the server counts",
			"give it to the server that has the ledger open"},
		{a.WithoutJournal, "--without-journal is", "the server has the journal",
			"leave it out, or use --db where the file is"},
		{a.Keys.Given(), "--truth-key and --noise-key are", "the keys of the server count",
			"give them to the server that has the ledger open"},
	} {
		if flag.isGiven {
			return nil, output.UsageError(flag.hint, "%s for a file: with --addr, %s", flag.name, flag.why)
		}
	}
	l, err := a.Remote.Dial(ctx, a.Files)
	if err != nil {
		return nil, err
	}
	if err := a.trusted(ctx, l); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// trusted compares a ledger with the newest checkpoint that is known, if one is given.
func (a *app) trusted(ctx context.Context, l book) error {
	var options ledger.Options
	if err := a.Trust.Set(ctx, a.Files, &options); err != nil || options.Checkpoint == nil {
		return err
	}
	before, err := evidence.OpenCheckpoint(options.Checkpoint, options.Verifiers)
	if err != nil {
		return err
	}
	return goesOn(ctx, l, before)
}

// loadSigner loads the key that signs, which is where the ledger's file is. A ledger at an address
// has its own.
func (a *app) loadSigner(ctx context.Context, f input.Signer) (err error) {
	switch {
	case a.Remote.Address == "":
		a.sign, err = f.Load(ctx, a.Files, a.DB)
		return err
	case f.Path != "":
		return output.UsageError("leave out --signer",
			"--signer is for a file: with --addr, the server signs")
	}
	return nil
}

// allowNoJournal lets the journal be missing when a ledger is opened. It refuses --without-journal
// where a command writes or signs.
func (a *app) allowNoJournal(o *ledger.Options) error {
	switch {
	case !a.WithoutJournal:
		return nil
	case !o.ReadOnly:
		return output.UsageError("find the journal, or restore a backup",
			"--without-journal is for commands that only read: what is drawn without the journal may have been "+
				"drawn before")
	case o.Signer != nil:
		return output.UsageError("find the journal",
			"--without-journal is for commands that sign nothing: without the journal the log is not known as "+
				"it is now")
	}
	o.WithoutJournal = true
	return nil
}

// noteIncomplete notes whether a ledger is read without its journal.
func (a *app) noteIncomplete(ctx context.Context, l book) error {
	name := l.About().MissingJournal
	if name == "" {
		return nil
	}
	head, err := l.Head(ctx, 0)
	if err != nil {
		return err
	}
	a.after = incomplete("the ledger was read without its journal %s, which is missing: the result is as of "+
		"event %d, and lacks what only the journal has, which is unknown in number", name, head.Events)
	return nil
}

// incomplete is the error of a result that lacks what only a missing journal has.
func incomplete(format string, args ...any) error {
	return &output.Error{
		Kind: "incomplete", Code: output.ExitIncomplete, Err: fmt.Errorf(format, args...),
		Hint: "put the journal back where it was, with the file: then everything is there, and this is not needed",
	}
}

// maxAhead is how far --at may be ahead of the machine's clock without --clock-ahead. "audit
// verify" reports events that are further ahead.
const maxAhead = 5 * time.Minute

// timeHint says how a time is written.
const timeHint = "a time in RFC 3339, such as 2027-01-31T09:00:00Z or 2027-01-31T10:00:00+01:00"

// parseTime reads the time that a flag gives. The hint says what else the flag takes.
func parseTime(flag, text, hint string) (at time.Time, err error) {
	if err := at.UnmarshalText([]byte(text)); err != nil {
		return at, output.UsageError(hint, "%s %q is not a time", flag, text)
	}
	if at = at.UTC(); at.Year() < 1970 || at.Year() > 2261 {
		return at, output.UsageError(hint, "%s %q is not between the years 1970 and 2261", flag, text)
	}
	return at, nil
}

// confirmClock sets the time of --clock-ahead. It refuses to write with a time of --at that is ahead
// of the machine's clock, unless --clock-ahead confirms it.
func (a *app) confirmClock(o *ledger.Options) (err error) {
	if a.ClockAhead != "" {
		if o.ClockAhead, err = parseTime("--clock-ahead", a.ClockAhead, timeHint); err != nil {
			return err
		}
	}
	if o.ReadOnly || a.clock == nil {
		return nil
	}
	at, now := a.clock(), time.Now()
	if at.Sub(now) <= maxAhead {
		return nil
	}
	const after = "every later event of the log has at least that time, sales and reservations that end before it " +
		`are closed for good, and "audit verify" reports events of the future until that day`
	if !at.After(o.ClockAhead) {
		a.Warn(fmt.Sprintf("--at %s is ahead of this machine's clock: from now on, %s", output.Stamp(at), after))
		return nil
	}
	return &output.Error{
		Kind: "clock", Code: output.ExitMisuse,
		Hint: "correct TIME; --clock-ahead " + output.Stamp(at) + " accepts what is said here",
		Err: fmt.Errorf("--at %s is more than five minutes ahead of this machine's clock, which says %s; nothing "+
			"was changed; if it is accepted, %s", output.Stamp(at), output.Stamp(now), after),
	}
}
