package bolt

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// Some damaged files make bbolt end the process, and no caller can prevent that: branch pages that
// form a circle overflow the stack, and a list of free pages may need more memory than there is. A
// list of free pages that contains a page in use lets bbolt overwrite records.
//
// So a file is checked after it is locked and before bbolt opens it. The check covers the meta
// pages, the list of free pages and every branch page. It also covers the positions of the elements
// of leaves, unless there are too many leaves. For a file of 5 GiB it takes 0.2 s if the file is in
// the page cache, otherwise 0.5 s.
//
// Leaves that were not checked then are checked before they are used: by a writing transaction
// ([transaction.checkLeaf]), by a snapshot, and by an audit ([Store.Inspect]).

const (
	noFreeList = ^uint64(0) // stored instead of the page of the list, if the last commit wrote no list
	manyFree   = 1<<16 - 1  // stored instead of the number of free pages, which is then stored elsewhere
	// maxLeaves is the maximum number of leaves that are checked: 256 MiB of pages of the usual
	// size. If there are more, the leaves of the largest buckets are only counted. So opening a
	// larger file takes only a little longer.
	maxLeaves = 1 << 16
)

// findings are the faults of a file.
type findings struct {
	buckets map[string]error // faults of buckets, which must not be read through bbolt
	free    error            // fault of the list of free pages, or nil
}

// err returns all faults as one error, or nil if there are none.
func (f findings) err() error {
	var all []error
	f.report(func(one kv.Fault) {
		text := one.Text
		if one.Bucket != "" {
			text = fmt.Sprintf("bucket %q: %s", one.Bucket, text)
		}
		all = append(all, fmt.Errorf("%w: %s", kv.ErrCorrupt, text))
	})
	return errors.Join(all...)
}

// report passes each finding to fault, those of buckets in the order of their names.
func (f findings) report(fault func(kv.Fault)) {
	for _, name := range slices.Sorted(maps.Keys(f.buckets)) {
		fault(kv.Fault{Bucket: name, Text: f.buckets[name].Error()})
	}
	if f.free != nil {
		fault(kv.Fault{Text: f.free.Error()})
	}
}

// examine checks the structure of a file, to which no process may write during the check. found has
// the faults of buckets and of the list of free pages. A file with such faults can be opened for
// reading only. err means that the file cannot be opened at all.
//
// With readOnly, examine accepts a missing list of free pages. If no meta page is valid, it checks
// nothing, and bbolt returns the error.
func examine(file *os.File, readOnly bool) (found findings, err error) {
	m, known, err := newestMeta(file)
	if err != nil || !known {
		return found, err // bbolt reports what is wrong with the meta pages
	}
	info, err := file.Stat()
	if err != nil {
		return found, err
	}
	// If the end of the file is missing, each missing page would otherwise be found by a memory
	// fault.
	if pages := uint64(info.Size() / m.pageSize()); pages < m.pages() {
		return found, fmt.Errorf("%w: the file has only %d of its %d pages", kv.ErrCorrupt, pages, m.pages())
	}
	s := m.walk(file)
	s.leaves, s.readAhead = maxLeaves, windowSize/s.pageSize // pages are read in the order of the file
	buckets, err := s.buckets(m.root())
	if err != nil {
		return found, fmt.Errorf("%w: the tree of buckets: %w", kv.ErrCorrupt, err)
	}
	found.buckets = map[string]error{}
	for _, name := range slices.Sorted(maps.Keys(buckets)) {
		if err := s.tree(buckets[name].root); err != nil {
			found.buckets[name] = err
		}
	}
	if m.free() != noFreeList {
		err = s.freeList(m.free(), func(uint64) error { return nil }) // only check the list
	} else if !readOnly { // a reader does not need the list
		err = errors.New("it is missing")
	}
	if err != nil {
		found.free = fmt.Errorf("the list of free pages: %w", err)
	}
	return found, nil
}

// pageWalk checks pages, each of them once.
type pageWalk struct {
	pager
	seen   pageSet
	leaves int // number of leaves that may still be checked
}

