package table

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
)

// layer holds what was written since some moment: of each record the newest version, and older ones as long as a reader may
// need them. One goroutine at a time writes to it; any number read.
type layer struct {
	mu      sync.RWMutex
	buckets []*bucket // few, in the order of their names
	readers readers
	bytes   int64

	keys  []byte   // what lies behind it is free for keys
	spare []record // free
	count int      // of records
}

// bucket is one of a layer. A record never leaves it. Those of large requests, and events, come in the order of their keys, and stay so;
// the others are brought into order only when somebody scans the bucket.
type bucket struct {
	name   string
	rising []*record          // whose keys were above all others when they came
	near   atomic.Int64       // where one of these was found last
	others map[string]*record // by key
	fresh  []*record          // of the others, in no run yet

	sorting sync.Mutex
	runs    [][]*record // of the others, in the order of keys, each more than twice as long as the one behind it; guarded by sorting
}

// record is the newest version of one. The key does not change.
type record struct {
	key []byte
	version
}

// version is what an update made of a record.
type version struct {
	at    uint64 // the number of the update; 0 if there is no version: the update that wrote the record failed
	value []byte // nil if it was deleted
	older *version
}

// What they take besides their bytes, about.
const (
	recordBytes  = 112 // with its places in the map and in runs
	versionBytes = 48
)

// Memory for records and keys is asked for in pieces, the first of them small.
const (
	smallPiece, largePiece = 8, 256 // records
	keyRoom                = 32     // for that of one
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

// find returns nil if there is no such record. It tells whether the key is above all others.
func (b *bucket) find(key []byte) (r *record, above bool) {
	n := len(b.rising)
	if n == 0 || bytes.Compare(b.rising[n-1].key, key) < 0 {
		return nil, true
	}
	if r := b.others[string(key)]; r != nil {
		return r, false
	}
	near := int(b.near.Load())
	for i, r := range b.rising[near:min(near+reach, n)] {
		if bytes.Equal(r.key, key) {
			b.near.Store(int64(near + i))
			return r, false
		}
	}
	i, found := search(b.rising, key)
	if !found {
		return nil, false
	}
	b.near.Store(int64(i))
	return b.rising[i], false
}

// reach is how far behind the last record found the next one is looked for: who asks for many asks for them in order.
const reach = 3

// search finds the first record whose key is not below another.
func search(records []*record, key []byte) (i int, found bool) {
	return slices.BinarySearchFunc(records, key, func(r *record, key []byte) int { return bytes.Compare(r.key, key) })
}

func (l *layer) size() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.bytes
}

// get returns the version of a record that an update sees, with nil for one that was deleted. It is not known if the layer
// has none.
func (l *layer) get(bucket string, key []byte, at uint64) (value []byte, known bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if b := l.bucket(bucket); b != nil {
		if r, _ := b.find(key); r != nil {
			return r.seen(at)
		}
	}
	return nil, false
}

// read is get for a record that was found before.
func (l *layer) read(r *record, at uint64) (value []byte, known bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return r.seen(at)
}

func (r *record) seen(at uint64) (value []byte, known bool) {
	for v := &r.version; v != nil && v.at > 0; v = v.older {
		if v.at <= at {
			return v.value, true
		}
	}
	return nil, false
}

// put writes a version by the update with this number, the next to be published. It returns the record, or nil if that update
// has written it before.
func (l *layer) put(bucket string, key, value []byte, at uint64) (touched *record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.record(bucket, key)
	if r.at != at {
		l.keep(r)
		touched = r
	}
	l.bytes += int64(len(value) - len(r.value))
	r.at, r.value = at, value
	return touched
}

// record finds a record, or adds one that has no version yet.
func (l *layer) record(name string, key []byte) *record {
	b := l.bucket(name)
	if b == nil {
		b = &bucket{name: name, others: map[string]*record{}}
		at, _ := slices.BinarySearchFunc(l.buckets, name, func(b *bucket, name string) int { return strings.Compare(b.name, name) })
		l.buckets = slices.Insert(l.buckets, at, b)
	}
	r, above := b.find(key)
	switch {
	case r != nil:
	case above:
		r = l.add(key)
		b.rising = append(b.rising, r)
	default:
		r = l.add(key)
		b.fresh = append(b.fresh, r)
		b.others[unsafe.String(unsafe.SliceData(r.key), len(key))] = r
	}
	return r
}

// add makes a record with a copy of a key: callers put keys that are parts of something larger.
func (l *layer) add(key []byte) *record {
	piece := min(max(l.count, smallPiece), largePiece)
	if len(l.spare) == 0 {
		l.spare = make([]record, piece)
	}
	if cap(l.keys)-len(l.keys) < len(key) {
		l.keys = make([]byte, 0, max(piece*keyRoom, len(key)))
	}
	r, at := &l.spare[0], len(l.keys)
	l.keys, l.spare = append(l.keys, key...), l.spare[1:]
	r.key = l.keys[at:len(l.keys):len(l.keys)]
	l.count++
	l.bytes += recordBytes + int64(len(key))
	return r
}

// keep makes the newest version of a record an older one, and drops those behind it that nobody reads. The one that was
// published last stays even so: the next reader may come before the next version is published.
func (l *layer) keep(r *record) {
	if r.at == 0 {
		return
	}
	v := &version{r.at, r.value, r.older}
	l.bytes += versionBytes + int64(len(v.value))
	for r.older = v; v.older != nil; {
		if old := v.older; l.readers.any(old.at, v.at) {
			v = old
		} else {
			v.older = old.older
			l.bytes -= versionBytes + int64(len(old.value))
		}
	}
}

// undo takes back the newest versions of records.
func (l *layer) undo(records []*record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range records {
		l.bytes -= int64(len(r.value))
		if r.older == nil {
			r.version = version{}
			continue
		}
		r.version = *r.older
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
