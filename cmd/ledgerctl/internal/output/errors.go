package output

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/privacy"
)

// ExitCode is the exit code of the program. Scripts rely on the numbers.
type ExitCode int

const (
	ExitDone       ExitCode = iota // the command is done
	ExitUnexpected                 // any other error
	ExitMisuse                     // wrong usage or input
	// refused by a budget, a policy or a price, because a true value or a key is missing, or
	// because no mechanism has the requested properties
	ExitRefused
	// damaged, not a ledger, of a newer version, replaced, rolled back, or different from what was
	// signed or proven
	ExitIntegrity
	ExitKeyConflict // the idempotency key was used for another request
	ExitInUse       // another process has the file open
	ExitStopped     // the served ledger has stopped; a supervisor should start the server again
	ExitIncomplete  // the journal is missing, and the result lacks the events that only it has
)

// Error is an error with its kind, exit code and hint.
type Error struct {
	Kind string   // for programs
	Code ExitCode // of the program
	Hint string   // what may help; may be empty
	Err  error    // what went wrong
}

// Error implements error. It returns the text of Err.
func (f *Error) Error() string { return f.Err.Error() }

// Unwrap returns Err.
func (f *Error) Unwrap() error { return f.Err }

// UsageError returns an error in the command line.
func UsageError(hint, format string, args ...any) error {
	return &Error{Kind: "usage", Code: ExitMisuse, Hint: hint, Err: fmt.Errorf(format, args...)}
}

// InputError returns an error in a file that the command reads.
func InputError(hint, format string, args ...any) error {
	return &Error{Kind: "input", Code: ExitMisuse, Hint: hint, Err: fmt.Errorf(format, args...)}
}

// NotFound returns an error for a file that does not exist.
func NotFound(hint, format string, args ...any) error {
	return &Error{Kind: "not-found", Code: ExitMisuse, Hint: hint, Err: fmt.Errorf(format, args...)}
}

// Missing returns a [NotFound] error if err is [fs.ErrNotExist], and err otherwise.
func Missing(err error, hint, format string, args ...any) error {
	if errors.Is(err, fs.ErrNotExist) {
		return NotFound(hint, format, args...)
	}
	return err
}

// WithHint adds a hint to err if err wraps against.
func WithHint(err, against error, hint string) error {
	if !errors.Is(err, against) {
		return err
	}
	class := classify(err)
	return &Error{Kind: class.Kind, Code: class.Code, Hint: hint, Err: err}
}

// Cause returns the error of the operating system in an error about a file, without the file's
// name.
func Cause(err error) error {
	var one *fs.PathError
	var two *os.LinkError
	switch {
	case errors.As(err, &one):
		return one.Err
	case errors.As(err, &two):
		return two.Err
	}
	return err
}

// keyed is the error of a request with its idempotency key, with which the request can be repeated.
type keyed struct {
	key string
	err error
}

func (k *keyed) Error() string { return k.err.Error() }
func (k *keyed) Unwrap() error { return k.err }

// WithKey adds the idempotency key of a request to its error, if there is one.
func WithKey(key string, err error) error {
	if err == nil {
		return nil
	}
	return &keyed{key, err}
}

// unfinishedError is an error after a part of the command was done permanently.
type unfinishedError struct {
	done string // the part that was done
	sale uint64 // the number of the sale, or 0
	err  error
}

func (u *unfinishedError) Error() string { return u.done + ": " + u.err.Error() }
func (u *unfinishedError) Unwrap() error { return u.err }

// Unfinished adds to an error what was done before it. The exit code is then never that of wrong
// usage.
func Unfinished(done string, sale uint64, err error) error {
	if err == nil {
		return nil
	}
	err = &unfinishedError{done, sale, err}
	if classify(err).Code == ExitMisuse {
		return &Error{Kind: "unexpected", Code: ExitUnexpected, Err: err}
	}
	return err
}

// hint is a text about what may help against an error.
type hint struct {
	against error
	text    string
}

