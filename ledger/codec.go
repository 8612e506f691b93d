package ledger

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// encoder appends the fields of a record. Its encoding is canonical: equal records have equal bytes.
type encoder struct{ buf []byte }

func (e *encoder) u8(v uint8)                { e.buf = append(e.buf, v) }
func (e *encoder) u32(v uint32)              { e.buf = binary.BigEndian.AppendUint32(e.buf, v) }
func (e *encoder) u64(v uint64)              { e.buf = binary.BigEndian.AppendUint64(e.buf, v) }
func (e *encoder) uvarint(v uint64)          { e.buf = binary.AppendUvarint(e.buf, v) }
func (e *encoder) raw(v []byte)              { e.buf = append(e.buf, v...) }
func (e *encoder) epsilon(v privacy.Epsilon) { e.uvarint(uint64(v.Nano())) }

func (e *encoder) time(v time.Time) { e.u64(uint64(v.UnixNano())) }

func (e *encoder) numbers(v []uint64) {
	e.uvarint(uint64(len(v)))
	for _, n := range v {
		e.uvarint(n)
	}
}

func (e *encoder) text(v string) {
	e.uvarint(uint64(len(v)))
	e.buf = append(e.buf, v...)
}

func (e *encoder) flag(v bool) {
	if v {
		e.u8(1)
	} else {
		e.u8(0)
	}
}

// decoder takes the fields off a record. After the first fault it returns zero values and keeps the
// fault for done.
type decoder struct {
	rest  []byte
	err   error
	texts *texts // where texts are put, nil for memory of their own
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
	}
	d.rest = nil
}

// take returns the next n bytes, or nil.
func (d *decoder) take(n uint64) []byte {
	if d.err != nil || n > uint64(len(d.rest)) {
		d.fail("record ends early")
		return nil
	}
	taken := d.rest[:n]
	d.rest = d.rest[n:]
	return taken
}

