package bolt

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// A snapshot reads the pages of the mapped file. bbolt can do this, too, but its cursors also
// search for pages that the transaction has changed, and a snapshot has none. On a damaged page a
// snapshot returns an error.

// snapshot implements [kv.Reader] and, on some systems, [kv.Prefetcher], while its transaction is
// open. During that time bbolt neither writes to the pages of the snapshot nor maps the file again.
type snapshot struct {
	in       *database
	data     []byte // pages that the snapshot may see
	pageSize uint64
	root     uint64       // of the tree of buckets
	known    []bucketTree // buckets found before
	first    [4]bucketTree
}

// tree is the position of the records of a bucket.
type tree struct {
	root   uint64
	inline []byte // page of a small bucket, which has no root page
}

// readTree decodes the value of a bucket: the page of its root, 8 unused bytes, and the page of a
// small bucket. The result refers to the memory of value. An error means that the value is too
// short.
func readTree(name string, value []byte) (t tree, err error) {
	if len(value) < headerSize {
		return tree{}, fmt.Errorf("bucket %q has no root", name)
	}
	return tree{binary.NativeEndian.Uint64(value), value[headerSize:]}, nil
}

// bucketTree is a bucket in a snapshot.
type bucketTree struct {
	tree
	name string
	leaf uint64 // leaf used last, or 0; many reads are in the order of keys, so it is often the next one, too
}

// end removes the pages from the snapshot. A reader that is used after that gets errors.
func (s *snapshot) end() { *s = snapshot{in: s.in, pageSize: s.pageSize} }

// Get implements [kv.Reader].
func (s *snapshot) Get(bucket string, key []byte) ([]byte, error) {
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
	return s.scan(t.tree, 0, from, visit)
}

// find returns a bucket, and keeps it for later calls. It returns nil and no error if there is no
// such bucket. It returns [kv.ErrCorrupt] if pages on the path to it are damaged, or if [examine]
// has found its pages to be damaged.
func (s *snapshot) find(name string) (*bucketTree, error) {
	for i := range s.known {
		if t := &s.known[i]; t.name == name {
			return t, nil
		}
	}
	if err := s.in.damage.buckets[name]; err != nil {
		return nil, fmt.Errorf("%w: bucket %q: %w", kv.ErrCorrupt, name, err)
	}
	// The value of the bucket in the tree of buckets has the position of its records.
	about, err := s.get(&bucketTree{tree: tree{root: s.root}}, []byte(name), bucketFlag)
	if about == nil {
		return nil, err
	}
	t, err := readTree(name, about)
	if err != nil {
		return nil, corrupt(err)
	}
	s.known = append(s.known, bucketTree{tree: t, name: name})
	return &s.known[len(s.known)-1], nil
}

// get returns the value of a key in a tree, or nil if the tree does not have the key. The element
// of the key must have the given flags: bucketFlag in the tree of buckets, otherwise 0. It returns
// [kv.ErrCorrupt] for a damaged page on the path.
func (s *snapshot) get(t *bucketTree, key []byte, flags uint32) ([]byte, error) {
	p, err := s.cachedLeaf(t, key)
	if err != nil {
		return nil, corrupt(err)
	}
	n, found, err := p.search(key)
	if !found { // err may be nil
		return nil, corrupt(err)
	}
	_, value, elementFlags, ok := p.record(n)
	if !ok || elementFlags != flags {
		return nil, corrupt(p.elementError())
	}
	return value, nil
}

// cachedLeaf is [snapshot.leaf] without choose, but first tries the leaf of t that was used last.
// It stores the leaf that it returns.
func (s *snapshot) cachedLeaf(t *bucketTree, key []byte) (page, error) {
	if t.leaf != 0 {
		if p, err := s.page(t.leaf); err == nil && p.coversKey(key) {
			return p, nil
		}
	}
	p, err := s.leaf(t.tree, key, nil)
	if err == nil && t.root != 0 {
		t.leaf = p.id()
	}
	return p, err
}

