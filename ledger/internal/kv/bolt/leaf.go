package bolt

import "bytes"

// When bbolt writes, it trusts each leaf that it reads. A forged leaf could be a branch page that
// leads back up the tree, from which bbolt does not return. Or it could claim overflow pages that
// belong to other pages, which bbolt then frees.
//
// bbolt reads the leaf of the key. When it deletes, it also reads the neighboring leaves, which it
// may merge; when it moves from key to key, it reads the next leaf. So a transaction checks these
// leaves before bbolt reads them. Until the commit, the tree in the file is unchanged: changes are
// in memory, and the path to a leaf is the same. Branch pages were checked when the file was
// opened.

// span describes a leaf that was checked.
type span struct {
	low, high           []byte // its keys are from low on and below high; nil at the ends of the bucket
	last                []byte // its last key before the transaction
	isKnown             bool
	hasNeighborsChecked bool // its neighbors were checked, too
}

// checkLeaf checks the leaf where a key is, or would be, and stores it in b.at. It does nothing if
// that leaf is in b.at already.
func (t *transaction) checkLeaf(b *bucket, key []byte) (err error) {
	if !b.at.isKnown || !within(key, b.at.low, b.at.high) {
		b.at, err = t.leaf(b.old, key, false)
	}
	return err
}

// checkLeafAndNeighbors checks the leaf where a key is, or would be, and the leaves before and
// after it.
func (t *transaction) checkLeafAndNeighbors(b *bucket, key []byte) error {
	if err := t.checkLeaf(b, key); err != nil || b.at.hasNeighborsChecked {
		return err
	}
	// The keys of the leaf before are all below low, and the leaf after has the key high.
	for _, beside := range []struct {
		key    []byte
		before bool
	}{{b.at.low, true}, {b.at.high, false}} {
		if beside.key == nil { // the leaf is the first or the last one
			continue
		}
		if _, err := t.leaf(b.old, beside.key, beside.before); err != nil {
			return err
		}
	}
	b.at.hasNeighborsChecked = true
	return nil
}

// leaf checks the leaf of a key in the tree of. If before is true, it checks the last leaf whose
// keys are all below the key instead. It returns a description of the leaf, or [kv.ErrCorrupt] if
// this package has not written it so. Such a leaf does not begin with the key that leads to it, or
// has records outside of it. Or it has pages that it does not need.
func (t *transaction) leaf(of tree, key []byte, before bool) (at span, err error) {
	var first []byte // the key that leads to the leaf
	isSound := true
	read := func(p page, n int) (key []byte) {
		key, ok := p.key(n)
		isSound = isSound && ok
		return key
	}
	p, err := t.old.leaf(of, key, func(p page, n int) int {
		if before && n > 0 && bytes.Equal(read(p, n), key) { // the leaf before is below the element before
			n--
		}
		if first = read(p, n); n > 0 { // element 0 also leads to keys below its own
			at.low = first
		}
		if n+1 < p.count() {
			at.high = read(p, n+1)
		}
		return n
	})
	if err != nil {
		return span{}, corrupt(err)
	}
	isSound = isSound && p.needsOverflow(t.in.pageSize)
	for n := 0; n < p.count() && isSound; n++ {
		key, _, flags, ok := p.record(n)
		isSound = ok && flags == 0 && (n > 0 || first == nil || bytes.Equal(key, first))
		at.last = key
	}
	if !isSound {
		return span{}, corrupt(p.elementError())
	}
	at.isKnown = true
	return at, nil
}
