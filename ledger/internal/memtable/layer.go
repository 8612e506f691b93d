package memtable

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"sync"
)

// layer holds what was written since some moment: of each record the newest version, and older ones
// as long as a reader may need them. One goroutine at a time writes to it; any number read.
//
// It is as large as the table may be, and the collector of garbage would look at every pointer in
// it, again and again: that took a fifth of the processor's time. So records are numbers, and keys
// and values lie in few large pieces of memory. These are used again for the next layer: to ask the
// system for so much takes as long as to fill it.
type layer struct {
	users   int  // who may look at it; guarded by the mu of the table
	written bool // to the base, so that nobody else will; likewise
	newest  bool // whether no version but the newest is kept

	mu      sync.RWMutex
	buckets []*bucket // few, in the order of their names
	readers readers
	bytes   int64

	pieces  pieces
	records [][]record // in pages
	count   int        // how many there are; the pages behind them are empty
	older   []version  // versions that are not the newest
	unused  []uint32   // of these
}

// bucket is one of a layer. A record never leaves it. Those of large requests, and events, come in
// the order of their keys, and stay so; the others are brought into order only when somebody scans
// the bucket.
type bucket struct {
	name   string
	index  index // of all records
	rising []id  // records whose keys were above all others when they came
	fresh  []id  // the others, in no run yet

	sorting sync.Mutex
	runs    [][]id // of the others, in the order of keys, each more than twice as long as the next; guarded by sorting
}

// id is the number of a record in its layer.
type id uint32

// record is the newest version of one. The key does not change.
type record struct {
	key place
	version
}

// version is what an update made of a record.
type version struct {
	at    uint64 // the number of the update; 0 if there is no version: the update that wrote the record failed
	value place  // of length 0 if it was deleted
	older uint32 // the number, from 1 on, of the version before; 0 if there is none
}

// What they take besides their bytes, about.
const (
	recordBytes  = 72 // with its places in the map and in runs
	versionBytes = 56
	pageRecords  = 512
)

// bucket returns nil if nothing was written to it. The caller holds mu.
func (l *layer) bucket(name string) *bucket {
	for _, b := range l.buckets {
		if b.name == name {
			return b
		}
	}
	return nil
}

// reset empties a layer. It keeps the memory for as much as there was, for the next.
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

func (b *bucket) reset() {
	b.index.reset()
	b.rising, b.fresh, b.runs = b.rising[:0], nil, nil
}

func (l *layer) record(i id) *record { return &l.records[i/pageRecords][i%pageRecords] }

func (l *layer) key(i id) []byte { return l.pieces.bytes(l.record(i).key) }

// search finds the first record whose key is not below another.
func (l *layer) search(records []id, key []byte) (at int, found bool) {
	return slices.BinarySearchFunc(records, key, func(i id, key []byte) int { return bytes.Compare(l.key(i), key) })
}

func (l *layer) size() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.bytes
}

// length returns how many records there are.
func (l *layer) length() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.count
}

// lengths returns how many records of each bucket there are.
func (l *layer) lengths() map[string]int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	n := map[string]int{}
	for _, b := range l.buckets {
		n[b.name] = b.index.count
	}
	return n
}

// get returns the version of a record that an update sees, with nil for one that was deleted. It is
// not known if the layer has none. The caller holds mu, unless nobody else can write to the layer
// meanwhile.
func (l *layer) get(bucket string, key []byte, hash, at uint64) (value []byte, known bool) {
	if b := l.bucket(bucket); b != nil {
		if i, found := b.index.find(l, key, hash); found {
			return l.seen(i, at)
		}
	}
	return nil, false
}

// getLocked is get beside the goroutine that writes to the layer.
func (l *layer) getLocked(bucket string, key []byte, hash, at uint64) (value []byte, known bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.get(bucket, key, hash, at)
}

func (l *layer) seen(i id, at uint64) (value []byte, known bool) {
	for v := &l.record(i).version; v.at > 0; v = l.before(v) {
		if v.at <= at {
			return l.pieces.bytes(v.value), true
		}
		if v.older == 0 {
			break
		}
	}
	return nil, false
}

// before returns the version before another, if there is one.
func (l *layer) before(v *version) *version { return &l.older[v.older-1] }

// put writes a version by the update with this number, the next to be published. It tells which
// record it is, and whether that update writes it for the first time.
func (l *layer) put(bucket string, key, value []byte, hash, at uint64) (i id, touched bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i = l.add(bucket, key, hash)
	r := l.record(i)
	touched = r.at != at
	switch {
	case l.newest && l.pieces.replace(&r.value, value):
		r.at = at
		return i, touched
	case touched && r.at != 0 && !l.newest:
		l.keep(r)
	default:
		l.bytes -= l.pieces.giveBack(r.value)
	}
	r.at, r.value = at, l.pieces.put(value, r.older != 0)
	l.bytes += int64(len(value))
	return i, touched
}

// add finds a record, or adds one that has no version yet.
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

// newRecord makes a record that has a key.
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

// keep makes the newest version of a record an older one, and drops those behind it that nobody
// reads. The one that was published last stays even so: the next reader may come before the next
// version is published.
func (l *layer) keep(r *record) {
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
	for v := &l.older[n-1]; v.older != 0; {
		if old := l.before(v); l.readers.any(old.at, v.at) {
			v = old
		} else {
			number := v.older
			v.older = old.older
			l.drop(number)
		}
	}
}

// drop forgets a version that nobody reads.
func (l *layer) drop(number uint32) {
	v := &l.older[number-1]
	l.bytes -= versionBytes + l.pieces.giveBack(v.value)
	*v = version{}
	l.unused = append(l.unused, number)
}

// undo takes back the newest versions of records.
func (l *layer) undo(records []id) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, i := range records {
		r := l.record(i)
		l.bytes -= l.pieces.giveBack(r.value)
		number := r.older
		if number == 0 {
			r.version = version{}
			continue
		}
		r.version = *l.before(&r.version)
		l.older[number-1] = version{}
		l.unused = append(l.unused, number)
		l.bytes -= versionBytes
	}
}

func (l *layer) enter(at uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readers.add(at)
}

func (l *layer) leave(at uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readers.remove(at)
}

// readers are those of a layer, in the order of the last update that they see.
type readers []sameReaders

// sameReaders are readers of the same snapshot.
type sameReaders struct {
	at    uint64
	count int
}

// find returns where the readers are that see an update, or those behind it.
func (s readers) find(at uint64) (i int, found bool) {
	return slices.BinarySearchFunc(s, at, func(r sameReaders, at uint64) int { return cmp.Compare(r.at, at) })
}

// add adds a reader, who sees no less than any other.
func (s *readers) add(at uint64) {
	if n := len(*s); n > 0 && (*s)[n-1].at == at {
		(*s)[n-1].count++
		return
	}
	*s = append(*s, sameReaders{at, 1})
}

func (s *readers) remove(at uint64) {
	i, _ := s.find(at)
	if (*s)[i].count--; (*s)[i].count == 0 {
		*s = slices.Delete(*s, i, i+1)
	}
}

// any tells whether somebody sees an update, but not a later one.
func (s readers) any(at, later uint64) bool {
	i, _ := s.find(at)
	return i < len(s) && s[i].at < later
}
