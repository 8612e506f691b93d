package api

import (
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// Head is a log at one size, as a checkpoint names it.
type Head struct {
	Origin string    `json:"origin"` // of the log; see About
	Events uint64    `json:"events"` // the size of the tree
	Root   tlog.Hash `json:"root"`   // of the tree (RFC 6962)
}

// RollbackError says that the ledger is not a continuation of what a checkpoint says of it: it is
// an older copy, another ledger, or its log was rewritten.
type RollbackError struct {
	Checkpoint Head // what was signed
	Ledger     Head // with the root at the checkpoint's size, if the ledger has as many events
}

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
