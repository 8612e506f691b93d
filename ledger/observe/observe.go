// Package observe has what a ledger tells of its work to whoever watches it: numbers, and no name
// of a person.
//
// A host sets ledger.Options.Observer, which is told what has happened, and asks
// ledger.Ledger.Health how things stand. Package metrics, below ledger/ledgerhttp, makes metrics
// for Prometheus of both.
package observe

import (
	"time"

	"github.com/sluicedp/sluice/ledger/api"
)

// Observer is told what a ledger does. Its methods are called by the goroutines that do it, several
// at a time, also before Open returns. They are called outside of commits, and may use the ledger.
// A delay holds up one of the requests that it is called for, and no other. A panic is logged.
type Observer interface {
	// Committed is told each commit once it is durable. What a standby folds was committed
	// elsewhere, and is told there.
	Committed(Commit)
	// Refused is told each request that is refused because of the people in it, or because it would
	// take levels on offer off the market. Requests that cannot be right, or come too late, are no
	// refusals: their callers get other errors. One that was decided in a commit that fails is told
	// all the same.
	Refused(Refusal)
	// Audited is told each audit when it ends.
	Audited(Audit)
}

// Commit is what became durable together.
type Commit struct {
	Requests int           // whose events these are; of a large request a commit may have only some
	Events   uint64        // recorded, those of refusals among them
	Bytes    int64         // of these events, as the journal takes them; 0 for a ledger in memory
	Duration time.Duration // from the decision until it was durable
	// Draws counts the responses and answers that were drawn, by how: "raise" and "fresh" take true
	// values, "degrade" and "insert" none.
	Draws  map[string]uint64
	Resold uint64 // responses that were sold again
	// Charged is the sum over all people of the ε in nats that these events cost them.
	Charged float64
	// LeftOut counts those that the requests have left out, by reason.
	LeftOut map[api.Reason]uint64
}

// Refusal is a request that was refused as a whole.
type Refusal struct {
	Question string                // by name
	People   map[api.Reason]uint64 // who stood in its way, by reason; none if levels on offer did
}

// Audit is a log that was folded again, and compared with what is stored.
type Audit struct {
	Duration time.Duration // of all of it
	Events   uint64        // that were folded
	Problems uint64        // that were found
	// people who have spent their whole cap, also if they have withdrawn since; 0 after an error
	Exhausted uint64
	Err       error // why it could not be carried out; nil if it was
}

// Health is how a ledger is doing, at about one instant.
type Health struct {
	Host    Host   `json:"host"`    // the part that this host has in the ledger
	Events  uint64 `json:"events"`  // in the log, all of them durable
	Waiting int    `json:"waiting"` // requests that wait for a commit
	Pending uint64 `json:"pending"` // events that only the journal has, and the file not yet
	// bytes in memory of what was committed, or folded, and is not in the file yet, about
	Memory int64 `json:"memory"`
	// how many bytes there may be in memory: from three fifths on, commits may wait for the file
	Room  int64 `json:"room"`
	Bytes int64 `json:"bytes"` // of the file
	Free  int64 `json:"free"`  // bytes among these that hold nothing, and will be used again
	// Reservations counts those that hold now, by the clock of the host.
	Reservations int `json:"reservations"`
	// Checkpoint is the newest checkpoint that has left this process: handed to the host by
	// ledger.Publishing, or asked for.
	Checkpoint Checkpoint `json:"checkpoint,omitzero"`
}

// Checkpoint is a signed checkpoint. The zero value says that there is none.
type Checkpoint struct {
	Events uint64    `json:"events"` // that it covers
	Signed time.Time `json:"signed"` // by the clock of the machine
}

// Host is the part that a host has in its ledger. Several hosts have one if its journal is a
// journal.Hosted, such as that in PostgreSQL.
type Host struct {
	// Role is what the host does with the ledger.
	Role Role `json:"role" enum:"leader,standby,reader"`
	// Fenced says that the ledger has stopped because another host has taken over.
	Fenced bool `json:"fenced"`
	// Answered says that the journal answered in time. Without it, Leader, Term and Lag are not
	// known. It is true if only this host has the journal.
	Answered bool `json:"answered"`
	// the name of the host that has the ledger; "" if only this one has the journal
	Leader string `json:"leader,omitempty"`
	// of the newest claim of the journal, by Leader; 0 if only this host has the journal
	Term uint64 `json:"term"`
	// events that the journal has and this standby has not folded yet; 0 of a leader
	Lag uint64 `json:"lag"`
}

// Role is what a host does with its ledger.
type Role string

// The roles of hosts.
const (
	Leader  Role = "leader"  // it commits, unless it is fenced
	Standby Role = "standby" // it follows the leader (ledger.Options.Standby)
	Reader  Role = "reader"  // it reads a file, and follows nothing (ledger.Options.ReadOnly)
)