func (d *decoder) u8() uint8 {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) u32() uint32 {
	if b := d.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (d *decoder) u64() uint64 {
	if b := d.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// uvarint reads a number. Most are small.
func (d *decoder) uvarint() uint64 {
	if len(d.rest) > 0 && d.rest[0] < 0x80 {
		v := d.rest[0]
		d.rest = d.rest[1:]
		return uint64(v)
	}
	return d.longUvarint()
}

func (d *decoder) longUvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 || n > 1 && d.rest[n-1] == 0 { // cut off, too large, or longer than it need be
		d.fail("broken number")
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

// uvarints reads numbers that stand one behind the other, as many as there is room for: faster than one by one.
func (d *decoder) uvarints(into []uint64) {
	rest := d.rest
	for i := range into {
		if len(rest) > 0 && rest[0] < 0x80 {
			into[i], rest = uint64(rest[0]), rest[1:]
			continue
		}
		d.rest = rest
		into[i] = d.longUvarint()
		rest = d.rest
	}
	d.rest = rest
}

// uvarint32 reads a number that is kept in 32 bits.
func (d *decoder) uvarint32() uint32 { return d.in32(d.uvarint()) }

// in32 returns a number that was read, and that is kept in 32 bits.
func (d *decoder) in32(n uint64) uint32 {
	if n > math.MaxUint32 {
		d.fail("broken number")
		return 0
	}
	return uint32(n)
}

// count reads the length of a list whose items take at least size bytes each, so that a damaged
// length cannot ask for more memory than the record has bytes.
func (d *decoder) count(size int) int { return d.fits(d.uvarint(), size) }

// fits is count for a length that was read.
func (d *decoder) fits(n uint64, size int) int {
	if n > uint64(len(d.rest)/size) {
		d.fail("list of %d items is longer than its record", n)
		return 0
	}
	return int(n)
}

func (d *decoder) numbers() []uint64 {
	n := d.count(1)
	if n == 0 {
		return nil
	}
	v := make([]uint64, n)
	for i := range v {
		v[i] = d.uvarint()
	}
	return v
}

func (d *decoder) time() time.Time { return time.Unix(0, int64(d.u64())).UTC() }

func (d *decoder) flag() bool {
	v := d.u8()
	if v > 1 {
		d.fail("broken flag")
	}
	return v == 1
}

func (d *decoder) epsilon() privacy.Epsilon { return d.asEpsilon(d.uvarint()) }

// asEpsilon returns a number that was read as an ε.
func (d *decoder) asEpsilon(n uint64) privacy.Epsilon {
	e, err := privacy.EpsilonFromNano(int64(n))
	if err != nil {
		d.fail("%v", err)
	}
	return e
}

// output reads the number of an answer.
func (d *decoder) output() int {
	n := d.uvarint()
	if n >= rrchain.MaxValues {
		d.fail("answer %d to a query", n)
		return 0
	}
	return int(n)
}

func (d *decoder) text() string { return d.texts.of(d.take(d.uvarint())) }

// array fills a field of fixed length.
func (d *decoder) array(into []byte) { copy(into, d.take(uint64(len(into)))) }

// done returns the first fault, among them bytes left over.
func (d *decoder) done() error {
	if d.err == nil && len(d.rest) > 0 {
		d.fail("%d bytes too many", len(d.rest))
	}
	return d.err
}

// sumLength is the length of the checksum that ends every stored value.
const sumLength = 4

// seal appends to a payload the CRC-32C of bucket, key and payload. With the key in it, a record
// that turns up under another key is noticed as well as one with a flipped bit.
func seal(bucket string, key, payload []byte) []byte {
	return binary.BigEndian.AppendUint32(payload, checksum(bucket, key, payload))
}

// unseal checks and removes the checksum.
func unseal(bucket string, key, value []byte) ([]byte, error) {
	return new(sumHead).unseal(bucket, key, value)
}

func (h *sumHead) unseal(bucket string, key, value []byte) ([]byte, error) {
	n := len(value) - sumLength
	if n < 0 {
		return nil, fmt.Errorf("%w: record %x in %s is too short", ErrCorrupt, key, bucket)
	}
	payload := value[:n:n]
	if binary.BigEndian.Uint32(value[n:]) != h.checksum(bucket, key, payload) {
		return nil, fmt.Errorf("%w: checksum of record %x in %s", ErrCorrupt, key, bucket)
	}
	return payload, nil
}

func checksum(bucket string, key, payload []byte) uint32 {
	return new(sumHead).checksum(bucket, key, payload)
}

func (h *sumHead) checksum(bucket string, key, payload []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Update(h.of(bucket, len(key)), table, key), table, payload)
}

// sumHead remembers how the last checksum began: many records in a row are of one bucket, with keys of one length. The zero
// value is ready.
type sumHead struct {
	bucket string
	length int // of the key
	head   uint32
}

func (h *sumHead) of(bucket string, keyLength int) uint32 {
	if keyLength != h.length || bucket != h.bucket {
		*h = sumHead{bucket, keyLength, checksumHead(bucket, keyLength)}
	}
	return h.head
}

// checksumHead begins the checksums of all records of a bucket whose keys have so many bytes. It takes bucket and length
// byte by byte, as crc32 does where it has no instruction for it: so nothing is allocated to put them together.
func checksumHead(bucket string, keyLength int) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	crc := ^uint32(0)
	for i := range len(bucket) {
		crc = table[byte(crc)^bucket[i]] ^ crc>>8
	}
	for shift := 24; shift >= 0; shift -= 8 {
		crc = table[byte(crc)^byte(keyLength>>shift)] ^ crc>>8
	}
	return ^crc
}

// texts puts many short texts one behind the other: memory for all of them is asked for at once, and in use as long as one
// of them is. A nil one gives each its own.
type texts struct{ strings.Builder }

// of returns a text.
func (t *texts) of(text []byte) string {
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

// appendNumbers is binary.AppendUvarint for one number after the other.
func appendNumbers(b []byte, numbers ...uint64) []byte {
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
