package memtable

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"sync"
)

// layer holds what was written since its creation. Of each record it has the newest version, and
// older versions as long as a reader may need them. One goroutine at a time writes to it; any
// number of goroutines read.
//
// A layer may be as large as the memtable. With pointers in it, the garbage collector would scan
// all of them again and again, which took a fifth of the processor time. Therefore a record is
// identified by a number, and keys and values are in a few large pieces of memory. The next layer
// reuses the pieces, because to allocate that much memory takes as long as to fill it.
type layer struct {
	users           int  // number of readers; guarded by the mu of the table
	isWritten       bool // the base has the layer, so no new reader will use it; guarded by the mu of the table
	keepsOnlyNewest bool // only the newest version of a record is kept

	mu      sync.RWMutex
	buckets []*bucket // few, in the order of their names
	readers readers
	bytes   int64

	pieces  pieces
	records [][]record // in pages of pageRecords
	count   int        // number of records; pages after the last record are empty
	older   []version  // versions that are not the newest
	unused  []uint32   // free elements of older, as numbers from 1 on
}

// bucket is a bucket of a layer. Records are never removed from it. The records of large requests,
// and events, arrive in the order of their keys, and stay in that order. The other records are
// sorted only when the bucket is scanned.
type bucket struct {
	name   string
	index  index // of all records
	rising []id  // records whose keys were above all others when they were added
	fresh  []id  // other records that are not sorted yet

	sorting sync.Mutex
	// runs are the sorted other records. Each run is more than twice as long as the next. Guarded
	// by sorting.
	runs [][]id
}

// id is the number of a record in its layer.
type id uint32

// record is the newest version of a record, with its key. The key does not change.
type record struct {
	key location
	version
}

// version is the result of one update for a record.
type version struct {
	at    uint64   // number of the update; 0 if there is no version, because the update that added the record failed
	value location // of length 0 if the record was deleted
	older uint32   // number, from 1 on, of the previous version in older; 0 if there is none
}

// Approximate memory of a record and of a version besides the bytes of keys and values.
const (
	recordBytes  = 72 // including its entries in the index and in runs
	versionBytes = 56
	pageRecords  = 512
)

// bucket returns a bucket, or nil if nothing was written to it. mu must be held.
func (l *layer) bucket(name string) *bucket {
	for _, b := range l.buckets {
		if b.name == name {
			return b
		}
	}
	return nil
}

// reset empties a layer. It keeps the memory that was in use, for the next content.
func (l *layer) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.buckets {
		b.reset()
	}
	l.records = l.records[:(l.count+pageRecords-1)/pageRecords]
	for i := range l.records {
		l.records[i] = l.records[i][:0]
	}
	l.count, l.bytes, l.older, l.unused = 0, 0, l.older[:0], l.unused[:0]
	l.pieces.reset()
}

// reset empties a bucket. It keeps the memory of the index and of rising for the next content.
func (b *bucket) reset() {
	b.index.reset()
	b.rising, b.fresh, b.runs = b.rising[:0], nil, nil
}

func (l *layer) record(i id) *record { return &l.records[i/pageRecords][i%pageRecords] }

func (l *layer) key(i id) []byte { return l.pieces.bytes(l.record(i).key) }

// search returns the position in records, which must be sorted by key, of the first one whose key
// is not below key. It returns len(records) if there is none. found reports whether that record has
// the key.
func (l *layer) search(records []id, key []byte) (at int, found bool) {
	return slices.BinarySearchFunc(records, key, func(i id, key []byte) int { return bytes.Compare(l.key(i), key) })
}

// size returns approximately how many bytes of memory the layer uses.
func (l *layer) size() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.bytes
}

// length returns the number of records.
func (l *layer) length() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.count
}

// lengths returns the number of records of each bucket.
func (l *layer) lengths() map[string]int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	n := map[string]int{}
	for _, b := range l.buckets {
		n[b.name] = b.index.count
	}
	return n
}

// get returns the newest version of a record that is not newer than update at. The value is nil if
// the record was deleted. known is false if the layer has no such version. mu must be held, unless
// no other goroutine can write to the layer.
func (l *layer) get(bucket string, key []byte, hash, at uint64) (value []byte, known bool) {
	if b := l.bucket(bucket); b != nil {
		if i, found := b.index.find(l, key, hash); found {
			return l.visible(i, at)
		}
	}
	return nil, false
}

// getLocked is get for callers that run concurrently with the goroutine that writes to the layer.
func (l *layer) getLocked(bucket string, key []byte, hash, at uint64) (value []byte, known bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.get(bucket, key, hash, at)
}

// visible returns the newest version of a record that is not newer than update at. The value is nil
// if the record was deleted. known is false if there is no such version. mu must be held as for
// get.
func (l *layer) visible(i id, at uint64) (value []byte, known bool) {
	for v := &l.record(i).version; v.at > 0; v = l.previous(v) {
		if v.at <= at {
			return l.pieces.bytes(v.value), true
		}
		if v.older == 0 {
			break
		}
	}
	return nil, false
}

// previous returns the previous version of a record. v.older must not be 0.
func (l *layer) previous(v *version) *version { return &l.older[v.older-1] }

