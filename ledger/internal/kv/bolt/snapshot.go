package bolt

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// A snapshot reads the pages of the mapped file by itself. bbolt would do it, too, but its cursors also look for pages
// that the transaction has changed, and here there are none. Where pages are damaged a snapshot ends with an error, also
// where bbolt would walk in a circle, or read what lies behind a page.

// snapshot implements [kv.Reader] and, on some systems, [kv.Prefetcher], while its transaction is open.
type snapshot struct {
	in       *database
	data     []byte // the pages that it may see
	pageSize uint64
	root     uint64       // of the tree of buckets
	known    []bucketTree // those found
	first    [4]bucketTree
}

// bucketTree is a bucket in a snapshot.
type bucketTree struct {
	tree
	name string
	leaf uint64 // the page looked at last, or 0: who reads many records reads them in order
}

// newSnapshot begins one. As long as its transaction is open, bbolt neither writes to its pages nor maps the file anew.
func newSnapshot(t *transaction) (s *snapshot, err error) {
	defer rescue(&err)
	s = &snapshot{in: t.in, data: t.mapped, pageSize: uint64(t.in.pageSize)}
	s.root, s.known = uint64(t.tx.Cursor().Bucket().Root()), s.first[:0]
	return s, nil
}

// end takes the pages away: whoever keeps the snapshot gets errors from then on.
func (s *snapshot) end() { *s = snapshot{in: s.in, pageSize: s.pageSize} }

// Get implements [kv.Reader].
func (s *snapshot) Get(bucket string, key []byte) (value []byte, err error) {
	t, err := s.find(bucket)
	if t == nil {
		return nil, err
	}
	return s.get(t, key, 0)
}

// Scan implements [kv.Reader].
func (s *snapshot) Scan(bucket string, from []byte, visit func(key, value []byte) bool) error {
	t, err := s.find(bucket)
	if t == nil {
		return err
	}
	root, err := s.top(t.tree)
	if err != nil {
		return err
	}
	x := scan{in: s, from: from, visit: visit}
	_, err = x.page(root, 0)
	return err
}

// find returns nil when there is no such bucket, and an error when its pages must not be followed.
func (s *snapshot) find(name string) (*bucketTree, error) {
	for i := range s.known {
		if t := &s.known[i]; t.name == name {
			return t, nil
		}
	}
	if err := s.in.damage.buckets[name]; err != nil {
		return nil, fmt.Errorf("%w: bucket %q: %w", kv.ErrCorrupt, name, err)
	}
	about, err := s.get(&bucketTree{tree: tree{root: s.root}}, []byte(name), bucketFlag)
	if about == nil {
		return nil, err
	}
	if len(about) < headerSize {
		return nil, fmt.Errorf("%w: bucket %q has no root", kv.ErrCorrupt, name)
	}
	s.known = append(s.known, bucketTree{tree: tree{binary.NativeEndian.Uint64(about), about[headerSize:]}, name: name})
	return &s.known[len(s.known)-1], nil
}

// get returns what a tree has under a key, in an element with some flags, or nil.
func (s *snapshot) get(t *bucketTree, key []byte, flags uint32) ([]byte, error) {
	p, err := s.leaf(t, key)
	if err != nil {
		return nil, err
	}
	n, found, err := p.search(key)
	if !found {
		return nil, err
	}
	_, value, has, ok := p.record(n)
	if !ok || has != flags {
		return nil, p.damaged()
	}
	return value, nil
}

// leaf returns the page of a tree where a key is, or would be.
func (s *snapshot) leaf(t *bucketTree, key []byte) (page, error) {
	if t.leaf != 0 {
		if p, err := s.page(t.leaf); err == nil && p.holds(key) {
			return p, nil
		}
	}
	p, err := s.top(t.tree)
	for depth := 0; err == nil && p.kind() == branchPage; depth++ {
		var n int
		if n, err = p.child(key); err == nil {
			p, err = s.below(p, n, depth)
		}
	}
	if err == nil && t.root != 0 {
		t.leaf = p.id()
	}
	return p, err
}

// top returns the root page of a tree.
func (s *snapshot) top(t tree) (page, error) {
	if t.root != 0 {
		return s.page(t.root)
	}
	p := page(t.inline)
	if len(p) < headerSize || p.kind() != leafPage || !p.holdsElements() {
		return nil, fmt.Errorf("%w: a small bucket reaches beyond its end", kv.ErrCorrupt)
	}
	return p, nil
}

// below returns the page that an element of a branch page leads to.
func (s *snapshot) below(p page, n, depth int) (page, error) {
	if depth == deepest {
		return nil, fmt.Errorf("%w: page %d is more than %d levels below the root", kv.ErrCorrupt, p.id(), deepest)
	}
	below, err := s.page(p.leadsTo(n))
	if err == nil && below.count() == 0 { // so every way down leads to records, and two ways to the same are out of order
		err = below.damaged()
	}
	return below, err
}

