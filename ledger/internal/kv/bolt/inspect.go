package bolt

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// If a key on a branch page is changed, bbolt loses records without an error. If the newer of the
// two meta pages is damaged, bbolt silently uses the previous transaction. So an audit reads the
// file itself. It does not read mapped memory, where a page that the disk cannot read causes a
// fault. The content of the pages of a snapshot does not change while the snapshot is open.

// inspection is a snapshot that expects damage. It implements [kv.Reader].
type inspection struct {
	pager   // with an empty window
	fault   func(kv.Fault)
	buckets map[string]tree
	spare   []byte // memory for the window of the next scan
}

// Inspect implements [kv.Inspector]. The first faults are those of the meta pages, those that were
// found when the file was opened, and those of the tree of buckets.
func (s *Store) Inspect(fault func(kv.Fault), fn func(kv.Reader) error) error {
	return s.snapshot(func(tx *transaction) error {
		size := tx.in.pageSize
		pages := pager{file: tx.in.file, pageSize: size, pages: uint64(len(tx.mapped) / size)}
		i := &inspection{pager: pages, fault: fault}
		if err := i.checkMeta(); err != nil {
			return err
		}
		tx.in.damage.report(fault)
		i.findBuckets(tx.old.root)
		return fn(i)
	})
}

// checkMeta passes a fault to i.fault if a meta page is damaged, or both are of the same
// transaction. Commits write the two meta pages in turn, and a reader uses the newer valid one.
// checkMeta returns an error only if the file cannot be read.
func (i *inspection) checkMeta() error {
	var transactions [metaPages]uint64
	for id := range uint64(metaPages) {
		m, isValid, err := i.meta(id)
		for tries := 0; err == nil && !isValid && tries < 5; tries++ {
			time.Sleep(time.Millisecond) // it may be written at this moment
			m, isValid, err = i.meta(id)
		}
		if err != nil {
			return err
		}
		if !isValid {
			i.fault(kv.Fault{Text: fmt.Sprintf("meta page %d is damaged: the last transaction may be missing", id)})
			return nil
		}
		transactions[id] = m.transaction()
	}
	if transactions[0] == transactions[1] {
		i.fault(kv.Fault{Text: "both meta pages are of the same transaction: the last one may be missing"})
	}
	return nil
}

// meta reads meta page id, 0 or 1. isValid is false if the page is damaged, or is stored at the
// wrong place.
func (i *inspection) meta(id uint64) (m meta, isValid bool, err error) {
	m, err = readMeta(i.file, int64(id)*int64(i.pageSize))
	p := page(m[:])
	return m, m.isValid() && p.id() == id && p.kind() == metaPage, err
}

// findBuckets reads the tree of buckets from page root on, and stores the buckets in i.buckets. It
// passes faults to i.fault, and continues after them.
func (i *inspection) findBuckets(root uint64) {
	i.buckets = map[string]tree{}
	w := i.walk("", nil)
	w.flags = bucketFlag
	w.visit = func(name, value []byte) bool {
		t, err := readTree(string(name), bytes.Clone(value)) // value is valid only during the call
		if err != nil {
			w.report(nil, nil, "%v", err)
		} else {
			i.buckets[string(name)] = t
		}
		return true
	}
	w.tree(tree{root: root})
}

// Get implements [kv.Reader]. It walks from the key on, to the first record that is readable. If
// that is not the record of the key, Get returns the first fault that it found, or nil if there was
// none.
func (i *inspection) Get(bucket string, key []byte) (value []byte, err error) {
	t, found := i.buckets[bucket]
	if !found {
		return nil, nil
	}
	w := i.walk(bucket, key)
	w.fault = func(f kv.Fault) { err = cmp.Or(err, corrupt(errors.New(f.Text))) }
	w.visit = func(k, v []byte) bool {
		if bytes.Equal(k, key) {
			value = v
		}
		return false
	}
	w.tree(t)
	if value != nil {
		return value, nil
	}
	return nil, err
}

// Scan implements [kv.Reader]. It always returns nil, because it passes damage to the fault
// function of Inspect.
func (i *inspection) Scan(bucket string, from []byte, visit func(key, value []byte) bool) error {
	if t, found := i.buckets[bucket]; found {
		w := i.walk(bucket, from)
		w.visit = visit
		// i.spare is nil during the scan, because visit may scan, too.
		w.readAhead, w.window, i.spare = windowSize/i.pageSize, i.spare, nil
		w.tree(t)
		i.spare = w.window[:0]
	}
	return nil
}

