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
	padTo     = 256     // the plaintext of a group is padded to a multiple of this, so that its length reveals little
	overhead  = 12 + 16 // bytes that sealing adds to a frame: a nonce and a tag
)

// cipherOf returns the cipher of a key: AES-256 in Galois/counter mode, with a random nonce before
// each ciphertext.
func cipherOf(k keyholder.Key) (cipher.AEAD, error) {
	block, err := aes.NewCipher(k[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// frame is a part of a group, and a row of the table frames.
type frame struct {
	group   journal.Group // without its records
	segment keyholder.Segment
	number  int // from 0
	of      int // how many parts the group has
	body    []byte
}

// additionalData returns the additional data of a frame, which bind it to its place in the journal.
// A frame that was sealed for one place cannot be opened in another.
func (f *frame) additionalData(id [16]byte) []byte {
	b := append([]byte("sluice pgjournal 1"), id[:]...)
	for _, n := range []uint64{f.segment.Term, f.segment.Number, f.group.Term, f.group.Before.Events,
		f.group.After.Events, uint64(f.number), uint64(f.of)} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return append(append(b, f.group.Before.Root[:]...), f.group.After.Root[:]...)
}

// seal encrypts a part of the plaintext as the body of the frame, with the cipher of the frame's
// segment. id is the id of the journal.
func (f *frame) seal(a cipher.AEAD, id [16]byte, text []byte) {
	f.body = a.Seal(make([]byte, 0, len(text)+overhead), nil, text, f.additionalData(id))
}

// open returns the plaintext of the body, which [frame.seal] has encrypted with the same cipher and
// id. ErrCorrupt: the body is damaged, or belongs to another place in a journal.
func (f *frame) open(a cipher.AEAD, id [16]byte) ([]byte, error) {
	text, err := a.Open(nil, nil, f.body, f.additionalData(id))
	if err != nil {
		return nil, fmt.Errorf("%w: the group after event %d cannot be decrypted with its key", errs.ErrCorrupt,
			f.group.Before.Events)
	}
	return text, nil
}

// textOf returns the plaintext of a group: each record after its length as uvarint, then zeros up
// to a multiple of [padTo] bytes.
func textOf(g journal.Group) []byte {
	n := 0
	for _, r := range g.Records { // n is at least the length of the result without padding
		n += binary.MaxVarintLen64 + len(r)
	}
	b := make([]byte, 0, n+padTo)
	for _, r := range g.Records {
		b = append(binary.AppendUvarint(b, uint64(len(r))), r...)
	}
	return append(b, make([]byte, (padTo-len(b)%padTo)%padTo)...) // no zeros if the length is a multiple already
}

// recordsIn decodes count records of a plaintext from [textOf]. It returns [errs.ErrCorrupt] if
// what follows them is not the padding.
func recordsIn(b []byte, count uint64) (records [][]byte, err error) {
	d := wire.Decoder{Rest: b}
	records = d.Blobs(count)
	if filler := d.Rest; len(filler) >= padTo || len(bytes.TrimLeft(filler, "\x00")) > 0 {
		d.Fail("%d bytes are not %d records", len(b), count)
	}
	return records, d.Err
}

// framesOf splits the plaintext of a group into frames of at most [frameSize] bytes. It seals them
// with the cipher a of the segment in. id is the id of the journal. It returns
// [journal.ErrRejected] if the group has too many frames.
func framesOf(g journal.Group, in keyholder.Segment, a cipher.AEAD, id [16]byte) (frames []frame, err error) {
	text := textOf(g)
	of := (len(text) + frameSize - 1) / frameSize
	if of > math.MaxInt32 {
		return nil, fmt.Errorf("%w: a group of %d bytes is too large", journal.ErrRejected, len(text))
	}
	g.Records = nil
	for i := range of {
		f := frame{group: g, segment: in, number: i, of: of}
		f.seal(a, id, text[i*frameSize:min((i+1)*frameSize, len(text))])
		frames = append(frames, f)
	}
	return frames, nil
}
