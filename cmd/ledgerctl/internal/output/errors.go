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

// ExitCode is what the program ends with. Scripts rely on the numbers.
type ExitCode int

const (
	ExitDone       ExitCode = iota // what was asked for is done
	ExitUnexpected                 // anything else
	ExitMisuse                     // wrong usage or input
	// by a budget, a policy or a price, for want of a true value or a key, or because no mechanism
	// has what is asked for
	ExitRefused
	// damaged, no ledger, of a newer version, replaced, rolled back, or not what a signature or
	// proof is of
	ExitIntegrity
	ExitKeyConflict // the idempotency key was used for another request
	ExitInUse       // another process has the file open
	ExitStopped     // the ledger that was served has stopped: a supervisor starts the server again
	ExitIncomplete  // the result is of a file whose journal is missing, and lacks what only that has
)

// Error is an error classed where it arose.
type Error struct {
	Kind string   // a word for programs
	Code ExitCode // what the program ends with
	Hint string   // what may help; may be empty
	Err  error    // what went wrong
}

// Error implements error: it is that of the error inside.
func (f *Error) Error() string { return f.Err.Error() }

// Unwrap returns the error inside.
func (f *Error) Unwrap() error { return f.Err }

// UsageError is an error of the one who typed the command.
func UsageError(hint, format string, args ...any) error {
	return &Error{Kind: "usage", Code: ExitMisuse, Hint: hint, Err: fmt.Errorf(format, args...)}
}

// InputError is an error in a file that the command reads.
func InputError(hint, format string, args ...any) error {
	return &Error{Kind: "input", Code: ExitMisuse, Hint: hint, Err: fmt.Errorf(format, args...)}
}

// NotFound is an error of a file that is not there.
func NotFound(hint, format string, args ...any) error {
	return &Error{Kind: "not-found", Code: ExitMisuse, Hint: hint, Err: fmt.Errorf(format, args...)}
}

// Missing is NotFound where err says that a file does not exist, and else err.
func Missing(err error, hint, format string, args ...any) error {
	if errors.Is(err, fs.ErrNotExist) {
		return NotFound(hint, format, args...)
	}
	return err
}

// WithHint adds to an error what may help, if it is the one that the hint is against.
func WithHint(err, against error, hint string) error {
	if !errors.Is(err, against) {
		return err
	}
	class := classify(err)
	return &Error{Kind: class.Kind, Code: class.Code, Hint: hint, Err: err}
}

// Cause is why the operating system failed to do something with a file, without the name that it
// was given.
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

// keyed has the idempotency key of the request that failed, so that it can be taken up again.
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

// unfinishedError says of an error what was done all the same, for good.
type unfinishedError struct {
	done string
	sale uint64 // its number, or 0
	err  error
}

func (u *unfinishedError) Error() string { return u.done + ": " + u.err.Error() }
func (u *unfinishedError) Unwrap() error { return u.err }

// Unfinished says of an error what was done all the same: it is no wrong usage any more.
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

// hint is what may help against an error.
type hint struct {
	against error
	text    string
}

// hints lists what may help. The first that fits counts.
func hints() []hint {
	return []hint{
		{api.ErrJournal,
			"what was committed last is in the journal, a directory NAME.journal beside the file while it is open " +
				"and after a crash; keep, move and copy both together; where it is missing, --without-journal reads " +
				"the file alone"},
		{api.ErrVersion, "use the ledgerctl of that version"},
		{api.ErrCheckpoint, "it may be damaged, or signed by another key than the log key"},
		{api.ErrInUse,
			`another process has it open: if that serves it, as a host or "ledgerctl serve" does, ` +
				"give --addr ADDRESS in place of --db; else try again when it is done"},
		{api.ErrForgotten, "its responses were destroyed, for good"},
		{api.ErrClock, "set the clock of this machine"},
		{api.ErrTruthKey,
			"this ledger binds people to their true values; --truth-key FILE gives it the key by which it does"},
		{api.ErrNoiseKey,
			"responses are drawn from a key here; --noise-key NAME=FILE gives it the key of each name, the former " +
				"ones too"},
		{api.ErrNoSigner, "give --signer FILE with the signing key to the process that has the file open"},
		{api.ErrNoResponses,
			`"ledgerctl raise" makes responses; "ledgerctl show OBJECT" lists at which ε there are some`},
		{api.ErrUnknown, `"ledgerctl question list" shows the questions; "ledgerctl enroll" adds people`},
		{api.ErrNoCap, "--cap E is the largest ε of each person over all questions"},
	}
}

