package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// bbolt trusts the pages that it reads. On a damaged one it may panic, follow a page to itself for ever, or
// ask for memory without end; a key that is changed on a branch page makes it lose sight of records without
// a word; and when the newer of the two meta pages is damaged it silently goes back to the transaction before.
// So an audit reads the file itself. What the pages of a snapshot hold does not change while it is open.
//
// A page begins with id (8 bytes), kind (2), number of elements (2) and the number of pages behind it that
// belong to it (4), in the byte order of the machine. Each element of a branch page is the place of a key
// relative to the element (4), its length (4) and a page (8); of a leaf page: flags (4), place (4), and the
// lengths of key and value (4 each). The value of a bucket is its root page (8), 8 bytes that are not used,
// and, if the root page is 0, a page of its own.

const (
	headerSize  = 16
	elementSize = 16
	branchPage  = 1
	leafPage    = 2
	metaPage    = 4
	bucketFlag  = 1
	metaPages   = 2
	metaSize    = 56 // of the fields on a meta page, before their checksum
)

// inspection is a snapshot that is read with care. It implements [kv.Reader].
type inspection struct {
	file     io.ReaderAt
	pageSize int
	pages    uint64 // that are in use
	fault    func(kv.Fault)
	buckets  map[string]tree
	branches map[uint64][]element // branch pages that were read before
	spare    strips               // memory for those of the next scan
}

// tree is where the records of a bucket are.
type tree struct {
	root   uint64
	inline []byte // instead of the root page
}

// Inspect implements [kv.Inspector].
func (s *Store) Inspect(fault func(kv.Fault), fn func(kv.Reader) error) error {
	return s.snapshot(func(tx *transaction) error {
		i, root, err := tx.inspect(fault)
		if err != nil {
			return err
		}
		if err := i.checkMeta(); err != nil {
			return err
		}
		tx.in.damage.report(fault)
		i.findBuckets(root)
		return fn(i)
	})
}

// contains tells whether a page has all its elements within it.
func (i *inspection) contains(page []byte) bool {
	kind, elements, err := i.parse(page, 0)
	return err == nil && kind == leafPage && !slices.ContainsFunc(elements, func(e element) bool { return e.bad == outside })
}

func (t *transaction) inspect(fault func(kv.Fault)) (i *inspection, root uint64, err error) {
	defer rescue(&err)
	i = &inspection{file: t.in.file, pageSize: t.in.pageSize, fault: fault, buckets: map[string]tree{}, branches: map[uint64][]element{}}
	i.pages = uint64(t.tx.Size()) / uint64(i.pageSize)
	return i, uint64(t.tx.Cursor().Bucket().Root()), nil
}

// checkMeta reports a damaged meta page. They are written in turn, and a reader takes the newer one that is
// whole.
func (i *inspection) checkMeta() error {
	var transactions [metaPages]uint64
	for id := range uint64(metaPages) {
		transaction, whole, err := i.transaction(id)
		for tries := 0; err == nil && !whole && tries < 5; tries++ {
			time.Sleep(time.Millisecond) // it may just be written
			transaction, whole, err = i.transaction(id)
		}
		if err != nil {
			return err
		}
		if !whole {
			i.fault(kv.Fault{Text: fmt.Sprintf("meta page %d is damaged: the last transaction may be missing", id)})
			return nil
		}
		transactions[id] = transaction
	}
	if transactions[0] == transactions[1] {
		i.fault(kv.Fault{Text: "both meta pages are of the same transaction: the last one may be missing"})
	}
	return nil
}

// transaction returns the number of the transaction that wrote a meta page, if it is whole and where it belongs.
func (i *inspection) transaction(id uint64) (number uint64, whole bool, err error) {
	page, whole, err := readWhole(i.file, int64(id)*int64(i.pageSize))
	if err != nil || !whole {
		return 0, false, err
	}
	whole = binary.NativeEndian.Uint64(page) == id && binary.NativeEndian.Uint16(page[8:]) == metaPage
	return binary.NativeEndian.Uint64(page[headerSize+48:]), whole, nil
}

