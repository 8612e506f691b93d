package wire

import "crypto/sha256"

// NewDigest begins the digest of some values for an operation. The same values have different
// digests for different operations. The caller appends the values and calls [Encoder.Sum].
func NewDigest(operation string) *Encoder {
	e := &Encoder{make([]byte, 0, 256)} // enough capacity for one object
	e.Text(operation)
	return e
}

// Sum returns the SHA-256 of the appended bytes.
func (e *Encoder) Sum() [sha256.Size]byte { return sha256.Sum256(e.Buf) }

// HashText returns the SHA-256 of a text.
func HashText(text string) [sha256.Size]byte { return sha256.Sum256([]byte(text)) }
