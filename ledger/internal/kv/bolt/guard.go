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

// What bbolt does with some damaged files, nobody can stop: on branch pages that form a circle it
// overflows the stack, and a list of free pages may ask for more memory than there is; both end the
// process. A list that names a page in use lets it overwrite records. So a file is looked at before
// bbolt sees it, once it is locked: the meta pages, the list of free pages, every branch page, and
// where the elements of leaves are, unless there are too many. It takes 0.2 s for a file of 5 GiB
// that is in the page cache, and else 0.5 s.
//
// Leaves that were not looked at are before they are used: by a transaction that writes
// ([transaction.look]), a snapshot and an audit ([Store.Inspect]) alike.

const (
	noFreeList = ^uint64(0)
	manyFree   = 1<<16 - 1 // instead of the number of free pages, which stands elsewhere then
	// mostLeaves is the number of leaves that are looked at: 256 MiB of usual pages. Where there
	// are more, the leaves of the largest buckets are only counted. Opening then takes little
	// longer because the file is larger.
	mostLeaves = 1 << 16
)

// findings are what is wrong with a file.
type findings struct {
	buckets map[string]error // by bucket; it must not be read through bbolt
	free    error            // what is wrong with the list of free pages
}

// err is nil if nothing is wrong.
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

func (f findings) report(fault func(kv.Fault)) {
	for _, name := range slices.Sorted(maps.Keys(f.buckets)) {
		fault(kv.Fault{Bucket: name, Text: f.buckets[name].Error()})
	}
	if f.free != nil {
		fault(kv.Fault{Text: f.free.Error()})
	}
}

// examine looks at a file that nobody writes to, until it is known to be fit for reading only, or
// for writing, too. An error says that it cannot be opened at all.
func examine(file *os.File, readOnly bool) (found findings, err error) {
	m, known, err := newestMeta(file)
	if err != nil || !known {
		return found, err // bbolt says what is wrong with the meta pages
	}
	info, err := file.Stat()
	if err != nil {
		return found, err
	}
	// The missing pages of a file that was cut off would be found one by one, and each as a memory
	// fault.
	if pages := uint64(info.Size() / m.pageSize()); pages < m.pages() {
		return found, fmt.Errorf("%w: the file has %d pages of %d", kv.ErrCorrupt, pages, m.pages())
	}
	s := m.walk(file)
	s.leaves, s.ahead = mostLeaves, windowSize/s.pageSize
	buckets, err := s.buckets(m.root())
	if err != nil {
		return found, fmt.Errorf("%w: the buckets: %w", kv.ErrCorrupt, err)
	}
	found.buckets = map[string]error{}
	for _, name := range slices.Sorted(maps.Keys(buckets)) {
		if err := s.tree(buckets[name].root); err != nil {
			found.buckets[name] = err
		}
	}
	if m.free() != noFreeList {
		err = s.freeList(m.free(), func(uint64) error { return nil })
	} else if !readOnly { // whoever only reads does not need it
		err = errors.New("there is none")
	}
	if err != nil {
		found.free = fmt.Errorf("the list of free pages: %w", err)
	}
	return found, nil
}

// pageWalk looks at pages, each once.
type pageWalk struct {
	pager
	met    pageSet
	leaves int // that may still be looked at
}

// walk returns a walk over the pages of a file.
func (m *meta) walk(file *os.File) pageWalk {
	return pageWalk{pager: pager{file: file, pageSize: int(m.pageSize()), pages: m.pages()}, met: pageSet{}}
}

