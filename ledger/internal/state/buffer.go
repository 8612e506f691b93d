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
func (b *Buffer) Again() Buffer { return Buffer{Encoder: b.Encoder, head: b.head} }

// Lookup returns empty memory for a key that is only looked up. It is valid until the next call.
func (b *Buffer) Lookup() []byte {
	if b.Buf == nil {
		b.Buf = make([]byte, 0, 128)
	}
	return b.Buf[:0]
}

// Key begins a record. The caller appends the key to the encoder and then calls [Buffer.Value].
func (b *Buffer) Key() *wire.Encoder {
	b.Buf = b.Lookup()
	return &b.Encoder
}

// Value ends the key. What the caller appends afterwards is the payload.
func (b *Buffer) Value() *wire.Encoder {
	b.split = len(b.Buf)
	return &b.Encoder
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
func (b *Buffer) seal(bucket string) (key, value []byte) {
	// Buf has the key followed by the payload.
	sum := crc32.Update(b.head.Head(bucket, b.split), crc32.MakeTable(crc32.Castagnoli), b.Buf)
	b.Buf = binary.BigEndian.AppendUint32(b.Buf, sum)
	return b.Buf[:b.split:b.split], b.Buf[b.split:]
}

// Write writes the record in the buffer to a bucket.
func (s *State) Write(bucket string) error {
	b := &s.Buffer
	if s.Plain { // the store keeps no reference
		return s.Writer.Put(bucket, b.Buf[:b.split], b.Buf[b.split:])
	}
	key, value := b.seal(bucket)
	if !s.Copied {
		record := b.kept.Keep(b.Buf)
		key, value = record[:b.split:b.split], record[b.split:]
	}
	return s.Writer.Put(bucket, key, value)
}