// readWhole reads the meta page at some place, and tells whether bbolt would take it: it has the marks of bbolt's, and
// the checksum of its 56 bytes, FNV-1a.
func readWhole(file io.ReaderAt, at int64) (page []byte, whole bool, err error) {
	const magic, version = 0xED0CDAED, 2
	page = make([]byte, headerSize+metaSize+8)
	switch _, err := file.ReadAt(page, at); {
	case errors.Is(err, io.EOF):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	fields := page[headerSize : headerSize+metaSize]
	return page, metaSum(fields) == binary.NativeEndian.Uint64(page[headerSize+metaSize:]) &&
		binary.NativeEndian.Uint32(fields) == magic && binary.NativeEndian.Uint32(fields[4:]) == version, nil
}

func metaSum(fields []byte) uint64 {
	sum := fnv.New64a()
	_, _ = sum.Write(fields)
	return sum.Sum64()
}

// findBuckets reads the tree of the buckets.
func (i *inspection) findBuckets(root uint64) {
	w := walk{in: i, left: i.pages, flags: bucketFlag}
	w.visit = func(name, value []byte) bool {
		if len(value) < headerSize {
			w.report(nil, nil, "bucket %q has no root", name)
			return true
		}
		i.buckets[string(name)] = tree{binary.NativeEndian.Uint64(value), bytes.Clone(value[headerSize:])}
		return true
	}
	w.page(root, nil, nil, nil, nil)
}

// Get implements [kv.Reader].
func (i *inspection) Get(bucket string, key []byte) (value []byte, err error) {
	t, found := i.buckets[bucket]
	if !found {
		return nil, nil
	}
	var faults []error
	w := walk{in: i, bucket: bucket, from: key, left: i.pages, quiet: &faults}
	w.visit = func(k, v []byte) bool {
		if bytes.Equal(k, key) {
			value = v
		}
		return false
	}
	w.tree(t)
	if value == nil && len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return value, nil
}

// Scan implements [kv.Reader].
func (i *inspection) Scan(bucket string, from []byte, visit func(key, value []byte) bool) error {
	if t, found := i.buckets[bucket]; found {
		w := walk{in: i, bucket: bucket, from: from, left: i.pages, visit: visit, strips: i.spare}
		i.spare = strips{} // visit may scan, too
		w.tree(t)
		i.spare = w.strips.empty()
	}
	return nil
}

// walk visits the records of a tree.
type walk struct {
	in     *inspection
	bucket string
	from   []byte
	visit  func(key, value []byte) bool
	flags  uint32   // of each element of a leaf
	quiet  *[]error // where faults go to instead
	last   []byte   // the key visited last, in memory of its own
	left   uint64   // pages that may still be met: in a sound tree none is met twice
	strips strips
	leaves []element // memory for the elements of one leaf
}

func (w *walk) report(from, to []byte, format string, args ...any) {
	f := kv.Fault{Bucket: w.bucket, From: bytes.Clone(from), To: bytes.Clone(to), Text: fmt.Sprintf(format, args...)}
	if w.quiet != nil {
		*w.quiet = append(*w.quiet, fmt.Errorf("%w: %s", kv.ErrCorrupt, f.Text))
		return
	}
	w.in.fault(f)
}

func (w *walk) tree(t tree) {
	if t.root != 0 {
		w.page(t.root, nil, nil, nil, nil)
		return
	}
	kind, elements, err := w.in.parse(t.inline, 0)
	if err == nil && kind != leafPage {
		err = errors.New("page is no leaf")
	}
	if err != nil {
		w.report(nil, nil, "the bucket's own %v", err)
		return
	}
	w.leaf(0, elements, nil, nil)
}

// page visits the records on a page and below it, which have keys from low on and below high, and begin with the first key
// if it is known. The path leads from the root to it. It returns false when there is no more to visit.
func (w *walk) page(id uint64, first, low, high []byte, path []uint64) bool {
	if slices.Contains(path, id) || w.left == 0 {
		w.report(low, high, "page %d is met a second time", id)
		return true
	}
	w.left--
	kind, elements, err := w.load(id)
	if err != nil {
		w.report(low, high, "%v", err)
		return true
	}
	// bbolt would leave the old page to be read when it writes a new one.
	if first != nil && len(elements) > 0 && elements[0].bad == "" && !bytes.Equal(elements[0].key, first) {
		w.report(low, high, "page %d does not begin with the key that leads to it", id)
	}
	if kind == leafPage {
		return w.leaf(id, elements, low, high)
	}
	return w.branch(id, elements, low, high, append(path, id))
}

func (w *walk) branch(id uint64, elements []element, low, high []byte, path []uint64) bool {
	sound := inOrder(elements, low, high)
	if !sound {
		w.report(low, high, "page %d: its keys are not in order", id)
	}
	for i, e := range elements {
		var first []byte
		from, to := low, high
		if sound {
			first = e.key
			if i > 0 {
				from = e.key
			}
			if i+1 < len(elements) {
				to = elements[i+1].key
			}
		}
		if to != nil && bytes.Compare(to, w.from) <= 0 {
			continue
		}
		if !w.page(e.page, first, from, to, path) {
			return false
		}
	}
	return true
}

// leaf visits the records on a page; that of a bucket that has no page but its own is page 0.
func (w *walk) leaf(id uint64, elements []element, low, high []byte) bool {
	if w.sound(elements, low, high) {
		for i := range elements {
			if !w.visit(elements[i].key, elements[i].value) {
				return false
			}
		}
		if n := len(elements); n > 0 {
			w.last = append(w.last[:0], elements[n-1].key...)
		}
		return true
	}
	elements = w.ordered(id, elements)
	for _, e := range elements {
		if !within(e.key, low, high) {
			w.report(e.key, nil, "page %d: the key %x is not found there", id, e.key)
		}
		if w.last != nil && bytes.Compare(e.key, w.last) <= 0 {
			w.report(e.key, nil, "page %d: the key %x is out of order", id, e.key)
			continue
		}
		w.last = append(w.last[:0], e.key...)
		if bytes.Compare(e.key, w.from) >= 0 && !w.visit(e.key, e.value) {
			return false
		}
	}
	return true
}

// sound tells whether nothing at all is wrong with the elements of a leaf, and all of them are to be visited. That of
// most leaves can be told by one comparison for each of its elements.
func (w *walk) sound(elements []element, low, high []byte) bool {
	n := len(elements)
	if n == 0 {
		return true
	}
	first, last := elements[0].key, elements[n-1].key
	if bytes.Compare(first, low) < 0 || bytes.Compare(first, w.from) < 0 || high != nil && bytes.Compare(last, high) >= 0 {
		return false
	}
	if w.last != nil && bytes.Compare(first, w.last) <= 0 {
		return false
	}
	for i := range elements {
		e := &elements[i]
		if e.bad != "" || e.flags != w.flags || i > 0 && bytes.Compare(elements[i-1].key, e.key) >= 0 {
			return false
		}
	}
	return true
}

// ordered returns the elements that can be read and stand in order. Of two that do not, the one is left out
// that does not fit between its neighbours.
func (w *walk) ordered(id uint64, elements []element) []element {
	kept := make([]element, 0, len(elements))
	for i, e := range elements {
		var before []byte
		if len(kept) > 0 {
			before = kept[len(kept)-1].key
		}
		bad := e.bad
		if bad == "" && e.flags != w.flags {
			bad = "has the wrong flags"
		}
		if bad == "" && before != nil && bytes.Compare(before, e.key) >= 0 {
			bad = "is out of order"
		}
		if bad == "" && i+1 < len(elements) && elements[i+1].bad == "" {
			next := elements[i+1].key
			if bytes.Compare(e.key, next) >= 0 && (before == nil || bytes.Compare(before, next) < 0) {
				bad = "is out of order"
			}
		}
		if bad != "" {
			w.report(e.key, nil, "page %d: element %d (key %.80x) %s", id, i, e.key, bad)
			continue
		}
		kept = append(kept, e)
	}
	return kept
}

// within tells whether a key lies from low on and below high.
func within(key, low, high []byte) bool {
	return bytes.Compare(key, low) >= 0 && (high == nil || bytes.Compare(key, high) < 0)
}

// element is one of a page.
type element struct {
	key, value []byte
	page       uint64 // of a branch
	flags      uint32 // of a leaf
	bad        string // what is wrong with it
}

const outside = "lies outside of its page"

// load reads a page.
func (i *inspection) load(id uint64) (kind uint16, elements []element, err error) {
	return (&walk{in: i}).load(id)
}

// load reads a page. The elements of a leaf last until the next call.
func (w *walk) load(id uint64) (kind uint16, elements []element, err error) {
	i := w.in
	if elements, known := i.branches[id]; known {
		return branchPage, elements, nil
	}
	if id < metaPages || id >= i.pages {
		return 0, nil, fmt.Errorf("page %d is beyond the %d in use", id, i.pages)
	}
	page, err := w.strips.page(i, id)
	if err != nil {
		return 0, nil, fmt.Errorf("page %d: %w", id, err)
	}
	more := uint64(binary.NativeEndian.Uint32(page[12:]))
	if self := binary.NativeEndian.Uint64(page); self != id || more >= i.pages-id {
		return 0, nil, fmt.Errorf("page %d says that it is page %d, and %d behind it", id, self, more)
	}
	if more > (1<<30)/uint64(i.pageSize) {
		return 0, nil, fmt.Errorf("page %d says that %d pages behind it belong to it", id, more)
	}
	if more > 0 {
		page = make([]byte, int(more+1)*i.pageSize)
		if err := i.read(page, id); err != nil {
			return 0, nil, fmt.Errorf("page %d: %w", id, err)
		}
	}
	if binary.NativeEndian.Uint16(page[8:]) == leafPage {
		kind, elements, err = i.parseInto(w.leaves, page, id)
		w.leaves = elements
		return kind, elements, err
	}
	// The way down is remembered, and the next page may be read into the same memory.
	if kind, elements, err = i.parse(bytes.Clone(page), id); err == nil && kind == branchPage && len(i.branches) < mostBranches {
		i.branches[id] = elements
	}
	return kind, elements, err
}

// mostBranches is how many branch pages are remembered: they lead to thousands of times as many records.
const mostBranches = 1024

func (i *inspection) read(into []byte, id uint64) error {
	if id > math.MaxInt64/uint64(i.pageSize) {
		return io.ErrUnexpectedEOF
	}
	_, err := i.file.ReadAt(into, int64(id)*int64(i.pageSize))
	return err
}

// parse takes a page apart. Its elements may be bad.
func (i *inspection) parse(page []byte, id uint64) (kind uint16, elements []element, err error) {
	return i.parseInto(nil, page, id)
}

// parseInto is parse that puts the elements into given memory, if they fit.
func (i *inspection) parseInto(memory []element, page []byte, id uint64) (kind uint16, elements []element, err error) {
	if len(page) < headerSize {
		return 0, nil, fmt.Errorf("page %d is cut off", id)
	}
	kind = binary.NativeEndian.Uint16(page[8:])
	count := int(binary.NativeEndian.Uint16(page[10:]))
	if kind != branchPage && kind != leafPage || count*elementSize > len(page)-headerSize {
		return 0, nil, fmt.Errorf("page %d is of kind %d, with %d elements", id, kind, count)
	}
	elements = slices.Grow(memory[:0], count)[:count]
	end := uint64(headerSize + count*elementSize)
	for n := range elements {
		at := headerSize + n*elementSize
		e := &elements[n]
		*e = parseElement(page, kind, uint64(at), uint64(count-n)*elementSize)
		if e.bad == "" {
			end += uint64(len(e.key) + len(e.value))
		}
	}
	// Pages that a page has without need would be given back with it, although another may hold them.
	if spare := (uint64(len(page)) - min(end, uint64(len(page)))) / uint64(i.pageSize); id != 0 && spare > 1 {
		return 0, nil, fmt.Errorf("page %d has %d pages more than it needs", id, spare)
	}
	return kind, elements, nil
}

// parseElement reads the element at some place. Keys and values stand behind the elements.
func parseElement(page []byte, kind uint16, at, behind uint64) element {
	field := func(i uint64) uint64 { return uint64(binary.NativeEndian.Uint32(page[at+4*i:])) }
	e, place, keySize, valueSize := element{}, field(0), field(1), uint64(0)
	if kind == branchPage {
		e.page = binary.NativeEndian.Uint64(page[at+8:])
	} else {
		e.flags, place, keySize, valueSize = uint32(field(0)), field(1), field(2), field(3)
	}
	if place < behind || at+place+keySize+valueSize > uint64(len(page)) {
		e.bad = outside
		return e
	}
	if keySize == 0 || kind == leafPage && valueSize == 0 {
		e.bad = "has no key or no value"
	}
	start := at + place
	e.key = page[start : start+keySize : start+keySize]
	if kind == leafPage {
		e.value = page[start+keySize : start+keySize+valueSize : start+keySize+valueSize]
	}
	return e
}
