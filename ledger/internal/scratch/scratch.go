// Package scratch keeps a state that is needed once, such as the one an audit folds the log into. It
// holds what fits in memory and writes the rest to temporary files.
//
// New and changed pairs stand in a table. When they outgrow the limit they are written out in order, as
// an immutable run, and the table starts empty. A run is written together with the runs before it that
// are not much larger, so that their number grows only with the logarithm of the state. Runs rather
// than a B+ tree such as bbolt, because every pair is written in sequence and a key that is new, which
// is what most lookups ask for, is told by filters in memory.
package scratch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"math/bits"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

var _ kv.Writer = (*Scratch)(nil)

// ratio is how many times larger than the new pairs an old run may be and still be merged with them.
const ratio = 2

var (
	errClosed   = errors.New("scratch state is closed")
	errScanning = errors.New("write to the scratch state during a scan of it")
	errEmpty    = errors.New("empty key or value")
)

// Scratch is a [kv.Writer] that forgets everything on Close. It is not for concurrent use, not even
// by readers only.
//
// What Get returns must not be modified, and lasts until the next call of any method but Scan; what Scan passes lasts
// until visit returns. After an error of Put or Delete nothing that was written is lost, but it may take more memory
// than the limit.
type Scratch struct {
	dir      string
	limit    int
	open     bool
	buckets  []string // numbered as they are first written to; there are few
	table    table
	fresh    [][]place // by bucket, pairs of the table that are not in order yet, where they stand or stood once
	sorted   []place   // the others
	runs     []*run    // oldest first
	scanning int
	key      []byte // of the call under way, with its bucket
	hash     uint64 // of the key
	buf      []byte // for keys
	cursors  map[cursorID]*cursor
	expected []uint64 // hashes of keys that will be asked for
	touched  byte     // so that no read of Prefetch is left out
}

// cursorID names the cursor of Get for a run and a bucket. Those who read in order find each block as they left it.
type cursorID struct {
	run    *run
	bucket uint32
}

// New returns an empty state that keeps about limit bytes in memory. More goes to files in dir, or in
// the default directory for temporary files if dir is empty. They are made when they are needed, and
// nobody else sees them where an open file can be removed.
func New(dir string, limit int) (*Scratch, error) {
	if limit <= 0 {
		return nil, fmt.Errorf("scratch state limited to %d bytes of memory", limit)
	}
	const share = 64 // of the limit, for the first index
	least := 1 << bits.Len(uint(limit/share/slotSize)) / 2
	return &Scratch{
		dir: dir, limit: limit, open: true, table: table{seed: maphash.MakeSeed(), least: least}, cursors: map[cursorID]*cursor{},
	}, nil
}

// Close removes everything. Closing again does nothing.
func (s *Scratch) Close() error {
	err := closeAll(s.runs)
	*s = Scratch{}
	return err
}

// locate sets s.key and what belongs to it. It tells whether the bucket was ever written to.
func (s *Scratch) locate(bucket string, key []byte) (known bool) {
	number, known := s.numberOf(bucket)
	s.buf = append(binary.BigEndian.AppendUint32(s.buf[:0], number), key...)
	s.key, s.hash = s.buf, maphash.Bytes(s.table.seed, s.buf)
	return known
}

// numberOf returns the number of a bucket, if it was ever written to.
func (s *Scratch) numberOf(bucket string) (number uint32, known bool) {
	for i, name := range s.buckets {
		if name == bucket {
			return uint32(i), true
		}
	}
	return 0, false
}

// Get implements [kv.Reader].
func (s *Scratch) Get(bucket string, key []byte) ([]byte, error) {
	if !s.open {
		return nil, errClosed
	}
	if !s.locate(bucket, key) {
		return nil, nil
	}
	if p := s.table.get(s.key, s.hash); p != nil {
		return p.value(), nil
	}
	number := binary.BigEndian.Uint32(s.key)
	for _, r := range slices.Backward(s.runs) {
		if !r.filter.has(s.hash, false) {
			continue
		}
		c := s.cursors[cursorID{r, number}]
		if c == nil {
			c = &cursor{run: r}
			s.cursors[cursorID{r, number}] = c
		}
		if value, found, err := c.get(s.key); found || err != nil {
			return value, err
		}
	}
	return nil, nil
}

// Expect says that a key will soon be asked for.
func (s *Scratch) Expect(bucket string, key []byte) {
	if s.locate(bucket, key) {
		s.expected = append(s.expected, s.hash)
	}
}

// Prefetch brings what is expected from memory to the processor. It changes nothing. The processor waits for many loads at
// once, as long as it need not know what one brought to find the next: so first come the places in the index of all keys, and then
// what stands there.
func (s *Scratch) Prefetch() {
	for _, hash := range s.expected {
		s.touched ^= s.table.touchSlot(hash)
	}
	for _, hash := range s.expected {
		s.touched ^= s.table.touchPair(hash)
		for _, r := range s.runs {
			s.touched ^= byte(r.filter.lineOf(hash)[0])
		}
	}
	s.expected = s.expected[:0]
}

