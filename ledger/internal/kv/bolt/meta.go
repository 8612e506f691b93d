package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/bits"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// A file that is overwritten in place (cp backup.db live.db) keeps its inode and its lock. bbolt
// would continue with what it knows about the old content, above all about which pages are free. So
// the meta pages are compared with those that this process wrote, or found when it opened the file.
// Each commit changes one of them.

// meta is the beginning of a meta page: its header, its fields and their checksum.
type meta [headerSize + metaSize + 8]byte

const metaSize = 56

// uint64At returns the field of 8 bytes at an offset after the header.
func (m *meta) uint64At(at int) uint64 { return binary.NativeEndian.Uint64(m[headerSize+at:]) }

// uint32At returns the field of 4 bytes at an offset after the header.
func (m *meta) uint32At(at int) uint32 { return binary.NativeEndian.Uint32(m[headerSize+at:]) }

func (m *meta) pageSize() int64     { return int64(m.uint32At(8)) }
func (m *meta) root() uint64        { return m.uint64At(16) }
func (m *meta) free() uint64        { return m.uint64At(32) } // page of the list of free pages
func (m *meta) pages() uint64       { return m.uint64At(40) } // number of pages of the file
func (m *meta) transaction() uint64 { return m.uint64At(48) }

// isValid reports whether bbolt would accept the meta page: it has bbolt's magic number and
// version, and the checksum of its fields (FNV-1a) is right.
func (m *meta) isValid() bool {
	const magic, version = 0xED0CDAED, 2
	sum := fnv.New64a()
	_, _ = sum.Write(m[headerSize : headerSize+metaSize])
	return sum.Sum64() == m.uint64At(metaSize) && m.uint32At(0) == magic && m.uint32At(4) == version
}

// readMeta reads the meta page at an offset of the file. If the file ends there, the rest of the
// result is zero.
func readMeta(file io.ReaderAt, at int64) (m meta, err error) {
	if _, err = file.ReadAt(m[:], at); errors.Is(err, io.EOF) {
		err = nil
	}
	return m, err
}

// newestMeta returns the meta page that bbolt takes for that of the newest transaction. known is
// false if no meta page is valid. It returns [kv.ErrCorrupt] if a valid meta page cannot be used.
func newestMeta(file io.ReaderAt) (newest meta, known bool, err error) {
	newest, known, err = validMeta(file, 0)
	// The second meta page begins after the first one. If the first is not valid, the page size is
	// not known. Then bbolt tries each power of two, and uses the first valid page.
	from, to := int64(1<<10), int64(1<<24)
	if known {
		from, to = newest.pageSize(), newest.pageSize()
	}
	for at := from; err == nil && at <= to; at *= 2 {
		second, isValid, err := validMeta(file, at)
		switch {
		case err != nil:
			return meta{}, false, err
		case !isValid:
			continue
		case second.pageSize() != at:
			return meta{}, false, fmt.Errorf("%w: the meta pages have different page sizes", kv.ErrCorrupt)
		case !known || second.transaction() > newest.transaction():
			newest = second
		}
		return newest, true, nil
	}
	return newest, known, err
}

// validMeta reads the meta page at an offset of the file. isValid is false if bbolt would not
// accept it; then m is zero. validMeta returns [kv.ErrCorrupt] for a page that bbolt would accept
// but could not use.
func validMeta(file io.ReaderAt, at int64) (m meta, isValid bool, err error) {
	const smallest, largest = 1 << 12, 1 << 16 // of the machines that bbolt supports
	m, err = readMeta(file, at)
	switch size := m.uint32At(8); {
	case err != nil || !m.isValid():
		return meta{}, false, err
	case size < smallest || size > largest || bits.OnesCount32(size) != 1:
		return meta{}, false, fmt.Errorf("%w: the page size is %d bytes", kv.ErrCorrupt, size)
	case m.transaction() > 1<<62: // the next transaction numbers would overflow
		return meta{}, false, fmt.Errorf("%w: the transaction number %d is too large", kv.ErrCorrupt, m.transaction())
	}
	return m, true, nil
}

// metas are both meta pages.
type metas [metaPages]meta

// known is the expected state of a file.
type known struct {
	metas
	length  int64 // minimum length of the file in bytes
	writing int   // meta page that a commit may be changing, or whose commit failed; negative if there is none
}

