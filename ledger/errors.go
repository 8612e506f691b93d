package ledger

import (
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/api"
)

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
	// ErrVersion says that the file was written by another version of this package, in a format
	// that this one does not read.
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
	// expired. It comes as a [*ReservationError], which says which. [Ledger.Cancel] makes the end
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
	// when it is asked a second time (see [Ledger.Raise]). The same request with the same key goes
	// on once the reason is gone.
	ErrPartlyDone = errs.ErrPartlyDone

	// ErrNoSigner says that a checkpoint, receipt or statement was wanted of a ledger opened
	// without a key to sign by.
	ErrNoSigner = errs.ErrNoSigner
	// ErrSigner says that [Options.Signer] failed, whose error is wrapped, or that what it returned
	// is no signature by its key. Nothing was handed out; the log is as it was.
	ErrSigner = errs.ErrSigner
	// ErrCheckpoint says that a checkpoint cannot be read or is not signed by a known key.
	ErrCheckpoint = merkle.ErrCheckpoint

	// ErrCorrupt says that stored bytes are damaged, or that the file is no ledger.
	ErrCorrupt = errs.ErrCorrupt
	// ErrJournal says that the file and what lies beside it as its journal are not those of one
	// instant of one ledger: one of them is missing, older, or another's. The text says which. It
	// is an ErrCorrupt.
	ErrJournal = errs.ErrJournal
	// ErrInUse says that the file is open already, elsewhere or in this process, or for writing a
	// copy of the ledger ([Open] says how far that is noticed).
	ErrInUse = kv.ErrInUse
	// ErrReplaced says that the path no longer leads to the file as this process left it. Where it
	// was renamed, removed or replaced, nothing is written until it is back. Where somebody has
	// written to the open file, such as by copying a backup over it, the ledger stops for good:
	// close it, and see which file this should be before it is opened again. It also stops when its
	// journal is not what it left: then all that was acknowledged is in the file, which needs that
	// journal no more.
	ErrReplaced = kv.ErrReplaced
)

// QuoteError reports that an order would not be the one that was quoted, or costs more than the
// buyer would pay. Nothing was drawn, charged or recorded.
type QuoteError struct {
	Quote    Quote  // what the order is now
	Expected string // the ID of the quote it was to be, or ""
	// TermsChanged: the quote was made under other terms. Those of somebody in it have changed
	// since ([Ledger.ChangeTerms]), or somebody in it was enrolled.
	TermsChanged bool
	MaxPrice     *int64 // the most the buyer would pay, or nil
	Remedy       Remedy // api.RemedyPaying or api.RemedyQuoting
}

func (e *QuoteError) Error() string {
	since := ""
	if e.TermsChanged {
		since = "; it was quoted under other terms"
	}
	q := &e.Quote
	if e.Remedy == api.RemedyPaying && e.MaxPrice != nil {
		return fmt.Sprintf("question %q: %q would have to pay %d %s (minor units), above its limit of %d%s",
			q.Question, q.Buyer, q.Price, q.Currency, *e.MaxPrice, since)
	}
	const text = "question %q: the order of %q is not what was quoted as %q: " +
		"it is %d object(s) for %d %s (minor units), %d refused%s"
	refused := len(q.Refused) + q.Unlisted
	return fmt.Sprintf(text, q.Question, q.Buyer, e.Expected, q.Objects, q.Price, q.Currency, refused, since)
}

// Progress is called now and then during a long request, with the number of objects done and the
// number in all (or of what else the request says), on the goroutine of the caller. Nothing is held
// then: it may use the ledger, and delays no other caller. If it panics, the panic continues when
// the transaction under way has ended.
type Progress = func(done, total int)
