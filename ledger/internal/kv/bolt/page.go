package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// bbolt trusts the pages that it reads. On a damaged page it may panic, follow a page to itself
// forever, or allocate memory without limit. So this package reads pages itself, with the functions
// in this file, and lets bbolt read only pages that were checked.
//
// Numbers are in the byte order of the machine. A page begins with its id (8 bytes), its kind (2),
// its number of elements (2) and the number of overflow pages that follow it (4).
//
// An element of a branch page has the position of a key relative to the element (4), the length of
// the key (4) and a page id (8). An element of a leaf page has flags (4), a position (4), and the
// lengths of key and value (4 each). Keys and values are stored after the elements.
//
// The value of a bucket is its root page id (8) and 8 unused bytes. If the root page id is 0, the
// bucket is a small one, and its only page follows in the value.

const (
	headerSize  = 16
	elementSize = 16
	branchPage  = 0x01
	leafPage    = 0x02
	metaPage    = 0x04
	freePage    = 0x10
	bucketFlag  = 1
	metaPages   = 2
	longestKey  = 1 << 15 // limit of bbolt
	// longestBranch limits a branch page: bbolt splits pages that have more than 4 elements and are
	// longer than a page.
	longestBranch = headerSize + 4*(elementSize+longestKey)
	// longestPage is more than a record may have.
	longestPage = 1 << 30
	// maxDepth is far more than the depth of any sound tree, in which each branch page has at least
	// two elements.
	maxDepth = 64
)

// page is a page with its overflow pages, or the beginning of it that was needed. When it is
// created, it is long enough for its number of elements. But another process may write to the
// mapped file later.
type page []byte

func (p page) id() uint64       { return binary.NativeEndian.Uint64(p) }
func (p page) kind() uint16     { return binary.NativeEndian.Uint16(p[8:]) }
func (p page) count() int       { return int(binary.NativeEndian.Uint16(p[10:])) }
func (p page) overflow() uint64 { return readUint32(p[12:]) } // number of overflow pages after it
func (p page) isLeaf() bool     { return p.kind() == leafPage }

// readUint32 returns a field of 4 bytes.
func readUint32(b []byte) uint64 { return uint64(binary.NativeEndian.Uint32(b)) }

// size returns the size in bytes of a page with its overflow pages. It returns an error if the
// header is not possible for page id in a file of so many pages. A possible header is that of a
// leaf, or of a branch page with elements. Its elements fit on the page, and its size is limited.
func (p page) size(id, pages, pageSize uint64) (size uint64, err error) {
	size = (p.overflow() + 1) * pageSize
	isBranch := p.kind() == branchPage && p.count() > 0 && size <= longestBranch+2*pageSize
	isPlausible := p.id() == id && p.overflow() < pages-id && size <= longestPage
	if !isPlausible || !p.isLeaf() && !isBranch || headerSize+uint64(p.count())*elementSize > size {
		return 0, fmt.Errorf("page %d has a wrong header: page %d, kind %d, %d elements, %d overflow pages",
			id, p.id(), p.kind(), p.count(), p.overflow())
	}
	return size, nil
}

// elementError returns the error for an element that is outside of its page, or is not one that
// this package writes.
func (p page) elementError() error {
	return fmt.Errorf("page %d: an element is outside of its page", p.id())
}

// inlinePage returns the page of a small bucket. b is the value of the bucket, without its first 16
// bytes. It returns an error if b is no leaf with room for its elements.
func inlinePage(b []byte) (page, error) {
	if len(b) >= headerSize {
		if p := page(b); p.isLeaf() && headerSize+p.count()*elementSize <= len(b) {
			return p, nil
		}
	}
	return nil, errors.New("a small bucket is incomplete or damaged")
}

// element returns the offset in the page and the fields of element n. fields is nil if the page is
// too short for it. In a leaf the first field is the flags, which an element of a branch page does
// not have.
func (p page) element(n int) (at uint64, fields []byte) {
	at = headerSize + uint64(n)*elementSize
	if at+elementSize > uint64(len(p)) {
		return 0, nil
	}
	return at, p[at : at+elementSize]
}

