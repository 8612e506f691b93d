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

// Decoder decodes values from the front of Rest. After the first error it returns zero values and
// keeps the error for [Decoder.Done].
type Decoder struct {
	Rest  []byte // the bytes that are not decoded yet
	Err   error  // the first error
	Texts *Texts // memory for decoded texts; nil allocates each text separately
}

// Fail records an [errs.ErrCorrupt] with a text in the format of [fmt.Errorf], unless there was an
// error before. It also discards the rest, so that all later values are zero.
func (d *Decoder) Fail(format string, args ...any) {
	if d.Err == nil {
		d.Err = fmt.Errorf("%w: "+format, append([]any{errs.ErrCorrupt}, args...)...)
	}
	d.Rest = nil
}

// Take returns the next n bytes, which share the memory of Rest. If there are fewer, it fails and
// returns nil.
func (d *Decoder) Take(n uint64) []byte {
	if d.Err != nil || n > uint64(len(d.Rest)) {
		d.Fail("record ends early")
		return nil
	}
	taken := d.Rest[:n:n]
	d.Rest = d.Rest[n:]
	return taken
}

// U8 decodes a value of [Encoder.U8].
func (d *Decoder) U8() uint8 {
	if b := d.Take(1); b != nil {
		return b[0]
	}
	return 0
}

// U32 decodes a value of [Encoder.U32].
func (d *Decoder) U32() uint32 {
	if b := d.Take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// U64 decodes a value of [Encoder.U64].
func (d *Decoder) U64() uint64 {
	if b := d.Take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// Uvarint decodes a value of [Encoder.Uvarint]. It fails for an encoding that is longer than
// necessary. Most values have one byte, so this case has a short path.
func (d *Decoder) Uvarint() uint64 {
	if len(d.Rest) > 0 && d.Rest[0] < 0x80 {
		v := d.Rest[0]
		d.Rest = d.Rest[1:]
		return uint64(v)
	}
	return d.longUvarint()
}

// longUvarint is [Decoder.Uvarint] without the short path.
func (d *Decoder) longUvarint() uint64 {
	v, n := binary.Uvarint(d.Rest)
	if n <= 0 || n > 1 && d.Rest[n-1] == 0 { // truncated, too large, or not the shortest encoding
		d.Fail("broken number")
		return 0
	}
	d.Rest = d.Rest[n:]
	return v
}

// Uvarints decodes len(into) numbers into a slice.
func (d *Decoder) Uvarints(into []uint64) {
	for i := range into {
		into[i] = d.Uvarint()
	}
}

// Uvarint32 decodes a value of [Encoder.Uvarint], and fails if it does not fit into 32 bits.
func (d *Decoder) Uvarint32() uint32 { return d.In32(d.Uvarint()) }

// In32 converts a decoded number to 32 bits. It fails and returns 0 if the number does not fit.
func (d *Decoder) In32(n uint64) uint32 {
	if n > math.MaxUint32 {
		d.Fail("broken number")
		return 0
	}
	return uint32(n)
}

// Count decodes the length of a list whose items have at least size bytes each. It fails and
// returns 0 if the rest is too short for that many items. So a damaged length cannot cause a large
// allocation.
func (d *Decoder) Count(size int) int { return d.Fits(d.Uvarint(), size) }

// Fits is [Decoder.Count] for a length n that was already decoded.
func (d *Decoder) Fits(n uint64, size int) int {
	if n > uint64(len(d.Rest)/size) {
		d.Fail("list of %d items is longer than its record", n)
		return 0
	}
	return int(n)
}

// Numbers decodes a value of [Encoder.Numbers]. An empty list is nil.
func (d *Decoder) Numbers() []uint64 {
	n := d.Count(1)
	if n == 0 {
		return nil
	}
	v := make([]uint64, n)
	d.Uvarints(v)
	return v
}

// Time decodes a value of [Encoder.Time], in UTC.
func (d *Decoder) Time() time.Time { return time.Unix(0, int64(d.U64())).UTC() }

// Flag decodes a value of [Encoder.Flag], and rejects other bytes.
func (d *Decoder) Flag() bool {
	v := d.U8()
	if v > 1 {
		d.Fail("broken flag")
	}
	return v == 1
}

// Epsilon decodes a value of [Encoder.Epsilon], and rejects values above the largest ε.
func (d *Decoder) Epsilon() privacy.Epsilon { return d.AsEpsilon(d.Uvarint()) }

// AsEpsilon converts a decoded number, in nano-nats, to an ε. It fails for a number above the
// largest ε.
func (d *Decoder) AsEpsilon(n uint64) privacy.Epsilon {
	// a number from 2^63 on becomes negative, which is an error, too
	e, err := privacy.EpsilonFromNano(int64(n))
	if err != nil {
		d.Fail("%v", err)
	}
	return e
}

// MaxValues is the largest number of values of a question, the same as in package rrchain.
const MaxValues = 1 << 20

// MaxMechanism is the largest size of the mechanism of a question, in bytes of JSON.
const MaxMechanism = 1 << 20

// Output decodes the index of an answer to a panel query. It fails unless the index is below
// [MaxValues].
func (d *Decoder) Output() int {
	n := d.Uvarint()
	if n >= MaxValues {
		d.Fail("answer number %d is too large", n)
		return 0
	}
	return int(n)
}

// Text decodes a value of [Encoder.Text].
func (d *Decoder) Text() string { return d.Texts.of(d.Take(d.Uvarint())) }

// Blobs decodes n texts as byte slices, which share the memory of Rest. If the rest is too short
// for n texts, it fails and returns an empty list.
func (d *Decoder) Blobs(n uint64) [][]byte {
	all := make([][]byte, d.Fits(n, 1))
	for i := range all {
		all[i] = d.Take(d.Uvarint())
	}
	return all
}

// Array decodes a field of fixed length, which is that of into. After an error, into is unchanged.
func (d *Decoder) Array(into []byte) { copy(into, d.Take(uint64(len(into)))) }

// Done returns the first error, or [errs.ErrCorrupt] if bytes are left over. It must be the last
// call.
func (d *Decoder) Done() error {
	if d.Err == nil && len(d.Rest) > 0 {
		d.Fail("%d bytes too many", len(d.Rest))
	}
	return d.Err
}

// Texts stores many short texts in blocks of memory. A block stays in memory as long as one of its
// texts is used. A nil *Texts allocates each text separately.
type Texts struct{ strings.Builder }

// of returns a copy of text as a string, which is a part of the current block. If the block is
// full, it starts a new one; the old block belongs to its texts.
func (t *Texts) of(text []byte) string {
	if t == nil {
		return string(text)
	}
	const piece = 4 << 10 // bytes of a block, unless a text is longer
	if len(text) > t.Cap()-t.Len() {
		t.Reset()
		t.Grow(max(piece, len(text)))
	}
	at := t.Len()
	t.Write(text)
	return t.String()[at:]
}
