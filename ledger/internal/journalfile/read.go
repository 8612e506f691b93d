package journalfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/journal"
)

// The reasons why there is no whole group at an offset. errTorn: a loss of power or a failed write
// may have left it so. errDamaged: neither can have left it so. A loss of power leaves whole
// sectors of a write, or what was there before, which is zeros in a segment. A failed write leaves
// its beginning.
var (
	errTorn    = errors.New("no whole group")
	errDamaged = errors.New("a damaged group")
)

// sectorSize is the smallest unit in bytes that a disk writes as a whole.
const sectorSize = 512

// cursor reads the groups of a journal in order.
type cursor struct {
	*Journal
	segmentFile // the current segment; its file is nil before the first group
	size        int64
	at          int64            // offset of the next frame
	pos         journal.Position // the end of the last group

	window []byte // a part of the file as it was read, which begins at offset from
	from   int64
}

// windowSize is how many bytes are read from the file at a time. Most groups are much smaller.
const windowSize = 64 << 10

// moveTo moves the cursor to the first group of a segment.
func (c *cursor) moveTo(s segmentFile) error {
	c.segmentFile, c.at, c.pos = s, headerSize, s.begin
	return c.refresh()
}

// refresh discards the window and reads the size of the file again.
func (c *cursor) refresh() (err error) {
	c.window = c.window[:0]
	c.size, err = c.file.size()
	return err
}

// seek moves the cursor to a position, at which a group ends or the journal begins. It returns
// [journal.ErrTrimmed] if the journal begins after the position, and [journal.ErrLost] if it ends
// before. It returns [journal.ErrForked] if the position is within a group, or has another root.
func (c *cursor) seek(to journal.Position) error {
	i := c.segmentAt(to)
	if i < 0 {
		return fmt.Errorf("%w: the journal begins with %v, after %v", journal.ErrTrimmed, c.segments[0].begin, to)
	}
	err := c.moveTo(c.segments[i])
	for err == nil && c.pos.Events < to.Events {
		_, err = c.next()
	}
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: the journal ends with %v, before %v", journal.ErrLost, c.pos, to)
	case err == nil && c.pos != to:
		return fmt.Errorf("%w: no group ends with %v; a group ends with %v", journal.ErrForked, to, c.pos)
	}
	return err
}

// next returns the next group, and moves after it. It returns [io.EOF] if no whole group follows
// and none is damaged.
func (c *cursor) next() (g journal.Group, err error) {
	if err := c.followSegment(); err != nil {
		return g, err
	}
	g, end, err := c.group()
	if errors.Is(err, errTorn) || errors.Is(err, errDamaged) { // the window may be outdated
		if err := c.refresh(); err != nil {
			return g, err
		}
		g, end, err = c.group() // once more, from the file
	}
	switch {
	case errors.Is(err, errTorn), errors.Is(err, errDamaged):
		return g, c.explainEnd(err)
	case err != nil:
		return g, err
	case g.Before != c.pos:
		return g, fmt.Errorf("%w: segment %d: a group begins with %v, not with %v", journal.ErrForked, c.number,
			g.Before, c.pos)
	}
	c.at, c.pos = end, g.After
	return g, nil
}

// followSegment moves the cursor to the segment that has the next group now, if that is another
// one. The segments may have changed since the last group was read.
func (c *cursor) followSegment() error {
	i := c.segmentAt(c.pos)
	if i < 0 || c.segments[i].number != c.number {
		return c.seek(c.pos)
	}
	c.segmentFile = c.segments[i] // Claim may have opened the file again
	return nil
}

// explainEnd returns what it means that no whole group is at the current offset. why is errTorn or
// errDamaged. The result is [io.EOF] if the journal ends here, [journal.ErrLost] if another segment
// follows, and [errs.ErrCorrupt] if the group is damaged.
func (c *cursor) explainEnd(why error) error {
	if i := slices.IndexFunc(c.segments, func(s segmentFile) bool { return s.number > c.number }); i >= 0 {
		return fmt.Errorf("%w: segment %d ends with %v, but segment %d begins with %v",
			journal.ErrLost, c.number, c.pos, c.segments[i].number, c.segments[i].begin)
	}
	next, err := c.findGroup()
	switch {
	case err != nil:
		return err
	case next > 0:
		return fmt.Errorf("%w: segment %d: the group at byte %d is damaged, because another group begins at byte %d",
			errs.ErrCorrupt, c.number, c.at, next)
	case errors.Is(why, errDamaged):
		return fmt.Errorf("%w: segment %d: the last group, at byte %d, is damaged, but not as by a loss of power: "+
			"it may have been acknowledged",
			errs.ErrCorrupt, c.number, c.at)
	}
	return io.EOF
}

// findGroup returns the first offset after the current one at which a group begins, or 0 if there
// is none. It tries each multiple of 8, because all frames begin at these.
func (c *cursor) findGroup() (int64, error) {
	rest := max(0, c.size-c.at-8)
	r := bufio.NewReaderSize(io.NewSectionReader(c.file, c.at+8, rest), int(min(rest, 1<<16)))
	for at := c.at + 8; ; at += 8 {
		b, err := r.Peek(frameHeadSize)
		if errors.Is(err, io.EOF) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		if f, ok := c.parseHead(b, at); ok && f.kind&firstFrame != 0 {
			return at, nil
		}
		if _, err := r.Discard(8); err != nil {
			return 0, err
		}
	}
}

