package journalfile

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"iter"

	"github.com/sluicedp/sluice/ledger/journal"
)

// sizes are limits in bytes. Tests use smaller ones.
type sizes struct {
	segment int64 // a segment of this size gets no more groups
	step    int64 // the most that is filled with zeros in advance
	content int   // the largest content of a frame
}

var defaultSizes = sizes{segment: 64 << 20, step: 1 << 20, content: maxContent}

// writer appends groups to a segment.
type writer struct {
	segment
	sizes
	file   handle
	end    int64  // of the last frame, including its filler
	filled int64  // the end of the file
	buffer []byte // an unfinished frame: space for its head, then content
	kind   uint32 // of the unfinished frame
	err    error  // the first error; nothing is written after it

	expected stamp               // of the file, after the last write of this writer
	headAt   int64               // offset of the last frame's head; without a frame, of the header's last bytes
	lastHead [frameHeadSize]byte // the bytes at headAt
}

// group writes a group at the end of the segment, in one or more frames. The group is durable only
// after sync. It returns the first error of the writer, also if that is of an earlier group.
func (w *writer) group(g journal.Group) error {
	w.kind = firstFrame
	w.put(groupHead(nil, g))
	for _, r := range g.Records {
		var length [binary.MaxVarintLen64]byte
		w.put(length[:binary.PutUvarint(length[:], uint64(len(r)))])
		w.put(r)
	}
	w.kind |= lastFrame
	w.flush()
	return w.err
}

// put adds to the content of a group. It writes a full frame only when more content comes, because
// the last frame of a group is marked as such. An error is stored in w.err.
func (w *writer) put(b []byte) {
	for len(b) > 0 && w.err == nil {
		if len(w.buffer) == frameHeadSize+w.content {
			w.flush()
		}
		if len(w.buffer) == 0 {
			w.buffer = append(w.buffer, make([]byte, frameHeadSize)...)
		}
		n := min(len(b), frameHeadSize+w.content-len(w.buffer))
		w.buffer, b = append(w.buffer, b[:n]...), b[n:]
	}
}

// flush writes the unfinished frame at the end of the segment. An error is stored in w.err.
func (w *writer) flush() {
	if w.err != nil {
		return
	}
	content := w.buffer[frameHeadSize:]
	w.head(w.buffer, w.end, frame{uint32(len(content)), w.kind, crc32.Checksum(content, castagnoli)})
	w.setHead(w.buffer, w.end)
	for end := paddedEnd(int64(len(w.buffer))); int64(len(w.buffer)) < end; {
		w.buffer = append(w.buffer, filler)
	}
	_, w.err = w.file.WriteAt(w.buffer, w.end)
	w.end += int64(len(w.buffer))
	w.buffer, w.kind = w.buffer[:0], 0 // the next frame does not begin a group
}

// setHead records the 16 bytes that were written at an offset, for checkHead.
func (w *writer) setHead(head []byte, at int64) {
	w.headAt = at
	copy(w.lastHead[:], head)
}

// sync makes the written groups durable. If the file has grown, sync fills more of it with zeros,
// so that the next appends do not make it grow. The stamp is read before the flush. A change by
// another process during the flush then differs from the stamp.
func (w *writer) sync() error {
	if w.err == nil && w.end <= w.filled {
		if w.expected, w.err = w.file.stat(false); w.err == nil {
			w.err = w.file.datasync()
		}
		return w.err
	}
	// As many zeros as the file has bytes, but at least a sixteenth of step and at most step.
	filled := alignUp(w.end + min(max(w.end, w.step/16), w.step))
	if w.err == nil {
		w.err = zero(w.file, w.end, filled)
	}
	if w.err == nil {
		w.expected, w.err = w.file.stat(false)
	}
	if w.err == nil {
		w.err = w.file.sync()
	}
	w.filled = filled
	return w.err
}

// zero overwrites a file with zeros between two offsets. It makes the file longer if that ends
// before.
func zero(f handle, from, to int64) error {
	zeros := make([]byte, min(to-from, 1<<18))
	for from < to {
		n, err := f.WriteAt(zeros[:min(to-from, int64(len(zeros)))], from)
		if err != nil {
			return err
		}
		from += int64(n)
	}
	return nil
}

// writeSegment creates the file of segment s in dir, with the given groups, and returns the writer
// that appends to it. The segment gets its final name when all of that is durable. After an error
// the file is closed, and may exist under its temporary or final name.
func writeSegment(dir folder, s segment, limits sizes, groups iter.Seq2[journal.Group, error]) (*writer, error) {
	f, err := dir.create(name(s.number, newExt))
	if err != nil {
		return nil, err
	}
	w := &writer{segment: s, sizes: limits, file: f, end: headerSize}
	header := w.header()
	_, w.err = f.WriteAt(header, 0)
	// Without a frame, checkHead compares the last bytes of the header.
	w.setHead(header[headerSize-frameHeadSize:], headerSize-frameHeadSize)
	for g, err := range groups {
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if w.group(g) != nil {
			break
		}
	}
	if w.sync() == nil {
		w.err = dir.rename(name(s.number, newExt), name(s.number, segmentExt))
	}
	if w.err == nil {
		w.err = dir.sync()
	}
	if w.err != nil {
		return nil, errors.Join(w.err, f.Close())
	}
	return w, nil
}
