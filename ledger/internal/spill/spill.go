// Package spill keeps a state that is needed once, such as the one an audit folds the log into. It
// holds what fits in memory and writes the rest to temporary files.
//
// New and changed pairs stand in a map. When they outgrow the limit they are written out in order, as
// an immutable run, and the map starts empty. A run is written together with the runs before it that
// are not much larger, so that their number grows only with the logarithm of the state. Runs rather
// than a B+ tree such as bbolt, because every pair is written in sequence and a key that is new, which
// is what most lookups ask for, is told by filters in memory.
package spill

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/sluicedp/sluice/ledger/store"
)

var _ store.Writer = (*Scratch)(nil)

const (
	// overhead is about what an entry takes beside its key and value: itself, its place in the map and
	// in the order, and what the allocator rounds up.
	overhead = 128
	// ratio is how many times larger than the new pairs an old run, or an old part of the order in
	// memory, may be and still be merged with them.
	ratio = 2
)

var (
	errClosed   = errors.New("scratch state is closed")
	errScanning = errors.New("write to the scratch state during a scan of it")
	errEmpty    = errors.New("empty key or value")
)

// Scratch is a [store.Writer] that forgets everything on Close. It is not for concurrent use, not even
// by readers only.
//
// What Get returns and what Scan passes must not be modified, but stays as it was for as long as it is
// held. After an error of Put or Delete nothing that was written is lost, but it may take more memory
// than the limit.
type Scratch struct {
	dir      string
	limit    int
	seed     maphash.Seed
	buckets  map[string]uint32 // numbered as they are first written to
	table    map[string]*entry // nil when closed
	held     int               // bytes in the table
	fresh    []*entry          // those of the table that are not in order yet
	order    [][]*entry        // the others, each part sorted and much larger than the next
	runs     []*run            // oldest first
	scanning int
	key      []byte // of the call under way, with its bucket
	cursor   cursor // of Get
}

// entry is a pair in memory. Without a value it says that there is no such pair, whatever runs hold.
type entry struct {
	key   string // with its bucket
	value []byte
	dirty bool // not just read from a run
}

// New returns an empty state that keeps about limit bytes in memory. More goes to files in dir, or in
// the default directory for temporary files if dir is empty. They are made when they are needed, and
// nobody else sees them where an open file can be removed.
func New(dir string, limit int) (*Scratch, error) {
	if limit <= 0 {
		return nil, fmt.Errorf("scratch state limited to %d bytes of memory", limit)
	}
	return &Scratch{dir: dir, limit: limit, seed: maphash.MakeSeed(), buckets: map[string]uint32{}, table: map[string]*entry{}}, nil
}

// Close removes everything. Closing again does nothing.
func (s *Scratch) Close() error {
	err := closeAll(s.runs)
	*s = Scratch{}
	return err
}

// locate sets s.key, and reports whether the bucket was ever written to.
func (s *Scratch) locate(bucket string, key []byte) bool {
	number, known := s.buckets[bucket]
	s.key = append(binary.BigEndian.AppendUint32(s.key[:0], number), key...)
	return known
}

// Get implements [store.Reader].
func (s *Scratch) Get(bucket string, key []byte) ([]byte, error) {
	if s.table == nil {
		return nil, errClosed
	}
	if !s.locate(bucket, key) {
		return nil, nil
	}
	if e := s.table[string(s.key)]; e != nil {
		return e.value, nil
	}
	if len(s.runs) == 0 {
		return nil, nil
	}
	value, err := s.getSpilled()
	// What is read once is often read again. But a read never makes anything spill, so that it may stand
	// in a scan.
	if size := len(s.key) + len(value) + overhead; value != nil && s.held+size <= s.room() {
		s.set(value, false)
	}
	return value, err
}

func (s *Scratch) getSpilled() ([]byte, error) {
	hash := maphash.Bytes(s.seed, s.key)
	for _, r := range slices.Backward(s.runs) {
		if !r.filter.has(hash, false) {
			continue
		}
		if value, found, err := r.get(s.key, &s.cursor); found || err != nil {
			return bytes.Clone(value), err
		}
	}
	return nil, nil
}

// Put implements [store.Writer]. It keeps a reference to the value.
func (s *Scratch) Put(bucket string, key, value []byte) error {
	if len(key) == 0 || len(value) == 0 {
		return errEmpty
	}
	if err := s.writable(); err != nil {
		return err
	}
	if !s.locate(bucket, key) {
		s.buckets[bucket] = uint32(len(s.buckets))
		s.locate(bucket, key)
	}
	s.set(value, true)
	return s.bound()
}

// Delete implements [store.Writer].
func (s *Scratch) Delete(bucket string, key []byte) error {
	if len(key) == 0 {
		return errEmpty
	}
	if err := s.writable(); err != nil {
		return err
	}
	if !s.locate(bucket, key) || len(s.runs) == 0 && s.table[string(s.key)] == nil {
		return nil
	}
	s.set(nil, true)
	return s.bound()
}

func (s *Scratch) writable() error {
	switch {
	case s.table == nil:
		return errClosed
	case s.scanning != 0:
		return errScanning
	}
	return nil
}