// match reports whether meta pages are the expected ones. It ignores the one that a commit may be
// changing.
func (k *known) match(now *metas) bool {
	for id := range now {
		if id != k.writing && now[id] != k.metas[id] {
			return false
		}
	}
	return true
}

// readMetas reads both meta pages from the file.
func (d *database) readMetas() (now metas, err error) {
	for id := range now {
		if now[id], err = readMeta(d.file, int64(id)*int64(d.pageSize)); err != nil {
			return now, err
		}
	}
	return now, nil
}

// setKnown stores meta pages as the expected ones, and the length of the file according to the
// newest valid one. The file must be locked: from now on each change of the meta pages by another
// process counts as overwriting the file.
func (d *database) setKnown(now metas) {
	newest := &now[0]
	if second := &now[1]; !newest.isValid() || second.isValid() && second.transaction() > newest.transaction() {
		newest = second
	}
	d.known.Store(&known{now, newest.pageSize() * int64(newest.pages()), -1}) // -1: no commit is writing
}

// readKnown stores the state of a file that was just opened.
func (d *database) readKnown() error {
	d.pageSize = d.db.Info().PageSize
	now, err := d.readMetas()
	if err == nil {
		d.setKnown(now)
	}
	return err
}

// beginCommit records that the commit of a transaction begins. Until endCommit, the meta page that
// it writes is not compared: page 0 for an even transaction number, and page 1 for an odd one.
func (d *database) beginCommit(transaction uint64) {
	k := *d.known.Load()
	k.writing = int(transaction % metaPages)
	d.known.Store(&k)
}

// endCommit reads the meta pages after a commit, and stores them as the expected ones. It returns
// [kv.ErrOverwritten] if the commit has not written its own meta page, or the other one has
// changed.
func (d *database) endCommit(transaction uint64) error {
	before := d.known.Load()
	now, err := d.readMetas()
	if err != nil {
		return err
	}
	if m := &now[before.writing]; !m.isValid() || m.transaction() != transaction || !before.match(&now) {
		return d.markOverwritten()
	}
	d.setKnown(now)
	return nil
}

// markOverwritten records that another process has written to the file, so that the file is not
// used any more. It returns a [kv.ErrOverwritten].
func (d *database) markOverwritten() error {
	d.isOverwritten.Store(true)
	return errOverwritten()
}

func errOverwritten() error {
	return fmt.Errorf("%w: it is not what this process wrote or read", kv.ErrOverwritten)
}

// checkKnown returns [kv.ErrOverwritten] if the meta pages that read returns are not the expected
// ones, and the error of read if that fails. It reads again if a commit has changed the expected
// ones since.
func (d *database) checkKnown(read func() (metas, error)) error {
	for {
		k := d.known.Load()
		now, err := read()
		if err != nil || k.match(&now) {
			return err
		}
		if d.known.Load() == k { // otherwise a commit has changed the expected state concurrently
			return d.markOverwritten()
		}
	}
}

// checkFile returns [kv.ErrOverwritten] if the file is too short, or its meta pages are not the
// expected ones. It reads the file, not mapped memory, because mapped memory ends where the file
// ends.
func (d *database) checkFile() error {
	length := d.known.Load().length // first, because a commit may extend the file concurrently
	info, err := d.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < length {
		return d.markOverwritten()
	}
	return d.checkKnown(d.readMetas)
}

// check returns [kv.ErrOverwritten] if the meta pages of the file are not the expected ones. A
// reading transaction compares them in mapped memory, without a call of the system.
func (t *transaction) check() error {
	if t.tx.Writable() {
		return t.in.checkFile()
	}
	return t.in.checkKnown(func() (now metas, _ error) {
		for id := range now {
			copy(now[id][:], t.mapped[id*t.in.pageSize:])
		}
		return now, nil
	})
}

// preferOverwritten replaces *err by [kv.ErrOverwritten] if *err is about damage or an uncertain
// commit, and the file was overwritten: that is the cause. If *err wraps [kv.ErrUncertain], the new
// error does so, too. It does nothing for any other error, or nil.
func (d *database) preferOverwritten(err *error) {
	uncertain := errors.Is(*err, kv.ErrUncertain)
	if !uncertain && !errors.Is(*err, kv.ErrCorrupt) || !errors.Is(d.checkFile(), kv.ErrOverwritten) {
		return
	}
	if *err = errOverwritten(); uncertain {
		*err = fmt.Errorf("%w: %w", kv.ErrUncertain, *err)
	}
}
