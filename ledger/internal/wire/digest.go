package wire

import (
	"crypto/sha256"
)

// Digest is the start of what a digest is made of, for a purpose of its own.
func NewDigest(operation string) *Encoder {
	e := &Encoder{make([]byte, 0, 256)} // enough for one object
	e.Text(operation)
	return e
}

func (e *Encoder) Sum() [sha256.Size]byte    { return sha256.Sum256(e.Buf) }
func HashText(text string) [sha256.Size]byte { return sha256.Sum256([]byte(text)) }
