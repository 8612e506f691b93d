package wire

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/sluicedp/sluice/privacy"
)

// Encoder appends the fields of a record. Its encoding is canonical: equal records have equal bytes.
type Encoder struct{ Buf []byte }

func (e *Encoder) U8(v uint8)                { e.Buf = append(e.Buf, v) }
func (e *Encoder) U32(v uint32)              { e.Buf = binary.BigEndian.AppendUint32(e.Buf, v) }
func (e *Encoder) U64(v uint64)              { e.Buf = binary.BigEndian.AppendUint64(e.Buf, v) }
func (e *Encoder) Uvarint(v uint64)          { e.Buf = binary.AppendUvarint(e.Buf, v) }
func (e *Encoder) Raw(v []byte)              { e.Buf = append(e.Buf, v...) }
func (e *Encoder) Epsilon(v privacy.Epsilon) { e.Uvarint(uint64(v.Nano())) }
func (e *Encoder) Time(v time.Time)          { e.U64(uint64(v.UnixNano())) }

func (e *Encoder) Numbers(v []uint64) {
	e.Uvarint(uint64(len(v)))
	for _, n := range v {
		e.Uvarint(n)
	}
}

func (e *Encoder) Text(v string) {
	e.Uvarint(uint64(len(v)))
	e.Buf = append(e.Buf, v...)
}

func (e *Encoder) Flag(v bool) {
	if v {
		e.U8(1)
	} else {
		e.U8(0)
	}
}

// AppendNumbers is binary.AppendUvarint for one number after the other.
func AppendNumbers(b []byte, numbers ...uint64) []byte {
	b = slices.Grow(b, len(numbers)*binary.MaxVarintLen64)
	at := len(b)
	b = b[:cap(b)]
	for _, n := range numbers {
		for ; n >= 0x80; n >>= 7 {
			b[at] = byte(n) | 0x80
			at++
		}
		b[at] = byte(n)
		at++
	}
	return b[:at]
}
