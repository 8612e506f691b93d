package pgjournal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/journal/keyholder"
)

const (
	frameSize = 4 << 20 // bytes of a group in one row, before it is sealed
	padTo     = 256     // what a group has in bytes is a multiple of this, so that a length tells little
	overhead  = 12 + 16 // of a sealed frame: its nonce and its tag
)

// cipherOf returns what encrypts under a key: AES-256 in Galois/counter mode, with a random nonce
// before each text.
func cipherOf(k keyholder.Key) (cipher.AEAD, error) {
	block, err := aes.NewCipher(k[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// frame is a row of the table of that name: a part of a group.
type frame struct {
	group   journal.Group // without its records
	segment keyholder.Segment
	number  int // from 0
	of      int // how many parts the group has
	body    []byte
}

// place is what a frame is bound to: sealed for one place, it opens nowhere else.
func (f *frame) place(id [16]byte) []byte {
	b := append([]byte("sluice pgjournal 1"), id[:]...)
	for _, n := range []uint64{f.segment.Term, f.segment.Number, f.group.Term, f.group.Before.Events,
		f.group.After.Events, uint64(f.number), uint64(f.of)} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return append(append(b, f.group.Before.Root[:]...), f.group.After.Root[:]...)
}

func (f *frame) seal(a cipher.AEAD, id [16]byte, text []byte) {
	f.body = a.Seal(make([]byte, 0, len(text)+overhead), nil, text, f.place(id))
}

func (f *frame) open(a cipher.AEAD, id [16]byte) ([]byte, error) {
	text, err := a.Open(nil, nil, f.body, f.place(id))
	if err != nil {
		return nil, fmt.Errorf("%w: the group behind event %d does not open with its key", errs.ErrCorrupt,
			f.group.Before.Events)
	}
	return text, nil
}

// textOf puts the records of a group one behind the other, each behind its length, and zeros behind
// them.
func textOf(g journal.Group) []byte {
	n := 0
	for _, r := range g.Records {
		n += binary.MaxVarintLen64 + len(r)
	}
	b := make([]byte, 0, n+padTo)
	for _, r := range g.Records {
		b = append(binary.AppendUvarint(b, uint64(len(r))), r...)
	}
	return append(b, make([]byte, (padTo-len(b)%padTo)%padTo)...)
}

// recordsIn reads what textOf wrote of a group with so many records.
func recordsIn(b []byte, count uint64) (records [][]byte, err error) {
	d := wire.Decoder{Rest: b}
	records = d.Blobs(count)
	if filler := d.Rest; len(filler) >= padTo || len(bytes.TrimLeft(filler, "\x00")) > 0 {
		d.Fail("%d bytes are not %d records", len(b), count)
	}
	return records, d.Err
}

// framesOf seals a group in frames.
func framesOf(g journal.Group, in keyholder.Segment, a cipher.AEAD, id [16]byte) (frames []frame, err error) {
	text := textOf(g)
	of := (len(text) + frameSize - 1) / frameSize
	if of > math.MaxInt32 {
		return nil, fmt.Errorf("%w: a group of %d bytes", journal.ErrRejected, len(text))
	}
	g.Records = nil
	for i := range of {
		f := frame{group: g, segment: in, number: i, of: of}
		f.seal(a, id, text[i*frameSize:min((i+1)*frameSize, len(text))])
		frames = append(frames, f)
	}
	return frames, nil
}