// walk returns a walk over the pages of a file.
func (m *meta) walk(file *os.File) pageWalk {
	return pageWalk{pager: pager{file: file, pageSize: int(m.pageSize()), pages: m.pages()}, seen: pageSet{}}
}

// buckets returns the buckets of a file by name, from the tree of buckets at page root. It returns
// an error if that tree is damaged, or a small bucket that is stored inside it. bbolt may copy a
// small bucket to the heap. A read past its end is then no fault that can be recovered, and may end
// the process.
func (s *pageWalk) buckets(root uint64) (map[string]tree, error) {
	var err error
	// Of all faults, err is the first.
	i := &inspection{pager: s.pager, fault: func(f kv.Fault) { err = cmp.Or(err, errors.New(f.Text)) }}
	i.findBuckets(root)
	for name, t := range i.buckets {
		if t.root != 0 { // it has pages of its own, which examine checks
			continue
		}
		p, damage := inlinePage(t.inline)
		if damage == nil {
			_, damage = p.used(uint64(len(t.inline)))
		}
		if damage != nil {
			err = cmp.Or(err, fmt.Errorf("bucket %q: %w", name, damage))
		}
	}
	if err == nil {
		err = s.tree(root)
	}
	return i.buckets, err
}

// position is the position of a page in a tree: its first key, and a key that is above all of its
// keys. Each is nil if not known.
type position struct {
	id          uint64
	first, high []byte
}

// tree checks the pages of a bucket, level by level from page root down, and returns the first
// fault. root is 0 for a small bucket, which has no pages of its own; then tree does nothing.
func (s *pageWalk) tree(root uint64) (err error) {
	var level []position
	if root != 0 {
		level, err = []position{{id: root}}, s.claim(root, 1)
	}
	for depth := 0; err == nil && len(level) > 0; depth++ {
		if depth > maxDepth {
			return fmt.Errorf("page %d is more than %d levels above any leaf", root, maxDepth)
		}
		level, err = s.level(level)
	}
	return err
}

// level checks pages that have the same distance from the root, and returns the pages below them.
// It reads them in the order of the file, which is the fastest. In a tree of bbolt all leaves are
// on the same level.
//
// Only s.leaves more leaves may be checked. If the pages below are leaves, and more than that,
// level returns none of them. Then they are counted as used pages, but not read.
func (s *pageWalk) level(level []position) (below []position, err error) {
	slices.SortFunc(level, func(a, b position) int { return cmp.Compare(a.id, b.id) })
	leaves, branches, tooMany := 0, 0, false
	for _, at := range level {
		p, err := s.checkPage(at)
		if err != nil {
			return nil, err
		}
		switch {
		case p == nil: // a page of unknown kind
			continue
		case p.isLeaf():
			leaves++
		default:
			branches++
		}
		if leaves > 0 && branches > 0 {
			return nil, fmt.Errorf("page %d: leaf and branch pages have the same distance from the root", at.id)
		}
		for n := 0; n < p.count() && !p.isLeaf(); n++ {
			child := position{id: p.child(n), high: at.high}
			child.first, _ = p.key(n) // checkPage has checked the keys
			if n+1 < p.count() {
				child.high, _ = p.key(n + 1)
			}
			if err := s.claim(child.id, 1); err != nil {
				return nil, err
			}
			if !tooMany {
				below = append(below, child)
			}
		}
		if len(below) > s.leaves && branches > 0 && s.areLeaves(below) { // these are not to be checked
			below, tooMany = nil, true
		}
	}
	s.leaves -= leaves
	return below, nil
}

// areLeaves reports whether the pages of a level are leaves, which all pages of a level are if one
// is. It reads the first page that can be read and has its own number, and returns true if there is
// none.
func (s *pageWalk) areLeaves(level []position) bool {
	for _, at := range level {
		if b, err := s.readPage(at.id); err == nil && b.id() == at.id {
			return b.kind() != branchPage
		}
	}
	return true
}

