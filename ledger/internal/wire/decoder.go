package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/privacy"
)

// Decoder takes values off the front of Rest. After the first fault it returns zero values and keeps the fault for
// [Decoder.Done].
type Decoder struct {
	Rest  []byte // what is not read yet
	Err   error  // the first fault
	Texts *Texts // where texts are put, nil for memory of their own
}

// Fail makes something that was read a fault, unless there was one before.
func (d *Decoder) Fail(format string, args ...any) {
	if d.Err == nil {
		d.Err = fmt.Errorf("%w: "+format, append([]any{errs.ErrCorrupt}, args...)...)
	}
	d.Rest = nil
}

// Take returns the next n bytes, or nil.
func (d *Decoder) Take(n uint64) []byte {
	if d.Err != nil || n > uint64(len(d.Rest)) {
		d.Fail("record ends early")
		return nil
	}
	taken := d.Rest[:n:n]
	d.Rest = d.Rest[n:]
	return taken
}

// U8 reads what [Encoder.U8] writes.
func (d *Decoder) U8() uint8 {
	if b := d.Take(1); b != nil {
		return b[0]
	}
	return 0
}

// U32 reads what [Encoder.U32] writes.
func (d *Decoder) U32() uint32 {
	if b := d.Take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// U64 reads what [Encoder.U64] writes.
func (d *Decoder) U64() uint64 {
	if b := d.Take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// Uvarint reads what [Encoder.Uvarint] writes, and refuses the same number in more bytes. Most are small.
func (d *Decoder) Uvarint() uint64 {
	if len(d.Rest) > 0 && d.Rest[0] < 0x80 {
		v := d.Rest[0]
		d.Rest = d.Rest[1:]
		return uint64(v)
	}
	return d.longUvarint()
}

// longUvarint reads a number of any size.
func (d *Decoder) longUvarint() uint64 {
	v, n := binary.Uvarint(d.Rest)
	if n <= 0 || n > 1 && d.Rest[n-1] == 0 { // cut off, too large, or longer than it need be
		d.Fail("broken number")
		return 0
	}
	d.Rest = d.Rest[n:]
	return v
}

// Uvarints reads one number after the other, as many as into has.
func (d *Decoder) Uvarints(into []uint64) {
	for i := range into {
		into[i] = d.Uvarint()
	}
}

// Uvarint32 reads a number that is kept in 32 bits.
func (d *Decoder) Uvarint32() uint32 { return d.In32(d.Uvarint()) }

// In32 returns a number that was read, and that is kept in 32 bits.
func (d *Decoder) In32(n uint64) uint32 {
	if n > math.MaxUint32 {
		d.Fail("broken number")
		return 0
	}
	return uint32(n)
}

// Count reads the length of a list whose items take at least size bytes each, so that a damaged
// length cannot ask for more memory than the record has bytes.
func (d *Decoder) Count(size int) int { return d.Fits(d.Uvarint(), size) }

// Fits is [Decoder.Count] for a length that was read already.
func (d *Decoder) Fits(n uint64, size int) int {
	if n > uint64(len(d.Rest)/size) {
		d.Fail("list of %d items is longer than its record", n)
		return 0
	}
	return int(n)
}

// Numbers reads what [Encoder.Numbers] writes; nil if there are none.
func (d *Decoder) Numbers() []uint64 {
	n := d.Count(1)
	if n == 0 {
		return nil
	}
	v := make([]uint64, n)
	d.Uvarints(v)
	return v
}

// Time reads what [Encoder.Time] writes, in UTC.
func (d *Decoder) Time() time.Time { return time.Unix(0, int64(d.U64())).UTC() }

// Flag reads what [Encoder.Flag] writes, and refuses other bytes.
func (d *Decoder) Flag() bool {
	v := d.U8()
	if v > 1 {
		d.Fail("broken flag")
	}
	return v == 1
}

// Epsilon reads what [Encoder.Epsilon] writes, and refuses more than the largest ε.
func (d *Decoder) Epsilon() privacy.Epsilon { return d.AsEpsilon(d.Uvarint()) }

// AsEpsilon returns a number that was read as an ε.
func (d *Decoder) AsEpsilon(n uint64) privacy.Epsilon {
	e, err := privacy.EpsilonFromNano(int64(n))
	if err != nil {
		d.Fail("%v", err)
	}
	return e
}

// MaxValues is the largest number of values of a question: as many as package rrchain allows.
const MaxValues = 1 << 20

// Output reads the number of an answer, below [MaxValues].
func (d *Decoder) Output() int {
	n := d.Uvarint()
	if n >= MaxValues {
		d.Fail("answer %d to a query", n)
		return 0
	}
	return int(n)
}

// Text reads what [Encoder.Text] writes.
func (d *Decoder) Text() string { return d.Texts.of(d.Take(d.Uvarint())) }

// Blobs reads n texts as bytes, which share the memory of Rest.
func (d *Decoder) Blobs(n uint64) [][]byte {
	all := make([][]byte, d.Fits(n, 1))
	for i := range all {
		all[i] = d.Take(d.Uvarint())
	}
	return all
}

// Array fills a field of fixed length. At a fault it leaves the rest of the field as it was.
func (d *Decoder) Array(into []byte) { copy(into, d.Take(uint64(len(into)))) }

// Done returns the first fault, or that bytes are left over. It is the last call.
func (d *Decoder) Done() error {
	if d.Err == nil && len(d.Rest) > 0 {
		d.Fail("%d bytes too many", len(d.Rest))
	}
	return d.Err
}

// Texts puts many short texts into one piece of memory, which is in use as long as one of them is. A
// nil one gives each text memory of its own.
type Texts struct{ strings.Builder }

// of returns a text.
func (t *Texts) of(text []byte) string {
	if t == nil {
		return string(text)
	}
	const piece = 4 << 10
	if len(text) > t.Cap()-t.Len() {
		t.Reset()
		t.Grow(max(piece, len(text)))
	}
	at := t.Len()
	t.Write(text)
	return t.String()[at:]
}
