package api

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// ErrTruthLater is for a source of true values (ledger.TruthFunc) to return, wrapped, if it must
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
	Refused  []Refusal // in the order of the objects' names, the first [MaxListed] of them
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

// MaxListed is how many refusals the error of a refused request lists, and the quote of an order
// that would be refused. The others are counted: the memory that a refusal takes does not grow with
// the panel.
const MaxListed = 100

// RefusalSums counts refusals by reason, without saying from when time would help. The zero value
// is empty.
type RefusalSums []RefusalSum

// Add counts a refusal.
func (s *RefusalSums) Add(r Refusal) {
	i := slices.IndexFunc(*s, func(sum RefusalSum) bool { return sum.Reason == r.Reason })
	if i < 0 {
		i = len(*s)
		*s = append(*s, RefusalSum{Reason: r.Reason, Largest: r.Largest})
	}
	sum := &(*s)[i]
	sum.Count++
	if r.Largest.Less(sum.Largest) {
		sum.Largest = r.Largest
	}
}

// Sorted returns a copy with the most frequent reason first.
func (s RefusalSums) Sorted() []RefusalSum {
	return slices.SortedFunc(slices.Values(s), RefusalSum.Compare)
}

// SumRefusals counts refusals by reason, the most frequent first, without saying from when time
// would help.
func SumRefusals(refused []Refusal) []RefusalSum {
	var sums RefusalSums
	for _, r := range refused {
		sums.Add(r)
	}
	return sums.Sorted()
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
