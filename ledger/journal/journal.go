// Package journal defines the log that makes the commits of a ledger durable. A ledger appends the
// events of each commit to a journal and waits until they are durable. It brings its own file up to
// date from time to time, and then trims the journal.
//
// A ledger keeps its journal beside its file, unless its options name another. Package journaltest
// has the tests that every journal must pass. A journal neither reads events nor computes roots:
// the ledger does. It keeps bytes in order, and each group whole or not at all.
package journal

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// The errors of journals, for [errors.Is]. Three more are in package api: ErrCorrupt if stored
// bytes are damaged, ErrVersion if their format is of another version, and ErrReplaced if the
// journal is not what the handle left. ErrReplaced says that the journal, or a part of it, was
// replaced, removed, cut off or overwritten. It stops the handle, even where the error is also an
// ErrRejected.
var (
	// ErrRejected is returned by [Journal.Append] if the group is not in the journal, and never
	// will be. ErrFenced, ErrOrder and ErrStopped wrap it. So does the error of a context that ends
	// before anything is sent.
	ErrRejected = errors.New("not appended")
	// ErrFenced is returned if the journal has been claimed again since, or if this handle has not
	// claimed it.
	ErrFenced = fmt.Errorf("%w: the journal is claimed under another term", ErrRejected)
	// ErrOrder is returned if a group does not begin where the journal ends, or does not fit
	// ([Group.Fits]).
	ErrOrder = fmt.Errorf("%w: the group does not continue the journal", ErrRejected)
	// ErrRestored is an ErrOrder: the journal lacks what was acknowledged under this claim, because
	// an earlier state was restored, or another journal is in its place. What it lacks is lost
	// unless a person brings it back. Nothing may be repeated elsewhere before that.
	ErrRestored = fmt.Errorf("%w: the journal has lost acknowledged events, or was replaced", ErrOrder)
	// ErrStopped is returned if the handle does nothing any more: it was closed, or a call before
	// this one failed. Open the journal again.
	ErrStopped = fmt.Errorf("%w: the journal was closed, or has stopped after a failure", ErrRejected)

	// ErrInUse is returned if another handle has the journal open.
	ErrInUse = errors.New("journal in use")

	// ErrLost is an ErrCorrupt of package api: the journal ends before a position, or begins
	// after it, or a part of it is missing.
	ErrLost = fmt.Errorf("%w: a part of the journal is missing", errs.ErrCorrupt)
	// ErrTrimmed is an ErrLost: the journal begins after a position, and what was between was
	// trimmed.
	ErrTrimmed = fmt.Errorf("%w: it was trimmed", ErrLost)
	// ErrForked is an ErrCorrupt of package api: the journal, or a part of it, belongs to
	// another history. No group ends at a position, or it ends with another root, or the journal is
	// of another ledger.
	ErrForked = fmt.Errorf("%w: the journal has another history", errs.ErrCorrupt)
)

// Position is a place in the log of a ledger: a number of events, and the root of the tree over
// them (RFC 6962). Two logs that share a position are equal up to it.
type Position struct {
	Events uint64    // how many; their numbers begin with 1
	Root   tlog.Hash // of the tree over them; all zero without events
}

// String returns the number of events and the first four bytes of the root, for people.
func (p Position) String() string { return fmt.Sprintf("%d events (root %x…)", p.Events, p.Root[:4]) }

// HeldError is returned by [Journal.Trim] if not everything is destroyed yet. The journal is sound
// and the handle can be used: call Trim again later. A client of a served ledger gets the text of
// the error and an empty HeldError.
type HeldError struct {
	Through Position // everything up to here is destroyed
	Wanted  Position // everything up to here is to be destroyed
	Reason  error    // what prevents it, for people
}

// Is makes [errors.Is] true for every error of this type. The fields of target do not matter:
// errors.Is(err, &HeldError{}).
func (*HeldError) Is(target error) bool {
	_, is := target.(*HeldError)
	return is
}

// Error describes how far the journal is destroyed, and what prevents the rest.
func (e *HeldError) Error() string {
	const text = "the journal cannot destroy everything yet"
	if e.Reason == nil {
		return text
	}
	return fmt.Sprintf(text+": destroyed up to event %d of %d: %v", e.Through.Events, e.Wanted.Events, e.Reason)
}

// Unwrap returns the reason.
func (e *HeldError) Unwrap() error { return e.Reason }

// Wanted describes the journal that a ledger needs when it is opened.
type Wanted struct {
	Ledger [16]byte // the id of the ledger
	// Name is the name of the journal that the file of the ledger names. No other journal may be
	// opened, and none may be made. It is "" while the file names none.
	Name string
	At   Position // where the file ends, and where a new journal begins
	// Standby is true if the ledger only follows the journal. None may be made.
	Standby bool
}

