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

// Fields implements [wire.Record].
func (a *About) Fields(x wire.Codec) {
	x.Time(&a.At)
	a.Created.Fields(x)
}

// Encode returns the payload of the record.
func (a About) Encode() []byte { return wire.Encode(&a) }

// DecodeAbout decodes the output of [About.Encode].
func DecodeAbout(payload []byte) (About, error) { return wire.Decode[About](payload) }

// Origin returns the name of the log in checkpoints: the name of the key that signs the log or,
// without a key, a name made of the ledger's ID.
func (a About) Origin() string {
	if key, err := note.NewVerifier(a.LogKey); err == nil {
		return key.Name()
	}
	return "sluice-" + uuid.UUID(a.ID).String()
}