// put stores a value, or nil for a deletion, as the version of a record by update at, the next one
// to be published. It returns the record, and whether this is the first write of the update to it.
func (l *layer) put(bucket string, key, value []byte, hash, at uint64) (i id, isFirst bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i = l.add(bucket, key, hash)
	r := l.record(i)
	isFirst = r.at != at
	switch {
	case l.keepsOnlyNewest && l.pieces.replace(&r.value, value): // overwritten in place
		r.at = at
		return i, isFirst
	case isFirst && r.at != 0 && !l.keepsOnlyNewest: // a reader may need the previous version
		l.pushVersion(r)
	default: // the previous value is not needed: it is of this update, or only the newest is kept
		l.bytes -= l.pieces.release(r.value)
	}
	// A record with an older version gets memory that can be freed with the version.
	r.at, r.value = at, l.pieces.put(value, r.older != 0)
	l.bytes += int64(len(value))
	return i, isFirst
}

// add returns the record of a bucket with a key. If there is none, it adds one without a version,
// which no reader sees.
func (l *layer) add(name string, key []byte, hash uint64) id {
	b := l.bucket(name)
	if b == nil {
		b = &bucket{name: name}
		at, _ := slices.BinarySearchFunc(l.buckets, name, func(b *bucket, name string) int {
			return strings.Compare(b.name, name)
		})
		l.buckets = slices.Insert(l.buckets, at, b)
	}
	if i, found := b.index.find(l, key, hash); found {
		return i
	}
	i := l.newRecord(key)
	b.index.add(hash, i)
	if n := len(b.rising); n == 0 || bytes.Compare(l.key(b.rising[n-1]), key) < 0 {
		b.rising = append(b.rising, i)
	} else {
		b.fresh = append(b.fresh, i)
	}
	return i
}

// newRecord adds a record with a key and without a version.
func (l *layer) newRecord(key []byte) id {
	n := l.count / pageRecords
	if n == len(l.records) {
		l.records = append(l.records, make([]record, 0, pageRecords))
	}
	page := &l.records[n]
	*page = append(*page, record{key: l.pieces.put(key, false)})
	l.bytes += recordBytes + int64(len(key))
	l.count++
	return id(l.count - 1)
}

// pushVersion makes a copy of the newest version of a record an older one, and then drops older
// versions that no reader sees. It does not drop the version that was published last, because a
// reader may begin before the next one is published.
func (l *layer) pushVersion(r *record) {
	var n uint32
	if last := len(l.unused) - 1; last >= 0 {
		n, l.unused = l.unused[last], l.unused[:last]
		l.older[n-1] = r.version
	} else {
		l.older = append(l.older, r.version)
		n = uint32(len(l.older))
	}
	l.bytes += versionBytes
	r.older = n
	// A reader needs the version old if it sees the update old.at, but not v.at, the version after.
	for v := &l.older[n-1]; v.older != 0; {
		if old := l.previous(v); l.readers.hasBetween(old.at, v.at) {
			v = old
		} else {
			number := v.older
			v.older = old.older
			l.freeVersion(number)
		}
	}
}

// freeVersion frees the older version with this number, which no reader sees.
func (l *layer) freeVersion(number uint32) {
	v := &l.older[number-1]
	l.bytes -= versionBytes + l.pieces.release(v.value)
	*v = version{}
	l.unused = append(l.unused, number)
}

// undo removes the newest versions of records, and restores the previous ones. Each record must be
// given once. A record without a previous version stays, but no reader sees it.
func (l *layer) undo(records []id) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, i := range records {
		r := l.record(i)
		l.bytes -= l.pieces.release(r.value)
		number := r.older
		if number == 0 {
			r.version = version{}
			continue
		}
		r.version = *l.previous(&r.version)
		l.older[number-1] = version{} // its value stays, because r refers to it now
		l.unused = append(l.unused, number)
		l.bytes -= versionBytes
	}
}

// enter registers a reader that sees the updates up to at, so that their versions are kept.
func (l *layer) enter(at uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readers.add(at)
}

// leave removes a reader that was registered with the same number.
func (l *layer) leave(at uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readers.remove(at)
}

// readers are the readers of a layer, in the order of the last update that they see.
type readers []sameReaders

// sameReaders counts the readers of one snapshot.
type sameReaders struct {
	at    uint64
	count int
}

// find returns the index of the readers that see the updates up to at, or of the first readers that
// see more. found reports whether they are the former.
func (s readers) find(at uint64) (i int, found bool) {
	return slices.BinarySearchFunc(s, at, func(r sameReaders, at uint64) int { return cmp.Compare(r.at, at) })
}

// add adds a reader that sees the updates up to at, which must not be below that of any other
// reader.
func (s *readers) add(at uint64) {
	if n := len(*s); n > 0 && (*s)[n-1].at == at {
		(*s)[n-1].count++
		return
	}
	*s = append(*s, sameReaders{at, 1})
}

// remove removes a reader that was added with the same number.
func (s *readers) remove(at uint64) {
	i, _ := s.find(at)
	if (*s)[i].count--; (*s)[i].count == 0 {
		*s = slices.Delete(*s, i, i+1)
	}
}

// hasBetween reports whether any reader sees update at, but not the update later.
func (s readers) hasBetween(at, later uint64) bool {
	i, _ := s.find(at)
	return i < len(s) && s[i].at < later
}