// hints returns all hints. The first that fits an error is used.
func hints() []hint {
	return []hint{
		{api.ErrJournal,
			"the last commits are in the journal, a directory NAME.journal beside the file while it is open and " +
				"after a crash; keep, move and copy both together; if the journal is missing, --without-journal " +
				"reads the file alone"},
		{api.ErrVersion, "use the ledgerctl of that version"},
		{api.ErrCheckpoint, "the checkpoint may be damaged, or signed by another key than the log key"},
		{api.ErrInUse,
			`another process has it open: if that process serves it, as a host or "ledgerctl serve" does, ` +
				"give --addr ADDRESS in place of --db; otherwise try again when it is done"},
		{api.ErrForgotten, "its responses were destroyed permanently"},
		{api.ErrClock, "set the clock of this machine"},
		{api.ErrTruthKey,
			"this ledger binds people to their true values; give its truth key by --truth-key FILE"},
		{api.ErrNoiseKey,
			"this ledger draws responses from noise keys; give all of them, old and new, by --noise-key NAME=FILE"},
		{api.ErrNoSigner, "give --signer FILE with the signing key to the process that has the file open"},
		{api.ErrNoResponses,
			`"ledgerctl raise" draws responses; "ledgerctl show OBJECT" lists them with their ε`},
		{api.ErrUnknown, `"ledgerctl question list" shows the questions; "ledgerctl enroll" adds people`},
		{api.ErrNoCap, "--cap E is the largest ε of each person over all questions"},
	}
}

// otherClasses returns the classes of errors that do not come from a ledger.
func otherClasses(err error) []Error {
	return []Error{
		{"no-certificate", ExitMisuse, "fewer outputs", privacy.ErrNoCertificate},
		{"invalid", ExitMisuse, "", privacy.ErrInvalid},
		{"not-found", ExitMisuse, "", fs.ErrNotExist},
		{"exists", ExitMisuse, "", fs.ErrExist},
		{"permission", ExitMisuse, permissionHint(err), fs.ErrPermission},
	}
}

// permissionHint returns a hint about the directory that must be writable, if err is about a
// journal.
func permissionHint(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) && strings.Contains(at.Path, ".journal") {
		return "nothing was changed; a process that changes a ledger must be able to write to its directory, because " +
			"it creates the journal there, a directory NAME.journal"
	}
	return ""
}

// classify returns the class of an error. Every error has one.
func classify(err error) Error {
	rollback, isRollback := errors.AsType[*api.RollbackError](err)
	classed, isClassed := errors.AsType[*Error](err)
	switch {
	case errors.Is(err, context.Canceled):
		return Error{"interrupted", ExitUnexpected, "", err}
	case isRollback:
		isForeign := rollback.Checkpoint.Origin != rollback.Ledger.Origin
		return Error{"rolled-back", ExitIntegrity, RollbackHint(isForeign), err}
	case isClassed:
		return *classed
	}
	kind, exit, _ := problem.Classify(err)
	for _, other := range otherClasses(err) {
		if kind == problem.Unexpected && errors.Is(err, other.Err) {
			return other
		}
	}
	return Error{kind, ExitCode(exit), hintAgainst(kind, err), err}
}

// hintAgainst returns a hint for an error of a ledger in a file or at an address.
func hintAgainst(kind string, err error) string {
	var refused *api.RefusedError
	var quote *api.QuoteError
	var clock *api.ClockError
	var closed *api.ReservationError
	switch {
	case errors.As(err, &refused):
		return explainRefusal(refused)
	case errors.As(err, &quote):
		return quoteHint(quote)
	case errors.As(err, new(*api.KeyConflictError)):
		return "give another --key, or the arguments with which this one was first used"
	case errors.As(err, new(*api.DisplacedError)):
		return "--quote lists what would be lost; --accept-loss answers nevertheless"
	case errors.As(err, &clock):
		return clockHint(clock)
	case errors.As(err, &closed):
		return reservationHint(closed)
	}
	for _, h := range hints() {
		if errors.Is(err, h.against) {
			return h.text
		}
	}
	served, isServed := errors.AsType[*api.Problem](err)
	switch {
	case !isServed:
		return ""
	case kind == problem.Unreachable:
		return `is "ledgerctl serve" running there, and is the address in --addr or $LEDGER_ADDR right?`
	case kind == problem.Unauthorized || kind == problem.Forbidden:
		return "use a token whose role allows this, by $LEDGER_TOKEN or --token FILE"
	}
	return served.Hint
}

