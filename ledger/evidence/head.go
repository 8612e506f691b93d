package evidence

import (
	"fmt"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/internal/merkle"
)

// Head is a log at one size, as a checkpoint names it.
type Head struct {
	Origin string    `json:"origin"` // of the log; see ledger.About
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

// OpenCheckpoint returns what a checkpoint says, if one of the keys signed it in the name of its
// origin. Otherwise it returns ledger.ErrCheckpoint; also if the checkpoint has signatures out of
// place. The first is the log's, and no other has its name. Up to 16 cosignatures may stand behind
// it, by rising name and hash of their keys. One by a key that is among keys must fit; others are
// not looked at, and whoever passes the checkpoint on can leave out any, or add some. Nothing else
// of a checkpoint can be changed without that it is refused, so its text identifies it, not its
// bytes.
func OpenCheckpoint(signed []byte, keys note.Verifiers) (Head, error) {
	head, _, err := openCosigned(signed, keys)
	return head, err
}

func openCosigned(signed []byte, keys note.Verifiers) (Head, merkle.Cosigners, error) {
	if keys == nil {
		keys = note.VerifierList()
	}
	c, beside, err := merkle.Open(signed, keys)
	return Head{c.Origin, c.Size, c.Root}, beside, err
}
