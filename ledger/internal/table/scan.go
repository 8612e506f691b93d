package table

import (
	"bytes"
	"slices"
)

// run is a part of the records of a bucket, in the order of their keys.
type run struct {
	in      *layer
	records []*record
}

// cursor goes through what an update sees of a bucket in some layers.
type cursor struct {
	at    uint64
	runs  []run  // those of newer layers first; none is empty
	key   []byte // where it stands; nil behind the last record
	value []byte // nil if the record was deleted
}

// seek returns a cursor that stands at the first record whose key is not below from.
func seek(layers []*layer, bucket string, from []byte, at uint64) cursor {
	c := cursor{at: at}
	for _, l := range layers {
		runs, rising := l.sorted(bucket)
		c.add(l, rising, from)
		for _, records := range runs {
			c.add(l, records, from)
		}
	}
	c.next()
	return c
}

// add adds a run from a key on.
func (c *cursor) add(l *layer, records []*record, from []byte) {
	if i, _ := search(records, from); i < len(records) {
		c.runs = append(c.runs, run{l, records[i:]})
	}
}

// next goes on to the next record of which the update sees a version.
func (c *cursor) next() {
	for seen := false; !seen; {
		c.key = nil
		for _, r := range c.runs {
			if key := r.records[0].key; c.key == nil || bytes.Compare(key, c.key) < 0 {
				c.key = key
			}
		}
		if c.key == nil {
			return
		}
		seen = c.pass()
	}
}

// pass goes behind the key in all runs, and takes the value that is seen first: the newest.
func (c *cursor) pass() (seen bool) {
	rest := c.runs[:0]
	for _, r := range c.runs {
		if bytes.Equal(r.records[0].key, c.key) {
			if !seen {
				c.value, seen = r.in.read(r.records[0], c.at)
			}
			r.records = r.records[1:]
		}
		if len(r.records) > 0 {
			rest = append(rest, r)
		}
	}
	c.runs = rest
	return seen
}

// below visits records below a key, or all for nil, until visit returns false, which it then returns.
func (c *cursor) below(key []byte, visit func(key, value []byte) bool) bool {
	for ; c.key != nil && (key == nil || bytes.Compare(c.key, key) < 0); c.next() {
		if c.value != nil && !visit(c.key, c.value) {
			return false
		}
	}
	return true
}

// sorted returns the records of a bucket: runs, and those that came in order.
func (l *layer) sorted(bucket string) (runs [][]*record, rising []*record) {
	l.mu.RLock()
	b, unsorted := l.bucket(bucket), false
	if b != nil {
		rising, unsorted = b.rising, len(b.fresh) > 0
	}
	l.mu.RUnlock()
	if b == nil {
		return nil, nil
	}
	b.sorting.Lock()
	defer b.sorting.Unlock()
	if !unsorted {
		return b.runs, rising
	}
	l.mu.Lock()
	fresh := b.fresh
	b.fresh = nil
	l.mu.Unlock()
	if len(fresh) > 0 { // else somebody else was faster
		slices.SortFunc(fresh, func(a, b *record) int { return bytes.Compare(a.key, b.key) })
		b.runs = stack(b.runs, fresh)
	}
	return b.runs, rising
}

// stack returns runs and one more, after merging as many as must be for each to be more than twice as long as the one behind
// it. Others may read the former ones.
func stack(runs [][]*record, last []*record) [][]*record {
	for n := len(runs); n > 0 && len(runs[n-1]) <= 2*len(last); n = len(runs) {
		last, runs = merge(runs[n-1], last), runs[:n-1]
	}
	return append(slices.Clone(runs), last)
}

// merge merges two runs, which have no key in common.
func merge(a, b []*record) []*record {
	merged := make([]*record, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if bytes.Compare(a[0].key, b[0].key) < 0 {
			merged, a = append(merged, a[0]), a[1:]
		} else {
			merged, b = append(merged, b[0]), b[1:]
		}
	}
	return append(append(merged, a...), b...)
}
