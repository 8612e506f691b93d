package event

import (
	"crypto/hmac"

	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// Tag is a truncated keyed hash.
type Tag [16]byte

func (t Tag) Equal(other Tag) bool { return hmac.Equal(t[:], other[:]) }

// EncodeTag writes a tag that may be absent.
func EncodeTag(e *wire.Encoder, t *Tag) {
	e.Flag(t != nil)
	if t != nil {
		e.Raw(t[:])
	}
}