// page returns a page with those behind it that belong to it, if it holds as many elements as it says.
func (s *snapshot) page(id uint64) (page, error) {
	pages := uint64(len(s.data)) / s.pageSize
	if id < metaPages || id >= pages {
		return nil, fmt.Errorf("%w: page %d is beyond the %d in use", kv.ErrCorrupt, id, pages)
	}
	p := page(s.data[id*s.pageSize:])
	if more := p.more(); more < pages-id {
		p = p[:(more+1)*s.pageSize]
		if kind := p.kind(); p.id() == id && (kind == leafPage || kind == branchPage && p.count() > 0) && p.holdsElements() {
			return p, nil
		}
	}
	return nil, p.damaged()
}

// scan visits the records of a tree.
type scan struct {
	in    *snapshot
	from  []byte // nil once it is reached
	visit func(key, value []byte) bool
	last  []byte // the key visited last; nil before the first
}

// page visits the records on and below a page. It tells whether there may be more to visit.
func (x *scan) page(p page, depth int) (more bool, err error) {
	if p.kind() == leafPage {
		return x.leaf(p)
	}
	n := 0
	if x.from != nil {
		if n, err = p.child(x.from); err != nil {
			return false, err
		}
	}
	for count := p.count(); n < count; n++ {
		below, err := x.in.below(p, n, depth)
		if err != nil {
			return false, err
		}
		if more, err := x.page(below, depth+1); !more || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (x *scan) leaf(p page) (more bool, err error) {
	n, count := 0, p.count()
	if x.from != nil {
		if n, _, err = p.search(x.from); err != nil {
			return false, err
		}
		x.from = nil
	}
	for ; n < count; n++ {
		key, value, flags, ok := p.record(n)
		if !ok || flags != 0 {
			return false, p.damaged()
		}
		if x.last != nil && bytes.Compare(key, x.last) <= 0 {
			return false, p.damaged()
		}
		if x.last = key; !x.visit(key, value) {
			return false, nil
		}
	}
	return true, nil
}

// page is a page that holds the elements it says, with their keys and values or not.
type page []byte

func (p page) id() uint64   { return binary.NativeEndian.Uint64(p) }
func (p page) kind() uint16 { return binary.NativeEndian.Uint16(p[8:]) }
func (p page) count() int   { return int(binary.NativeEndian.Uint16(p[10:])) }
func (p page) more() uint64 { return uint64(binary.NativeEndian.Uint32(p[12:])) }

func (p page) holdsElements() bool { return headerSize+p.count()*elementSize <= len(p) }

func (p page) damaged() error { return fmt.Errorf("%w: page %d", kv.ErrCorrupt, p.id()) }

// element returns the fields of an element of a page.
func (p page) element(n int) (at uint64, fields []byte) {
	at = headerSize + uint64(n)*elementSize
	return at, p[at:][:elementSize]
}

// record returns that of an element of a leaf. It is not ok if it lies outside of the page.
func (p page) record(n int) (key, value []byte, flags uint32, ok bool) {
	at, fields := p.element(n)
	start := at + uint64(binary.NativeEndian.Uint32(fields[4:]))
	middle := start + uint64(binary.NativeEndian.Uint32(fields[8:]))
	end := middle + uint64(binary.NativeEndian.Uint32(fields[12:]))
	if end > uint64(len(p)) {
		return nil, nil, 0, false
	}
	return p[start:middle:middle], p[middle:end:end], binary.NativeEndian.Uint32(fields), true
}

// holds tells whether it is a leaf, and a key between its first and its last.
func (p page) holds(key []byte) bool {
	if p.kind() != leafPage || p.count() == 0 {
		return false
	}
	first, _, _, sound := p.record(0)
	last, _, _, whole := p.record(p.count() - 1)
	return sound && whole && bytes.Compare(first, key) <= 0 && bytes.Compare(key, last) <= 0
}

// search finds the first element of a leaf whose key is not below another.
func (p page) search(key []byte) (n int, found bool, err error) {
	low, high := 0, p.count()
	for low < high {
		middle := (low + high) / 2
		at, _, _, ok := p.record(middle)
		if !ok {
			return 0, false, p.damaged()
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

// leadsTo returns the page that an element of a branch page leads to.
func (p page) leadsTo(n int) uint64 {
	_, fields := p.element(n)
	return binary.NativeEndian.Uint64(fields[8:])
}

// first returns the key of an element of a branch page, or nil if it lies outside of the page.
func (p page) first(n int) []byte {
	at, _ := p.element(n)
	return parseElement(p, branchPage, at, uint64(p.count()-n)*elementSize).key
}

// child finds the element of a branch page under which a key is, or would be.
func (p page) child(key []byte) (n int, err error) {
	low, high := 1, p.count() // what is below the second key is under the first element
	for low < high {
		middle := (low + high) / 2
		at, fields := p.element(middle)
		start := at + uint64(binary.NativeEndian.Uint32(fields))
		end := start + uint64(binary.NativeEndian.Uint32(fields[4:]))
		if end > uint64(len(p)) {
			return 0, p.damaged()
		}
		if bytes.Compare(p[start:end], key) <= 0 {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low - 1, nil
}
