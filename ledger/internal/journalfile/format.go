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
	magic      = "sluice journal 2"
	magicKind  = len(magic) - 1 // of these bytes all versions have the same
	headerSize = 112
	frameHead  = 16
	maxContent = 1 << 20 // of a frame

	firstFrame = 1 // of a group
	lastFrame  = 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// segment is what the header of a segment says.
type segment struct {
	ledger, journal [16]byte
	number, term    uint64
	begin           journal.Position
	seed            uint32 // the header's checksum, from which those of the frames go on
}

// header returns a segment's header, and sets the seed.
func (s *segment) header() []byte {
	b := append(make([]byte, 0, headerSize), magic...)
	b = append(append(b, s.ledger[:]...), s.journal[:]...)
	b = binary.BigEndian.AppendUint64(b, s.number)
	b = binary.BigEndian.AppendUint64(b, s.term)
	b = append(appendPosition(b, s.begin), 0, 0, 0, 0)
	s.seed = crc32.Checksum(b, castagnoli)
	return binary.BigEndian.AppendUint32(b, s.seed)
}

// parseHeader reads a header.
func parseHeader(b []byte) (s segment, err error) {
	if len(b) < headerSize || string(b[:magicKind]) != magic[:magicKind] {
		return s, fmt.Errorf("%w: no header of a segment", errs.ErrCorrupt)
	}
	if string(b[:len(magic)]) != magic {
		return s, fmt.Errorf("%w: a segment of version %q", errs.ErrVersion, b[magicKind])
	}
	d := &wire.Decoder{Rest: b[len(magic):headerSize]}
	d.Array(s.ledger[:])
	d.Array(s.journal[:])
	s.number = d.U64()
	s.term = d.U64()
	s.begin = takePosition(d)
	if !bytes.Equal(s.header(), b[:headerSize]) {
		return s, fmt.Errorf("%w: the header of a segment does not have its checksum", errs.ErrCorrupt)
	}
	return s, nil
}

func appendPosition(b []byte, p journal.Position) []byte {
	return append(binary.BigEndian.AppendUint64(b, p.Events), p.Root[:]...)
}

// takePosition reads what appendPosition wrote.
func takePosition(d *wire.Decoder) (p journal.Position) {
	p.Events = d.U64()
	d.Array(p.Root[:])
	return p
}

// frame is what the head of a frame says.
type frame struct {
	length, kind, sum uint32
}

// head writes the head of a frame at a place of the segment's file.
func (s *segment) head(b []byte, at int64, f frame) {
	binary.BigEndian.PutUint32(b, f.length)
	binary.BigEndian.PutUint32(b[4:], f.kind)
	binary.BigEndian.PutUint32(b[8:], f.sum)
	binary.BigEndian.PutUint32(b[12:], s.frameSum(b, at))
}

// parseHead reads the head of a frame. It tells whether there is one, made for this place of this
// segment.
func (s *segment) parseHead(b []byte, at int64) (f frame, ok bool) {
	f = frame{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])}
	ok = f.length >= 1 && f.length <= maxContent && f.kind <= firstFrame|lastFrame &&
		binary.BigEndian.Uint32(b[12:]) == s.frameSum(b, at)
	return f, ok
}

func (s *segment) frameSum(b []byte, at int64) uint32 {
	var place [8]byte
	binary.BigEndian.PutUint64(place[:], uint64(at))
	return crc32.Update(crc32.Update(s.seed, castagnoli, place[:]), castagnoli, b[:12])
}

// filler fills up a frame. Each frame ends with at least one such byte, so that its last bytes are
// never all zero.
const filler = 0xff

// filledUp returns where a frame ends whose content ends at n.
func filledUp(n int64) int64 { return aligned(n + 1) }

// aligned returns the first place for a frame that is not below n.
func aligned(n int64) int64 { return (n + 7) &^ 7 }

// groupHead returns what a group says before its records.
func groupHead(b []byte, g journal.Group) []byte {
	b = binary.BigEndian.AppendUint64(b, g.Term)
	b = appendPosition(appendPosition(b, g.Before), g.After)
	return binary.AppendUvarint(b, uint64(len(g.Records)))
}

// parseGroup reads a group from the contents of its frames. Its records are parts of b.
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
		return g, fmt.Errorf("%w: a group of %d records from %v to %v", errs.ErrCorrupt, len(g.Records), g.Before,
			g.After)
	}
	return g, nil
}

// The endings of names.
const (
	asSegment = ".segment"
	asNew     = ".new"
	asGone    = ".gone"
)

func name(number uint64, ending string) string { return fmt.Sprintf("%08d%s", number, ending) }

// parseName reads the name of a file. It tells whether a journal gives such names.
func parseName(text string) (number uint64, ending string, ok bool) {
	digits, ending, _ := strings.Cut(text, ".")
	ending = "." + ending
	number, err := strconv.ParseUint(digits, 10, 64)
	known := ending == asSegment || ending == asNew || ending == asGone
	return number, ending, err == nil && known && name(number, ending) == text
}