// set sets the value of s.key in memory.
func (s *Scratch) set(value []byte, dirty bool) {
	e := s.table[string(s.key)]
	if e == nil {
		e = &entry{key: string(s.key)}
		s.table[e.key] = e
		s.fresh = append(s.fresh, e)
		s.held += len(e.key) + overhead
	}
	s.held += len(value) - len(e.value)
	e.value, e.dirty = value, dirty
}

// room is what the table may hold: what runs leave of the limit. They leave at least half of it, but
// for limits so small that the first key of each counts.
func (s *Scratch) room() int {
	return max(s.limit-heldBy(s.runs), s.limit/2)
}

func heldBy(runs []*run) int {
	held := 0
	for _, r := range runs {
		held += r.held
	}
	return held
}

// bound spills the table if it has outgrown its room.
func (s *Scratch) bound() error {
	if s.held <= s.room() {
		return nil
	}
	if err := s.spill(); err != nil {
		return fmt.Errorf("spill scratch state: %w", err)
	}
	return nil
}

// spill writes the table and the newest runs into one new run. If it fails, nothing has changed.
func (s *Scratch) spill() error {
	var dirty []*entry
	var size int64
	for _, part := range append(s.order, s.fresh) {
		for _, e := range part {
			if e.dirty {
				dirty = append(dirty, e)
				size += int64(len(e.key) + len(e.value) + frame)
			}
		}
	}
	sortEntries(dirty)
	count, cursors := len(dirty), []*cursor{{entries: dirty}}
	older := len(s.runs)
	for older > 0 && s.runs[older-1].size <= ratio*size {
		older--
		size += s.runs[older].size
		count += s.runs[older].count
		cursors = append(cursors, &cursor{run: s.runs[older]})
	}
	// Half of what older runs leave for runs: as the next will be smaller, half of the rest will do.
	w, err := newWriter(s.dir, s.seed, size, count, (s.limit/2-heldBy(s.runs[:older]))/2)
	if err != nil {
		return err
	}
	err = merge(cursors, nil, func(key, value []byte) (bool, error) {
		if value == nil && older == 0 {
			return true, nil // there is nothing left for it to hide
		}
		return true, w.add(key, value)
	})
	if err == nil {
		err = w.finish()
	}
	if err != nil {
		return errors.Join(err, w.run.close())
	}
	merged := slices.Clone(s.runs[older:])
	s.runs = append(s.runs[:older:older], w.run)
	if w.run.count == 0 { // all of it was deleted
		s.runs, merged = s.runs[:older], append(merged, w.run)
	}
	clear(s.table) // keeps its memory for the next
	clear(s.fresh)
	s.fresh, s.order, s.held, s.cursor.run = s.fresh[:0], nil, 0, nil
	return closeAll(merged)
}

func closeAll(runs []*run) error {
	var err error
	for _, r := range runs {
		err = errors.Join(err, r.close())
	}
	return err
}

// Scan implements [store.Reader]. visit may read.
func (s *Scratch) Scan(bucket string, from []byte, visit func(key, value []byte) bool) error {
	if s.table == nil {
		return errClosed
	}
	if !s.locate(bucket, from) {
		return nil
	}
	s.arrange()
	start := slices.Clone(s.key)
	prefix := start[:len(start)-len(from)]
	var cursors []*cursor
	for _, part := range s.order { // no key stands in two parts
		cursors = append(cursors, &cursor{entries: part})
	}
	for _, r := range slices.Backward(s.runs) {
		cursors = append(cursors, &cursor{run: r})
	}
	s.scanning++
	defer func() { s.scanning-- }()
	return merge(cursors, start, func(key, value []byte) (bool, error) {
		if string(key[:len(prefix)]) != string(prefix) {
			return false, nil
		}
		if value == nil {
			return true, nil
		}
		key = key[len(prefix):]
		pair := append(append(make([]byte, 0, len(key)+len(value)), key...), value...)
		return visit(pair[:len(key):len(key)], pair[len(key):]), nil
	})
}

// arrange puts fresh entries in order. Parts that are not much larger than the new one are merged
// with it, so that scans between writes do not sort everything anew.
func (s *Scratch) arrange() {
	if len(s.fresh) == 0 {
		return
	}
	part := slices.Clone(s.fresh)
	clear(s.fresh)
	s.fresh = s.fresh[:0]
	sortEntries(part)
	for n := len(s.order); n > 0 && len(s.order[n-1]) <= ratio*len(part); n-- {
		part = mergeEntries(s.order[n-1], part)
		s.order = s.order[:n-1]
	}
	s.order = append(s.order, part)
}

func sortEntries(entries []*entry) {
	slices.SortFunc(entries, func(a, b *entry) int { return strings.Compare(a.key, b.key) })
}

func mergeEntries(a, b []*entry) []*entry {
	merged := make([]*entry, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0].key > b[0].key {
			a, b = b, a
		}
		merged = append(merged, a[0])
		a = a[1:]
	}
	return append(append(merged, a...), b...)
}
