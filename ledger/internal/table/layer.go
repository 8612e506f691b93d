package table

import (
	"cmp"
	"slices"
	"sync"
	"unsafe"
)

// layer holds what was written since some moment: of each record the newest version, and older ones as long as a reader may
// need them. One goroutine at a time writes to it; any number read.
type layer struct {
	mu      sync.RWMutex
	buckets map[string]*bucket
	readers readers
	bytes   int64
}

// bucket is one of a layer. A record never leaves it, and it is brought into order only when somebody scans it.
type bucket struct {
	records map[string]*record // by key
	fresh   []*record          // in no run yet

	sorting sync.Mutex
	runs    [][]*record // in the order of keys, each more than twice as long as the one behind it; guarded by sorting
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

func newLayer() *layer { return &layer{buckets: map[string]*bucket{}} }

// bucket returns nil if nothing was written to it.
func (l *layer) bucket(name string) *bucket {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.buckets[name]
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
	b := l.buckets[bucket]
	if b == nil {
		return nil, false
	}
	r := b.records[string(key)]
	if r == nil {
		return nil, false
	}
	return r.seen(at)
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
	b := l.buckets[name]
	if b == nil {
		b = &bucket{records: map[string]*record{}}
		l.buckets[name] = b
	}
	r := b.records[string(key)]
	if r == nil {
		own := string(key) // callers put keys that are parts of something larger
		r = &record{key: unsafe.Slice(unsafe.StringData(own), len(own))}
		b.records[own] = r
		b.fresh = append(b.fresh, r)
		l.bytes += recordBytes + int64(len(key))
	}
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
