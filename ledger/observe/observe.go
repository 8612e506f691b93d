// Package observe defines the numbers that a ledger reports about its work, without the name of any
// person.
//
// A host sets ledger.Options.Observer, whose methods are called after something has happened. It
// calls ledger.Ledger.Health for the state of the ledger. Package metrics, below ledger/ledgerhttp,
// turns both into metrics for Prometheus.
package observe

import (
	"time"

	"github.com/sluicedp/sluice/ledger/api"
)

// Observer has methods that a ledger calls after a commit, a refusal or an audit. They are called
// on the goroutines that do this work, several at a time, and also before Open returns. They are
// called outside of commits, and may use the ledger. A slow method delays only the request that it
// is called for. A panic is logged.
type Observer interface {
	// Committed is called for each commit once it is durable. It is not called for events that a
	// standby folds: the host that has committed them calls its own observer.
	Committed(Commit)
	// Refused is called for each request that is refused because of its objects, or because it
	// would take levels on offer off the market. Other errors, such as those of invalid or late
	// requests, are not refusals. It is also called if the commit in which the refusal was decided
	// fails.
	Refused(Refusal)
	// Audited is called for each audit when it ends.
	Audited(Audit)
}

// Commit describes one commit.
type Commit struct {
	Requests int           // number of requests with events in the commit; a large request may be in several commits
	Events   uint64        // number of recorded events, including those of refusals
	Bytes    int64         // of these events in the journal; 0 for a ledger in memory
	Duration time.Duration // from the decision until the commit is durable
	// Draws counts the responses and answers that were drawn, by method. "raise" and "fresh" use
	// true values; "degrade" and "insert" use none.
	Draws  map[string]uint64
	Resold uint64 // responses that were sold again
	// Charged is the sum over all objects of the ε in nats that these events cost them.
	Charged float64
	// LeftOut counts the objects that the requests have left out, by reason.
	LeftOut map[api.Reason]uint64
}

// Refusal is a request that was refused as a whole.
type Refusal struct {
	Question string // by name
	// People counts the objects that cause the refusal, by reason. It is empty if levels on offer
	// are the cause.
	People map[api.Reason]uint64
}

// Audit is the result of an audit, which folds the log again and compares it with what is stored.
type Audit struct {
	Duration time.Duration // of the whole audit
	Events   uint64        // how many were folded
	Problems uint64        // how many were found
	// Exhausted counts the objects that have spent their whole cap, including objects that have
	// withdrawn since. It is 0 after an error.
	Exhausted uint64
	Err       error // why the audit was not completed, or nil
}

// Health is the state of a ledger, at about one instant.
type Health struct {
	Host    Host   `json:"host"`    // the role of this host
	Events  uint64 `json:"events"`  // in the log, all of them durable
	Waiting int    `json:"waiting"` // requests that wait for a commit
	Pending uint64 `json:"pending"` // events that are only in the journal, and not in the file yet
	// Memory is the approximate number of bytes in memory that were committed or folded, and are
	// not in the file yet.
	Memory int64 `json:"memory"`
	// Room is the capacity in bytes for Memory. Commits may be throttled from 60 % of it.
	Room  int64 `json:"room"`
	Bytes int64 `json:"bytes"` // of the file
	Free  int64 `json:"free"`  // bytes of the file that are unused, and will be reused
	// Reservations counts the reservations that hold budget now, by the clock of the host.
	Reservations int `json:"reservations"`
	// Checkpoint is the newest checkpoint that this process has published (ledger.Publishing) or
	// returned.
	Checkpoint Checkpoint `json:"checkpoint,omitzero"`
}

// Checkpoint describes a signed checkpoint. The zero value means that there is none.
type Checkpoint struct {
	Events uint64    `json:"events"` // how many it covers
	Signed time.Time `json:"signed"` // by the clock of the machine
}

// Host describes the role of this host. Several hosts share a ledger if its journal is a
// journal.Follower, such as the one in PostgreSQL.
type Host struct {
	// Role is what the host does with the ledger:
	//   - "leader": it commits, unless it is fenced;
	//   - "standby": it follows the leader (ledger.Options.Standby);
	//   - "reader": it reads a file, and follows nothing (ledger.Options.ReadOnly).
	Role string `json:"role" enum:"leader,standby,reader"`
	// Fenced is true if the ledger has stopped because another host has taken over.
	Fenced bool `json:"fenced"`
	// Answered is true if the journal answered in time, or if only this host has the journal.
	// Otherwise Leader, Term and Lag are unknown.
	Answered bool `json:"answered"`
	// Leader is the name of the host that has the ledger. It is "" if only this host has the
	// journal.
	Leader string `json:"leader,omitempty"`
	// Term is the term of the newest claim of the journal, by Leader. It is 0 if only this host has
	// the journal.
	Term uint64 `json:"term"`
	// Lag is the number of events in the journal that this standby has not folded yet. It is 0 for
	// a leader.
	Lag uint64 `json:"lag"`
}