// RollbackHint returns a hint for a log that does not extend a checkpoint. isForeign is whether the
// checkpoint is of another log.
func RollbackHint(isForeign bool) string {
	if isForeign {
		return "--db may name another ledger than that of the checkpoint"
	}
	return "do not use this file, because responses released since would be drawn again; find the file whose log " +
		"extends the checkpoint"
}

// quoteHint returns a hint for an order that differs from its quote, or costs more than the limit.
func quoteHint(quote *api.QuoteError) string {
	hint := `"ledgerctl quote" with the same order prints the current quote and its ID`
	switch {
	case quote.Remedy == "paying":
		return "raise --max-price, or lower --epsilon"
	case quote.TermsChanged:
		return "the terms of an object in the order have changed since the quote; " + hint
	}
	return hint
}

// Refusal adds a hint to the refusal of a request, if err is one and the request was not partial:
// what helps against the reasons, and that --partial leaves the people out.
func Refusal(err error, partial bool) error {
	var refused *api.RefusedError
	if !errors.As(err, &refused) || partial {
		return err
	}
	hint := "--partial leaves them out"
	if why := explainRefusal(refused); why != "" {
		hint = why + "; " + hint
	}
	return &Error{Kind: "refused", Code: ExitRefused, Hint: hint, Err: err}
}

// explainRefusal explains the reasons of a refusal whose names do not suffice, also those of which
// no refusal is listed.
func explainRefusal(e *api.RefusedError) string {
	var texts []string
	for _, sum := range append(new(api.RefusedError).SumsWith(e.Refused...), e.Sums...) {
		text := explainReason(sum.Reason)
		if text != "" && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "; ")
}

// explainReason returns a reason with what it means or what helps, or "" if its name is sufficient.
func explainReason(reason api.Reason) string {
	text := map[api.Reason]string{
		api.NotEnrolled: `"ledgerctl enroll" adds people to a question`,
		api.NoNoiseKey:  "--noise-key NAME=FILE gives the key of their first draw",
		api.NoTruth: "a draw is needed, and the truth file has no value for them (do --id-column or " +
			"--id-rows select their ids?)",
		api.NoTruthKey:    "this ledger binds people to their true values; give its truth key by --truth-key FILE",
		api.PolicyDiffers: `enrolling does not change a policy, "ledgerctl terms" does`,
		api.CapDiffers:    `enrolling does not change a cap, "ledgerctl terms" does`,
		api.Withdrawn:     "they take part in nothing, unless they are enrolled again",
		api.EpochBegun:    "a new epoch has begun since for them, which ended the reservation",
		api.NotForSale:    `they are not enrolled under a policy of kind "market"`,
		api.NotOnOffer:    `their policy sells no such ε, see "ledgerctl show OBJECT"`,
		api.BuyerRefused:  "their policy does not sell to this buyer",
		api.SaleClosed:    `their policy sells at another time, see "ledgerctl show OBJECT"`,
		api.NeedsConsent: "these terms may allow more than the people have agreed to; --consent TEXT refers to the " +
			"record of their consent",
		api.HoldersFull: "the largest number of buyers that their policy allows hold this ε",
		api.Full: "the ledger has reached its limit of levels, buyers and reservations for them; a level that is " +
			"recorded already may be possible",
	}[reason]
	if text == "" {
		return ""
	}
	return string(reason) + ": " + text
}

// Report is an error as --json prints it.
type Report struct {
	Kind    string  `json:"kind"`    // for programs
	Message string  `json:"message"` // for people
	Details details `json:"details"` // the facts of this error
}

