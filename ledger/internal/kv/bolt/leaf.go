package bolt

import "bytes"

// bbolt, when it writes, trusts each leaf that it comes to: if one was forged to be a branch page
// that leads back up, it does not return from there, and from one that says that pages of others
// belong to it, it gives these away. It comes to the leaf of a key; when it deletes, also to the
// leaves beside it, which it may merge; and when it goes from key to key, to the next one. So a
// transaction looks at these before bbolt does. Until the commit the tree stands in the file as it
// was: what is changed is in memory, and the way to a leaf is the same. Branch pages were looked at
// when the file was opened.

// span is what is known of a leaf that was looked at.
type span struct {
	low, high []byte // its keys are from low on and below high; nil at the ends of the bucket
	last      []byte // its last key before the transaction
	known     bool
	around    bool // those beside it were looked at, too
}

// look looks at the leaf where a key is, or would be.
func (t *transaction) look(b *bucket, key []byte) (err error) {
	if !b.at.known || !within(key, b.at.low, b.at.high) {
		b.at, err = t.leaf(b.old, key, false)
	}
	return err
}

// lookAround looks at the leaves beside that of a key, too.
func (t *transaction) lookAround(b *bucket, key []byte) error {
	if err := t.look(b, key); err != nil || b.at.around {
		return err
	}
	for _, beside := range []struct {
		key    []byte
		before bool
	}{{b.at.low, true}, {b.at.high, false}} {
		if beside.key == nil {
			continue
		}
		if _, err := t.leaf(b.old, beside.key, beside.before); err != nil {
			return err
		}
	}
	b.at.around = true
	return nil
}

// leaf looks at the leaf of a key, or the last one whose keys are all before it. It refuses one
// that this package has not written: one that does not begin with the key that leads to it, whose
// records lie outside of it, or which has pages that it does not need.
func (t *transaction) leaf(of tree, key []byte, before bool) (at span, err error) {
	var first []byte
	sound := true
	read := func(p page, n int) (key []byte) {
		key, ok := p.key(n)
		sound = sound && ok
		return key
	}
	p, err := t.old.leaf(of, key, func(p page, n int) int {
		if before && n > 0 && bytes.Equal(read(p, n), key) {
			n--
		}
		if first = read(p, n); n > 0 {
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
	sound = sound && p.needs(t.in.pageSize)
	for n := 0; n < p.count() && sound; n++ {
		key, _, flags, ok := p.record(n)
		sound = ok && flags == 0 && (n > 0 || first == nil || bytes.Equal(key, first))
		at.last = key
	}
	if !sound {
		return span{}, corrupt(p.damaged())
	}
	at.known = true
	return at, nil
}
