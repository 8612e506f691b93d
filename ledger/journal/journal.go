// Package journal is what a ledger asks of the log that makes its commits durable. A ledger appends
// the events of each commit to a journal, waits until they are durable, and brings its own file up
// to date now and then. Then it trims the journal.
//
// Package file keeps a journal in a directory; package journaltest holds what any journal must
// pass. A journal does not read events, nor compute roots: both are the ledger's. It keeps bytes,
// in order, whole groups or nothing.
package journal

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// The errors of journals, for [errors.Is].
var (
	// ErrRejected says of [Journal.Append] that the group is not in the journal, and never will be.
	// ErrFenced, ErrOrder, ErrStopped and ErrClosed are sorts of it. A context that is done before
	// anything was sent comes with it, too.
	ErrRejected = errors.New("not appended")
	// ErrFenced says that somebody has claimed the journal since, or that nobody has claimed it by
	// this handle.
	ErrFenced = fmt.Errorf("%w: the journal is claimed under another term", ErrRejected)
	// ErrOrder says that a group does not go on from where the journal ends, or cannot be: it must
	// hold at least one record, and After as many events more than Before.
	ErrOrder = fmt.Errorf("%w: the group does not follow on what is there", ErrRejected)
	// ErrRestored says that the journal lacks what was acknowledged under this claim, because it
	// was put back to an earlier state, or another one is in its place. What it lacks is lost
	// unless a person brings it back, so nothing is to be repeated elsewhere before. It is an
	// ErrOrder.
	ErrRestored = fmt.Errorf("%w: the journal is not the one of before", ErrOrder)
	// ErrStopped says that a call before this one failed, so that the handle does nothing any more.
	// Open the journal again.
	ErrStopped = fmt.Errorf("%w: the journal stopped after a failure", ErrRejected)
	// ErrClosed says that the handle was closed.
	ErrClosed = fmt.Errorf("%w: the journal is closed", ErrRejected)

	// ErrUncertain says that a group may or may not be found when the journal is opened again. So
	// does any other error of Append that is no ErrRejected.
	ErrUncertain = errors.New("whether the journal has the group shows only when it is opened again")
	// ErrInUse says that somebody else has the journal open.
	ErrInUse = errors.New("journal in use")
	// ErrHeld says of [Journal.Trim] that not all is destroyed yet. It always comes as a
	// [*HeldError], which says why.
	ErrHeld = errors.New("the journal keeps what is to be destroyed")

	// ErrCorrupt says that stored bytes are damaged. ErrLost, ErrForked and ErrForeign are sorts of
	// it.
	ErrCorrupt = errs.ErrCorrupt
	// ErrLost says that something is missing: the journal ends before a position, or begins behind
	// it, or a part of it is gone.
	ErrLost = fmt.Errorf("%w: a part of the journal is missing", ErrCorrupt)
	// ErrTrimmed says that the journal begins after a position: what came between was trimmed. It
	// is an ErrLost.
	ErrTrimmed = fmt.Errorf("%w: it was trimmed", ErrLost)
	// ErrForked says that no group of the journal ends at a position, or with another root: it
	// belongs to another history.
	ErrForked = fmt.Errorf("%w: the journal has another history", ErrCorrupt)
	// ErrForeign says that what lies there is of another ledger, or another journal.
	ErrForeign = fmt.Errorf("%w: a journal of something else", ErrCorrupt)
	// ErrReplaced says that the journal is not what this handle left: it, or a part of it, was
	// replaced, removed, cut off or overwritten. The handle is stopped then, also where the error
	// is an ErrRejected.
	ErrReplaced = errs.ErrReplaced
	// ErrVersion says that a journal is in a format that this program does not read.
	ErrVersion = errs.ErrVersion
)

// Position is a place in the log of a ledger: so many events, and the root of their tree (RFC
// 6962). Two logs that have a position in common are the same up to there.
type Position struct {
	Events uint64    // how many; their numbers begin with 1
	Root   tlog.Hash // of the tree over them, all zero without any
}

// String returns the number of events and the beginning of the root, for people.
func (p Position) String() string { return fmt.Sprintf("%d events (root %x…)", p.Events, p.Root[:4]) }

// HeldError is an [ErrHeld]. Nothing is wrong with the journal, and the handle goes on: ask again
// later.
type HeldError struct {
	Through Position // up to here all is destroyed
	Wanted  Position // up to here it shall be
	Reason  error    // what stands in the way, for people
}

// Error says how far all is destroyed, and what stands in the way.
func (e *HeldError) Error() string {
	return fmt.Sprintf("%v: up to event %d of %d it is destroyed: %v", ErrHeld, e.Through.Events, e.Wanted.Events,
		e.Reason)
}

// Unwrap returns ErrHeld and the reason.
func (e *HeldError) Unwrap() []error { return []error{ErrHeld, e.Reason} }

// Wanted says which journal a ledger asks for when it is opened.
type Wanted struct {
	Ledger [16]byte // whose journal it is
	// Name is that of the journal which the file of the ledger names: no other will do, and none is
	// to be made. It is "" as long as the file names none.
	Name string
	At   Position // where the file ends, and where a journal begins that is made now
	// Standby: who asks only follows. None is to be made.
	Standby bool
}