// details are the facts of an error. Members that an error does not have are omitted.
type details struct {
	Hint  string `json:"hint,omitempty"`
	Key   string `json:"key,omitempty"`   // of the request that can be repeated, or of an earlier request
	Field string `json:"field,omitempty"` // in which a request differs from the earlier one with its key
	Sale  uint64 `json:"sale,omitempty"`  // that is done nevertheless, or that the reservation became
	// A reservation that is not open.
	Reservation uint64           `json:"reservation,omitempty"` // its number
	State       string           `json:"state,omitempty"`       // captured, cancelled or expired
	Question    string           `json:"question,omitempty"`
	Refused     []api.Refusal    `json:"refused,omitempty"`
	Unlisted    int              `json:"unlisted,omitempty"` // number of refusals that Refused does not list
	Sums        []api.RefusalSum `json:"sums,omitempty"`     // of all refusals, by reason
	Instead     *api.Budget      `json:"instead,omitempty"`  // what would be possible
	// The current quote of an order that differs from the buyer's limits.
	Price    *int64 `json:"price,omitempty"` // in minor units
	Currency string `json:"currency,omitempty"`
	MaxPrice *int64 `json:"max_price,omitempty"`
	Quote    string `json:"quote,omitempty"`         // its ID
	Terms    bool   `json:"terms_changed,omitempty"` // since it was quoted
	// Levels on offer that an answer would displace.
	Displaced []api.Displaced `json:"displaced,omitempty"`
	// The head in a checkpoint, and the head of the ledger.
	Checkpoint *api.Head `json:"checkpoint,omitempty"`
	Ledger     *api.Head `json:"ledger,omitempty"`
}

// Explain returns the report of an error, and the exit code of the program.
func Explain(err error) (Report, ExitCode) {
	class, p := classify(err), problem.Of(err)
	f := Report{Kind: class.Kind, Message: err.Error(), Details: details{
		Hint: class.Hint, Question: p.Question, Refused: p.Refused, Unlisted: p.Unlisted, Sums: p.Sums,
		Instead: p.Instead, Displaced: p.Displaced,
	}}
	d := &f.Details
	if p.Key != "" {
		d.Key, d.Field = p.Key, p.Field
	}
	if q := p.Quote; q != nil {
		d.Question, d.Refused, d.Unlisted, d.Sums = q.Question, q.Refused, q.Unlisted, q.Sums
		d.Price, d.Currency, d.Quote = &q.Price, q.Currency, q.ID
		d.MaxPrice, d.Terms = p.MaxPrice, p.TermsChanged
	}
	if r := p.Reservation; r != nil {
		d.Reservation, d.State, d.Sale = r.Number, r.State, r.Sale
	}
	if rollback, is := errors.AsType[*api.RollbackError](err); is {
		d.Checkpoint, d.Ledger = &rollback.Checkpoint, &rollback.Ledger
	}
	if class.Kind == "interrupted" {
		f.Message = "interrupted"
	}
	if request, is := errors.AsType[*keyed](err); is {
		f.addRepeatHint(request.key, class, err)
	}
	return f, class.Code
}

// addRepeatHint adds to a report how to repeat a request with its key: if a part of it is done
// (unfinishedError), or may be done (any error of the exit code [ExitUnexpected]).
func (f *Report) addRepeatHint(key string, class Error, err error) {
	done, isDone := errors.AsType[*unfinishedError](err)
	switch {
	case isDone:
		f.Details.Key, f.Details.Sale = key, done.sale
		f.Details.Hint = fmt.Sprintf("the same command with --key %s prints the result again, and does nothing twice",
			Quoted(key))
	case class.Code == ExitUnexpected:
		f.Details.Key = key
		f.Details.Hint = "the parts committed so far stay; the same command with --key " + Quoted(key) +
			" continues from there"
		if class.Kind == problem.Unreachable || class.Hint == problem.TakenOver {
			f.Details.Hint = class.Hint + "; " + f.Details.Hint
		}
	}
}

// reservationHint returns what to do about a reservation that is not open.
func reservationHint(e *api.ReservationError) string {
	switch e.State {
	case "captured":
		return `its sale is done, and "ledgerctl sales" lists it: charge nothing again`
	case "expired":
		return fmt.Sprintf(`charge nothing for it; run "ledgerctl cancel %d", which is final, before you refund a `+
			"charge; reserve again with another --key", e.Number)
	}
	return "charge nothing for it, and refund what was charged; reserve again with another --key"
}

// clockHint returns how to confirm a clock that is far ahead of the log. The time to confirm is one
// to two hours after that of the clock, so that the user has time to type the command.
func clockHint(e *api.ClockError) string {
	return "compare the clock with another; if it is right, give this command --clock-ahead " +
		Stamp(e.Clock.Add(2*time.Hour).Truncate(time.Hour)) + " once; if not, set it"
}
