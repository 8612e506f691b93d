package state

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// Buffer is where records are written out for the store, and from where they are copied if the
// store would keep a reference. Its zero value is ready.
type Buffer struct {
	wire.Encoder
	split int // where the key ends
	head  wire.Sums
	kept  Pieces
}

// Again returns a buffer with the memory of one that is done.
func (d *Buffer) Again() Buffer { return Buffer{Encoder: d.Encoder, head: d.head} }

// Lookup returns room for the key of a record that is only looked up, until the next call.
func (d *Buffer) Lookup() []byte {
	if d.Buf == nil {
		d.Buf = make([]byte, 0, 128)
	}
	return d.Buf[:0]
}

// Key begins a record. The caller appends the key and then calls [Buffer.Value].
func (d *Buffer) Key() *wire.Encoder {
	d.Buf = d.Lookup()
	return &d.Encoder
}

// Value ends the key. What the caller appends from now on is the payload.
func (d *Buffer) Value() *wire.Encoder {
	d.split = len(d.Buf)
	return &d.Encoder
}

// Pieces are memory for many short records, the first of them small: most transactions are. The
// zero value is ready.
type Pieces []byte // what lies behind it is free

const (
	smallPiece = 1 << 10
	largePiece = 64 << 10
)

// Keep copies a record to memory that is not used again.
func (p *Pieces) Keep(b []byte) []byte {
	if cap(*p)-len(*p) < len(b) {
		piece := min(max(2*cap(*p), smallPiece), largePiece)
		*p = make([]byte, 0, max(piece, len(b)))
	}
	from := len(*p)
	*p = append(*p, b...)
	return (*p)[from:len(*p):len(*p)]
}

// seal ends the record with its checksum, and returns key and value, until the next one is begun.
func (d *Buffer) seal(bucket string) (key, value []byte) {
	// key and payload, side by side
	sum := crc32.Update(d.head.Head(bucket, d.split), crc32.MakeTable(crc32.Castagnoli), d.Buf)
	d.Buf = binary.BigEndian.AppendUint32(d.Buf, sum)
	return d.Buf[:d.split:d.split], d.Buf[d.split:]
}

// Write puts the drafted record into a bucket.
func (s *State) Write(bucket string) error {
	d := &s.Buffer
	if s.Plain { // in a store that keeps no reference to it
		return s.Writer.Put(bucket, d.Buf[:d.split], d.Buf[d.split:])
	}
	key, value := d.seal(bucket)
	if !s.Copied {
		record := d.kept.Keep(d.Buf)
		key, value = record[:d.split:d.split], record[d.split:]
	}
	return s.Writer.Put(bucket, key, value)
}
