package event

import (
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// About is what the first event says of the ledger as a whole.
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

// DecodeAbout reads what [About.Encode] writes.
func DecodeAbout(payload []byte) (About, error) { return wire.Decode[About](payload) }

// Origin is what checkpoints call the log: the name of the key that signs it, or its id.
func (a About) Origin() string {
	if key, err := note.NewVerifier(a.LogKey); err == nil {
		return key.Name()
	}
	return "sluice-" + uuid.UUID(a.ID).String()
}