// group reads the group at the current offset, and returns the offset where it ends. It returns
// errTorn or errDamaged if there is no whole group.
func (c *cursor) group() (g journal.Group, end int64, err error) {
	var content []byte
	for end = c.at; ; {
		f, err := c.frame(end, &content)
		if err != nil {
			return g, 0, err
		}
		if (f.kind&firstFrame != 0) != (end == c.at) {
			// Only the first frame begins a group. A torn write leaves no other valid frame in its
			// place, because no offset of a segment is written twice.
			return g, 0, errDamaged
		}
		end = paddedEnd(end + frameHeadSize + int64(f.length))
		if f.kind&lastFrame != 0 {
			g, err = parseGroup(content)
			return g, end, err
		}
	}
}

// frame reads the frame at an offset, and appends its content to *content. It allocates no more
// than the file has left. It returns errTorn or errDamaged if there is no whole frame.
func (c *cursor) frame(at int64, content *[]byte) (f frame, err error) {
	var head [frameHeadSize]byte
	if err := c.read(head[:], at); err != nil {
		return f, err
	}
	f, ok := c.parseHead(head[:], at)
	if !ok {
		return f, c.tornOrDamagedHead(at)
	}
	end := at + frameHeadSize + int64(f.length)
	if end > c.size {
		return f, errTorn
	}
	had := len(*content)
	*content = slices.Grow(*content, int(f.length))[:had+int(f.length)]
	part := (*content)[had:]
	if err := c.read(part, at+frameHeadSize); err != nil {
		return f, err
	}
	if crc32.Checksum(part, castagnoli) != f.sum {
		return f, c.tornOrDamagedContent(at, paddedEnd(end))
	}
	return f, nil
}

// tornOrDamagedHead returns errTorn or errDamaged for an offset without a valid head. After a
// complete write, no sector is all zero from the head on, and the bytes after the head are not all
// zero. An error of reading the file is returned, too.
func (c *cursor) tornOrDamagedHead(at int64) error {
	head := at + frameHeadSize
	// The parts are all bytes after the head, and each sector of the head, from the head on.
	parts := [][2]int64{{head, c.size}}
	for from := range sectors(at, head) {
		parts = append(parts, [2]int64{from, nextSector(from)})
	}
	return c.tornOrDamaged(parts)
}

// tornOrDamagedContent returns errTorn or errDamaged for a frame with a valid head whose content
// does not match its checksum. A frame that was fully written ends with a [filler].
func (c *cursor) tornOrDamagedContent(at, end int64) error {
	parts := [][2]int64{{end - 1, end}}
	for from, to := range sectors(at, end) {
		parts = append(parts, [2]int64{from, to})
	}
	return c.tornOrDamaged(parts)
}

// tornOrDamaged returns errTorn if any of the parts, from an offset to another, is all zero, as
// before it was written. Otherwise it returns errDamaged, or the error of reading the file.
func (c *cursor) tornOrDamaged(parts [][2]int64) error {
	for _, part := range parts {
		if isZero, err := c.isZero(part[0], part[1]); err != nil {
			return err
		} else if isZero {
			return errTorn
		}
	}
	return errDamaged
}

// sectors splits the part of a file between two offsets at sector boundaries. It yields the
// beginning and the end of each piece.
func sectors(from, to int64) iter.Seq2[int64, int64] {
	return func(yield func(int64, int64) bool) {
		for ; from < to && yield(from, min(nextSector(from), to)); from = nextSector(from) {
		}
	}
}

// nextSector returns where the sector of an offset ends.
func nextSector(at int64) int64 { return (at/sectorSize + 1) * sectorSize }

// isZero reports whether a part of the segment is all zero. Bytes after the end of the file count
// as zero. An empty part counts as all zero, so a head at the end of the file is torn.
func (c *cursor) isZero(from, to int64) (bool, error) {
	var b [1 << 12]byte
	for from < to {
		n, err := c.file.ReadAt(b[:min(to-from, int64(len(b)))], from)
		switch {
		case len(bytes.TrimLeft(b[:n], "\x00")) > 0:
			return false, nil
		case errors.Is(err, io.EOF):
			return true, nil
		case err != nil:
			return false, err
		}
		from += int64(n)
	}
	return true, nil
}

// read copies the bytes from offset at into b, from the window if that has them all. Otherwise it
// first fills the window from there on. It returns errTorn if the file ends before.
func (c *cursor) read(b []byte, at int64) error {
	if n := int64(len(b)); at < c.from || at+n > c.from+int64(len(c.window)) {
		if at+n > c.size {
			return errTorn
		}
		if err := c.fillWindow(at, max(n, min(windowSize, c.size-at))); err != nil {
			return err
		}
	}
	copy(b, c.window[at-c.from:])
	return nil
}

// fillWindow reads n bytes from offset at into the window. It returns errTorn if the file ends
// before.
func (c *cursor) fillWindow(at, n int64) error {
	c.window, c.from = slices.Grow(c.window[:0], int(n))[:n], at
	_, err := c.file.ReadAt(c.window, at)
	if err != nil {
		c.window = c.window[:0]
	}
	if errors.Is(err, io.EOF) {
		return errTorn
	}
	return err
}

// groups returns the groups after a position, up to the end of the journal or the first error. Each
// is read by the given function: [step], or one that takes a lock around it.
func (j *Journal) groups(after journal.Position,
	step func(c *cursor) (journal.Group, error)) iter.Seq2[journal.Group, error] {
	return func(yield func(journal.Group, error) bool) {
		c := &cursor{Journal: j, pos: after}
		for {
			g, err := step(c)
			if errors.Is(err, io.EOF) || !yield(g, err) || err != nil {
				return
			}
		}
	}
}

// step returns the next group of a cursor, or [io.EOF]. The first call first moves the cursor to
// c.pos.
func step(c *cursor) (g journal.Group, err error) {
	if c.file == nil {
		err = c.seek(c.pos)
	}
	if err != nil {
		return g, err
	}
	return c.next()
}
