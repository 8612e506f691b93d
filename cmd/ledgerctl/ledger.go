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

// backend is a ledger as commands use it: an open file, or a served ledger.
type backend interface {
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
	_ backend = (*ledger.Ledger)(nil)
	_ backend = (*ledgerclient.Client)(nil)
)

// chooseLedger sets the file or the address of the ledger. Flags take precedence over the
// environment. If two ledgers are named with the same precedence, it sets ambiguous, and commands
// that need the ledger fail.
func (a *app) chooseLedger(cmd *cobra.Command) {
	byFile, byAddress := cmd.Flags().Changed("db"), cmd.Flags().Changed("addr")
	file, address := os.Getenv("LEDGER_DB"), os.Getenv("LEDGER_ADDR")
	a.ambiguous = nil
	switch {
	case byFile && byAddress:
		a.ambiguous = output.UsageError("omit one of them", "--db and --addr are both given, but name two ledgers")
	case !byFile && !byAddress && file != "" && address != "":
		a.ambiguous = output.UsageError("give --db or --addr",
			"$LEDGER_DB and $LEDGER_ADDR are both set, but name two ledgers")
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

// requireFile returns an error if the command line does not name the file of a ledger.
func (a *app) requireFile(cmd *cobra.Command) error {
	if a.ambiguous != nil {
		return a.ambiguous
	}
	if a.Remote.Address != "" {
		return output.UsageError("give --db FILE on the machine that serves that address",
			"%q needs the ledger's file, but an address is given", cmd.CommandPath())
	}
	return nil
}

// access is whether a command reads or writes the ledger.
type access bool

const (
	reading access = true
	writing access = false
)

// with opens the ledger, in its file or at its address, calls use, and closes the ledger. Before
// use, it checks that a loaded signing key is the ledger's, and that the people of a file are
// enrolled (checkPanel). It returns the first error, or that of use.
func (a *app) with(ctx context.Context, mode access, use func(backend) error) error {
	l, err := a.openLedger(ctx, mode)
	if err != nil {
		return err
	}
	if err := a.noteIncomplete(ctx, l); err != nil {
		return errors.Join(err, l.Close())
	}
	if mode == writing || a.Remote.Address != "" {
		// A permanent change must be reported even if standard output is closed.
		signal.Ignore(syscall.SIGPIPE)
	}
	if a.signer != nil {
		err = input.CheckSigner(a.signer, l.About().LogKey)
	}
	if err == nil && a.checkPanel != nil {
		err = a.checkPanel(ctx, l)
	}
	if err == nil {
		err = use(l)
	}
	closed := l.Close()
	if a.Remote.Address != "" {
		return err // the request has its response, so an error in closing the connection does not matter
	}
	return errors.Join(err, closed)
}

// openLedger opens the ledger that the command line names.
func (a *app) openLedger(ctx context.Context, mode access) (backend, error) {
	switch {
	case a.ambiguous != nil:
		return nil, a.ambiguous
	case a.Remote.Address != "":
		return a.dial(ctx)
	}
	l, err := a.open(ctx, ledger.Options{ReadOnly: bool(mode), Signer: a.signer})
	if a.signer != nil && errors.Is(err, api.ErrInvalid) {
		return nil, output.UsageError(input.OtherSigner, "%w", err)
	}
	return l, err
}

// open opens the ledger's file with the options, after it has added those of the global flags: the
// clock, the trusted checkpoint, the truth and noise keys.
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
			Hint: "--db or $LEDGER_DB may name the wrong file; if the file is right, restore a backup",
		}
	case err != nil:
		return nil, err
	}
	input.WarnWritable(a.Printer, a.DB)
	return l, nil
}

