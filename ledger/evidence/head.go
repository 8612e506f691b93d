package evidence

import (
	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
)

// OpenCheckpoint returns what a checkpoint says, if one of the keys signed it in the name of its
// origin. Otherwise it returns api.ErrCheckpoint; also if the checkpoint has signatures out of
// place. The first is the log's, and no other has its name. Up to 16 cosignatures may stand behind
// it, by rising name and hash of their keys. One by a key that is among keys must fit; others are
// not looked at, and whoever passes the checkpoint on can leave out any, or add some. Nothing else
// of a checkpoint can be changed without that it is refused, so its text identifies it, not its
// bytes.
func OpenCheckpoint(signed []byte, keys note.Verifiers) (api.Head, error) {
	head, _, err := openCosigned(signed, keys)
	return head, err
}

func openCosigned(signed []byte, keys note.Verifiers) (api.Head, merkle.Cosigners, error) {
	if keys == nil {
		keys = note.VerifierList()
	}
	c, beside, err := merkle.Open(signed, keys)
	return api.Head{Origin: c.Origin, Events: c.Size, Root: c.Root}, beside, err
}