// Group is what one commit adds to a journal.
type Group struct {
	Term    uint64   // of the claim under which it is appended
	Before  Position // where the journal must end
	After   Position // where it ends then: After.Events - Before.Events is len(Records)
	Records [][]byte // the events, in order; at least one, of any length, none included
	// Cut says that a checkpoint of everything up to Before has begun, so that Trim(Before) will
	// follow. A journal that consists of segments begins a new one. It is a hint, which is not
	// stored: Read returns false.
	Cut bool
}

// Fits tells whether a group can be: it has records, and as many events lie between its positions.
func (g Group) Fits() bool {
	return len(g.Records) > 0 && g.After.Events > g.Before.Events &&
		g.After.Events-g.Before.Events == uint64(len(g.Records))
}

// Journal is a handle of a journal. Its methods may be called by several goroutines at once, but a
// second Append waits for the first one, or is ErrOrder.
//
// Errors are those of this package, or what the journal stands on returns. After an error of Append
// that is no ErrRejected, the handle is stopped: it neither writes nor reads any more, and every
// call but Close returns ErrStopped. Whoever opens the journal again finds the group whole or not
// at all. It may happen that Claim, Trim and Read stop the handle, too.
type Journal interface {
	// Name tells the journal from any other that was ever made: a kind and a random number, such as
	// "file:0b4ef2c60d7f6c6aa2f1c1d2b8f1b0a5". It is the same for all handles, and never changes.
	// It has 1 to 256 bytes of UTF-8 without control characters: the file of the ledger names the
	// journal by it, and is opened with no other.
	Name() string
	// Claim makes this handle the only one that appends and trims: it fences all others, and itself
	// under earlier terms. The term is higher than any before. end is where the journal ends;
	// everything up to there is durable when Claim returns. ErrInUse: the journal cannot be taken
	// from whoever holds it.
	Claim(ctx context.Context) (term uint64, end Position, err error)
	// Append adds a group. nil says that it is durable, ErrRejected that it is not there and never
	// will be; any other error leaves open which. So does a context that ends while Append waits.
	//
	// Append returns nil only if the group would be found by opening the journal again: a journal
	// that can be replaced, cut off or overwritten by others compares it with what it left, before
	// it writes and again when the group is durable ([ErrReplaced]). The records belong to the
	// caller: Append does not change them, and does not keep them after it returns.
	Append(ctx context.Context, g Group) error
	// Read returns the groups behind a position, in order. The first one's Before is that position,
	// and that of each other the After of the one before it. Records may be kept. An error ends the
	// sequence: ErrLost, ErrForked, ErrCorrupt, or what the journal stands on returned. Groups that
	// are appended meanwhile may be among them; if those that come next are trimmed meanwhile, it
	// ends with ErrLost, behind those that were read ahead. Before Claim has returned, the last
	// group may be one that nobody was told of, and that is gone after a power cut, unless the
	// journal is a [Settler] and was settled.
	Read(ctx context.Context, after Position) iter.Seq2[Group, error]
	// Trim destroys the bytes of all groups up to a position, at which a group ends, for good. It
	// changes nothing about what lies behind it. What was trimmed before does no harm. ErrFenced,
	// ErrLost and ErrForked change nothing. ErrHeld says that some of it must stay for now; the
	// rest is destroyed.
	Trim(ctx context.Context, through Position) error
	// Close lets go of the journal, which stays as it is. Reads that are under way end with
	// ErrClosed. A second Close does nothing. ErrReplaced says that the journal is not what this
	// handle left; the handle is closed all the same.
	Close() error
}

// Settler is a [Journal] whose process may die with a group that can be read, and that a power cut
// takes back.
type Settler interface {
	Journal
	// Settle makes all durable that Read returns, for who shows it to others without claiming the
	// journal. Nobody may append meanwhile.
	Settle(ctx context.Context) error
}

// Follower is a handle of a [Journal] that several hosts have open at a time. One has claimed it;
// the others read what that one appends, and keep it in bases of their own, so that each can go on
// where it ends. Trim destroys only what they have.
type Follower interface {
	Journal
	// Await returns nil when the journal goes on behind a position. ErrLost says that it ends
	// before it.
	Await(ctx context.Context, after Position) error
	// Folded says that this host has all up to a position, at which a group ends, where a power cut
	// does not take it away: Trim may destroy it then, as far as this host is concerned. The last
	// call counts, also one that goes back. Errors: ErrLost, ErrForked; then it counts as a host
	// that has nothing.
	Folded(ctx context.Context, through Position) error
}

// Head is what a journal that several hosts have says of itself.
type Head struct {
	Host string   // the name of the host that has claimed it last
	Term uint64   // of that claim, or higher
	End  Position // where the journal ends
}

// Hosted is a handle of a [Journal] that several hosts have open at a time, and that says which of
// them has claimed it.
type Hosted interface {
	Journal
	// Head returns what the journal says of itself now. It returns when ctx ends, and it neither
	// waits for an Append nor delays one. With the head it returns ErrFenced if this handle has
	// claimed the journal, and another one has since. It need not see that while an Append runs,
	// which returns ErrFenced itself.
	Head(ctx context.Context) (Head, error)
}
