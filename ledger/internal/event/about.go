package event

import (
	"time"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"

	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// ShareOf returns the sale of which a change is one object.
func ShareOf(c Change) (sale uint64, is bool) {
	switch c := c.(type) {
	case *Held:
		return c.Sale, true
	case *Sold:
		return c.Sale, true
	}
	return 0, false
}

// About is what the first event says of the ledger as a whole.
type About struct {
	Created
	At time.Time `audit:"the time of creation"`
}

// Encode returns the payload of the record.
func (a About) Encode() []byte {
	e := &wire.Encoder{}
	e.Time(a.At)
	a.Created.Encode(e)
	return e.Buf
}

// DecodeAbout reads what [About.Encode] writes.
func DecodeAbout(payload []byte) (About, error) {
	d := &wire.Decoder{Rest: payload}
	a := About{At: d.Time()}
	a.Created = *decodeCreated(d).(*Created)
	return a, d.Done()
}

// Origin is what checkpoints call the log: the name of the key that signs it, or its id.
func (a About) Origin() string {
	if key, err := note.NewVerifier(a.LogKey); err == nil {
		return key.Name()
	}
	return "sluice-" + uuid.UUID(a.ID).String()
}