// walk visits the records of a tree, from key from on. It passes what it cannot read to fault, and
// continues after it.
type walk struct {
	pager
	bucket string
	from   []byte
	visit  func(key, value []byte) bool
	flags  uint32 // that each element of a leaf must have
	fault  func(kv.Fault)
	seen   pageSet
	last   []byte // the key visited last, in memory of its own
}

// walk returns a walk of a bucket from a key on. The caller sets visit.
func (i *inspection) walk(bucket string, from []byte) *walk {
	return &walk{pager: i.pager, bucket: bucket, from: from, fault: i.fault, seen: pageSet{}}
}

// report passes a fault of the bucket to w.fault. The keys that may be affected are from from on
// and below to. nil is no limit.
func (w *walk) report(from, to []byte, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.fault(kv.Fault{Bucket: w.bucket, From: bytes.Clone(from), To: bytes.Clone(to), Text: text})
}

// tree visits the records of a tree: on its pages, or on the page inside the value of a small
// bucket.
func (w *walk) tree(t tree) {
	if t.root != 0 {
		w.page(t.root, nil, nil, nil)
	} else if p, err := inlinePage(t.inline); err != nil {
		w.report(nil, nil, "%v", err)
	} else {
		w.leaf(p, nil, nil)
	}
}

// page visits the records on page id and below it. Their keys must be from low on and below high,
// and begin with first if first is not nil. A nil limit is no limit. page passes faults to w.fault.
// It returns false only if visit has returned false.
func (w *walk) page(id uint64, first, low, high []byte) bool {
	if !w.seen.add(id) {
		w.report(low, high, "page %d is used twice", id)
		return true
	}
	p, _, err := w.load(id, longestPage)
	if err == nil && !p.needsOverflow(w.pageSize) {
		err = fmt.Errorf("page %d has more overflow pages than it needs", id)
	}
	if err != nil {
		w.report(low, high, "%v", err)
		return true
	}
	// If bbolt wrote a new version of this page, it would leave the old one visible.
	if key, ok := p.key(0); p.count() > 0 && first != nil && ok && !bytes.Equal(key, first) {
		w.report(low, high, "page %d does not begin with the key that leads to it", id)
	}
	if p.isLeaf() {
		return w.leaf(p, low, high)
	}
	return w.branch(p, low, high)
}

// branch visits the records below a branch page. Its arguments and result are those of page. If the
// keys of the branch page are not in order, they limit nothing: the limits of the page are used for
// each page below.
func (w *walk) branch(p page, low, high []byte) bool {
	isSound := p.inOrder(nil, low, high)
	if !isSound {
		w.report(low, high, "page %d: its keys are not in order", p.id())
	}
	for n := range p.count() {
		var first []byte
		from, to := low, high
		if isSound {
			if first, _ = p.key(n); n > 0 {
				from = first
			}
			if n+1 < p.count() {
				to, _ = p.key(n + 1)
			}
		}
		if to != nil && bytes.Compare(to, w.from) <= 0 { // all keys below it are before the walk begins
			continue
		}
		if !w.page(p.child(n), first, from, to) {
			return false
		}
	}
	return true
}

// leaf visits the records on a page that are readable and in order. If two records are out of
// order, it skips the one that does not fit between its neighbors. It also visits a key that is not
// from low on and below high, but reports it. It returns false only if visit has returned false.
func (w *walk) leaf(p page, low, high []byte) bool {
	before := w.last // the last key that was in order; the defer copies it, because the page may be reused
	defer func() { w.last = append(w.last[:0], before...) }()
	for n := range p.count() {
		key, value, flags, ok := p.record(n)
		switch {
		case !ok:
			w.report(key, nil, "page %d: element %d (key %.80x) is outside of its page, or is empty", p.id(), n, key)
			continue
		case flags != w.flags:
			w.report(key, nil, "page %d: element %d (key %.80x) has the wrong flags", p.id(), n, key)
			continue
		case before != nil && bytes.Compare(key, before) <= 0 || n+1 < p.count() && w.isOutlier(p, n, before, key):
			w.report(key, nil, "page %d: element %d (key %.80x) is out of order", p.id(), n, key)
			continue
		case !within(key, low, high):
			w.report(key, nil, "page %d: key %x is outside of the page's range of keys", p.id(), key)
		}
		before = key
		if bytes.Compare(key, w.from) >= 0 && !w.visit(key, value) {
			return false
		}
	}
	return true
}

// isOutlier reports whether element n, with this key, is the one of two to skip. That is so if it
// is not below the next element, but the next element is above before. before is the last key in
// order before element n, or nil.
func (w *walk) isOutlier(p page, n int, before, key []byte) bool {
	next, _, flags, ok := p.record(n + 1)
	return ok && flags == w.flags && bytes.Compare(key, next) >= 0 && (before == nil || bytes.Compare(before, next) < 0)
}
