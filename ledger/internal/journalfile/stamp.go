package journalfile

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/journal"
)

// stamp describes a file, so that a later stamp shows whether the file was replaced or written to.
type stamp struct {
	id       [2]uint64 // device and inode; zero where the system has none
	links    uint64    // names of the file
	size     int64
	modified int64 // when it was last written to; zero if that was not read, or the system notes it late
}

// withTime is whether a stamp has the time at which the file was last written to. Since version
// 6.13, Linux gives each write to a file whose time was read a time of its own. On ext4, that is a
// change of metadata, and the next flush took 1.5 times as long. So the time of the segment that is
// written to is not read.
type withTime bool

// mostRereads is how often a segment is read again because only its time has changed. If the
// content is always the same, the file system does not keep times as local ones do, and they are
// not compared any more.
const mostRereads = 100

// check returns an error wrapping [errs.ErrReplaced], and stops the handle, unless the path
// leads to the directory of this journal and each segment is there as this process found or left
// it. It is called with mu held, of a handle that has not stopped.
func (j *Journal) check() error { return j.unless(j.compare()) }

// checkLast is check of what the last segment was when it was opened, whatever its path leads to
// now: that is cheaper. It comes before a write, which gives the segment another time.
func (j *Journal) checkLast() error {
	now, err := j.last.file.stat(false)
	if err == nil {
		err = j.compareSegment(&j.segments[len(j.segments)-1], now)
	}
	if err == nil {
		err = j.last.reread()
	}
	return j.unless(err)
}

// unless stops the handle if something is not as this process left it.
func (j *Journal) unless(err error) error {
	if err == nil {
		return nil
	}
	j.replaced = fmt.Errorf("%w: the journal %s: %w", errs.ErrReplaced, j.path, err)
	j.refusal = fmt.Errorf("%w: %w", journal.ErrStopped, j.replaced)
	return j.replaced
}

// compare returns what is not as this process left it.
func (j *Journal) compare() error {
	home, err := j.disk.stat(j.path)
	if err != nil {
		return err
	}
	if home.id != j.home {
		return errors.New("the path leads to another directory")
	}
	for i := range j.segments {
		s := &j.segments[i]
		now, err := j.disk.lstat(s.path, s.left.modified != 0)
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
	return j.last.reread()
}

// compareSegment compares a segment with its stamp. If only the time differs, its content decides:
// a person or a program may set the time of a file, and some file systems set it late.
func (j *Journal) compareSegment(s *kept, now stamp) error {
	if now == *s.left {
		return nil
	}
	switch was := *s.left; {
	case now.id != was.id:
		return fmt.Errorf("segment %d: the path leads to another file", s.number)
	case now.links != was.links:
		return fmt.Errorf("segment %d: %d names (hard links) lead to it, before %d", s.number, now.links, was.links)
	case now.size != was.size:
		return fmt.Errorf("segment %d: it has %d bytes, before %d", s.number, now.size, was.size)
	case j.term == 0:
		return fmt.Errorf("segment %d: it was written to", s.number) // this handle does not know what must be there
	case j.rereads >= mostRereads:
		return nil
	}
	j.rereads++
	_, end, err := j.tail(*s)
	if err == nil && end != j.end {
		err = fmt.Errorf("it leads to %v, before to %v", end, j.end)
	}
	if err != nil {
		return fmt.Errorf("segment %d: it was overwritten: %w", s.number, err)
	}
	*s.left = now
	return nil
}

// reread compares the head of the last frame with what was written. Whatever the times are, this
// shows that an older copy was written over the segment: it does not have that frame.
func (w *writer) reread() error {
	var now [frameHead]byte
	if _, err := w.file.ReadAt(now[:], w.headAt); err != nil {
		return err
	}
	if now != w.lastHead {
		return fmt.Errorf("segment %d: it was overwritten: the last frame, at byte %d, is not what was written",
			w.number, w.headAt)
	}
	return nil
}

// pathOf returns the path of a segment, by the path of the journal.
func (j *Journal) pathOf(number uint64) string { return filepath.Join(j.path, name(number, asSegment)) }
