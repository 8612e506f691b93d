package bolt

import (
	"bytes"
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// bbolt, when it writes, trusts each leaf that it comes to: if one was forged to be a branch page that leads back up, it does
// not return from there, and from one that says that pages of others belong to it, it gives these away. It comes to the leaf
// of a key; when it deletes, also to the leaves beside it, which it may merge; and when it goes from key to key, to the next one.
// So a transaction looks at these before bbolt does. Until the commit the tree stands in the file as it was: what is changed is
// in memory, and the way to a leaf is the same. Branch pages were looked at when the file was opened.

// span is what is known of a leaf that was looked at.
type span struct {
	low, high []byte // its keys are from low on and below high; nil at the ends of the bucket
	last      []byte // its last key before the transaction
	known     bool
	around    bool // those beside it were looked at, too
}

// look looks at the leaf where a key is, or would be.
func (t *transaction) look(b *bucket, key []byte) (err error) {
	if b.root == 0 || b.at.known && within(key, b.at.low, b.at.high) {
		return nil // a small bucket was looked at when the file was opened
	}
	b.at, err = t.leaf(b.root, key, false)
	return err
}

// lookAround looks at the leaves beside that of a key, too.
func (t *transaction) lookAround(b *bucket, key []byte) error {
	if err := t.look(b, key); err != nil || b.root == 0 || b.at.around {
		return err
	}
	if b.at.low != nil {
		if _, err := t.leaf(b.root, b.at.low, true); err != nil {
			return err
		}
	}
	if b.at.high != nil {
		if _, err := t.leaf(b.root, b.at.high, false); err != nil {
			return err
		}
	}
	b.at.around = true
	return nil
}

// leaf finds the leaf of a key, or the last one whose keys are all before it, and looks at it.
func (t *transaction) leaf(root uint64, key []byte, before bool) (at span, err error) {
	var first []byte
	s := snapshot{in: t.in, data: t.mapped, pageSize: uint64(t.in.pageSize)}
	p, err := s.page(root)
	for depth := 0; err == nil && p.kind() == branchPage; depth++ {
		var n int
		if n, err = p.child(key); err != nil {
			break
		}
		if before && n > 0 && bytes.Equal(p.first(n), key) {
			n--
		}
		if first = p.first(n); n > 0 {
			at.low = first
		}
		if n+1 < p.count() {
			at.high = p.first(n + 1)
		}
		p, err = s.below(p, n, depth)
	}
	if err == nil {
		at.last, err = t.checkLeaf(p, first)
	}
	at.known = err == nil
	return at, err
}

// checkLeaf refuses a leaf that this package has not written: one that does not begin with the key that leads to it, whose
// records lie outside of it, or which has pages that it does not need. It returns its last key.
func (t *transaction) checkLeaf(p page, first []byte) (last []byte, err error) {
	parser := inspection{pageSize: t.in.pageSize}
	_, t.elements, err = parser.parseInto(t.elements, p, p.id())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", kv.ErrCorrupt, err)
	}
	for i := range t.elements {
		e := &t.elements[i]
		if e.bad != "" || e.flags != 0 || i == 0 && first != nil && !bytes.Equal(e.key, first) {
			return nil, p.damaged()
		}
		last = e.key
	}
	return last, nil
}
