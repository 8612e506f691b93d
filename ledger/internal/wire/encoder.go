package wire

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/sluicedp/sluice/privacy"
)

// Encoder appends values to Buf in the canonical encoding. The zero value is ready for use.
type Encoder struct{ Buf []byte }

// U8 appends one byte.
func (e *Encoder) U8(v uint8) { e.Buf = append(e.Buf, v) }

// U32 appends 4 bytes, big-endian. Keys use it, because their bytes then have the order of their
// numbers.
func (e *Encoder) U32(v uint32) { e.Buf = binary.BigEndian.AppendUint32(e.Buf, v) }

// U64 appends 8 bytes, big-endian.
func (e *Encoder) U64(v uint64) { e.Buf = binary.BigEndian.AppendUint64(e.Buf, v) }

// Uvarint appends a number as a varint: 7 bits in each byte, the lowest first, in as few bytes as
// possible.
func (e *Encoder) Uvarint(v uint64) { e.Buf = binary.AppendUvarint(e.Buf, v) }

// Raw appends bytes whose number the reader knows.
func (e *Encoder) Raw(v []byte) { e.Buf = append(e.Buf, v...) }

// Epsilon appends an ε as a varint, in nano-nats.
func (e *Encoder) Epsilon(v privacy.Epsilon) { e.Uvarint(uint64(v.Nano())) }

// Time appends an instant as nanoseconds since 1970. The range ends in the year 2262.
func (e *Encoder) Time(v time.Time) { e.U64(uint64(v.UnixNano())) }

// Numbers appends the length of a list, and its numbers as varints.
func (e *Encoder) Numbers(v []uint64) {
	e.Uvarint(uint64(len(v)))
	for _, n := range v {
		e.Uvarint(n)
	}
}

// Text appends the length of a text in bytes, and the text.
func (e *Encoder) Text(v string) {
	e.Uvarint(uint64(len(v)))
	e.Buf = append(e.Buf, v...)
}

// Flag appends 1 for true and 0 for false.
func (e *Encoder) Flag(v bool) {
	if v {
		e.U8(1)
	} else {
		e.U8(0)
	}
}

// AppendNumbers appends numbers as varints. It grows b at most once.
func AppendNumbers(b []byte, numbers ...uint64) []byte {
	b = slices.Grow(b, len(numbers)*binary.MaxVarintLen64)
	for _, n := range numbers {
		b = binary.AppendUvarint(b, n)
	}
	return b
}
