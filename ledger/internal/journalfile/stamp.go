package journalfile

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/journal"
)

// stamp describes a file, so that a later stamp shows whether the file was replaced or changed.
type stamp struct {
	id       [2]uint64 // device and inode; zero if the system has none
	links    uint64    // number of hard links
	size     int64
	modified int64 // modification time; zero if it was not read, or the system updates it late
}

// withTime is whether a stamp includes the modification time. Since version 6.13, Linux gives each
// write to a file whose time was read a new time. On ext4, that is a change of metadata, and the
// next flush took 1.5 times as long. The time of the segment that is being written is therefore not
// read.
type withTime bool

// maxRereads is how often a segment is read again because only its time has changed. If its
// content was the same each time, the file system does not keep times like a local one. Times are
// not compared any more then.
const maxRereads = 100

// check stops the handle and returns an error wrapping [errs.ErrReplaced] if the journal is not as
// this process found or left it. The path must lead to the directory of this journal, with each
// segment unchanged. The caller holds mu, and the handle has not stopped.
func (j *Journal) check() error { return j.stopIfReplaced(j.compare()) }

// checkLast is [Journal.check] for the last segment only, through its open file instead of its
// path, which is cheaper. It runs before a write, because the write gives the segment another time.
func (j *Journal) checkLast() error {
	now, err := j.last.file.stat(false)
	if err == nil {
		err = j.compareSegment(&j.segments[len(j.segments)-1], now)
	}
	if err == nil {
		err = j.last.checkHead()
	}
	return j.stopIfReplaced(err)
}

// stopIfReplaced returns nil for nil. For any other error it stops the handle, and returns the
// error as [errs.ErrReplaced].
func (j *Journal) stopIfReplaced(err error) error {
	if err == nil {
		return nil
	}
	j.replacedErr = fmt.Errorf("%w: the journal %s: %w", errs.ErrReplaced, j.path, err)
	j.stopErr = fmt.Errorf("%w: %w", journal.ErrStopped, j.replacedErr)
	return j.replacedErr
}

// compare returns an error that describes the first difference from what this process found or
// left, or nil if there is none. Before Claim, it does not compare frames.
func (j *Journal) compare() error {
	dir, err := j.disk.stat(j.path)
	if err != nil {
		return err
	}
	if dir.id != j.dirID {
		return errors.New("the path leads to another directory")
	}
	for i := range j.segments {
		s := &j.segments[i]
		now, err := j.disk.lstat(s.path, s.expected.modified != 0)
		if err == nil {
			err = j.compareSegment(s, now)
		}
		if err != nil {
			return err
		}
	}
	if j.last == nil {
		return nil
	}
	return j.last.checkHead()
}

// compareSegment returns an error if a segment does not have its stamp any more; now is the present
// one. If only the time differs, the content decides. The reason is that users and programs may set
// the time of a file, and some file systems update it late. The content is read up to the end of
// the journal, which must be j.end. If it is, the new stamp is stored.
func (j *Journal) compareSegment(s *segmentFile, now stamp) error {
	if now == *s.expected {
		return nil
	}
	switch was := *s.expected; {
	case now.id != was.id:
		return fmt.Errorf("segment %d: the path leads to another file", s.number)
	case now.links != was.links:
		return fmt.Errorf("segment %d: %d hard links lead to it, before %d", s.number, now.links, was.links)
	case now.size != was.size:
		return fmt.Errorf("segment %d: it has %d bytes, before %d", s.number, now.size, was.size)
	case j.term == 0:
		return fmt.Errorf("segment %d: it was written to", s.number) // the right content is unknown before Claim
	case j.rereads >= maxRereads: // times are not compared any more
		return nil
	}
	j.rereads++
	_, end, err := j.readTail(*s)
	if err == nil && end != j.end {
		err = fmt.Errorf("it ends with %v, before with %v", end, j.end)
	}
	if err != nil {
		return fmt.Errorf("segment %d: it was overwritten: %w", s.number, err)
	}
	*s.expected = now
	return nil
}

// checkHead compares the head of the last frame with what was written. Independently of times, that
// reveals an older copy that was written over the segment, which does not have this frame.
func (w *writer) checkHead() error {
	var now [frameHeadSize]byte
	if _, err := w.file.ReadAt(now[:], w.headAt); err != nil {
		return err
	}
	if now != w.lastHead {
		return fmt.Errorf("segment %d: it was overwritten: the last frame, at byte %d, is not what was written",
			w.number, w.headAt)
	}
	return nil
}

// pathOf returns the path of a segment below the path of the journal.
func (j *Journal) pathOf(n uint64) string { return filepath.Join(j.path, name(n, segmentExt)) }
