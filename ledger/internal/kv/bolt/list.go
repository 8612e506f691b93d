package bolt

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"os"
	"runtime/debug"
)

// bbolt writes the list of free pages in each commit. In a file that was used for long it has a hundred thousand of them,
// and a commit took 8 times as long. So a long list is left out, and written when the file is closed. Where that did not
// happen the next one who writes to the file has to find the free pages: all that no bucket holds. bbolt would do so by
// itself, but it trusts what it reads, and on damaged pages it ends the process. So the list is written before bbolt sees
// the file, and no list is left out where that cannot be.
//
// One such search is left to bbolt: when a commit fails, for want of space on the disk say, and the one before left out the
// list. It takes as long as reading the file, and where a page has been damaged since the file was opened, or in a leaf that was
// not looked at then, the process ends. Nothing is lost by that: after a failed commit nothing more is written anyway.

// LongestList is the number of free pages up to which each commit lists them: that is one page, and a tenth of
// the time.
const LongestList = 500

// mostListed is how many pages are listed at most when they had to be found, 16 GiB of usual ones: bbolt keeps them in
// memory, and a file that takes up no room may say that it has any number. The others are used again after a
// [Store.Compact].
const mostListed = 1 << 22

// choose decides whether the next commit lists the free pages.
func (d *database) choose() {
	d.db.NoFreelistSync = !d.late && d.freePages() > d.longest
}

func (d *database) freePages() int {
	stats := d.db.Stats()
	return stats.FreePageN + stats.PendingPageN
}

// list makes a last commit, of nothing but the list, if the one before left it out. Without it nothing is missing, but the
// next one to open the file has to search it.
func (d *database) list() error {
	if !d.unlisted {
		return nil
	}
	d.unlisted = false
	d.db.NoFreelistSync = false
	if err := d.commitNothing(); err != nil {
		return fmt.Errorf("all is saved but the list of free pages: %w", err)
	}
	return nil
}

func (d *database) commitNothing() (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // which bbolt's own locks do not outlive: see rescueLocked
	tx, err := d.begin(true)
	if err != nil {
		return err
	}
	defer tx.end(&err)
	return tx.commit()
}

// listing is a list of free pages to be written to a file that has none.
type listing struct {
	file *os.File
	meta meta
	used pageSet
}

// write makes a transaction of its own, as bbolt would, of the list. A crash leaves the one before, or this one.
func (l *listing) write() error {
	if err := l.file.Sync(); err != nil { // the last transaction may not be on disk, and the pages of the one before are free
		return err
	}
	count := uint64(0)
	for range l.free() {
		count++
	}
	size := uint64(l.meta.pageSize)
	length := (headerSize+8*(count+1))/size + 1 // of the list, in pages
	at := l.room(length)
	if err := l.writePages(at, length); err != nil {
		return err
	}
	if err := l.file.Sync(); err != nil {
		return err
	}
	if err := l.writeMeta(at, max(l.meta.pages, at+length)); err != nil {
		return err
	}
	return l.file.Sync()
}

// free returns the pages that are not in use, in order.
func (l *listing) free() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		count := 0
		for id := uint64(metaPages); id < l.meta.pages && count < mostListed; id++ {
			if l.used.has(id) {
				continue
			}
			if count++; !yield(id) {
				return
			}
		}
	}
}

// room returns the first of so many free pages in a row, or else the end of the file: a full disk has no room for more.
func (l *listing) room(length uint64) uint64 {
	row, last := uint64(0), uint64(0)
	for id := range l.free() {
		if id != last+1 {
			row = 0
		}
		if row, last = row+1, id; row == length {
			return id + 1 - length
		}
	}
	return l.meta.pages
}

// writePages writes the list on so many pages, without those it stands on itself.
func (l *listing) writePages(at, length uint64) error {
	count := uint64(0)
	listed := func(id uint64) bool { return id < at || id >= at+length }
	for id := range l.free() {
		if listed(id) {
			count++
		}
	}
	size := int64(l.meta.pageSize)
	section := io.NewOffsetWriter(l.file, int64(at)*size)
	out := bufio.NewWriterSize(section, 1<<16)
	head := binary.NativeEndian.AppendUint64(nil, at)
	head = binary.NativeEndian.AppendUint16(head, freePage)
	head = binary.NativeEndian.AppendUint16(head, uint16(min(count, manyFree)))
	head = binary.NativeEndian.AppendUint32(head, uint32(length-1))
	if count >= manyFree {
		head = binary.NativeEndian.AppendUint64(head, count)
	}
	_, _ = out.Write(head) // what goes wrong shows in Flush
	for id := range l.free() {
		if listed(id) {
			_, _ = out.Write(binary.NativeEndian.AppendUint64(nil, id))
		}
	}
	rest := int64(length)*size - int64(len(head)) - 8*int64(count)
	_, _ = out.Write(make([]byte, rest))
	return out.Flush()
}

// writeMeta writes the meta page of a transaction after the last one, over that of the one before.
func (l *listing) writeMeta(list, pages uint64) error {
	transaction := l.meta.transaction + 1
	place := transaction % metaPages
	page := make([]byte, l.meta.pageSize)
	binary.NativeEndian.PutUint64(page, place)
	binary.NativeEndian.PutUint16(page[8:], metaPage)
	fields := page[headerSize:][:metaSize]
	copy(fields, l.meta.fields)
	binary.NativeEndian.PutUint64(fields[32:], list)
	binary.NativeEndian.PutUint64(fields[40:], pages)
	binary.NativeEndian.PutUint64(fields[48:], transaction)
	binary.NativeEndian.PutUint64(page[headerSize+metaSize:], metaSum(fields))
	_, err := l.file.WriteAt(page, int64(place)*int64(l.meta.pageSize))
	return err
}