// dial returns the ledger at the address. It returns an error if a flag for files is given.
func (a *app) dial(ctx context.Context) (*ledgerclient.Client, error) {
	for _, flag := range []struct {
		isGiven         bool
		name, why, hint string
	}{
		{a.clock != nil, "--at is", "the clock of the server is used", "omit --at, or use --db"},
		{a.ClockAhead != "", "--clock-ahead is", "the clock of the server is used",
			"give it to the server that has the ledger open"},
		{a.WithoutJournal, "--without-journal is", "the server has the journal",
			"omit it, or use --db on the machine with the file"},
		{a.Keys.Given(), "--truth-key and --noise-key are", "the keys of the server are used",
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
	if err := a.checkTrusted(ctx, l); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// checkTrusted returns an error if --trust is given, and the log of the served ledger does not
// begin with the events of its checkpoint. (For a file, [ledger.Open] checks this.)
func (a *app) checkTrusted(ctx context.Context, l backend) error {
	var options ledger.Options
	if err := a.Trust.Set(ctx, a.Files, &options); err != nil || options.Checkpoint == nil {
		return err
	}
	before, err := evidence.OpenCheckpoint(options.Checkpoint, options.Verifiers)
	if err != nil {
		return err
	}
	return checkExtends(ctx, l, before)
}

// loadSigner loads the signing key of a ledger in a file. The server of a ledger at an address has
// the key.
func (a *app) loadSigner(ctx context.Context, f input.Signer) (err error) {
	switch {
	case a.Remote.Address == "":
		a.signer, err = f.Load(ctx, a.Files, a.DB)
		return err
	case f.Path != "":
		return output.UsageError("omit --signer",
			"--signer is for a file: with --addr, the server signs")
	}
	return nil
}

// allowNoJournal sets the option for --without-journal. It returns an error if the command writes
// or signs.
func (a *app) allowNoJournal(o *ledger.Options) error {
	switch {
	case !a.WithoutJournal:
		return nil
	case !o.ReadOnly:
		return output.UsageError("find the journal, or restore a backup",
			"--without-journal is for commands that only read: a draw without the journal could repeat one that "+
				"is in the journal")
	case o.Signer != nil:
		return output.UsageError("find the journal",
			"--without-journal is for commands that sign nothing: without the journal the end of the log is "+
				"unknown")
	}
	o.WithoutJournal = true
	return nil
}

// noteIncomplete sets a.after if a ledger is read without its journal: the command then prints its
// result, and ends with this error.
func (a *app) noteIncomplete(ctx context.Context, l backend) error {
	name := l.About().MissingJournal
	if name == "" {
		return nil
	}
	head, err := l.Head(ctx, 0)
	if err != nil {
		return err
	}
	a.after = incomplete("the ledger was read without its journal %s, which is missing: the result is as of "+
		"event %d, and lacks an unknown number of later events", name, head.Events)
	return nil
}

// incomplete returns the error for a result without the events of a missing journal.
func incomplete(format string, args ...any) error {
	return &output.Error{
		Kind: "incomplete", Code: output.ExitIncomplete, Err: fmt.Errorf(format, args...),
		Hint: "put the journal back beside the file: then the ledger is complete, and --without-journal is not needed",
	}
}

// maxAhead is the largest time that --at may be ahead of the machine's clock without --clock-ahead.
// "audit verify" reports events that are further ahead.
const maxAhead = 5 * time.Minute

// timeHint describes the format of a time.
const timeHint = "a time in RFC 3339, such as 2027-01-31T09:00:00Z or 2027-01-31T10:00:00+01:00"

// parseTime parses the time in a flag, and returns it in UTC. The year must be 1970 to 2261. The
// hint is that of the error, and describes all formats of the flag.
func parseTime(flag, text, hint string) (at time.Time, err error) {
	if err := at.UnmarshalText([]byte(text)); err != nil {
		return at, output.UsageError(hint, "%s %q is not a time", flag, text)
	}
	if at = at.UTC(); at.Year() < 1970 || at.Year() > 2261 {
		return at, output.UsageError(hint, "%s %q is not between the years 1970 and 2261", flag, text)
	}
	return at, nil
}

// confirmClock sets the option for --clock-ahead. If the command writes, and --at is ahead of the
// machine's clock by more than [maxAhead], it returns an error unless --clock-ahead confirms that
// time. If it is confirmed, it warns of the consequences.
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
	const after = "every later event of the log has at least that time, offers and reservations that end before it " +
		`are closed permanently, and "audit verify" reports events of the future until that day`
	if !at.After(o.ClockAhead) {
		a.Warn(fmt.Sprintf("--at %s is ahead of this machine's clock: from now on, %s", output.Stamp(at), after))
		return nil
	}
	return &output.Error{
		Kind: "clock", Code: output.ExitMisuse,
		Hint: "correct TIME; --clock-ahead " + output.Stamp(at) + " accepts these consequences",
		Err: fmt.Errorf("--at %s is more than five minutes ahead of this machine's clock, which is at %s; nothing "+
			"was changed; if it is accepted, %s", output.Stamp(at), output.Stamp(now), after),
	}
}
