package memtable

import (
	"bytes"
	"slices"
)

// run is a sorted list of records of a bucket in one layer.
type run struct {
	in      *layer
	records []id
	key     []byte // of the first record
}

// cursor visits the records of a bucket in some layers, as a reader of the updates up to at sees
// them.
type cursor struct {
	at    uint64 // number of the last update that the cursor sees
	runs  []run  // those of newer layers first; none is empty
	key   []byte // current key; nil after the last record
	value []byte // nil if the record was deleted
}

// seek returns a cursor over layers, the newest first, at the first record whose key is not below
// from. It sees the updates up to at; [math.MaxUint64] means all.
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

// add adds the records of a sorted run whose keys are not below from, unless there are none.
func (c *cursor) add(l *layer, records []id, from []byte) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if i, _ := l.search(records, from); i < len(records) {
		c.runs = append(c.runs, run{l, records[i:], l.key(records[i])})
	}
}

// next moves to the record with the next key of which the cursor sees a version, or sets c.key to
// nil if there is none.
func (c *cursor) next() {
	for seen := false; !seen; {
		c.key = nil // then the lowest key of all runs
		for i := range c.runs {
			if key := c.runs[i].key; c.key == nil || bytes.Compare(key, c.key) < 0 {
				c.key = key
			}
		}
		if c.key == nil {
			return
		}
		seen = c.advance()
	}
}

// advance moves all runs past c.key, and sets c.value to the first visible version of that record.
// That is the newest one, because runs of newer layers come first. seen is false if no version is
// visible.
func (c *cursor) advance() (seen bool) {
	rest := c.runs[:0]
	for _, r := range c.runs {
		if bytes.Equal(r.key, c.key) {
			if value, known := r.advance(c.at); known && !seen {
				c.value, seen = value, true
			}
		}
		if len(r.records) > 0 {
			rest = append(rest, r)
		}
	}
	c.runs = rest
	return seen
}

// advance moves past the first record, and returns its version that is visible at update at. The
// value is nil if the record was deleted. known is false if no version is visible.
func (r *run) advance(at uint64) (value []byte, known bool) {
	r.in.mu.RLock()
	defer r.in.mu.RUnlock()
	value, known = r.in.visible(r.records[0], at)
	if r.records = r.records[1:]; len(r.records) > 0 {
		r.key = r.in.key(r.records[0])
	}
	return value, known
}

// visitBelow passes the records from the cursor on whose keys are below key, or all if key is nil,
// to visit. It skips deleted records. It returns false if visit has returned false, and otherwise
// true.
func (c *cursor) visitBelow(key []byte, visit func(key, value []byte) bool) bool {
	for ; c.key != nil && (key == nil || bytes.Compare(c.key, key) < 0); c.next() {
		if c.value != nil && !visit(c.key, c.value) {
			return false
		}
	}
	return true
}

// sorted returns the records of a bucket in several lists, each in the order of keys. runs are
// those that were not added in order, and rising those that were. sorted first sorts the former
// that were added since the last call. Records that are added concurrently may be missing.
func (l *layer) sorted(bucket string) (runs [][]id, rising []id) {
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
	// mu is held for writing only to take the unsorted records, not to sort them.
	l.mu.Lock()
	fresh := b.fresh
	b.fresh = nil
	l.mu.Unlock()
	if len(fresh) > 0 { // otherwise another goroutine has sorted them
		b.runs = l.addRun(b.runs, fresh)
	}
	return b.runs, rising
}

// addRun returns runs with one more run, of the given records in the order of keys. It merges the
// last runs so that each is more than twice as long as the next. It does not modify the given runs,
// because readers may use them.
func (l *layer) addRun(runs [][]id, records []id) [][]id {
	last := l.keyed(records) // becomes the last run
	slices.SortFunc(last, keyed.compare)
	for n := len(runs); n > 0 && len(runs[n-1]) <= 2*len(last); n = len(runs) {
		last, runs = merge(l.keyed(runs[n-1]), last), runs[:n-1]
	}
	sorted := make([]id, len(last))
	for i := range last {
		sorted[i] = last[i].id
	}
	return append(slices.Clone(runs), sorted)
}

// keyed is a record with its key, for sorting.
type keyed struct {
	key []byte
	id  id
}

func (a keyed) compare(b keyed) int { return bytes.Compare(a.key, b.key) }

// keyed returns records with their keys.
func (l *layer) keyed(records []id) []keyed {
	l.mu.RLock()
	defer l.mu.RUnlock()
	all := make([]keyed, len(records))
	for i, id := range records {
		all[i] = keyed{l.key(id), id}
	}
	return all
}

// merge returns one sorted run of two, which have no key in common.
func merge(a, b []keyed) []keyed {
	merged := make([]keyed, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0].compare(b[0]) < 0 {
			merged, a = append(merged, a[0]), a[1:]
		} else {
			merged, b = append(merged, b[0]), b[1:]
		}
	}
	return append(append(merged, a...), b...)
}