// Group is what one commit adds to a journal.
type Group struct {
	Term    uint64   // of the claim under which it is appended
	Before  Position // where the journal must end
	After   Position // where it ends then: After.Events - Before.Events is len(Records)
	Records [][]byte // the events, in order: at least one, each of any length, also 0
	// Cut announces that a checkpoint of everything up to Before has begun, so that Trim(Before)
	// will follow. A journal that consists of segments begins a new one. Cut is a hint that is not
	// stored: Read returns false.
	Cut bool
}

// Fits reports whether the number of records of a group is positive, and is the difference of its
// positions. It does not check the roots.
func (g Group) Fits() bool {
	return len(g.Records) > 0 && g.After.Events > g.Before.Events &&
		g.After.Events-g.Before.Events == uint64(len(g.Records))
}

// Journal is a handle of a journal. Its methods may be called by several goroutines at once, but a
// second Append waits for the first one, or returns ErrOrder.
//
// Errors are those of this package, or of what the journal is stored in. After an error of Append
// that is no ErrRejected, it is uncertain whether the group is in the journal, and the handle is
// stopped: every call but Close returns ErrStopped. A handle that is opened afterwards finds the
// group whole or not at all. Claim, Trim and Read may stop the handle, too.
type Journal interface {
	// Name distinguishes the journal from every other one: a kind and a random number, such as
	// "file:0b4ef2c60d7f6c6aa2f1c1d2b8f1b0a5". It is the same for all handles, and never changes.
	// It has 1 to 256 bytes of UTF-8 without control characters. The file of the ledger stores it,
	// and is opened with no other journal.
	Name() string
	// Claim makes this handle the only one that appends and trims. It fences all other handles, and
	// this one under earlier terms. The term is higher than any before. end is where the journal
	// ends; everything up to it is durable when Claim returns. ErrInUse: the journal cannot be
	// taken from the handle that has claimed it.
	Claim(ctx context.Context) (term uint64, end Position, err error)
	// Append adds a group. After nil the group is durable. After ErrRejected it is not in the
	// journal, and never will be. After any other error it is unknown which of the two is true. An
	// example is the error of a context that ends while Append waits.
	//
	// Append returns nil only if a handle that is opened now would find the group. A journal that
	// other programs can replace, cut off or overwrite therefore compares itself with what it left.
	// It does so before it writes, and again when the group is durable (ErrReplaced). The records
	// belong to the caller: Append does not change them, and does not keep them after it returns.
	Append(ctx context.Context, g Group) error
	// Read returns the groups after a position, in order. Before of the first group is that
	// position. Before of every later group is After of the previous group. The caller may keep the
	// records. An error ends the sequence: ErrLost, ErrForked, ErrCorrupt, or one of the store.
	//
	// Groups that are appended concurrently may be included. If the next groups are trimmed
	// concurrently, the sequence ends with ErrLost, after those that were read ahead. Before Claim
	// or Settle has returned, the last group may be one that was never acknowledged, and that a
	// power cut undoes.
	Read(ctx context.Context, after Position) iter.Seq2[Group, error]
	// Settle makes everything durable that Read returns. It is for a caller that shows the events
	// to others without claiming the journal. It does nothing if Read returns only what is durable.
	Settle(ctx context.Context) error
	// Trim permanently destroys the bytes of all groups up to a position, at which a group must
	// end. It changes nothing after the position. It may be called again for what was trimmed
	// before. ErrFenced, ErrLost and ErrForked change nothing. HeldError: some groups must stay for
	// now; the rest is destroyed.
	Trim(ctx context.Context, through Position) error
	// Close closes the handle. The journal stays as it is. Reads in progress end with ErrStopped. A
	// second Close does nothing. ErrReplaced: the journal is not what this handle left; the handle
	// is closed all the same.
	Close() error
}

// Follower is a handle of a [Journal] that several hosts can have open at the same time. One host
// has claimed it. The other hosts read its groups into ledger files of their own, so that each can
// take over. Trim destroys only groups that all of these hosts have.
type Follower interface {
	Journal
	// Await returns nil when the journal has groups after a position. ErrLost: it ends before the
	// position.
	Await(ctx context.Context, after Position) error
	// Folded records that this host has everything up to a position, at which a group ends,
	// durably. Trim may then destroy these groups as far as this host is concerned. The last call
	// counts, even if its position is lower. After ErrLost or ErrForked the host counts as a host
	// that has no groups.
	Folded(ctx context.Context, through Position) error
	// Head returns what the journal records about itself. It returns when ctx ends, and neither
	// waits for an Append nor delays one. It returns the head and ErrFenced if this handle has
	// claimed the journal and another one has claimed it since. It need not notice that during an
	// Append, which returns ErrFenced itself.
	Head(ctx context.Context) (Head, error)
}

// Head is what a journal that several hosts have records about itself.
type Head struct {
	Host string   // the name of the host that has claimed it last
	Term uint64   // of that claim, or higher
	End  Position // where the journal ends
}
