package evidence

import (
	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
)

// OpenCheckpoint verifies a checkpoint and returns its head. One of the keys must have signed it
// in the name of its origin. Otherwise the error is api.ErrCheckpoint.
//
// The first signature must be the log's, and no other signature may have its name. Up to 16
// cosignatures may follow, ordered by name and hash of their keys. If the signatures are in
// another order, the error is api.ErrCheckpoint. A cosignature by one of the keys must be valid.
// The others are not verified, so any holder of the checkpoint can add or remove some. Every other
// change of the checkpoint is refused. So its text identifies a checkpoint, and its bytes do not.
func OpenCheckpoint(signed []byte, keys note.Verifiers) (api.Head, error) {
	head, _, err := openCosigned(signed, keys)
	return head, err
}

// openCosigned is [OpenCheckpoint] that also returns the keys of the cosignatures. keys may be nil;
// then no signature is accepted.
func openCosigned(signed []byte, keys note.Verifiers) (api.Head, merkle.Cosigners, error) {
	if keys == nil {
		keys = note.VerifierList()
	}
	c, cosigners, err := merkle.Open(signed, keys)
	return api.Head{Origin: c.Origin, Events: c.Size, Root: c.Root}, cosigners, err
}