// others are the classes of errors that no ledger has, one of which err may be.
func others(err error) []Error {
	return []Error{
		{"no-certificate", ExitMisuse, "fewer outputs", privacy.ErrNoCertificate},
		{"invalid", ExitMisuse, "", privacy.ErrInvalid},
		{"not-found", ExitMisuse, "", fs.ErrNotExist},
		{"exists", ExitMisuse, "", fs.ErrExist},
		{"permission", ExitMisuse, permissionHint(err), fs.ErrPermission},
	}
}

// permissionHint says what must be writable, where that is not in the error.
func permissionHint(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) && strings.Contains(at.Path, ".journal") {
		return "nothing was changed; whoever changes a ledger must be able to write to its directory, where it " +
			"makes its journal, a directory NAME.journal"
	}
	return ""
}

// classify returns the class of an error; it always finds one.
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
	for _, other := range others(err) {
		if kind == problem.Unexpected && errors.Is(err, other.Err) {
			return other
		}
	}
	return Error{kind, ExitCode(exit), hintAgainst(kind, err), err}
}

// hintAgainst says what may help against an error of a ledger, which may be served.
func hintAgainst(kind string, err error) string {
	var refused *api.RefusedError
	var quote *api.QuoteError
	var clock *api.ClockError
	var closed *api.ReservationError
	switch {
	case errors.As(err, &refused):
		return explained(refused)
	case errors.As(err, &quote):
		return quoteHint(quote)
	case errors.As(err, new(*api.KeyConflictError)):
		return "give another --key, or the arguments it was first used with"
	case errors.As(err, new(*api.DisplacedError)):
		return "--quote lists what would be lost; --accept-loss answers all the same"
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
		return `is "ledgerctl serve" running there, and do --addr or $LEDGER_ADDR name the right address?`
	case kind == problem.Unauthorized || kind == problem.Forbidden:
		return "use a token whose role allows this, by $LEDGER_TOKEN or --token FILE"
	}
	return served.Hint
}

// RollbackHint says what helps if a ledger does not go on from a checkpoint, which may be of
// another log.
func RollbackHint(foreign bool) string {
	if foreign {
		return "--db may name another ledger than the checkpoint is of"
	}
	return "use nothing of this file: what was released since would be drawn anew; find the one that goes on from " +
		"the checkpoint"
}

func quoteHint(quote *api.QuoteError) string {
	hint := `"ledgerctl quote" with the same order says what it is now, and the ID to sell that by`
	switch {
	case quote.Remedy == "paying":
		return "raise --max-price, or lower --epsilon"
	case quote.TermsChanged:
		return "the terms of an object in the order have changed since the quote; " + hint
	}
	return hint
}

// Refusal adds what may help against the refusal of a request, if err is one.
func Refusal(err error, partial bool) error {
	var refused *api.RefusedError
	if !errors.As(err, &refused) || partial {
		return err
	}
	hint := "--partial leaves them out"
	if why := explained(refused); why != "" {
		hint = why + "; " + hint
	}
	return &Error{Kind: "refused", Code: ExitRefused, Hint: hint, Err: err}
}

// explained explains why a request was refused, where the names of the reasons do not. It also
// explains reasons of which no refusal is listed.
func explained(e *api.RefusedError) string {
	var texts []string
	for _, sum := range append(new(api.RefusedError).SumsWith(e.Refused...), e.Sums...) {
		text := explainReason(sum.Reason)
		if text != "" && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "; ")
}

