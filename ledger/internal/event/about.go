package event

import (
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// About is the content of the first event: the data of the ledger as a whole.
type About struct {
	Created
	At time.Time `audit:"the time of creation"` // when the ledger was created
}

// Fields implements [wire.Record]: the time, and then the fields of [Created].
func (a *About) Fields(x wire.Codec) {
	x.Time(&a.At)
	a.Created.Fields(x)
}

// Encode returns the encoded record. [DecodeAbout] decodes it.
func (a About) Encode() []byte { return wire.Encode(&a) }

// DecodeAbout decodes the output of [About.Encode], or returns an [errs.ErrCorrupt].
func DecodeAbout(payload []byte) (About, error) { return wire.Decode[About](payload) }

// Origin returns the name of the log in checkpoints. It is the name of the key that signs the log.
// If LogKey is no verifier key, such as "", it is "sluice-" and the ID of the ledger.
func (a About) Origin() string {
	if key, err := note.NewVerifier(a.LogKey); err == nil {
		return key.Name()
	}
	return "sluice-" + uuid.UUID(a.ID).String()
}
