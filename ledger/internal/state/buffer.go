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
func (buf *Buffer) Again() Buffer { return Buffer{Encoder: buf.Encoder, head: buf.head} }

// Lookup returns empty memory for a key that is only looked up. It is valid until the next call.
func (buf *Buffer) Lookup() []byte {
	if buf.Buf == nil {
		buf.Buf = make([]byte, 0, 128)
	}
	return buf.Buf[:0]
}

// Key begins a record. The caller appends the key to the encoder and then calls [Buffer.Value].
func (buf *Buffer) Key() *wire.Encoder {
	buf.Buf = buf.Lookup()
	return &buf.Encoder
}

// Value ends the key. What the caller appends afterwards is the payload.
func (buf *Buffer) Value() *wire.Encoder {
	buf.split = len(buf.Buf)
	return &buf.Encoder
}

// Pieces allocates memory for many short records. The first piece is small, because most
// transactions are small. The zero value is ready to use.
type Pieces []byte // memory up to the capacity is free

const (
	smallPiece = 1 << 10
	largePiece = 64 << 10
)

// Keep copies a record to memory that is not reused.
func (p *Pieces) Keep(record []byte) []byte {
	if cap(*p)-len(*p) < len(record) {
		piece := min(max(2*cap(*p), smallPiece), largePiece)
		*p = make([]byte, 0, max(piece, len(record)))
	}
	from := len(*p)
	*p = append(*p, record...)
	return (*p)[from:len(*p):len(*p)]
}

// seal ends the record with its checksum and returns key and value. They are valid until the next
// record is begun.
func (buf *Buffer) seal(bucket string) (key, value []byte) {
	// Buf has the key followed by the payload.
	sum := crc32.Update(buf.head.Head(bucket, buf.split), crc32.MakeTable(crc32.Castagnoli), buf.Buf)
	buf.Buf = binary.BigEndian.AppendUint32(buf.Buf, sum)
	return buf.Buf[:buf.split:buf.split], buf.Buf[buf.split:]
}

// Write writes the record in the buffer to a bucket.
func (s *State) Write(bucket string) error {
	buf := &s.Buffer
	if s.Plain { // the store keeps no reference
		return s.Writer.Put(bucket, buf.Buf[:buf.split], buf.Buf[buf.split:])
	}
	key, value := buf.seal(bucket)
	if !s.Copied {
		record := buf.kept.Keep(buf.Buf)
		key, value = record[:buf.split:buf.split], record[buf.split:]
	}
	return s.Writer.Put(bucket, key, value)
}
