package api

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// ErrTruthLater is an error for a source of true values ([TruthFunc]) to return, wrapped, if it
// must first fetch the values. The ledger then still calls the source for the other objects whose
// true values the request needs. It cannot do so for objects whose need depends on the missing
// values. Then the request fails with this error, and nothing of it is executed.
//
// Two kinds of requests are executed in part. A sweep keeps its earlier parts. A raise with more
// than a million objects keeps its earlier parts if the source returns the error after the first
// million objects. The source thus knows the objects before the request is repeated with its key.
var ErrTruthLater = errs.ErrTruthLater

// PanicError reports that a function of the host panicked on a goroutine that does not belong to a
// caller, or on behalf of several callers. Such functions are the methods of the host's journal
// during a commit, and the function that receives checkpoints.
type PanicError struct {
	Function string // for example "Journal.Append"
	Value    any    // the value of the panic
}

// Error returns the name of the function and the value.
func (e *PanicError) Error() string { return fmt.Sprintf("%s panicked: %v", e.Function, e.Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// KeyConflictError reports that the idempotency key was used before for another request, and what
// differs.
type KeyConflictError struct {
	Key string // the idempotency key
	// Field is the first field in which the requests differ, by its name in the type of the
	// request, such as "Epsilon". It is "Kind" if the earlier request was of another kind. It is ""
	// if the field is unknown: the log keeps one byte for each field, and one difference in 256
	// does not change that byte.
	Field string
}

// Is makes [errors.Is] true for every error of this type. The fields of target do not matter:
// errors.Is(err, &KeyConflictError{}).
func (*KeyConflictError) Is(target error) bool {
	_, is := target.(*KeyConflictError)
	return is
}

// Error returns the key and, if it is known, what differs.
func (e *KeyConflictError) Error() string {
	differs := ""
	switch e.Field {
	case "":
	case "Kind":
		differs = ", of another kind"
	default:
		differs = ", which differs in " + e.Field
	}
	return fmt.Sprintf("key %.256q: idempotency key was used for another request%s", e.Key, differs)
}

// RefusedError reports that a request was refused as a whole because of some of its objects.
// Nothing was drawn, charged or recorded, and the idempotency key is still unused, unless the error
// is also [ErrPartlyDone].
type RefusedError struct {
	Question string    // by its name
	Refused  []Refusal // the first 100 refusals, in the order of the objects' names
	Unlisted int       // how many more refusals there are
	// Sums counts all refusals by reason, including those that Refused does not list.
	Sums []RefusalSum
	// TruthChanged are the objects of Refused whose true value differs from the one that their
	// chain began with. It is for the host only, as in [RaiseResult], and is not in the error text.
	TruthChanged []string `json:"-"`
	// TruthInvalid are the objects of Refused whose true value is not one of the question's values.
	// It is for the host only, and is not in the error text: the refusals are the same as for
	// objects without a true value.
	TruthInvalid []string `json:"-"`
	// Instead describes what the same objects could answer when the request was refused. It has the
	// ε of the request and the largest ε for all objects, for now and for later times, with prices.
	// It is nil for a capture of a reservation, which cannot be captured at a lower ε. It is also
	// nil if the computation failed.
	Instead *Budget
}

// Error returns the number of refused objects and the first refusals. If there are more refusals,
// with different reasons, it also counts the reasons. At the end it says what the same objects
// could answer instead.
func (e *RefusedError) Error() string {
	all, what, counts, instead := len(e.Refused)+e.Unlisted, "objects", "", ""
	if all == 1 {
		what = "object"
	}
	// With a single reason, the refusals listed below already show it.
	if sums := e.sums(); all > shown && len(sums) > 1 {
		var texts []string
		for _, sum := range sums {
			texts = append(texts, fmt.Sprintf("%d %s", sum.Count, sum.Reason))
		}
		counts = strings.Join(texts, ", ") + ": "
	}
	if e.Instead != nil {
		instead = e.Instead.nearest()
	}
	return fmt.Sprintf("question %q: refused for %d %s: %s%s%s", e.Question, all, what, counts,
		firstOf(e.Refused, all, Refusal.String), instead)
}

// shown is the number of items of a list that an error text contains.
const shown = 3

// firstOf returns the texts of the first items of a list, and how many more items there are. all is
// the number of items, which may be larger than the list.
func firstOf[T any](list []T, all int, text func(T) string) string {
	var texts []string
	for _, one := range list[:min(shown, len(list))] {
		texts = append(texts, text(one))
	}
	if more := all - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

// sums returns e.Sums. If it is nil, sums counts the listed refusals.
func (e *RefusedError) sums() []RefusalSum {
	if e.Sums == nil {
		return e.SumsWith(e.Refused...)
	}
	return e.Sums
}

// SumsWith returns Sums with more refusals counted, the most frequent reason first. Largest becomes
// the smallest of its values for a reason. SumsWith does not change Sums, and does not set From.
func (e *RefusedError) SumsWith(more ...Refusal) []RefusalSum {
	sums := slices.Clone(e.Sums)
	for _, r := range more {
		i := slices.IndexFunc(sums, func(sum RefusalSum) bool { return sum.Reason == r.Reason })
		if i < 0 {
			i = len(sums)
			sums = append(sums, RefusalSum{Reason: r.Reason, Largest: r.Largest})
		}
		sum := &sums[i]
		sum.Count++
		if r.Largest.Less(sum.Largest) {
			sum.Largest = r.Largest
		}
	}
	slices.SortFunc(sums, RefusalSum.Compare)
	return sums
}

// ErrTruthFailed is returned if a source of true values returned an error, which is also wrapped,
// or took longer than ledger.Options.TruthTimeout. Nothing was drawn that needed its values. The
// error never wraps an error of package context: if the request's own context has ended, the
// request returns the error of that context.
var ErrTruthFailed = errs.ErrTruthFailed

// ErrTooManyFiles is returned if a file could not be opened because this process, or the system,
// has too many open files. It wraps the error of the system. It is temporary: the ledger continues,
// and the same call succeeds after files are closed or the limit is raised.
var ErrTooManyFiles = errs.ErrTooManyFiles

// The errors that a caller may branch on, with [errors.Is]. A missing or existing file is reported
// as [io/fs.ErrNotExist] or [io/fs.ErrExist]. No error reveals anything about a true value.
var (
	// ErrInvalid is returned if a request cannot succeed in any state of the ledger. The text
	// describes what is wrong.
	ErrInvalid = errs.ErrInvalid
	// ErrTruthSource is returned if the host's source of true values returned more or fewer values
	// than the number of objects. It is also returned if a source made by [TruthOf] was called for
	// other objects. It is an ErrInvalid that the request did not cause. Other errors of a source
	// are wrapped by [ErrTruthFailed], except [ErrTruthLater].
	ErrTruthSource = errs.ErrTruthSource
	// ErrNoCap is returned if an enrollment gives no cap for an object that is new to the ledger.
	// It is an ErrInvalid. A host that wants no limit must set [privacy.MaxEpsilon].
	ErrNoCap = errs.ErrNoCap
	// ErrNotNew is returned if an enrollment with [EnrollRequest.New] names an object that the
	// ledger already knows. It is an [ErrInvalid]. Nothing was recorded.
	ErrNotNew = errs.ErrNotNew
	// ErrUnknown is returned if the question, object, sale or reservation does not exist.
	ErrUnknown = errs.ErrUnknown
	// ErrTruthKey is returned if a truth key is not the truth key of the ledger.
	ErrTruthKey = errs.ErrTruthKey
	// ErrNoiseKey is returned if a noise key is not the one that the ledger knows under its name.
	// It is also returned if a chain would begin without a noise key by mistake.
	ErrNoiseKey = errs.ErrNoiseKey
	// ErrVersion is returned if another version of this module wrote the file, in a format that
	// this version does not read.
	ErrVersion = errs.ErrVersion
	// ErrStopped is returned if the ledger does nothing more because a commit failed. Close the
	// ledger, open it again, and repeat the request with its key: the result is then certain.
	ErrStopped = errs.ErrStopped
	// ErrClosed is returned if the ledger was closed.
	ErrClosed = errs.ErrClosed
	// ErrReadOnly is returned if the ledger is open for reading only, or as a standby.
	ErrReadOnly = errs.ErrReadOnly

	// ErrClock is returned if the clock cannot be right because it is after the year 2261. It is
	// also returned if the clock is so far ahead of the log that an operator must confirm it. Then
	// the error is a [*ClockError]. Nothing was changed.
	ErrClock = errs.ErrClock

	// ErrForgotten is returned if the idempotency key belongs to a request about an object that was
	// forgotten since. The request was executed. Its result, and its exact contents, are destroyed.
	ErrForgotten = errs.ErrForgotten

	// ErrPartlyDone is returned together with a [RefusedError] about the rest of a request over
	// many objects. The first parts of the request were executed and are kept. The reasons are:
	//   - the request was interrupted, or does not reserve what it needs (an enrollment), and
	//     another request was executed in between;
	//   - an object withdrew concurrently;
	//   - the clock went back;
	//   - the source of true values has no value of an object any more when it is called a second
	//     time (see ledger.Ledger.Raise).
	//
	// The same request with the same key continues after the reason is removed.
	ErrPartlyDone = errs.ErrPartlyDone

	// ErrNoSigner is returned for a checkpoint, receipt or statement if the ledger was opened
	// without a signing key.
	ErrNoSigner = errs.ErrNoSigner
	// ErrSigner is returned if ledger.Options.Signer failed, or if it returned something that is
	// not a signature by its key. An error of the signer is wrapped. No signature was returned to
	// the caller, and the log is unchanged.
	ErrSigner = errs.ErrSigner
	// ErrCheckpoint is returned if a checkpoint cannot be read, or is not signed by a known key.
	ErrCheckpoint = errs.ErrCheckpoint

	// ErrCorrupt is returned if stored bytes are damaged, or if the file is not a ledger.
	ErrCorrupt = errs.ErrCorrupt
	// ErrJournal is returned if the file and the journal beside it are not from one instant of one
	// ledger: one of them is missing, older, or of another ledger. The text describes which. It is
	// an ErrCorrupt.
	ErrJournal = errs.ErrJournal
	// ErrInUse is returned if the file is already open, in this process or in another one. It is
	// also returned if a copy of the ledger is open for writing (ledger.Open documents when that is
	// detected).
	ErrInUse = errs.ErrInUse
	// ErrReplaced is returned if the path no longer refers to the file that this process wrote. If
	// the file was renamed, removed or replaced, the ledger writes nothing until the file is back.
	//
	// If another process has written to the open file, for example by copying a backup over it, the
	// ledger stops for good. Close it, and find out which file this should be before opening it
	// again.
	//
	// The ledger also stops if its journal is not what this process left. Then everything that was
	// acknowledged is in the file, which no longer needs that journal.
	ErrReplaced = errs.ErrReplaced
)

// QuoteError reports that an order differs from the one that was quoted, or costs more than the
// buyer's limit. Nothing was drawn, charged or recorded.
type QuoteError struct {
	Quote    Quote  // the order as it is now
	Expected string // the ID of the quote in the request, or ""
	// TermsChanged is true if the quote was made under other terms. Since then, the terms of an
	// object in it have changed (ledger.Ledger.ChangeTerms), or an object in it was enrolled.
	TermsChanged bool
	MaxPrice     *int64 // the limit of the buyer, or nil
	// Remedy is what would help:
	//   - "paying": a higher limit
	//   - "quoting": a new quote
	Remedy string
}

// Error returns the price and the limit if a higher limit would help. Otherwise it returns what the
// order is now.
func (e *QuoteError) Error() string {
	since := ""
	if e.TermsChanged {
		since = "; it was quoted under other terms"
	}
	q := &e.Quote
	if e.Remedy == "paying" && e.MaxPrice != nil {
		return fmt.Sprintf("question %q: the price for buyer %q is %d %s (minor units), above the limit of %d%s",
			q.Question, q.Buyer, q.Price, q.Currency, *e.MaxPrice, since)
	}
	const text = "question %q: the order of buyer %q differs from quote %q: " +
		"it is %d object(s) for %d %s (minor units), %d refused%s"
	refused := len(q.Refused) + q.Unlisted
	return fmt.Sprintf(text, q.Question, q.Buyer, e.Expected, q.Objects, q.Price, q.Currency, refused, since)
}
