package exact

import (
	"crypto/rand"
	"encoding/binary"
)

// page is how many random bytes are fetched at once. It is small on purpose: unused random bytes
// in memory end up in core dumps and are cloned with a snapshot of a virtual machine.
const page = 4096

// Bits is a stream of independent fair bits. It is not safe for concurrent use.
type Bits struct {
	fill func([]byte)
	buf  [page]byte
	used int
}

// NewBits returns a stream from the operating system's generator, through a buffer of one page.
func NewBits() *Bits {
	// crypto/rand.Read never returns an error: it ends the program when the system has no
	// randomness.
	return &Bits{fill: func(p []byte) { _, _ = rand.Read(p) }, used: page}
}

// ReplayBits returns a stream that fill writes, for tests that enumerate or repeat. Nothing but a
// test may call it: whoever knows the bits of a draw knows the truth behind it. A test of this
// package fails when any other file of the module names it.
func ReplayBits(fill func([]byte)) *Bits { return &Bits{fill: fill, used: page} }

// BitsFrom returns source if it is a stream of bits, a stream that replays it if it is another
// source, and a stream from the operating system's generator if it is nil. Only tests give a source.
func BitsFrom(source interface{ Uint64() uint64 }) *Bits {
	if source == nil {
		return NewBits()
	}
	if b, ok := source.(*Bits); ok {
		return b
	}
	return ReplayBits(func(p []byte) {
		for ; len(p) > 0; p = p[8:] {
			binary.BigEndian.PutUint64(p, source.Uint64())
		}
	})
}

// Uint64 returns the next 64 bits and forgets them: bits that were used must not be found in
// memory beside the response they led to.
func (b *Bits) Uint64() uint64 {
	if b.used == page {
		b.fill(b.buf[:])
		b.used = 0
	}
	word := b.buf[b.used : b.used+8]
	u := binary.BigEndian.Uint64(word)
	clear(word)
	b.used += 8
	return u
}