// leaf returns the leaf where a key is, or would be. If choose is not nil, leaf calls it for each
// branch page p on the path. n is the number of the element under which the key is. leaf continues
// with the element that choose returns.
func (s *snapshot) leaf(t tree, key []byte, choose func(p page, n int) int) (page, error) {
	p, err := s.rootPage(t)
	for depth := 0; err == nil && !p.isLeaf(); depth++ {
		var n int
		if n, err = p.childIndex(key); err != nil {
			break
		}
		if choose != nil {
			n = choose(p, n)
		}
		p, err = s.childPage(p.child(n), depth)
	}
	return p, err
}

// rootPage returns the root page of a tree.
func (s *snapshot) rootPage(t tree) (page, error) {
	if t.root == 0 {
		return inlinePage(t.inline)
	}
	return s.page(t.root)
}

// childPage returns a page that a branch page leads to. depth is the number of levels between that
// branch page and the root.
func (s *snapshot) childPage(id uint64, depth int) (page, error) {
	if depth == maxDepth {
		return nil, fmt.Errorf("page %d is more than %d levels below the root", id, maxDepth)
	}
	p, err := s.page(id)
	// So every path leads to records. If two paths lead to the same page, its records are found
	// twice, and the second time out of order.
	if err == nil && p.count() == 0 {
		err = fmt.Errorf("page %d has no elements", id)
	}
	return p, err
}

// page returns page id with its overflow pages, from mapped memory. It returns an error if the
// snapshot does not have the page, or its header is wrong.
func (s *snapshot) page(id uint64) (page, error) {
	pages := uint64(len(s.data)) / s.pageSize
	if id < metaPages || id >= pages {
		return nil, fmt.Errorf("page %d is not one of the %d pages in use", id, pages)
	}
	p := page(s.data[id*s.pageSize:])
	size, err := p.size(id, pages, s.pageSize)
	if err != nil {
		return nil, err
	}
	return p[:size], nil
}

// scan passes the records of a tree to visit, from key from on, until visit returns false. Their
// elements must have the given flags. It returns [kv.ErrCorrupt] at the first damage.
func (s *snapshot) scan(t tree, flags uint32, from []byte, visit func(key, value []byte) bool) error {
	p, err := s.rootPage(t)
	if err == nil {
		state := scan{in: s, flags: flags, from: from, visit: visit}
		_, err = state.page(p, 0)
	}
	return corrupt(err)
}

// scan is the state of one scan of a tree.
type scan struct {
	in    *snapshot
	flags uint32
	from  []byte // nil after the scan has reached it
	visit func(key, value []byte) bool
	last  []byte // key visited last; nil before the first
}

// page visits the records on and below a page, which is depth levels below the root. more is false
// if visit has returned false, or after an error.
func (s *scan) page(p page, depth int) (more bool, err error) {
	if p.isLeaf() {
		return s.leaf(p)
	}
	n := 0
	if s.from != nil {
		if n, err = p.childIndex(s.from); err != nil {
			return false, err
		}
	}
	for ; n < p.count(); n++ {
		below, err := s.in.childPage(p.child(n), depth)
		if err != nil {
			return false, err
		}
		if more, err := s.page(below, depth+1); !more || err != nil {
			return false, err
		}
	}
	return true, nil
}

// leaf visits the records of a leaf. more is false if visit has returned false, or after an error.
// It returns an error if a key is not above the one before.
func (s *scan) leaf(p page) (more bool, err error) {
	n := 0
	if s.from != nil {
		if n, _, err = p.search(s.from); err != nil {
			return false, err
		}
		s.from = nil
	}
	for ; n < p.count(); n++ {
		key, value, flags, ok := p.record(n)
		if !ok || flags != s.flags || s.last != nil && bytes.Compare(key, s.last) <= 0 {
			return false, p.elementError()
		}
		if s.last = key; !s.visit(key, value) {
			return false, nil
		}
	}
	return true, nil
}

// corrupt wraps an error about damage in [kv.ErrCorrupt].
func corrupt(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", kv.ErrCorrupt, err)
}
