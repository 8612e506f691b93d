package ledger

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluicedp/sluice/ledger/store"
	"github.com/sluicedp/sluice/privacy"
)

// Errors a caller may branch on, by [errors.Is]. A missing or existing file is reported as
// [io/fs.ErrNotExist] or [io/fs.ErrExist]. No error says anything about a true value.
var (
	// ErrInvalid says that a request cannot be right, whatever the state of the ledger. The text says
	// what is wrong with it.
	ErrInvalid = errors.New("invalid request")
	// ErrUnknown says that there is no such question or object.
	ErrUnknown = errors.New("unknown")
	// ErrKeyConflict says that the idempotency key was used before, for another request.
	ErrKeyConflict = errors.New("idempotency key was used for another request")
	// ErrTruthChanged says that a chain began with another true value than the one now given, so it
	// cannot go on. A value that changes over time is a new question each time.
	ErrTruthChanged = errors.New("the true value is not the one the chain began with")
	// ErrTruthKey says that the truth key is missing or is not the ledger's.
	ErrTruthKey = errors.New("wrong truth key")
	// ErrVersion says that the file was written by a newer version of this package.
	ErrVersion = errors.New("file format is newer than this program")
	// ErrStopped says that the ledger refuses further work because a commit failed. Close it, open it
	// again, and repeat the request with its key: the answer is then certain.
	ErrStopped = errors.New("ledger stopped after a failed commit; open it again")
	// ErrClosed says that the ledger was closed.
	ErrClosed = errors.New("ledger is closed")
	// ErrReadOnly says that the ledger was opened for reading only.
	ErrReadOnly = errors.New("ledger is open for reading only")

	// ErrPartlyDone comes with a [RefusedError] about the rest of a request over many objects: its first
	// parts were carried out and stay. It happens only if the request was interrupted, or had no hold on
	// what it needed (an enrolment), and another one came between. The same request with the same key goes
	// on once the reason is gone.
	ErrPartlyDone = errors.New("carried out in part")

	// ErrCorrupt says that stored bytes are damaged, or that the file is no ledger.
	ErrCorrupt = store.ErrCorrupt
	// ErrInUse says that another process has the file open.
	ErrInUse = store.ErrInUse
	// ErrReplaced says that the path no longer leads to the open file; nothing more is written.
	ErrReplaced = store.ErrReplaced
)

// Reason says why an object was refused.
type Reason string

// The reasons for refusing an object.
const (
	// ChainCeiling: the chain's policy does not allow the ε asked for.
	ChainCeiling Reason = "chain-ceiling"
	// ObjectCap: over all its chains the object would spend more than its cap.
	ObjectCap Reason = "object-cap"
	// NotEnrolled: the object is not enrolled in the question.
	NotEnrolled Reason = "not-enrolled"
	// NoTruth: a draw is needed, and the host has no true value for the object.
	NoTruth Reason = "no-truth"
	// CapDiffers: the object is known with another cap, and enrolling does not change it.
	CapDiffers Reason = "cap-differs"
	// PolicyDiffers: the object is enrolled in the question with another policy.
	PolicyDiffers Reason = "policy-differs"
)

// Help says what would make a refused request possible.
type Help string

// What helps against a refusal.
const (
	HelpsNothing   Help = "nothing"
	HelpsWaiting   Help = "waiting"
	HelpsEnrolling Help = "enrolling"
	HelpsTruth     Help = "truth"
)

// Refusal explains why one object was refused. For the two budget reasons, the request would have
// cost Cost where only Remaining = Ceiling − Spent (less what running orders hold) was left.
type Refusal struct {
	Object    string          `json:"object"`
	Reason    Reason          `json:"reason"`
	Ceiling   privacy.Epsilon `json:"ceiling"`   // the ceiling that binds: the chain's or the object's
	Spent     privacy.Epsilon `json:"spent"`     // used up under that ceiling
	Asked     privacy.Epsilon `json:"asked"`     // the ε of the request
	Cost      privacy.Epsilon `json:"cost"`      // what it would have added to Spent
	Remaining privacy.Epsilon `json:"remaining"` // what could have been added
	Helps     Help            `json:"helps"`
}

func (r Refusal) String() string {
	switch r.Reason {
	case ChainCeiling, ObjectCap:
		return fmt.Sprintf("object %q: %s: ε=%s asked, which costs %s; the ceiling is %s, %s is spent, %s remains (%s helps)",
			r.Object, r.Reason, r.Asked, r.Cost, r.Ceiling, r.Spent, r.Remaining, r.Helps)
	case CapDiffers:
		return fmt.Sprintf("object %q: %s: its cap is %s, not %s", r.Object, r.Reason, r.Ceiling, r.Asked)
	default:
		return fmt.Sprintf("object %q: %s (%s helps)", r.Object, r.Reason, r.Helps)
	}
}

// RefusedError reports that a request was refused as a whole because of some of its objects.
// Nothing was drawn, charged or recorded, and the idempotency key is still free, unless the error is
// [ErrPartlyDone] as well.
type RefusedError struct {
	Question string
	Refused  []Refusal // in the order of the objects' names
}

func (e *RefusedError) Error() string {
	const shown = 3
	var text strings.Builder
	fmt.Fprintf(&text, "question %q: refused for %d object(s): ", e.Question, len(e.Refused))
	for i, refusal := range e.Refused {
		if i == shown {
			fmt.Fprintf(&text, "; and %d more", len(e.Refused)-shown)
			break
		}
		if i > 0 {
			text.WriteString("; ")
		}
		text.WriteString(refusal.String())
	}
	return text.String()
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}
