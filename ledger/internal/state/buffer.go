package state

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// Buffer encodes records for the store. It copies them to other memory if the store keeps a
// reference. The zero value is ready to use.
type Buffer struct {
	wire.Encoder
	split int // length of the key
	head  wire.Sums
	kept  Pieces
}

// Again returns a buffer that reuses the memory of d, which must not be used any more.
func (d *Buffer) Again() Buffer { return Buffer{Encoder: d.Encoder, head: d.head} }

// Lookup returns empty memory for a key that is only looked up. It is valid until the next call.
func (d *Buffer) Lookup() []byte {
	if d.Buf == nil {
		d.Buf = make([]byte, 0, 128)
	}
	return d.Buf[:0]
}

// Key begins a record. The caller appends the key to the encoder and then calls [Buffer.Value].
func (d *Buffer) Key() *wire.Encoder {
	d.Buf = d.Lookup()
	return &d.Encoder
}

// Value ends the key. What the caller appends afterwards is the payload.
func (d *Buffer) Value() *wire.Encoder {
	d.split = len(d.Buf)
	return &d.Encoder
}

// Pieces allocates memory for many short records. The first piece is small, because most
// transactions are small. The zero value is ready to use.
type Pieces []byte // memory up to the capacity is free

const (
	smallPiece = 1 << 10
	largePiece = 64 << 10
)

// Keep copies a record to memory that is not reused.
func (p *Pieces) Keep(b []byte) []byte {
	if cap(*p)-len(*p) < len(b) {
		piece := min(max(2*cap(*p), smallPiece), largePiece)
		*p = make([]byte, 0, max(piece, len(b)))
	}
	from := len(*p)
	*p = append(*p, b...)
	return (*p)[from:len(*p):len(*p)]
}

// seal ends the record with its checksum and returns key and value. They are valid until the next
// record is begun.
func (d *Buffer) seal(bucket string) (key, value []byte) {
	// Buf has the key followed by the payload.
	sum := crc32.Update(d.head.Head(bucket, d.split), crc32.MakeTable(crc32.Castagnoli), d.Buf)
	d.Buf = binary.BigEndian.AppendUint32(d.Buf, sum)
	return d.Buf[:d.split:d.split], d.Buf[d.split:]
}

// Write writes the record in the buffer to a bucket.
func (s *State) Write(bucket string) error {
	d := &s.Buffer
	if s.Plain { // the store keeps no reference
		return s.Writer.Put(bucket, d.Buf[:d.split], d.Buf[d.split:])
	}
	key, value := d.seal(bucket)
	if !s.Copied {
		record := d.kept.Keep(d.Buf)
		key, value = record[:d.split:d.split], record[d.split:]
	}
	return s.Writer.Put(bucket, key, value)
}