// buckets refuses a file whose tree of buckets is damaged, or one of the small buckets that stand
// in it. bbolt may copy these to the heap, where reading past their end is no fault that can be
// rescued: it may take the process down.
func (s *pageWalk) buckets(root uint64) (map[string]tree, error) {
	var err error
	i := &inspection{pager: s.pager, fault: func(f kv.Fault) { err = cmp.Or(err, errors.New(f.Text)) }}
	i.findBuckets(root)
	for name, t := range i.buckets {
		if t.root != 0 {
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

// place is where a page is in a tree: its first key, and one above all of its keys, if they are
// known.
type place struct {
	id          uint64
	first, high []byte
}

// tree looks at the pages of a bucket, level by level. A small one has none of its own.
func (s *pageWalk) tree(root uint64) (err error) {
	var level []place
	if root != 0 {
		level, err = []place{{id: root}}, s.claim(root, 1)
	}
	for depth := 0; err == nil && len(level) > 0; depth++ {
		if depth > deepest {
			return fmt.Errorf("page %d is more than %d levels above any leaf", root, deepest)
		}
		level, err = s.level(level)
	}
	return err
}

// level looks at pages that are equally far from the root, in the order of the file, which is the
// fastest, and returns those below, unless these are too many leaves. In a tree of bbolt's all
// leaves are on one level.
func (s *pageWalk) level(level []place) (below []place, err error) {
	slices.SortFunc(level, func(a, b place) int { return cmp.Compare(a.id, b.id) })
	leaves, branches, tooMany := 0, 0, false
	for _, at := range level {
		p, err := s.look(at)
		if err != nil {
			return nil, err
		}
		switch {
		case p == nil:
			continue
		case p.leaf():
			leaves++
		default:
			branches++
		}
		if leaves > 0 && branches > 0 {
			return nil, fmt.Errorf("page %d is not as far from the root as others of its kind", at.id)
		}
		for n := 0; n < p.count() && !p.leaf(); n++ {
			child := place{id: p.leadsTo(n), high: at.high}
			child.first, _ = p.key(n)
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
		if len(below) > s.leaves && branches > 0 && s.areLeaves(below) {
			below, tooMany = nil, true
		}
	}
	s.leaves -= leaves
	return below, nil
}

// areLeaves tells of what kind pages on one level are, by the first that can be read.
func (s *pageWalk) areLeaves(level []place) bool {
	for _, at := range level {
		if b, err := s.near(at.id); err == nil && b.id() == at.id {
			return b.kind() != branchPage
		}
	}
	return true
}

// look looks at a page that was claimed, and claims those behind it that belong to it. It begins
// with the key that leads to it: else bbolt, when it writes, does not find the element that leads
// to it, adds another one, and leaves what was there before to be read. A page that bbolt refuses
// by itself is no danger, and passed over; an audit reports it. But one that holds no records is
// taken for a branch page by bbolt, going from leaf to leaf.
func (s *pageWalk) look(at place) (page, error) {
	b, err := s.near(at.id)
	if err != nil {
		return nil, err
	}
	kinds := []uint16{leafPage, branchPage, freePage, metaPage}
	if b.id() != at.id || !slices.Contains(kinds, b.kind()) {
		return nil, nil
	}
	p, size, err := s.load(at.id, longestKey)
	if err == nil {
		err = s.claim(at.id+1, size/uint64(s.pageSize)-1)
	}
	if err != nil {
		return nil, err
	}
	if !p.leaf() {
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

// claim notes that some pages are in use. In a sound file each is so once.
func (s *pageWalk) claim(first, n uint64) error {
	for id := range n {
		if id += first; id < metaPages || id >= s.pages {
			return fmt.Errorf("page %d is beyond the %d in use", id, s.pages)
		}
		if !s.met.add(id) {
			return fmt.Errorf("page %d is met a second time", id)
		}
	}
	return nil
}

// freeList looks at the list of free pages, and passes each to visit: none is in use, or named
// twice. Its head has the number of pages in 2 bytes, or if that is not enough 65535, and the
// number stands before the first of them.
func (s *pageWalk) freeList(id uint64, visit func(page uint64) error) error {
	b, err := s.near(id)
	if err != nil {
		return err
	}
	size, more, count := int64(s.pageSize), b.more(), uint64(b.count())
	if b.id() != id || b.kind() != freePage || more >= s.pages-id {
		return fmt.Errorf("page %d holds no list", id)
	}
	if err := s.claim(id, more+1); err != nil {
		return err
	}
	// A page may say that it is as long as the file, which need not take up any room on disk: so it
	// is not read at once.
	list := bufio.NewReaderSize(io.NewSectionReader(s.file, int64(id)*size, int64(more+1)*size), 1<<16)
	room := (more+1)*uint64(size) - headerSize
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
		return fmt.Errorf("%d pages do not fit on %d", count, more+1)
	}
	// Pages that the list has without need would be given back one by one, with memory for each.
	if needed := (headerSize+8*(count+1))/uint64(size) + 1; more > 2*needed {
		return fmt.Errorf("%d pages for a list of %d", more+1, count)
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

// pageSet is a set of pages, with room only for those that are near others in it: a file may say
// that it is as long as it likes.
type pageSet map[uint64]uint64

// add tells whether the page is a new one.
func (p pageSet) add(id uint64) bool {
	word, bit := p[id/64], uint64(1)<<(id%64)
	p[id/64] = word | bit
	return word&bit == 0
}
