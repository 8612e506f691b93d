package exact

import (
	"crypto/rand"
	"encoding/binary"
)

// page is the number of random bytes that are read at once. It is small on purpose: unused random
// bytes in memory get into core dumps, and are duplicated with a snapshot of a virtual machine.
const page = 4096

// Bits is a stream of independent fair bits. It is not safe for concurrent use.
type Bits struct {
	fill func([]byte) // overwrites its argument with random bytes
	buf  [page]byte
	used int // the number of bytes of buf that were returned; page if buf must be filled first
}

// NewBits returns a stream from the operating system's generator, through a buffer of one page.
func NewBits() *Bits {
	// crypto/rand.Read never returns an error: it terminates the program if the system has no
	// randomness.
	return &Bits{fill: func(p []byte) { _, _ = rand.Read(p) }, used: page}
}

// ReplayBits returns a stream of the bytes that fill writes, for tests that enumerate or repeat
// bits. Only tests may call it, because the bits of a draw reveal the true value. A test of this
// package fails if any other file of the module names it.
func ReplayBits(fill func([]byte)) *Bits { return &Bits{fill: fill, used: page} }

// BitsFrom returns source if it is a *Bits, and a stream that replays source if it is another
// source. If source is nil, it returns a stream from the operating system's generator. Only tests
// pass a source.
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

// Uint64 returns the next 64 bits and erases them: used bits must not be found in memory together
// with the response that they resulted in.
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