// flagsLength returns the length of the flags field of an element: only elements of leaves have it.
func (p page) flagsLength() uint64 {
	if p.isLeaf() {
		return 4
	}
	return 0
}

// key returns the key of an element. ok is false if the key is outside of the page.
func (p page) key(n int) (key []byte, ok bool) { return p.keyAfterFlags(n, p.flagsLength()) }

// keyAfterFlags is key for a page whose flags field has the given length. A caller that reads many
// keys determines the length only once.
func (p page) keyAfterFlags(n int, flags uint64) (key []byte, ok bool) {
	at := headerSize + uint64(n)*elementSize
	if at+elementSize > uint64(len(p)) {
		return nil, false
	}
	start := at + readUint32(p[at+flags:])
	if end := start + readUint32(p[at+flags+4:]); end <= uint64(len(p)) {
		return p[start:end:end], true
	}
	return nil, false
}

// record returns the record and the flags of element n of a leaf. ok is false if the record is
// outside of the page, or its key or value is empty. In the second case, key and value are
// returned, too.
func (p page) record(n int) (key, value []byte, flags uint32, ok bool) {
	at, fields := p.element(n)
	if fields == nil {
		return nil, nil, 0, false
	}
	start := at + readUint32(fields[4:])
	middle := start + readUint32(fields[8:])
	end := middle + readUint32(fields[12:])
	if end > uint64(len(p)) || start < headerSize+uint64(p.count())*elementSize {
		return nil, nil, 0, false
	}
	return p[start:middle:middle], p[middle:end:end], binary.NativeEndian.Uint32(fields), start < middle && middle < end
}

// child returns the id of the page that element n of a branch page leads to. It returns 0, which is
// no valid child, if the page is too short.
func (p page) child(n int) uint64 {
	_, fields := p.element(n)
	if fields == nil {
		return 0
	}
	return binary.NativeEndian.Uint64(fields[8:])
}

// coversKey reports whether the page is a leaf, and a key is neither below its first key nor above
// its last one. Then no other leaf can have the key.
func (p page) coversKey(key []byte) bool {
	if !p.isLeaf() || p.count() == 0 {
		return false
	}
	first, hasFirst := p.key(0)
	last, hasLast := p.key(p.count() - 1)
	return hasFirst && hasLast && bytes.Compare(first, key) <= 0 && bytes.Compare(key, last) <= 0
}

// search returns the number of the first element whose key is not below key, or the number of
// elements if there is none. found reports whether that element has the key. It returns an error if
// the key of an element is outside of the page.
func (p page) search(key []byte) (n int, found bool, err error) {
	flags := p.flagsLength()
	low, high := 0, p.count()
	for low < high {
		middle := (low + high) / 2
		at, ok := p.keyAfterFlags(middle, flags)
		if !ok {
			return 0, false, p.elementError()
		}
		switch c := bytes.Compare(at, key); {
		case c == 0:
			return middle, true, nil
		case c < 0:
			low = middle + 1
		default:
			high = middle
		}
	}
	return low, false, nil
}

// childIndex returns the number of the element of a branch page under which a key is, or would be.
// It returns an error if the key of an element is outside of the page.
func (p page) childIndex(key []byte) (n int, err error) {
	n, found, err := p.search(key)
	if !found {
		n = max(n-1, 0) // keys below the first key belong to the first element, too
	}
	return n, err
}

// inOrder reports whether the keys of the page are inside of it, not empty, strictly rising, from
// low on and below high. If first is not nil, the first key must be first. A nil high is no limit.
func (p page) inOrder(first, low, high []byte) bool {
	before := low
	for n := range p.count() {
		key, ok := p.key(n)
		switch {
		case !ok, len(key) == 0, !within(key, before, high), n > 0 && bytes.Equal(key, before):
			return false
		case n == 0 && first != nil && !bytes.Equal(key, first):
			return false
		}
		before = key
	}
	return true
}

// within reports whether a key is from low on and below high. A nil high is no limit.
func within(key, low, high []byte) bool {
	return bytes.Compare(key, low) >= 0 && (high == nil || bytes.Compare(key, high) < 0)
}

