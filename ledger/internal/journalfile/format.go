package journalfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/ledger/journal"
)

const (
	magic         = "sluice journal 2"
	magicPrefix   = len(magic) - 1 // these bytes are the same in all versions
	headerSize    = 112
	frameHeadSize = 16
	maxContent    = 1 << 20 // bytes of a frame

	// The bits of a frame's kind.
	firstFrame = 1 // of a group
	lastFrame  = 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// segment has the fields of a segment's header.
type segment struct {
	ledger, journal [16]byte
	number, term    uint64
	begin           journal.Position
	seed            uint32 // the header's checksum, with which the checksums of its frames start
}

// header returns the encoded header of a segment, and sets s.seed to the checksum in it.
func (s *segment) header() []byte {
	b := append(make([]byte, 0, headerSize), magic...)
	b = append(append(b, s.ledger[:]...), s.journal[:]...)
	b = binary.BigEndian.AppendUint64(b, s.number)
	b = binary.BigEndian.AppendUint64(b, s.term)
	b = append(appendPosition(b, s.begin), 0, 0, 0, 0)
	s.seed = crc32.Checksum(b, castagnoli)
	return binary.BigEndian.AppendUint32(b, s.seed)
}

// parseHeader decodes a header. It returns [errs.ErrVersion] for a segment of another version. It
// returns [errs.ErrCorrupt] if there is no whole header, its checksum is wrong, or its unused bytes
// are not zero.
func parseHeader(b []byte) (s segment, err error) {
	if len(b) < headerSize || string(b[:magicPrefix]) != magic[:magicPrefix] {
		return s, fmt.Errorf("%w: the header of a segment is missing", errs.ErrCorrupt)
	}
	if string(b[:len(magic)]) != magic {
		return s, fmt.Errorf("%w: the segment has version %q", errs.ErrVersion, b[magicPrefix])
	}
	d := &wire.Decoder{Rest: b[len(magic):headerSize]}
	d.Array(s.ledger[:])
	d.Array(s.journal[:])
	s.number = d.U64()
	s.term = d.U64()
	s.begin = takePosition(d)
	if !bytes.Equal(s.header(), b[:headerSize]) { // header also sets the seed
		return s, fmt.Errorf("%w: the header of a segment has a wrong checksum", errs.ErrCorrupt)
	}
	return s, nil
}

// appendPosition appends the number of events and the root of a position.
func appendPosition(b []byte, p journal.Position) []byte {
	return append(binary.BigEndian.AppendUint64(b, p.Events), p.Root[:]...)
}

// takePosition decodes a position that appendPosition has encoded. If bytes are missing, d records
// the error.
func takePosition(d *wire.Decoder) (p journal.Position) {
	p.Events = d.U64()
	d.Array(p.Root[:])
	return p
}

// frame has the fields of a frame's head.
type frame struct {
	length, kind, sum uint32 // sum: the checksum of the content
}

// head writes the head of a frame, of 16 bytes, to b. at is the offset of the frame in the file of
// the segment.
func (s *segment) head(b []byte, at int64, f frame) {
	binary.BigEndian.PutUint32(b, f.length)
	binary.BigEndian.PutUint32(b[4:], f.kind)
	binary.BigEndian.PutUint32(b[8:], f.sum)
	binary.BigEndian.PutUint32(b[12:], s.frameSum(b, at))
}

// parseHead decodes the head of a frame from b, which has at least 16 bytes. ok is false if that is
// no head that was written for offset at of this segment.
func (s *segment) parseHead(b []byte, at int64) (f frame, ok bool) {
	f = frame{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])}
	ok = f.length >= 1 && f.length <= maxContent && f.kind <= firstFrame|lastFrame &&
		binary.BigEndian.Uint32(b[12:]) == s.frameSum(b, at)
	return f, ok
}

// frameSum returns the frame crc, as described at the package. b is the head of a frame, of which
// the first 12 bytes count, and at is the offset of the frame in the file.
func (s *segment) frameSum(b []byte, at int64) uint32 {
	var offset [8]byte
	binary.BigEndian.PutUint64(offset[:], uint64(at))
	return crc32.Update(crc32.Update(s.seed, castagnoli, offset[:]), castagnoli, b[:12])
}

// filler pads a frame. Each frame ends with at least one such byte, so that its last byte is never
// zero.
const filler = 0xff

// paddedEnd returns the offset at which a frame ends whose content ends at n. It is the next
// multiple of 8 above n, so that at least one byte of filler fits.
func paddedEnd(n int64) int64 { return alignUp(n + 1) }

// alignUp returns the first multiple of 8 that is not below n. Frames begin at such offsets.
func alignUp(n int64) int64 { return (n + 7) &^ 7 }

// groupHead appends to b the fields of a group that precede its records.
func groupHead(b []byte, g journal.Group) []byte {
	b = binary.BigEndian.AppendUint64(b, g.Term)
	b = appendPosition(appendPosition(b, g.Before), g.After)
	return binary.AppendUvarint(b, uint64(len(g.Records)))
}

// parseGroup decodes a group from the contents of its frames. Its records are slices of b. It
// returns [errs.ErrCorrupt] if the group is not valid, or its records do not lead from Before to
// After.
func parseGroup(b []byte) (g journal.Group, err error) {
	d := wire.Decoder{Rest: b}
	g.Term = d.U64()
	g.Before = takePosition(&d)
	g.After = takePosition(&d)
	g.Records = d.Blobs(d.Uvarint())
	if err := d.Done(); err != nil {
		return g, err
	}
	if !g.Fits() {
		return g, fmt.Errorf("%w: a group has %d records from %v to %v", errs.ErrCorrupt, len(g.Records), g.Before,
			g.After)
	}
	return g, nil
}

// The extensions of file names.
const (
	segmentExt = ".segment"
	newExt     = ".new"
	goneExt    = ".gone"
)

// name returns the name of a segment's file.
func name(number uint64, ext string) string { return fmt.Sprintf("%08d%s", number, ext) }

// parseName splits the name of a file into a number and an extension. ok is false if the file
// belongs to no journal. Only the spelling that name returns is valid.
func parseName(text string) (number uint64, ext string, ok bool) {
	digits, ext, _ := strings.Cut(text, ".")
	ext = "." + ext
	number, err := strconv.ParseUint(digits, 10, 64)
	known := ext == segmentExt || ext == newExt || ext == goneExt
	return number, ext, err == nil && known && name(number, ext) == text
}
