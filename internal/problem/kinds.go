package problem

import (
	"context"
	"errors"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/privacy"
)

// The kinds of errors of a ledger. docs/reference/errors.md describes what each means and what to
// do about it.
const (
	Unexpected  = "unexpected"
	Interrupted = "interrupted"
	Late        = "late"
	Journal     = "journal"
	Corrupt     = "corrupt"
	Version     = "version"
	Replaced    = "replaced"
	Checkpoint  = "checkpoint"
	InUse       = "in-use"
	KeyConflict = "key-conflict"
	Refused     = "refused"
	Price       = "price"
	// QuoteChanged means that an order differs from its quote.
	QuoteChanged = "quote-changed"
	// Displaced means that an answer would take levels on offer off the market.
	Displaced   = "displaced"
	NotReserved = "not-reserved"
	Held        = "held"
	// ManyGone means that a table lacks more people than expected.
	ManyGone    = "many-gone"
	Forgotten   = "forgotten"
	WrongClock  = "clock"
	TruthKey    = "truth-key"
	NoiseKey    = "noise-key"
	Usage       = "usage"
	NoResponses = "no-responses"
	Unknown     = "unknown"
	NoCap       = "no-cap"
	NotNew      = "not-new"
	Invalid     = "invalid"
	ReadOnly    = "read-only"
	Closed      = "closed"
	Stopped     = "stopped"
	Behind      = "behind" // a standby lacks the event, or the journal no longer has events that the host lacks
	// TooManyFiles means that a file could not be opened at the moment.
	TooManyFiles = "too-many-files"
)

// The kinds of errors of a ledger that is called through a server.
const (
	TruthNeeded  = "truth-needed"
	TruthFailed  = "truth-failed"
	SignerFailed = "signer-failed"
	Unauthorized = "unauthorized"
	Forbidden    = "forbidden"
	NoRoute      = "no-route"
	Method       = "method"
	TooLarge     = "too-large"
	MediaType    = "media-type"
	TooMany      = "too-many"
	Busy         = "busy"
	Changed      = "changed"     // the changes are not those that the client confirmed
	Unreachable  = "unreachable" // reported by the client only
)

// Exit codes of the command.
const (
	unexpected = 1
	misuse     = 2
	refusal    = 3
	integrity  = 4
	conflict   = 5
	inUse      = 6
)

// class describes a kind of error.
type class struct {
	kind   string
	exit   int    // the exit code of the command
	status int    // the HTTP status
	title  string // a short description
	target error  // errors.Is finds it in the errors of this kind; nil if kindOf finds them otherwise, or not at all
	hint   string // what to do, unless a problem has a better hint
}

// classes returns all kinds, [Unexpected] first. The order matters: an error that matches the
// targets of several classes is of the kind of the first one.
func classes() []class {
	all := []class{
		{Unexpected, unexpected, 500, "unexpected", nil, again},
		{Interrupted, unexpected, 503, "interrupted", context.Canceled, again},
		{Late, unexpected, 503, "it took too long", context.DeadlineExceeded, again + ": parts that are done are kept"},
		{Journal, integrity, 500, "file and journal do not belong together", api.ErrJournal, ""},
		{Behind, unexpected, 503, "this host does not have the event yet", journal.ErrTrimmed,
			"wait as Retry-After says, or send the request to the host that has the ledger; " +
				"if that does not help, this host needs a new copy of the ledger"},
		{Corrupt, integrity, 500, "damaged", api.ErrCorrupt, ""},
		{Version, integrity, 500, "another version", api.ErrVersion, ""},
		{Replaced, integrity, 500, "the file was replaced", api.ErrReplaced, ""},
		{Checkpoint, integrity, 400, "not a checkpoint signed by a known key", api.ErrCheckpoint,
			"it may be damaged, or signed by another key than the log key"},
		{InUse, inUse, 503, "in use", api.ErrInUse, ""},
		{KeyConflict, conflict, 422, "the idempotency key was used for another request", &api.KeyConflictError{},
			"use another key, or the request that it was first used for"},
		{Refused, refusal, 409, "refused", nil, "\"partial\": true leaves the refused objects out"},
		{Price, refusal, 409, "the price is above the limit", nil, "raise max_price, or lower epsilon"},
		{QuoteChanged, refusal, 409, "not what was quoted", nil, "request a new quote, and ask the buyer"},
		{Displaced, refusal, 409, "levels on offer would be lost", nil,
			`"accept_loss": true accepts the loss, which displaced lists`},
		{NotReserved, refusal, 409, "the reservation is not open", &api.ReservationError{}, "do not charge the buyer"},
		{ManyGone, refusal, 409, "too many objects have no row", nil,
			"check that the table is complete; if it is, set gone to the number of objects without a row"},
		{Held, unexpected, 503, "bytes to be destroyed are still in the journal", &journal.HeldError{},
			"provide what is missing; then " + again},
		{Forgotten, refusal, 410, "forgotten",
			api.ErrForgotten, "the responses of the object were destroyed, and cannot be restored"},
		{WrongClock, misuse, 503, "the server's clock is wrong", api.ErrClock,
			"set the server's clock, or confirm it when the ledger is opened"},
		{TruthKey, misuse, 409, "no truth key", api.ErrTruthKey,
			"the server must open the ledger with its truth key"},
		{NoiseKey, misuse, 409, "no noise key", api.ErrNoiseKey,
			"the server must open the ledger with all its noise keys"},
		{Usage, misuse, 501, "no signing key", api.ErrNoSigner,
			"the server must be started with the signing key"},
		{NoResponses, misuse, 404, "no responses", api.ErrNoResponses, "raise the objects first"},
		{Unknown, misuse, 404, "unknown", api.ErrUnknown, ""},
		{NotNew, misuse, 400, "not new", api.ErrNotNew,
			"omit new to enroll objects that the ledger already knows"},
		{NoCap, misuse, 400, "no cap", api.ErrNoCap, "cap is the largest ε of each person over all questions"},
		{Invalid, misuse, 400, "invalid", api.ErrInvalid, ""},
		{ReadOnly, misuse, 409, "open for reading only", api.ErrReadOnly, ""},
		{Closed, unexpected, 503, "closed", api.ErrClosed, again},
		{Stopped, unexpected, 503, "stopped after a failed commit", api.ErrStopped,
			"the ledger must be opened again; then " + again},
		{TooManyFiles, unexpected, 503, "too many open files", api.ErrTooManyFiles,
			"close files, or raise the server's limit of open files; then " + again},
	}
	return append(all, servedClasses()...)
}

