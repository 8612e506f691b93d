package event

import (
	"crypto/hmac"

	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// Tag is a truncated keyed hash of a truth.
type Tag [16]byte

// Equal tells whether two tags are the same, in a time that does not depend on where they differ.
func (t Tag) Equal(other Tag) bool { return hmac.Equal(t[:], other[:]) }

// EncodeTag appends a tag that may be absent.
func EncodeTag(e *wire.Encoder, t *Tag) {
	e.Flag(t != nil)
	if t != nil {
		e.Raw(t[:])
	}
}
