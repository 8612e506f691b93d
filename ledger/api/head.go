package api

import (
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// Head identifies a log at one size, as a checkpoint does.
type Head struct {
	Origin string    `json:"origin"` // the name of the log; see [About]
	Events uint64    `json:"events"` // the number of events, which is the size of the tree
	Root   tlog.Hash `json:"root"`   // the root of the tree (RFC 6962)
}

// RollbackError reports that the ledger does not extend a checkpoint: it is an older copy, it is
// another ledger, or its log was rewritten.
type RollbackError struct {
	Checkpoint Head // the signed head
	// Ledger is the head of the ledger. Its root is the one at the size of the checkpoint, if the
	// ledger has that many events.
	Ledger Head
}

// Error returns which of the three cases it is: another log, a log with fewer events, or other
// events.
func (e *RollbackError) Error() string {
	switch at, has := e.Checkpoint, e.Ledger; {
	case at.Origin != has.Origin:
		return fmt.Sprintf("rolled back: the checkpoint is of the log %q, the ledger's is %q", at.Origin, has.Origin)
	case has.Events < at.Events:
		return fmt.Sprintf("rolled back: the checkpoint is of %d events, the ledger has %d", at.Events, has.Events)
	default:
		return fmt.Sprintf("rolled back: the ledger's first %d events are not those of the checkpoint", at.Events)
	}
}
