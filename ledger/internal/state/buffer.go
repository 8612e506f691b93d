package state

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// Buffer encodes one record after the other for the store. The caller appends the key after
// [Buffer.Key] and the payload after [Buffer.Value]. Then [State.Write] writes the record. The zero
// value is ready to use.
type Buffer struct {
	wire.Encoder
	split int       // length of the key at the beginning of Buf
	head  wire.Sums // cached checksums of a bucket and the length of its keys
	kept  Pieces    // copies of records to which the store keeps a reference
}

// Again returns an empty buffer that reuses the memory and the cached checksums of b. The caller
// must not use b afterwards. Copied records are not part of it, because the store may still refer
// to them.
func (b *Buffer) Again() Buffer { return Buffer{Encoder: b.Encoder, head: b.head} }

// Lookup returns empty memory to which the caller appends a key that is only looked up. It is valid
// until the next call of Lookup or Key.
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

// Pieces allocates memory for many short records in a few large pieces. Its elements are the used
// part of the current piece; the free part is the rest of the capacity. The zero value is ready to
// use.
type Pieces []byte

const (
	// The size of the first piece in bytes. It is small, because most transactions are small.
	smallPiece = 1 << 10
	// The largest size of a piece in bytes, except for a longer record.
	largePiece = 64 << 10
)

// Keep copies a record to memory that is not reused, and returns the copy. If the current piece has
// too little capacity left, it begins a new one of twice the size. Earlier copies keep the old
// piece.
func (p *Pieces) Keep(record []byte) []byte {
	if cap(*p)-len(*p) < len(record) {
		piece := min(max(2*cap(*p), smallPiece), largePiece)
		*p = make([]byte, 0, max(piece, len(record)))
	}
	from := len(*p)
	*p = append(*p, record...)
	// The capacity ends with the copy, so that an append to it cannot overwrite the next one.
	return (*p)[from:len(*p):len(*p)]
}

// seal appends the checksum of the record, and returns the key and the value. They share the memory
// of the buffer, and are valid until the next record is begun.
func (b *Buffer) seal(bucket string) (key, value []byte) {
	// Buf has the key followed by the payload.
	sum := crc32.Update(b.head.Head(bucket, b.split), crc32.MakeTable(crc32.Castagnoli), b.Buf)
	b.Buf = binary.BigEndian.AppendUint32(b.Buf, sum)
	return b.Buf[:b.split:b.split], b.Buf[b.split:]
}

// Write writes the record in the buffer to a bucket. The record gets a checksum unless the state is
// Plain.
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
