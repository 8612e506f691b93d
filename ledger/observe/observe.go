// Package observe defines what a ledger reports about its work, in numbers and without the name of
// any person.
//
// A host sets ledger.Options.Observer, whose methods are called when something has happened, and
// calls ledger.Ledger.Health for the state of the ledger. Package metrics, below ledger/ledgerhttp,
// makes metrics for Prometheus of both.
package observe

import (
	"time"

	"github.com/sluicedp/sluice/ledger/api"
)

// Observer has methods that a ledger calls when something has happened. They are called by the
// goroutines that do it, several at a time, also before Open returns. They are called outside of
// commits, and may use the ledger. A delay holds up the request that it is called for, and no other.
// A panic is logged.
type Observer interface {
	// Committed is called for each commit once it is durable. It is not called for what a standby
	// folds: the host that has committed it calls its own.
	Committed(Commit)
	// Refused is called for each request that is refused because of the people in it, or because it
	// would take levels on offer off the market. Other errors, such as those of invalid or late
	// requests, are no refusals. It is also called if the commit in which it was decided fails.
	Refused(Refusal)
	// Audited is called for each audit when it ends.
	Audited(Audit)
}

// Commit is what became durable together.
type Commit struct {
	Requests int           // whose events these are; of a large request a commit may have only some
	Events   uint64        // recorded, those of refusals among them
	Bytes    int64         // of these events in the journal; 0 for a ledger in memory
	Duration time.Duration // from the decision until it was durable
	// Draws counts the responses and answers that were drawn, by how: "raise" and "fresh" take true
	// values, "degrade" and "insert" none.
	Draws  map[string]uint64
	Resold uint64 // responses that were sold again
	// Charged is the sum over all people of the ε in nats that these events cost them.
	Charged float64
	// LeftOut counts the people that the requests have left out, by reason.
	LeftOut map[api.Reason]uint64
}

// Refusal is a request that was refused as a whole.
type Refusal struct {
	Question string // by name
	// People counts those who cause the refusal, by reason. It is empty if levels on offer are the
	// cause.
	People map[api.Reason]uint64
}

// Audit is the result of an audit: the log was folded again, and compared with what is stored.
type Audit struct {
	Duration time.Duration // of all of it
	Events   uint64        // that were folded
	Problems uint64        // that were found
	// people who have spent their whole cap, also if they have withdrawn since; 0 after an error
	Exhausted uint64
	Err       error // why it was not completed; nil if it was
}

// Health is the state of a ledger, at about one instant.
type Health struct {
	Host    Host   `json:"host"`    // the role of this host
	Events  uint64 `json:"events"`  // in the log, all of them durable
	Waiting int    `json:"waiting"` // requests that wait for a commit
	Pending uint64 `json:"pending"` // events that only the journal has, and the file not yet
	// bytes in memory, about, of what was committed or folded and is not in the file yet
	Memory int64 `json:"memory"`
	// capacity in bytes of the memory for that: commits may wait for the file from 60 % on
	Room  int64 `json:"room"`
	Bytes int64 `json:"bytes"` // of the file
	Free  int64 `json:"free"`  // bytes among these that hold nothing, and will be used again
	// Reservations counts those that hold now, by the clock of the host.
	Reservations int `json:"reservations"`
	// Checkpoint is the newest checkpoint that has left this process, by ledger.Publishing or on
	// request.
	Checkpoint Checkpoint `json:"checkpoint,omitzero"`
}

// Checkpoint is a signed checkpoint. The zero value says that there is none.
type Checkpoint struct {
	Events uint64    `json:"events"` // that it covers
	Signed time.Time `json:"signed"` // by the clock of the machine
}

// Host describes the part of this host. Several hosts share a ledger if its journal is a
// journal.Follower, such as that in PostgreSQL.
type Host struct {
	// Role is what the host does with the ledger:
	//   - "leader": it commits, unless it is fenced;
	//   - "standby": it follows the leader (ledger.Options.Standby);
	//   - "reader": it reads a file, and follows nothing (ledger.Options.ReadOnly).
	Role string `json:"role" enum:"leader,standby,reader"`
	// Fenced is true if the ledger has stopped because another host has taken over.
	Fenced bool `json:"fenced"`
	// Answered is true if the journal answered in time, or if only this host has it. Otherwise
	// Leader, Term and Lag are unknown.
	Answered bool `json:"answered"`
	// the name of the host that has the ledger; "" if only this one has the journal
	Leader string `json:"leader,omitempty"`
	// of the newest claim of the journal, by Leader; 0 if only this host has the journal
	Term uint64 `json:"term"`
	// events that the journal has and this standby has not folded yet; 0 of a leader
	Lag uint64 `json:"lag"`
}
