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
	"math/bits"
	"os"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// What bbolt does with some damaged files, nobody can stop: on branch pages that form a circle it overflows the
// stack, and a list of free pages may ask for more memory than there is; both end the process. A list that names
// a page in use lets it overwrite records. So a file is looked at before bbolt sees it, once it is locked: the meta
// pages, the list of free pages, every branch page, and where the elements of leaves are, unless there are too many.
// It takes 0.2 s for a file of 5 GiB that is in the page cache, and else 0.5 s.
//
// Leaves that were not looked at are before they are used: by a transaction that writes ([transaction.look]), a snapshot and an
// audit ([Store.Inspect]) alike.

const (
	freePage     = 0x10
	largestPage  = 1 << 16 // of any machine that bbolt knows
	smallestPage = 1 << 12
	noFreeList   = ^uint64(0)
	manyFree     = 1<<16 - 1 // instead of the number of free pages, which stands elsewhere then
	// deepest is far beyond any sound tree: each of its branch pages has at least two elements.
	deepest = 64
	// mostLeaves is the number of leaves that are looked at: 256 MiB of usual pages. Where there are more, the
	// leaves of the largest buckets are only counted. Opening then takes little longer because the file is larger.
	mostLeaves = 1 << 16
)

const (
	longestKey = 1 << 15 // bbolt's
	// longestBranch: bbolt splits pages of more than 4 elements that are longer than a page.
	longestBranch = headerSize + 4*(elementSize+longestKey)
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

// examine looks at a file that nobody writes to, until it is known to be fit for reading only, or for writing, too.
// An error says that it cannot be opened at all.
func examine(file *os.File, readOnly bool) (found findings, err error) {
	m, known, err := newestMeta(file)
	if err != nil || !known {
		return found, err // bbolt says what is wrong with the meta pages
	}
	info, err := file.Stat()
	if err != nil {
		return found, err
	}
	// The missing pages of a file that was cut off would be found one by one, and each as a memory fault.
	if pages := uint64(info.Size()) / uint64(m.pageSize); pages < m.pages {
		return found, fmt.Errorf("%w: the file has %d pages of %d", kv.ErrCorrupt, pages, m.pages)
	}
	s := newSurvey(file, m)
	if err := s.findBuckets(m.root); err != nil {
		return found, err
	}
	found.buckets = map[string]error{}
	for _, name := range slices.Sorted(maps.Keys(s.in.buckets)) {
		if err := s.tree(s.in.buckets[name].root); err != nil {
			found.buckets[name] = err
		}
	}
	if m.free != noFreeList {
		err = s.freeList(m.free)
	} else if !readOnly { // whoever only reads does not need it
		err = errors.New("there is none")
	}
	if err != nil {
		found.free = fmt.Errorf("the list of free pages: %w", err)
	}
	return found, nil
}

// meta is what a meta page says.
type meta struct {
	pageSize          int
	root, free, pages uint64
	transaction       uint64
	fields            []byte // all, as they stand there, without the checksum
}

// newestMeta returns what bbolt takes for the newest transaction. It is not known if no meta page is whole.
func newestMeta(file *os.File) (newest meta, known bool, err error) {
	first, known, err := readMeta(file, 0)
	if err != nil {
		return meta{}, false, err
	}
	sizes := []int{first.pageSize}
	if !known {
		sizes = nil // where bbolt looks for it; the first one that is whole counts
		for size := 1 << 10; size <= 1<<24; size *= 2 {
			sizes = append(sizes, size)
		}
	}
	newest = first
	for _, size := range sizes {
		second, whole, err := readMeta(file, int64(size))
		if err != nil {
			return meta{}, false, err
		}
		if !whole {
			continue
		}
		if second.pageSize != size {
			return meta{}, false, fmt.Errorf("%w: the meta pages differ in the size of pages", kv.ErrCorrupt)
		}
		if !known || second.transaction > first.transaction {
			return second, true, nil
		}
	}
	return newest, known, nil
}

// readMeta reads the meta page at some place. It is not whole when bbolt would not take it.
func readMeta(file *os.File, at int64) (m meta, whole bool, err error) {
	page, whole, err := readWhole(file, at)
	if err != nil || !whole {
		return meta{}, false, err
	}
	fields := page[headerSize:][:metaSize]
	long := func(i int) uint64 { return binary.NativeEndian.Uint64(fields[i:]) }
	size := binary.NativeEndian.Uint32(fields[8:])
	if size < smallestPage || size > largestPage || bits.OnesCount32(size) != 1 {
		return meta{}, false, fmt.Errorf("%w: pages of %d bytes", kv.ErrCorrupt, size)
	}
	m = meta{pageSize: int(size), root: long(16), free: long(32), pages: long(40), transaction: long(48), fields: fields}
	if m.transaction > 1<<62 {
		return meta{}, false, fmt.Errorf("%w: transaction %d", kv.ErrCorrupt, m.transaction) // the last ones would wrap round
	}
	return m, true, nil
}

// survey looks at pages, each once.
type survey struct {
	in     *inspection
	met    pageSet
	below  []below // leaves of the bucket it is at, unless they are too many
	count  int     // how many leaves the bucket has
	leaves int     // that may still be looked at with care
	fault  error

	space, window []byte // the pages that were read last, from first on
	first         uint64
	ahead         uint64 // how many pages are read at a time
}

// below is a page that a branch page leads to.
type below struct {
	id  uint64
	key []byte // its first
}

func newSurvey(file *os.File, m meta) *survey {
	s := &survey{met: pageSet{}, leaves: mostLeaves, space: make([]byte, leavesAhead*m.pageSize), ahead: 1}
	s.in = &inspection{file: file, pageSize: m.pageSize, pages: m.pages, buckets: map[string]tree{}, branches: map[uint64][]element{}}
	s.in.fault = func(f kv.Fault) { s.fault = errors.Join(s.fault, errors.New(f.Text)) }
	return s
}

// findBuckets refuses a file whose tree of buckets is damaged, or one of the small buckets that stand in it.
// bbolt may copy these to the heap, where reading past their end is no fault that can be rescued: it may take
// the process down.
func (s *survey) findBuckets(root uint64) error {
	s.in.findBuckets(root)
	for name, t := range s.in.buckets {
		if t.root == 0 && !s.in.contains(t.inline) {
			s.fault = errors.Join(s.fault, fmt.Errorf("bucket %q reaches beyond its end", name))
		}
	}
	if s.fault == nil {
		s.fault = s.tree(root)
	}
	if s.fault != nil {
		return fmt.Errorf("%w: the buckets: %w", kv.ErrCorrupt, s.fault)
	}
	return nil
}

// tree looks at the pages of a bucket. A small one has none of its own.
func (s *survey) tree(root uint64) error {
	if root == 0 {
		return nil
	}
	if err := s.claim(root); err != nil {
		return err
	}
	height, err := s.height(root)
	if err != nil {
		return err
	}
	s.below, s.count = s.below[:0], 0
	if err := s.page(below{root, nil}, nil, 0, height); err != nil {
		return err
	}
	defer func() { s.ahead = 1 }()
	if s.count > s.leaves {
		return nil
	}
	s.leaves -= s.count
	s.ahead = leavesAhead
	// In the order of the file, which is the fastest.
	slices.SortFunc(s.below, func(a, b below) int { return cmp.Compare(a.id, b.id) })
	for _, leaf := range s.below {
		if err := s.page(leaf, nil, height, height); err != nil {
			return err
		}
	}
	return nil
}

// height counts the levels of branch pages. In a tree of bbolt's all leaves are equally far from the root, so one way down
// tells. It is that of the first pages that can be read.
func (s *survey) height(root uint64) (int, error) {
	id := root
	for height := range deepest {
		kind, more, refused, err := s.read(id)
		if err != nil || refused || kind != branchPage {
			return height, err
		}
		elements, err := s.branch(id, more)
		if err != nil {
			return height, err
		}
		next, err := s.firstOf(elements)
		if err != nil || next == 0 {
			return height + 1, err
		}
		id = next
	}
	return 0, fmt.Errorf("page %d is more than %d levels above any leaf", root, deepest)
}

// firstOf returns the first page below that can be read, or 0.
func (s *survey) firstOf(elements []element) (uint64, error) {
	for _, e := range elements {
		if e.page < metaPages || e.page >= s.in.pages {
			return 0, nil // it will be refused
		}
		if _, _, refused, err := s.read(e.page); err != nil || !refused {
			return e.page, err
		}
	}
	return 0, nil
}

// leaf looks whether a leaf has its elements within it. For others bbolt may ask for as much memory as they say. The
// first key is the one that leads to it.
func (s *survey) leaf(id, more uint64, first []byte) error {
	page, err := s.near(id)
	if err != nil {
		return err
	}
	count, size := uint64(binary.NativeEndian.Uint16(page[10:])), (more+1)*uint64(s.in.pageSize)
	if need := headerSize + count*elementSize; need > uint64(len(page)) && need <= size {
		page = make([]byte, min(size, need+longestKey)) // the elements and the first key
		if err := s.in.read(page, id); err != nil {
			return err
		}
	}
	fits := headerSize+count*elementSize <= size
	for n := uint64(0); fits && n < count; n++ {
		at := headerSize + n*elementSize
		field := func(i uint64) uint64 { return uint64(binary.NativeEndian.Uint32(page[at+4*i:])) }
		fits = field(1) >= (count-n)*elementSize && at+field(1)+field(2)+field(3) <= size
	}
	if !fits {
		return fmt.Errorf("page %d: an element lies outside of its page", id)
	}
	if first == nil || count == 0 {
		return nil
	}
	start, length := headerSize+binary.NativeEndian.Uint32(page[headerSize+4:]), binary.NativeEndian.Uint32(page[headerSize+8:])
	if begin := page[min(int(start), len(page)):]; !bytes.Equal(begin[:min(int(length), len(begin))], first[:min(len(first), len(begin))]) || int(length) != len(first) {
		return fmt.Errorf("page %d does not begin with the key that leads to it", id)
	}
	return nil
}

// leavesAhead is how many pages are read at a time where many of those behind are wanted too. Branch pages stand apart from each
// other.
const leavesAhead = 8

// near returns a page, from those that were read last if it is among them.
func (s *survey) near(id uint64) ([]byte, error) {
	size := s.in.pageSize
	if behind := (id - s.first) * uint64(size); id < s.first || behind >= uint64(len(s.window)) {
		s.first, s.window = id, s.space[:min(s.ahead, s.in.pages-id)*uint64(size)]
		if err := s.in.read(s.window, id); err != nil {
			s.window = nil
			return nil, fmt.Errorf("page %d: %w", id, err)
		}
	}
	return s.window[int(id-s.first)*size:][:size], nil
}

// page looks at a page that was claimed, and at those below it. Those as far from the root as the first leaf are taken for
// leaves, too, which they are in any tree of bbolt's, and set aside. A page begins with the key that leads to it: else
// bbolt, when it writes, does not find the element that leads to it, adds another one, and leaves what was there before to
// be read. Pages that bbolt refuses by itself are no danger, unless nobody knows which others belong to them; an audit
// reports them.
func (s *survey) page(p below, high []byte, depth, height int) error {
	kind, more, refused, err := s.head(p.id)
	switch {
	case err != nil:
		return err
	case refused:
		return nil
	case kind == leafPage:
		return s.leaf(p.id, more, p.key)
	case kind != branchPage:
		return fmt.Errorf("page %d holds no records", p.id) // bbolt, going from leaf to leaf, takes it for a branch page
	case depth >= height:
		return fmt.Errorf("page %d is a branch page, %d levels below the root", p.id, depth)
	}
	elements, err := s.branch(p.id, more)
	if err != nil {
		return err
	}
	if !inOrder(elements, p.key, high) {
		return fmt.Errorf("page %d: its keys are not in order", p.id)
	}
	if p.key != nil && !bytes.Equal(elements[0].key, p.key) {
		return fmt.Errorf("page %d does not begin with the key that leads to it", p.id)
	}
	return s.children(elements, high, depth+1, height)
}

// branch reads a branch page, if it is not far longer than any.
func (s *survey) branch(id, more uint64) ([]element, error) {
	if (more+1)*uint64(s.in.pageSize) > longestBranch+2*uint64(s.in.pageSize) {
		return nil, fmt.Errorf("page %d is a branch page, and %d pages belong to it", id, more)
	}
	_, elements, err := s.in.load(id)
	return elements, err
}

func (s *survey) children(elements []element, high []byte, depth, height int) error {
	for i, e := range elements {
		if err := s.claim(e.page); err != nil {
			return err
		}
		if depth == height {
			s.setAside(below{e.page, e.key})
			continue
		}
		to := high
		if i+1 < len(elements) {
			to = elements[i+1].key
		}
		if err := s.page(below{e.page, e.key}, to, depth, height); err != nil {
			return err
		}
	}
	return nil
}

// setAside notes a leaf.
func (s *survey) setAside(leaf below) {
	s.count++
	if s.count <= s.leaves {
		s.below = append(s.below, leaf)
	}
}

// claim notes that a page is in use. In a sound file it is so once.
func (s *survey) claim(id uint64) error {
	if id < metaPages || id >= s.in.pages {
		return fmt.Errorf("page %d is beyond the %d in use", id, s.in.pages)
	}
	if !s.met.add(id) {
		return fmt.Errorf("page %d is met a second time", id)
	}
	return nil
}

// head claims the pages behind a page that belong to it, and returns of what kind it is, and how many they are.
func (s *survey) head(id uint64) (kind uint16, more uint64, refused bool, err error) {
	kind, more, refused, err = s.read(id)
	if err != nil || refused {
		return kind, 0, refused, err
	}
	if more >= s.in.pages-id {
		return 0, 0, false, fmt.Errorf("page %d says that %d pages behind it belong to it", id, more)
	}
	for next := id + 1; next <= id+more; next++ {
		if err := s.claim(next); err != nil {
			return 0, 0, false, err
		}
	}
	return kind, more, false, nil
}

// read reads the head of a page. bbolt refuses one that is said to be another page, or of no kind.
func (s *survey) read(id uint64) (kind uint16, more uint64, refused bool, err error) {
	page, err := s.near(id)
	if err != nil {
		return 0, 0, false, err
	}
	kind = binary.NativeEndian.Uint16(page[8:])
	refused = binary.NativeEndian.Uint64(page) != id || kind != leafPage && kind != branchPage && kind != freePage && kind != metaPage
	return kind, uint64(binary.NativeEndian.Uint32(page[12:])), refused, nil
}

// freeList looks at the list of free pages: none is in use, or named twice. Its head has the number of pages in 2
// bytes, or if that is not enough 65535, and the number stands before the first of them.
func (s *survey) freeList(id uint64) error {
	if err := s.claim(id); err != nil {
		return err
	}
	kind, more, refused, err := s.head(id)
	if err != nil {
		return err
	}
	if refused || kind != freePage {
		return fmt.Errorf("page %d holds no list", id)
	}
	size := int64(s.in.pageSize)
	// A page may say that it is as long as the file, which need not take up any room on disk: so it is not read at once.
	list := bufio.NewReaderSize(io.NewSectionReader(s.in.file, int64(id)*size, int64(more+1)*size), 1<<16)
	var head [headerSize]byte
	if _, err := io.ReadFull(list, head[:]); err != nil {
		return err
	}
	count, room := uint64(binary.NativeEndian.Uint16(head[10:])), (more+1)*uint64(size)-headerSize
	var field [8]byte
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
		if err := s.claim(binary.NativeEndian.Uint64(field[:])); err != nil {
			return err
		}
	}
	return nil
}

// inOrder tells whether the elements of a branch page have rising keys within the bounds of the page.
func inOrder(elements []element, low, high []byte) bool {
	for i, e := range elements {
		if e.bad != "" || !within(e.key, low, high) || i > 0 && bytes.Compare(elements[i-1].key, e.key) >= 0 {
			return false
		}
	}
	return len(elements) > 0
}

// pageSet is a set of pages, with room for those only that are near others in it: a file may say that it is as long as it
// likes.
type pageSet map[uint64]*[setChunk / 64]uint64

const setChunk = 1 << 15

// add tells whether the page is a new one.
func (p pageSet) add(id uint64) bool {
	chunk := p[id/setChunk]
	if chunk == nil {
		chunk = new([setChunk / 64]uint64)
		p[id/setChunk] = chunk
	}
	word, bit := &chunk[id%setChunk/64], uint64(1)<<(id%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}
