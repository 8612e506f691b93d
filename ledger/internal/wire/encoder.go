package wire

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/sluicedp/sluice/privacy"
)

// Encoder appends values to Buf, in the canonical encoding. The zero value is ready.
type Encoder struct{ Buf []byte }

// U8 appends one byte.
func (e *Encoder) U8(v uint8) { e.Buf = append(e.Buf, v) }

// U32 appends 4 bytes, the highest first. Keys are made of these: they sort as their numbers do.
func (e *Encoder) U32(v uint32) { e.Buf = binary.BigEndian.AppendUint32(e.Buf, v) }

// U64 appends 8 bytes, the highest first.
func (e *Encoder) U64(v uint64) { e.Buf = binary.BigEndian.AppendUint64(e.Buf, v) }

// Uvarint appends 7 bits to a byte, the lowest first, in as few bytes as will do.
func (e *Encoder) Uvarint(v uint64) { e.Buf = binary.AppendUvarint(e.Buf, v) }

// Raw appends bytes whose number the reader knows.
func (e *Encoder) Raw(v []byte) { e.Buf = append(e.Buf, v...) }

// Epsilon appends an ε, in nano-nats.
func (e *Encoder) Epsilon(v privacy.Epsilon) { e.Uvarint(uint64(v.Nano())) }

// Time appends an instant as nanoseconds since 1970, which reach to the year 2262.
func (e *Encoder) Time(v time.Time) { e.U64(uint64(v.UnixNano())) }

// Numbers appends how many numbers there are, and the numbers.
func (e *Encoder) Numbers(v []uint64) {
	e.Uvarint(uint64(len(v)))
	for _, n := range v {
		e.Uvarint(n)
	}
}

// Text appends how many bytes the text has, and the text.
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

// AppendNumbers is [Encoder.Uvarint] for several numbers. It grows b at most once.
func AppendNumbers(b []byte, numbers ...uint64) []byte {
	b = slices.Grow(b, len(numbers)*binary.MaxVarintLen64)
	for _, n := range numbers {
		b = binary.AppendUvarint(b, n)
	}
	return b
}
