package state

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// Draft is where records are written out for the store: in a buffer that is used again, and from there to memory that the store may keep.
// Its zero value is ready.
type Draft struct {
	wire.Encoder
	split int // where the key ends
	head  wire.Sums
	kept  Pieces
}

// Again returns a draft with the memory of one that is done.
func (d *Draft) Again() Draft { return Draft{Encoder: d.Encoder, head: d.head} }

// Lookup returns room for the key of a record that is only looked up, until the next call.
func (d *Draft) Lookup() []byte {
	if d.Buf == nil {
		d.Buf = make([]byte, 0, 128)
	}
	return d.Buf[:0]
}

// Key begins a record. The caller appends the key and then calls [Draft.Value].
func (d *Draft) Key() *wire.Encoder {
	d.Buf = d.Lookup()
	return &d.Encoder
}

// Value ends the key. What the caller appends from now on is the payload.
func (d *Draft) Value() *wire.Encoder {
	d.split = len(d.Buf)
	return &d.Encoder
}

// Pieces are memory for many short records, the first of them small: most transactions are. The zero value is ready.
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

// take returns key and sealed value, in memory that is not used again.
func (d *Draft) take(bucket string) (key, value []byte) {
	sum := crc32.Update(d.head.Head(bucket, d.split), crc32.MakeTable(crc32.Castagnoli), d.Buf) // key and payload, side by side
	d.Buf = binary.BigEndian.AppendUint32(d.Buf, sum)
	record := d.kept.Keep(d.Buf)
	return record[:d.split:d.split], record[d.split:]
}

// Write puts the drafted record into a bucket.
func (s *State) Write(bucket string) error {
	if s.Plain { // in a store that keeps no reference to it
		return s.Writer.Put(bucket, s.Draft.Buf[:s.Draft.split], s.Draft.Buf[s.Draft.split:])
	}
	key, value := s.Draft.take(bucket)
	return s.Writer.Put(bucket, key, value)
}