// checkPage checks a page that was claimed, and claims the overflow pages after it. It returns the
// page, or nil and no error for a page of unknown kind.
//
// The page must begin with the key that leads to it. Otherwise bbolt, when it writes, does not find
// the element that leads to the page, adds another element, and leaves the old page visible.
//
// A page of unknown kind is skipped, because bbolt itself refuses it; an audit reports it. A free
// page or a meta page is refused here. bbolt would take it for a branch page when it moves from
// leaf to leaf.
func (s *pageWalk) checkPage(at position) (page, error) {
	b, err := s.readPage(at.id)
	if err != nil {
		return nil, err
	}
	kinds := []uint16{leafPage, branchPage, freePage, metaPage}
	if b.id() != at.id || !slices.Contains(kinds, b.kind()) {
		return nil, nil
	}
	p, size, err := s.load(at.id, longestKey) // an error for a free page or a meta page
	if err == nil {
		err = s.claim(at.id+1, size/uint64(s.pageSize)-1)
	}
	if err != nil {
		return nil, err
	}
	if !p.isLeaf() {
		if !p.inOrder(at.first, at.first, at.high) {
			return nil, fmt.Errorf("page %d: its keys are not in order", at.id)
		}
		return p, nil
	}
	if key, ok := p.key(0); at.first != nil && p.count() > 0 && (!ok || !bytes.Equal(key, at.first)) {
		return nil, fmt.Errorf("page %d does not begin with the key that leads to it", at.id)
	}
	_, err = p.used(size)
	return p, err
}

// claim records that n pages from page first on are in use. It returns an error if one of them is
// claimed already, or is not a page of the file for data. In a sound file each page is used once.
func (s *pageWalk) claim(first, n uint64) error {
	for id := range n {
		if id += first; id < metaPages || id >= s.pages {
			return fmt.Errorf("page %d is not one of the %d pages in use", id, s.pages)
		}
		if !s.seen.add(id) {
			return fmt.Errorf("page %d is used twice", id)
		}
	}
	return nil
}

// freeList checks the list of free pages at page id, and passes each free page to visit. It returns
// the first fault of the list, or the first error of visit. No free page may be in use or be listed
// twice. The header of the list has the number of free pages in 2 bytes. If that is 65535, the
// number is stored in 8 bytes before the first free page.
func (s *pageWalk) freeList(id uint64, visit func(page uint64) error) error {
	b, err := s.readPage(id)
	if err != nil {
		return err
	}
	size, more, count := int64(s.pageSize), b.overflow(), uint64(b.count())
	if b.id() != id || b.kind() != freePage || more >= s.pages-id {
		return fmt.Errorf("page %d is not a list of free pages", id)
	}
	if err := s.claim(id, more+1); err != nil {
		return err
	}
	// The list may claim to be as long as the file, and a sparse file may be very long. So the list
	// is not read into memory at once.
	list := bufio.NewReaderSize(io.NewSectionReader(s.file, int64(id)*size, int64(more+1)*size), 1<<16)
	room := (more+1)*uint64(size) - headerSize // bytes for the numbers of pages
	var field [8]byte
	if _, err := list.Discard(headerSize); err != nil {
		return err
	}
	if count == manyFree {
		if _, err := io.ReadFull(list, field[:]); err != nil {
			return err
		}
		count, room = binary.NativeEndian.Uint64(field[:]), room-8
	}
	if count > room/8 {
		return fmt.Errorf("%d free pages do not fit on %d pages", count, more+1)
	}
	// Unnecessary pages of the list would later be freed one by one, with memory for each.
	if needed := (headerSize+8*(count+1))/uint64(size) + 1; more > 2*needed {
		return fmt.Errorf("%d pages are too many for a list of %d free pages", more+1, count)
	}
	for range count {
		if _, err := io.ReadFull(list, field[:]); err != nil {
			return err
		}
		page := binary.NativeEndian.Uint64(field[:])
		if err := s.claim(page, 1); err != nil {
			return err
		}
		if err := visit(page); err != nil {
			return err
		}
	}
	return nil
}

// pageSet is a set of pages: a bit for each page, in words of 64 pages. It uses memory only for
// pages near others in the set, because a file may claim to have any length.
type pageSet map[uint64]uint64

// add adds a page, and reports whether the page was not in the set before.
func (p pageSet) add(id uint64) bool {
	word, bit := p[id/64], uint64(1)<<(id%64)
	p[id/64] = word | bit
	return word&bit == 0
}
