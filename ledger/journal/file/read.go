package file

import (
	"bufio"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"slices"

	"github.com/sluicedp/sluice/ledger/journal"
)

// errTorn says that no whole group lies at a place.
var errTorn = errors.New("no whole group")

// cursor reads the groups of a journal, in order.
type cursor struct {
	*Journal
	segment
	file handle // nil before the first group
	size int64
	at   int64            // place of the next frame
	pos  journal.Position // behind the last group

	window []byte // of the file, from a place on, as it was
	from   int64
}

// windowSize is how much is read of the file at a time: most groups are much smaller.
const windowSize = 64 << 10

// enter goes to the beginning of a segment.
func (c *cursor) enter(s segment) error {
	if err := c.leave(); err != nil {
		return err
	}
	f, err := c.dir.open(name(s.number, asSegment), false)
	if err != nil {
		return err
	}
	c.segment, c.file, c.at, c.pos = s, f, headerSize, s.begin
	return c.refresh()
}

// refresh has the file looked at as it is now.
func (c *cursor) refresh() (err error) {
	c.window = c.window[:0]
	c.size, err = c.file.size()
	return err
}

// leave closes the segment that is being read.
func (c *cursor) leave() error {
	f := c.file
	if c.file = nil; f == nil {
		return nil
	}
	return f.Close()
}

// seek goes to a position, at which a group ends.
func (c *cursor) seek(to journal.Position) error {
	i := c.holding(to)
	if i < 0 {
		return fmt.Errorf("%w: it begins with %v, behind %v", journal.ErrLost, c.segments[0].begin, to)
	}
	err := c.enter(c.segments[i])
	for err == nil && c.pos.Events < to.Events {
		_, err = c.next()
	}
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: it ends with %v, before %v", journal.ErrLost, c.pos, to)
	case err == nil && c.pos != to:
		return fmt.Errorf("%w: no group ends with %v; one does with %v", journal.ErrForked, to, c.pos)
	}
	return err
}

// next reads the next group. [io.EOF] says that there is none.
func (c *cursor) next() (g journal.Group, err error) {
	if err := c.cross(); err != nil {
		return g, err
	}
	g, end, err := c.group()
	if errors.Is(err, errTorn) { // it may have been appended since
		if err := c.refresh(); err != nil {
			return g, err
		}
		g, end, err = c.group()
	}
	switch {
	case errors.Is(err, errTorn):
		return g, c.ending()
	case err != nil:
		return g, err
	case g.Before != c.pos:
		return g, fmt.Errorf("%w: in segment %d, a group goes on from %v, not from %v", journal.ErrForked, c.number, g.Before, c.pos)
	}
	c.at, c.pos = end, g.After
	return g, nil
}

// cross goes on to another segment, if what follows is there now.
func (c *cursor) cross() error {
	if i := c.holding(c.pos); i < 0 || c.segments[i].number != c.number {
		return c.seek(c.pos)
	}
	return nil
}

// ending says what it means that no whole group follows in a segment.
func (c *cursor) ending() error {
	if i := slices.IndexFunc(c.segments, func(s segment) bool { return s.number > c.number }); i >= 0 {
		return fmt.Errorf("%w: segment %d ends with %v, and segment %d begins with %v",
			journal.ErrLost, c.number, c.pos, c.segments[i].number, c.segments[i].begin)
	}
	place, err := c.begun()
	switch {
	case err != nil:
		return err
	case place > 0:
		return fmt.Errorf("%w: in segment %d, the group at byte %d is damaged: another begins at byte %d", journal.ErrCorrupt, c.number, c.at, place)
	}
	return io.EOF
}

// begun returns the first place behind this one at which a group begins, 0 if there is none.
func (c *cursor) begun() (int64, error) {
	rest := max(0, c.size-c.at-8)
	r := bufio.NewReaderSize(io.NewSectionReader(c.file, c.at+8, rest), int(min(rest, 1<<16)))
	for at := c.at + 8; ; at += 8 {
		b, err := r.Peek(frameHead)
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

// group reads the group at this place, and returns where it ends.
func (c *cursor) group() (g journal.Group, end int64, err error) {
	var content []byte
	for end = c.at; ; {
		f, err := c.frame(end, &content)
		if err != nil {
			return g, 0, err
		}
		if (f.kind&firstFrame != 0) != (end == c.at) {
			return g, 0, errTorn
		}
		end = aligned(end + frameHead + int64(f.length))
		if f.kind&lastFrame != 0 {
			g, err = parseGroup(content)
			return g, end, err
		}
	}
}

// frame reads a frame, and appends its content. No more is allocated than the file has.
func (c *cursor) frame(at int64, content *[]byte) (f frame, err error) {
	var head [frameHead]byte
	if err := c.read(head[:], at); err != nil {
		return f, err
	}
	f, ok := c.parseHead(head[:], at)
	if !ok || at+frameHead+int64(f.length) > c.size {
		return f, errTorn
	}
	had := len(*content)
	*content = slices.Grow(*content, int(f.length))[:had+int(f.length)]
	part := (*content)[had:]
	if err := c.read(part, at+frameHead); err != nil {
		return f, err
	}
	if crc32.Checksum(part, castagnoli) != f.sum {
		return f, errTorn
	}
	return f, nil
}

// read reads at a place. Where the file ends before, it says errTorn.
func (c *cursor) read(b []byte, at int64) error {
	if n := int64(len(b)); at < c.from || at+n > c.from+int64(len(c.window)) {
		if at+n > c.size {
			return errTorn
		}
		if err := c.fill(at, max(n, min(windowSize, c.size-at))); err != nil {
			return err
		}
	}
	copy(b, c.window[at-c.from:])
	return nil
}

// fill reads so many bytes from a place on.
func (c *cursor) fill(at, n int64) error {
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

// groups returns the groups behind a position, each read by step.
func (j *Journal) groups(after journal.Position, step func(c *cursor) (journal.Group, error)) iter.Seq2[journal.Group, error] {
	return func(yield func(journal.Group, error) bool) {
		c := &cursor{Journal: j, pos: after}
		defer c.leave()
		for {
			g, err := step(c)
			if errors.Is(err, io.EOF) || !yield(g, err) || err != nil {
				return
			}
		}
	}
}

// step reads the next group. The first time it goes to where the cursor shall begin.
func step(c *cursor) (g journal.Group, err error) {
	if c.file == nil {
		err = c.seek(c.pos)
	}
	if err != nil {
		return g, err
	}
	return c.next()
}
