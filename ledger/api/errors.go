package api

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// ErrTruthLater is for a source of true values (TruthFunc) to return, wrapped, if it must
// fetch what it is asked for, or hear it from somebody: the ledger goes on to ask of whom else the
// request needs a true value, as far as that does not hang on those not told, and fails with the
// error then. Nothing is carried out; of a sweep, and of what of a raise comes behind its first
// million objects, nothing more than the parts before. So the source knows whom it will be asked
// about when the request is repeated with its key.
var ErrTruthLater = errs.ErrTruthLater

// PanicError reports that a function of the host panicked where no caller's goroutine could go on
// with the panic: a method of its journal in a commit, or the function that gets its checkpoints.
type PanicError struct {
	Function string // such as "Journal.Append"
	Value    any    // what it panicked with
}

// Error names the function and the value.
func (e *PanicError) Error() string { return fmt.Sprintf("%s panicked: %v", e.Function, e.Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// KeyConflictError names the idempotency key that was used before, for another request, and what
// differs. It is an [ErrKeyConflict].
type KeyConflictError struct {
	Key string // as it was given
	// Field is the first field in which the requests differ, by its name in the type of the
	// request, such as "Epsilon"; "Kind" if it was a request of another kind. It is "" where that
	// cannot be told: the log keeps a byte for each field, which one difference in 256 leaves as it
	// is.
	Field string
}

func (e *KeyConflictError) Error() string {
	differs := ""
	switch e.Field {
	case "":
	case "Kind":
		differs = ", of another kind"
	default:
		differs = ", which differs in " + e.Field
	}
	return fmt.Sprintf("key %.256q: %v%s", e.Key, errs.ErrKeyConflict, differs)
}

// Unwrap returns [ErrKeyConflict].
func (e *KeyConflictError) Unwrap() error { return errs.ErrKeyConflict }

// RefusedError reports that a request was refused as a whole because of some of its objects.
// Nothing was drawn, charged or recorded, and the idempotency key is still free, unless the error
// is [ErrPartlyDone] as well.
type RefusedError struct {
	Question string    // by its name
	Refused  []Refusal // in the order of the objects' names, the first 100 of them
	Unlisted int       // how many more were refused
	// Sums counts all refusals, listed or not, by reason.
	Sums []RefusalSum
	// TruthChanged are those of Refused whose true value is another than the one that their chain
	// began with. It is for the host alone, as in [RaiseResult], and not in the text.
	TruthChanged []string `json:"-"`
	// TruthInvalid are those of Refused whose true value is not one of the question's. It is for
	// the host alone, and not in the text: the refusals say the same as of objects without a true
	// value.
	TruthInvalid []string `json:"-"`
	// Instead says what the same objects could answer when the request was refused: at its ε, and
	// at the largest for all of them, now and by time alone, and for how much. It is nil where
	// nobody has looked: for a reservation that is carried out, which cannot be for less, and where
	// looking failed.
	Instead *Budget
}

func (e *RefusedError) Error() string {
	all, what, counts, instead := len(e.Refused)+e.Unlisted, "objects", "", ""
	if all == 1 {
		what = "object"
	}
	if sums := e.sums(); all > shown && len(sums) > 1 { // of a single reason the first refusals say all
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

// shown is how many items of a list an error has in its text.
const shown = 3

// firstOf returns the texts of the first items of a list, and how many more there are of all.
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

// sums returns Sums, or what they are of an error that was made without them.
func (e *RefusedError) sums() []RefusalSum {
	if e.Sums == nil {
		return SumRefusals(e.Refused)
	}
	return e.Sums
}

// SumRefusals counts refusals by reason, the most frequent first, and adds them to the sums that
// are given, which are not changed. It does not compute from when time would help.
func SumRefusals(refused []Refusal, sums ...RefusalSum) []RefusalSum {
	sums = slices.Clone(sums)
	for _, r := range refused {
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

// ErrTruthFailed says that a source of true values returned an error, which is wrapped as well, or
// took longer than ledger.Options.TruthTimeout. Nothing was drawn that needed it. It never wraps an
// error of package context: only where the context of the request itself has ended, the request
// fails with that.
var ErrTruthFailed = errs.ErrTruthFailed

// ErrTooManyFiles says that a file could not be opened because this process, or the system, has too
// many open. The error of the system is wrapped. It is temporary: the ledger goes on, and the same
// call succeeds when files were closed, or the limit was raised.
var ErrTooManyFiles = errs.ErrTooManyFiles

// Errors a caller may branch on, by [errors.Is]. A missing or existing file is reported as
// [io/fs.ErrNotExist] or [io/fs.ErrExist]. No error says anything about a true value.
var (
	// ErrInvalid says that a request cannot be right, whatever the state of the ledger. The text
	// says what is wrong with it.
	ErrInvalid = errs.ErrInvalid
	// ErrTruthSource says that the host's source of true values returned more or fewer values than
	// it was asked for. It is an ErrInvalid that is not the request's fault. What the source itself
	// returns as an error is passed on.
	ErrTruthSource = errs.ErrTruthSource
	// ErrNoCap says that an enrolment gives no cap, and that somebody in it is new to the ledger.
	// It is an ErrInvalid. Whoever means to protect nobody says so, by [privacy.MaxEpsilon].
	ErrNoCap = errs.ErrNoCap
	// ErrNotNew says that an object of an enrolment with [EnrollRequest.New] is in the ledger
	// already. It is an [ErrInvalid]; nothing was done.
	ErrNotNew = errs.ErrNotNew
	// ErrUnknown says that there is no such question, object, sale or reservation.
	ErrUnknown = errs.ErrUnknown
	// ErrKeyConflict says that the idempotency key was used before, for another request. It comes
	// as a [*KeyConflictError].
	ErrKeyConflict = errs.ErrKeyConflict
	// ErrTruthKey says that a truth key is not the ledger's.
	ErrTruthKey = errs.ErrTruthKey
	// ErrNoiseKey says that a key is not the one that the ledger knows by its name, or that a chain
	// would begin without one by mistake.
	ErrNoiseKey = errs.ErrNoiseKey
	// ErrVersion says that the file was written by another version of this module, in a format that
	// this version does not read.
	ErrVersion = errs.ErrVersion
	// ErrStopped says that the ledger refuses further work because a commit failed. Close it, open
	// it again, and repeat the request with its key: the answer is then certain.
	ErrStopped = errs.ErrStopped
	// ErrClosed says that the ledger was closed.
	ErrClosed = errs.ErrClosed
	// ErrReadOnly says that the ledger was opened for reading only, or as a standby.
	ErrReadOnly = errs.ErrReadOnly

	// ErrClock says that the clock cannot be right, because it is beyond the year 2261, or is so
	// far ahead of the log that a person must confirm it (then it comes as a [*ClockError]).
	// Nothing was changed.
	ErrClock = errs.ErrClock
	// ErrNotReserved says that a reservation is not open: it was captured, was cancelled, or has
	// expired. It comes as a [*ReservationError], which says which. ledger.Ledger.Cancel makes the end
	// of an expired one final.
	ErrNotReserved = errs.ErrNotReserved

	// ErrForgotten says that the idempotency key belongs to a request about an object that was
	// forgotten since. The request was carried out; what came of it, and what exactly was asked, is
	// destroyed.
	ErrForgotten = errs.ErrForgotten

	// ErrPartlyDone comes with a [RefusedError] about the rest of a request over many objects: its
	// first parts were carried out and stay. It happens if the request was interrupted, or has no
	// hold on what it needs (an enrolment), and another one came between; if an object withdrew
	// meanwhile; if the clock went back; or if the source of truths has none of an object any more
	// when it is asked a second time (see ledger.Ledger.Raise). The same request with the same key goes
	// on once the reason is gone.
	ErrPartlyDone = errs.ErrPartlyDone

	// ErrNoSigner says that a checkpoint, receipt or statement was wanted of a ledger opened
	// without a key to sign by.
	ErrNoSigner = errs.ErrNoSigner
	// ErrSigner says that ledger.Options.Signer failed, whose error is wrapped, or that what it returned
	// is no signature by its key. Nothing was handed out; the log is as it was.
	ErrSigner = errs.ErrSigner
	// ErrCheckpoint says that a checkpoint cannot be read or is not signed by a known key.
	ErrCheckpoint = errs.ErrCheckpoint

	// ErrCorrupt says that stored bytes are damaged, or that the file is no ledger.
	ErrCorrupt = errs.ErrCorrupt
	// ErrJournal says that the file and what lies beside it as its journal are not those of one
	// instant of one ledger: one of them is missing, older, or another's. The text says which. It
	// is an ErrCorrupt.
	ErrJournal = errs.ErrJournal
	// ErrInUse says that the file is open already, elsewhere or in this process, or for writing a
	// copy of the ledger (ledger.Open says how far that is noticed).
	ErrInUse = errs.ErrInUse
	// ErrReplaced says that the path no longer leads to the file as this process left it. Where it
	// was renamed, removed or replaced, nothing is written until it is back. Where somebody has
	// written to the open file, such as by copying a backup over it, the ledger stops for good:
	// close it, and see which file this should be before it is opened again. It also stops when its
	// journal is not what it left: then all that was acknowledged is in the file, which needs that
	// journal no more.
	ErrReplaced = errs.ErrReplaced
)

// QuoteError reports that an order would not be the one that was quoted, or costs more than the
// buyer would pay. Nothing was drawn, charged or recorded.
type QuoteError struct {
	Quote    Quote  // what the order is now
	Expected string // the ID of the quote it was to be, or ""
	// TermsChanged: the quote was made under other terms. Those of an object in it have changed
	// since (ledger.Ledger.ChangeTerms), or an object in it was enrolled.
	TermsChanged bool
	MaxPrice     *int64 // the most the buyer would pay, or nil
	// Remedy is what would help:
	//   - "paying": more than the limit
	//   - "quoting": again
	Remedy string
}

func (e *QuoteError) Error() string {
	since := ""
	if e.TermsChanged {
		since = "; it was quoted under other terms"
	}
	q := &e.Quote
	if e.Remedy == "paying" && e.MaxPrice != nil {
		return fmt.Sprintf("question %q: %q would have to pay %d %s (minor units), above its limit of %d%s",
			q.Question, q.Buyer, q.Price, q.Currency, *e.MaxPrice, since)
	}
	const text = "question %q: the order of %q is not what was quoted as %q: " +
		"it is %d object(s) for %d %s (minor units), %d refused%s"
	refused := len(q.Refused) + q.Unlisted
	return fmt.Sprintf(text, q.Question, q.Buyer, e.Expected, q.Objects, q.Price, q.Currency, refused, since)
}