// again is the hint of problems that may pass.
const again = "repeat the request with its key"

// servedClasses returns the kinds of errors of a ledger that is called through a server.
func servedClasses() []class {
	return []class{
		{TruthNeeded, misuse, 409, "true values are needed", api.ErrTruthLater,
			`repeat the request with its key, and with the values of those in needs as "truths"; "" means no value`},
		{TruthFailed, unexpected, 502, "the source of true values failed", api.ErrTruthFailed, again},
		{SignerFailed, unexpected, 502, "the signer failed", api.ErrSigner,
			"nothing was signed or returned; repeat the request when the signer works"},
		{Unauthorized, misuse, 401, "no valid token", nil, "send Authorization: Bearer and a token"},
		{Forbidden, misuse, 403, "not for this role", nil, ""},
		{NoRoute, misuse, 404, "no such path", nil, "/openapi.json lists all paths and methods"},
		{Method, misuse, 405, "no such method on this path", nil, "/openapi.json lists all paths and methods"},
		{TooLarge, misuse, 413, "too large", nil, ""},
		{MediaType, misuse, 415, "not JSON", nil, "send Content-Type: application/json"},
		{TooMany, unexpected, 429, "too many requests", nil, "wait as Retry-After says"},
		{Busy, unexpected, 503, "busy", nil, "wait as Retry-After says"},
		{Changed, refusal, 409, "not what was expected", nil, "repeat the dry run, and confirm its result"},
		{Unreachable, unexpected, 502, "the server cannot be reached", nil, again},
	}
}

// Kinds returns all kinds of this version. Later versions may have others.
func Kinds() []string {
	var all []string
	for _, c := range classes() {
		all = append(all, c.kind)
	}
	return all
}

// classOf returns the class of a kind. For a kind of a later version, it returns that of
// [Unexpected].
func classOf(kind string) class {
	all := classes()
	for _, c := range all {
		if c.kind == kind {
			return c
		}
	}
	return all[0]
}

// kindOf returns the kind of an error from the errors that it wraps. Error types that have a kind
// of their own come before the targets of the classes, which the error may wrap as well. If nothing
// matches, the kind is [Unexpected].
func kindOf(err error) string {
	var p *api.Problem
	var quote *api.QuoteError
	switch {
	case errors.As(err, &p):
		return p.Kind
	case errors.As(err, new(*api.DisplacedError)):
		return Displaced
	case errors.As(err, new(*api.GoneError)):
		return ManyGone
	case errors.Is(err, context.Canceled):
		return Interrupted
	case errors.As(err, new(*api.RefusedError)):
		return Refused
	case errors.As(err, &quote) && quote.Remedy == "paying":
		return Price
	case quote != nil: // set by errors.As in the case above
		return QuoteChanged
	}
	for _, c := range classes() {
		if c.target != nil && errors.Is(err, c.target) {
			return c.kind
		}
	}
	if errors.As(err, new(*privacy.ParseError)) || errors.Is(err, privacy.ErrInvalid) {
		return Invalid
	}
	return Unexpected
}