// used returns how many bytes the page needs: its header, its elements, and the keys and values
// that are inside of the page. It returns an error as well if a key or value is outside. size is
// the size in bytes of the page with its overflow pages.
func (p page) used(size uint64) (used uint64, err error) {
	elementsEnd := headerSize + uint64(p.count())*elementSize
	used = elementsEnd
	for n := range p.count() {
		at, fields := p.element(n)
		if fields == nil {
			return used, p.elementError()
		}
		value := uint64(0) // length of the value, which only a leaf has
		if p.isLeaf() {
			fields, value = fields[4:], readUint32(fields[12:])
		}
		start, length := at+readUint32(fields), readUint32(fields[4:])+value
		if start >= elementsEnd && start+length <= size {
			used += length
		} else {
			err = p.elementError()
		}
	}
	return used, err
}

// needsOverflow reports whether the page needs its overflow pages, except possibly one. More of
// them are refused: bbolt would free them together with the page, although another page may use
// them.
func (p page) needsOverflow(pageSize int) bool {
	size := uint64(len(p))
	if size <= 2*uint64(pageSize) { // at most one overflow page: the last line would return true
		return true
	}
	used, _ := p.used(size)
	return size < used+2*uint64(pageSize)
}

// pager reads pages of a file. If a page follows closely on the one read before, the pager reads
// several pages at once.
type pager struct {
	file      io.ReaderAt
	pageSize  int
	pages     uint64 // number of pages in use
	window    []byte // pages that were read last, from page first on
	first     uint64 // number of the first page in the window
	last      uint64 // page requested last
	readAhead int    // maximum number of pages that are read at once
}

const (
	windowSize = 64 << 10 // bytes
	maxGap     = 4        // pages
)

// readPage returns the bytes of page id, without overflow pages. They are valid until the next
// call. If the window does not have the page, readPage fills the window from this page on. It reads
// r.readAhead pages if this page is at most maxGap pages after the one requested last, and
// otherwise one.
func (r *pager) readPage(id uint64) (b page, err error) {
	if id < metaPages || id >= r.pages {
		return nil, fmt.Errorf("page %d is not one of the %d pages in use", id, r.pages)
	}
	size := uint64(r.pageSize)
	if id < r.first || id-r.first >= uint64(len(r.window))/size {
		n := 1
		if id > r.last && id-r.last <= maxGap {
			n = max(1, int(min(uint64(r.readAhead), r.pages-id)))
		}
		r.first, r.window = id, slices.Grow(r.window[:0], n*r.pageSize)[:n*r.pageSize]
		if err = r.read(r.window, id); err != nil && n > 1 { // one of the other pages may be unreadable
			r.window = r.window[:size]
			err = r.read(r.window, id)
		}
		if err != nil {
			r.window = nil
			return nil, fmt.Errorf("page %d: %w", id, err)
		}
	}
	r.last = id
	return page(r.window[(id-r.first)*size:][:size]), nil
}

// read fills into with the bytes of the file from page id on.
func (r *pager) read(into []byte, id uint64) error {
	_, err := r.file.ReadAt(into, int64(id)*int64(r.pageSize))
	return err
}

// load returns page id, and its whole size in bytes with its overflow pages. A branch page is
// complete, and stays valid. A leaf has its elements and at least most bytes after them, or all if
// it is shorter. A leaf may be valid only until the next call. load returns an error if the header
// of the page is wrong.
func (r *pager) load(id, most uint64) (p page, size uint64, err error) {
	b, err := r.readPage(id)
	if err != nil {
		return nil, 0, err
	}
	all, err := b.size(id, r.pages, uint64(r.pageSize))
	if err != nil {
		return nil, 0, err
	}
	if b.kind() == branchPage {
		most = all
	}
	if want := min(all, headerSize+uint64(b.count())*elementSize+most); want > uint64(len(b)) {
		b = make(page, want)
		if err := r.read(b, id); err != nil {
			return nil, 0, fmt.Errorf("page %d: %w", id, err)
		}
	} else if b.kind() == branchPage {
		b = page(bytes.Clone(b)) // a copy, because the caller keeps its keys
	}
	return b, all, nil
}