func explainReason(reason api.Reason) string {
	text := map[api.Reason]string{
		api.NotEnrolled: `"ledgerctl enroll" adds people to a question`,
		api.NoNoiseKey:  "--noise-key NAME=FILE gives the key that they began with",
		api.NoTruth: "a draw is needed, and the truth file has no value for them (do --id-column or " +
			"--id-rows mean their ids?)",
		api.NoTruthKey: "this ledger binds people to their true values; --truth-key FILE gives it the key by " +
			"which it does",
		api.PolicyDiffers: `enrolling does not change a policy, "ledgerctl terms" does`,
		api.CapDiffers:    `enrolling does not change a cap, "ledgerctl terms" does`,
		api.Withdrawn:     "they take part in nothing, unless they are enrolled again",
		api.EpochBegun:    "a new epoch of them began since, which ended what was reserved",
		api.NotForSale:    `they are not enrolled under a policy of kind "market"`,
		api.NotOnOffer:    `their policy sells no such ε, see "ledgerctl show OBJECT"`,
		api.BuyerRefused:  "their policy does not sell to this buyer",
		api.SaleClosed:    `their policy sells at another time, see "ledgerctl show OBJECT"`,
		api.NeedsConsent: "these terms may allow more than the people have agreed to; --consent TEXT says where " +
			"their consent to them is on record",
		api.HoldersFull: "as many buyers as their policy allows hold this ε",
		api.Full: "the ledger keeps no more levels, buyers and reservations of them; a level that is " +
			"recorded already may be possible",
	}[reason]
	if text == "" {
		return ""
	}
	return string(reason) + ": " + text
}

// Report is what --json prints of an error.
type Report struct {
	Kind    string  `json:"kind"`    // a word for programs
	Message string  `json:"message"` // the error in words
	Details details `json:"details"` // what else there is to say
}

type details struct {
	Hint  string `json:"hint,omitempty"`
	Key   string `json:"key,omitempty"`   // of the request that can be taken up again, or that another one had before
	Field string `json:"field,omitempty"` // in which the two differ
	Sale  uint64 `json:"sale,omitempty"`  // that is made all the same, or that the reservation became
	// A reservation that is not open.
	Reservation uint64           `json:"reservation,omitempty"` // its number
	State       string           `json:"state,omitempty"`       // captured, cancelled or expired
	Question    string           `json:"question,omitempty"`
	Refused     []api.Refusal    `json:"refused,omitempty"`
	Unlisted    int              `json:"unlisted,omitempty"` // refused, too
	Sums        []api.RefusalSum `json:"sums,omitempty"`     // of all of them, by reason
	Instead     *api.Budget      `json:"instead,omitempty"`  // what would be possible
	// What the order is now that was not what the buyer would have.
	Price    *int64 `json:"price,omitempty"` // in minor units
	Currency string `json:"currency,omitempty"`
	MaxPrice *int64 `json:"max_price,omitempty"`
	Quote    string `json:"quote,omitempty"`         // its ID
	Terms    bool   `json:"terms_changed,omitempty"` // since it was quoted
	// What an answer would take off the market.
	Displaced []api.Displaced `json:"displaced,omitempty"`
	// What a checkpoint says, and what the ledger is instead.
	Checkpoint *api.Head `json:"checkpoint,omitempty"`
	Ledger     *api.Head `json:"ledger,omitempty"`
}

// Explain puts an error in words, and says what the program ends with.
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
		f.takeUp(request.key, class, err)
	}
	return f, class.Code
}

// takeUp says how a request that failed on the way is taken up again by its key.
func (f *Report) takeUp(key string, class Error, err error) {
	done, isDone := errors.AsType[*unfinishedError](err)
	switch {
	case isDone:
		f.Details.Key, f.Details.Sale = key, done.sale
		f.Details.Hint = fmt.Sprintf("the same command with --key %s gives the result again, and does nothing twice",
			Quoted(key))
	case class.Code == ExitUnexpected:
		f.Details.Key = key
		f.Details.Hint = "the parts committed so far stay; the same command with --key " + Quoted(key) +
			" goes on from there"
		if class.Kind == problem.Unreachable || class.Hint == problem.TakenOver {
			f.Details.Hint = class.Hint + "; " + f.Details.Hint
		}
	}
}

// reservationHint says what to do about a reservation that is not open.
func reservationHint(e *api.ReservationError) string {
	switch e.State {
	case "captured":
		return `its sale is made, "ledgerctl sales" lists it: charge nothing again`
	case "expired":
		return fmt.Sprintf(`charge nothing for it; "ledgerctl cancel %d" makes that final before a charge `+
			"is refunded; reserve again with another --key", e.Number)
	}
	return "charge nothing for it, and refund what was charged; reserve again with another --key"
}

// clockHint says how a clock far ahead of the log is confirmed: up to a time that has not come when
// the command has been typed.
func clockHint(e *api.ClockError) string {
	return "compare the clock with another; if it is right, give this command --clock-ahead " +
		Stamp(e.Clock.Add(2*time.Hour).Truncate(time.Hour)) + " once; if not, set it"
}