// Put implements [kv.Writer]. It keeps no reference to key or value.
func (s *Scratch) Put(bucket string, key, value []byte) error {
	if len(key) == 0 || len(value) == 0 {
		return errEmpty
	}
	if err := s.writable(); err != nil {
		return err
	}
	if !s.locate(bucket, key) {
		s.buckets = append(s.buckets, bucket)
		s.locate(bucket, key)
	}
	return s.set(value)
}

// Delete implements [kv.Writer].
func (s *Scratch) Delete(bucket string, key []byte) error {
	if len(key) == 0 {
		return errEmpty
	}
	if err := s.writable(); err != nil {
		return err
	}
	if !s.locate(bucket, key) || len(s.runs) == 0 && s.table.get(s.key, s.hash) == nil {
		return nil
	}
	return s.set(nil)
}

func (s *Scratch) writable() error {
	switch {
	case !s.open:
		return errClosed
	case s.scanning != 0:
		return errScanning
	}
	return nil
}

// set sets the value of s.key, and spills the table if it outgrows its room.
func (s *Scratch) set(value []byte) error {
	if p, fresh := s.table.set(s.key, s.hash, value); fresh {
		bucket := int(binary.BigEndian.Uint32(s.key))
		for len(s.fresh) <= bucket {
			s.fresh = append(s.fresh, nil)
		}
		s.fresh[bucket] = append(s.fresh[bucket], p)
	}
	if s.table.held <= s.room() {
		return nil
	}
	if err := s.spill(); err != nil {
		return fmt.Errorf("spill scratch state: %w", err)
	}
	return nil
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

// spill writes the table and the newest runs into one new run. If it fails, nothing has changed.
func (s *Scratch) spill() error {
	s.arrange()
	cursors, count, size := []*cursor{{table: &s.table, places: s.sorted}}, len(s.sorted), int64(0)
	for _, p := range s.sorted {
		pair := s.table.at(s.table.current(p))
		size += int64(len(pair.key()) + len(pair.value()) + frame)
	}
	older := len(s.runs)
	for older > 0 && s.runs[older-1].size <= ratio*size {
		older--
		size += s.runs[older].size
		count += s.runs[older].count
		cursors = append(cursors, &cursor{run: s.runs[older]})
	}
	// Half of what older runs leave for runs: as the next will be smaller, half of the rest will do.
	w, err := newWriter(s.dir, s.table.seed, size, count, (s.limit/2-heldBy(s.runs[:older]))/2)
	if err != nil {
		return err
	}
	err = w.addAll(cursors, older == 0)
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
	s.table.clear()
	clear(s.cursors)
	s.sorted = s.sorted[:0]
	return closeAll(merged)
}

func closeAll(runs []*run) error {
	var err error
	for _, r := range runs {
		err = errors.Join(err, r.close())
	}
	return err
}

// Scan implements [kv.Reader]. visit may read.
func (s *Scratch) Scan(bucket string, from []byte, visit func(key, value []byte) bool) error {
	w, err := s.Walk(bucket, from)
	if err != nil {
		return err
	}
	defer w.Close()
	for {
		key, value, err := w.Next()
		if err != nil || key == nil || !visit(key, value) {
			return err
		}
	}
}

// Walk is a scan under way. Until it is closed, the state can only be read.
type Walk struct {
	state  *Scratch
	pairs  merger
	prefix []byte // of all its keys; nil at the end
}

// Walk begins a scan of a bucket at a key.
func (s *Scratch) Walk(bucket string, from []byte) (*Walk, error) {
	if !s.open {
		return nil, errClosed
	}
	w := &Walk{state: s}
	if !s.locate(bucket, from) {
		s.scanning++
		return w, nil
	}
	s.arrange()
	start := slices.Clone(s.key)
	cursors := []*cursor{{table: &s.table, places: s.sorted}}
	for _, r := range slices.Backward(s.runs) {
		cursors = append(cursors, &cursor{run: r})
	}
	var err error
	if w.pairs, err = newMerger(cursors, start); err != nil {
		return nil, err
	}
	w.prefix = start[:len(start)-len(from)]
	s.scanning++
	return w, nil
}

// Next returns the next pair, and a nil key at the end. They last until the next call.
func (w *Walk) Next() (key, value []byte, err error) {
	for w.prefix != nil {
		key, value, err = w.pairs.next()
		if err != nil || key == nil || string(key[:len(w.prefix)]) != string(w.prefix) {
			w.prefix = nil
			return nil, nil, err
		}
		if value != nil {
			key = key[len(w.prefix):]
			return key[:len(key):len(key)], value[:len(value):len(value)], nil
		}
	}
	return nil, nil, nil
}

// Close ends the scan. It is called once.
func (w *Walk) Close() { w.state.scanning-- }

// arrange puts fresh pairs in order.
func (s *Scratch) arrange() {
	var part []place
	for bucket, places := range s.fresh { // keys begin with the number of their bucket
		s.table.sort(places)
		part = append(part, places...)
		s.fresh[bucket] = places[:0]
	}
	if len(part) > 0 {
		s.sorted = s.table.merge(s.sorted, part)
	}
}
