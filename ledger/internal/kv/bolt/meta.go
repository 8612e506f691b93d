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

// A file that is overwritten in place (cp backup.db live.db) keeps its inode and its lock, and
// bbolt would go on with what it knows of the former one: where pages are free, above all. So the
// meta pages, one of which changes with each commit, are compared with what this process wrote
// there, or found when it opened the file.

// meta is the beginning of a meta page: its head, its fields and their checksum.
type meta [headerSize + metaSize + 8]byte

const metaSize = 56

func (m *meta) long(at int) uint64 { return binary.NativeEndian.Uint64(m[headerSize+at:]) }

func (m *meta) short(at int) uint32 { return binary.NativeEndian.Uint32(m[headerSize+at:]) }

func (m *meta) pageSize() int64     { return int64(m.short(8)) }
func (m *meta) root() uint64        { return m.long(16) }
func (m *meta) free() uint64        { return m.long(32) } // the page of the list of free pages
func (m *meta) pages() uint64       { return m.long(40) } // of the file
func (m *meta) transaction() uint64 { return m.long(48) }

// whole tells whether bbolt would take it: it has the marks of bbolt's, and the checksum of its
// fields, FNV-1a.
func (m *meta) whole() bool {
	const magic, version = 0xED0CDAED, 2
	sum := fnv.New64a()
	_, _ = sum.Write(m[headerSize : headerSize+metaSize])
	return sum.Sum64() == m.long(metaSize) && m.short(0) == magic && m.short(4) == version
}

// readMeta reads the meta page at some place, or as much as there is.
func readMeta(file io.ReaderAt, at int64) (m meta, err error) {
	if _, err = file.ReadAt(m[:], at); errors.Is(err, io.EOF) {
		err = nil
	}
	return m, err
}

// newestMeta returns what bbolt takes for the newest transaction. It is not known if no meta page
// is whole.
func newestMeta(file io.ReaderAt) (newest meta, known bool, err error) {
	newest, known, err = wholeMeta(file, 0)
	from, to := int64(1<<10), int64(1<<24) // where bbolt looks for the other one; the first that is whole counts
	if known {
		from, to = newest.pageSize(), newest.pageSize()
	}
	for at := from; err == nil && at <= to; at *= 2 {
		second, whole, err := wholeMeta(file, at)
		switch {
		case err != nil:
			return meta{}, false, err
		case !whole:
			continue
		case second.pageSize() != at:
			return meta{}, false, fmt.Errorf("%w: the meta pages differ in the size of pages", kv.ErrCorrupt)
		case !known || second.transaction() > newest.transaction():
			newest = second
		}
		return newest, true, nil
	}
	return newest, known, err
}

// wholeMeta refuses a meta page that bbolt would take, but could not use.
func wholeMeta(file io.ReaderAt, at int64) (m meta, whole bool, err error) {
	const smallest, largest = 1 << 12, 1 << 16 // of any machine that bbolt knows
	m, err = readMeta(file, at)
	switch size := m.short(8); {
	case err != nil || !m.whole():
		return meta{}, false, err
	case size < smallest || size > largest || bits.OnesCount32(size) != 1:
		return meta{}, false, fmt.Errorf("%w: pages of %d bytes", kv.ErrCorrupt, size)
	case m.transaction() > 1<<62: // the last ones would wrap round
		return meta{}, false, fmt.Errorf("%w: transaction %d", kv.ErrCorrupt, m.transaction())
	}
	return m, true, nil
}

// metas are both meta pages.
type metas [metaPages]meta

// known is what a file should be like.
type known struct {
	metas
	length  int64 // at least, in bytes
	writing int   // the meta page that a commit may be changing, or whose commit failed; none if below 0
}

// are tells whether a file with such meta pages is the one that is known.
func (k *known) are(now *metas) bool {
	for id := range now {
		if id != k.writing && now[id] != k.metas[id] {
			return false
		}
	}
	return true
}

func (d *database) readMetas() (now metas, err error) {
	for id := range now {
		if now[id], err = readMeta(d.file, int64(id)*int64(d.pageSize)); err != nil {
			return now, err
		}
	}
	return now, nil
}

// remember notes what a file is like that is locked, and may not be changed by anybody else from
// now on.
func (d *database) remember(now metas) {
	newest := &now[0]
	if second := &now[1]; !newest.whole() || second.whole() && second.transaction() > newest.transaction() {
		newest = second
	}
	d.known.Store(&known{now, newest.pageSize() * int64(newest.pages()), -1})
}

// learn learns what a file is like that was just opened.
func (d *database) learn() error {
	d.pageSize = d.db.Info().PageSize
	now, err := d.readMetas()
	if err == nil {
		d.remember(now)
	}
	return err
}

// writes says that the commit of a transaction begins.
func (d *database) writes(transaction uint64) {
	k := *d.known.Load()
	k.writing = int(transaction % metaPages)
	d.known.Store(&k)
}

// wrote learns what that commit has written.
func (d *database) wrote(transaction uint64) error {
	before := d.known.Load()
	now, err := d.readMetas()
	if err != nil {
		return err
	}
	if m := &now[before.writing]; !m.whole() || m.transaction() != transaction || !before.are(&now) {
		return d.overwrite()
	}
	d.remember(now)
	return nil
}

// overwrite notes that somebody has written to the file. Nothing more is done with it.
func (d *database) overwrite() error {
	d.overwritten.Store(true)
	return errOverwritten()
}

func errOverwritten() error {
	return fmt.Errorf("%w: it is not what this process wrote or found there", kv.ErrOverwritten)
}

// checkKnown refuses a file with other meta pages than it should have.
func (d *database) checkKnown(read func() (metas, error)) error {
	for {
		k := d.known.Load()
		now, err := read()
		if err != nil || k.are(&now) {
			return err
		}
		if d.known.Load() == k { // else a commit has come in between
			return d.overwrite()
		}
	}
}

// checkFile looks at the file by other means than mapped memory, which ends where the file does.
func (d *database) checkFile() error {
	length := d.known.Load().length // first: a commit may make the file longer concurrently
	info, err := d.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < length {
		return d.overwrite()
	}
	return d.checkKnown(d.readMetas)
}

// check looks at the file: who reads, by the memory that is mapped.
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

// blame replaces the error of somebody who met damage in a file that was overwritten meanwhile.
func (d *database) blame(err *error) {
	uncertain := errors.Is(*err, kv.ErrUncertain)
	if !uncertain && !errors.Is(*err, kv.ErrCorrupt) || !errors.Is(d.checkFile(), kv.ErrOverwritten) {
		return
	}
	if *err = errOverwritten(); uncertain {
		*err = fmt.Errorf("%w: %w", kv.ErrUncertain, *err)
	}
}
