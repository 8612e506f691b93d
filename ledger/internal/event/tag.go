package event

import (
	"crypto/hmac"

	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// Tag is a truncated keyed hash of a true value.
type Tag [16]byte

// Equal reports whether two tags are equal, in constant time.
func (t Tag) Equal(other Tag) bool { return hmac.Equal(t[:], other[:]) }

// EncodeTag appends a flag and, if t is not nil, the tag.
func EncodeTag(e *wire.Encoder, t *Tag) {
	e.Flag(t != nil)
	if t != nil {
		e.Raw(t[:])
	}
}
