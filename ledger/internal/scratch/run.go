package scratch

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/maphash"
	"math/bits"
	"os"
	"sort"

	"github.com/sluicedp/sluice/internal/atomicfile"
	"github.com/sluicedp/sluice/ledger/internal/descriptor"
)

const (
	frame     = 4       // about what the two lengths of a pair take
	mark      = 48      // what an index entry takes beside its key
	keyBits   = 10      // of the filter, for each key, if they fit
	blockSize = 8 << 10 // where a block may end
	maxBlock  = 1 << 20 // where it must, however little memory is left for the index
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// run is a file of pairs in the order of their keys. A pair is the length of the key, that of the value
// plus one, or zero if the pair was deleted, both as uvarints, and the two. Pairs form blocks, of
// which only the first key is in memory.
type run struct {
	file   spillFile
	name   string // if it is still to be removed
	size   int64
	count  int
	held   int // bytes in memory
	index  []block
	filter filter
}

type block struct {
	first  string
	offset int64
	sum    uint32 // a damaged scratch file must not look like a damaged ledger
}

func (r *run) close() error {
	err := r.file.Close()
	if r.name != "" {
		err = errors.Join(err, r.file.renamed(os.Remove(r.name)))
	}
	return err
}

func (r *run) read(i int, buf *[]byte) error {
	b, end := r.index[i], r.size
	if i+1 < len(r.index) {
		end = r.index[i+1].offset
	}
	if n := int(end - b.offset); cap(*buf) < n {
		*buf = make([]byte, n)
	} else {
		*buf = (*buf)[:n]
	}
	if _, err := r.file.ReadAt(*buf, b.offset); err != nil {
		return fmt.Errorf("read scratch file: %w", err)
	}
	if crc32.Checksum(*buf, castagnoli) != b.sum {
		return errDamaged
	}
	return nil
}

var errDamaged = errors.New("read scratch file: other bytes than were written")

// cut takes the first pair off a block.
func cut(b []byte) (key, value, rest []byte, err error) {
	k, n := binary.Uvarint(b)
	if n <= 0 {
		return nil, nil, nil, errDamaged
	}
	v, m := binary.Uvarint(b[n:])
	if b = b[n+max(m, 0):]; m <= 0 || k > uint64(len(b)) || v > uint64(len(b))-k+1 {
		return nil, nil, nil, errDamaged
	}
	key, rest = b[:k], b[k:]
	if v == 0 {
		return key, nil, rest, nil
	}
	return key, rest[:v-1], rest[v-1:], nil
}

// writer writes a run.
type writer struct {
	run    *run
	out    *bufio.Writer
	seed   maphash.Seed
	block  []byte
	until  int   // the length at which the block ends
	size   int64 // expected of the run
	budget int   // for the index
}

// spillFile is a file without a name. Its errors name its directory.
type spillFile struct {
	*os.File
	dir string
}

// createFile makes a file in dir, or in the default directory for temporary files if dir is empty.
func createFile(dir string) (f spillFile, err error) {
	if f.dir = dir; dir == "" {
		f.dir = os.TempDir()
	}
	if f.File, err = os.CreateTemp(f.dir, "sluice-scratch-*"); err != nil {
		return f, descriptor.Classify(atomicfile.Renamed(err, f.String()))
	}
	return f, nil
}

// String says what the file is in errors.
func (f spillFile) String() string { return "a spill file in " + f.dir }

func (f spillFile) renamed(err error) error { return atomicfile.Renamed(err, f.String(), f.Name()) }

// Write implements [io.Writer].
func (f spillFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, f.renamed(err)
}

// ReadAt implements [io.ReaderAt].
func (f spillFile) ReadAt(p []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(p, at)
	return n, f.renamed(err)
}

// Close implements [io.Closer].
func (f spillFile) Close() error { return f.renamed(f.File.Close()) }

// newWriter begins a run of at most about size bytes and count pairs that may hold budget bytes in
// memory, for the index and the filter.
func newWriter(dir string, seed maphash.Seed, size int64, count, budget int) (*writer, error) {
	file, err := createFile(dir)
	if err != nil {
		return nil, err
	}
	r := &run{file: file, filter: newFilter(count, budget/2)}
	if os.Remove(file.Name()) != nil {
		r.name = file.Name() // not while it is open, on this system
	}
	r.held = lineSize * len(r.filter.lines)
	return &writer{run: r, out: bufio.NewWriterSize(file, 1<<16), seed: seed, size: size, budget: max(budget/2, 1)}, nil
}

// add appends a pair whose key is above all before it; a nil value is that of a deleted pair.
func (w *writer) add(key, value []byte) error {
	r := w.run
	if len(w.block) >= w.until {
		if err := w.flush(); err != nil {
			return err
		}
		// The share of a block in the index is no larger than its share in the run.
		cost := len(key) + mark
		w.until = max(blockSize, int(min(maxBlock, int64(cost)*w.size/int64(w.budget))))
		r.index = append(r.index, block{first: string(key), offset: r.size})
		r.held += cost
	}
	w.block = binary.AppendUvarint(w.block, uint64(len(key)))
	if value == nil {
		w.block = append(append(w.block, 0), key...)
	} else {
		w.block = binary.AppendUvarint(w.block, uint64(len(value))+1)
		w.block = append(append(w.block, key...), value...)
	}
	r.filter.has(maphash.Bytes(w.seed, key), true)
	r.count++
	return nil
}

// addAll adds the pairs of cursors. Deleted ones are left out if they are the oldest: then there is nothing that they hide.
func (w *writer) addAll(cursors []*cursor, oldest bool) error {
	all, err := newMerger(cursors, nil)
	for err == nil {
		var key, value []byte
		if key, value, err = all.next(); err != nil || key == nil {
			break
		}
		if value != nil || !oldest {
			err = w.add(key, value)
		}
	}
	return err
}

// flush ends the block.
func (w *writer) flush() error {
	if len(w.block) == 0 {
		return nil
	}
	w.run.index[len(w.run.index)-1].sum = crc32.Checksum(w.block, castagnoli)
	w.run.size += int64(len(w.block))
	_, err := w.out.Write(w.block)
	w.block = w.block[:0]
	return err
}

func (w *writer) finish() error {
	return errors.Join(w.flush(), w.out.Flush())
}

// filter is a Bloom filter of which each key has its bits in one line of the processor's cache: so whoever asks waits for
// memory once, not for each bit.
type filter struct {
	lines  []line
	probes int
}

// line is what a processor reads from memory at once.
type line [8]uint64

const lineSize = 64 // bytes

func newFilter(count, budget int) filter {
	const lineBits = 8 * lineSize
	n := max(1, min((count*keyBits+lineBits-1)/lineBits, budget/lineSize))
	return filter{make([]line, n), min(max(n*lineBits*7/10/max(count, 1), 1), 7)} // ln 2 probes for each bit per key
}

func (f filter) lineOf(hash uint64) *line {
	at, _ := bits.Mul64(hash, uint64(len(f.lines)))
	return &f.lines[at]
}

// has reports whether a hash may have been added. With add, it is from then on.
func (f filter) has(hash uint64, add bool) bool {
	const mixing = 0x9e3779b97f4a7c15 // so that the bits do not follow from the line
	l := f.lineOf(hash)
	rest := hash * mixing
	for range f.probes {
		word, mask := &l[rest>>6&7], uint64(1)<<(rest&63)
		if add {
			*word |= mask
		} else if *word&mask == 0 {
			return false
		}
		rest >>= 9
	}
	return true
}

// cursor goes through pairs of a table, or a run, in order.
type cursor struct {
	key, value []byte // where it stands, until it moves; a nil key at the end
	table      *table
	places     []place
	run        *run
	block      int // the next
	buf, rest  []byte
}

// get returns the value of a key of a run, nil if it was deleted. The value lasts until the cursor is used again. It
// goes on from where it stands if the key is in the same block and not before that.
func (c *cursor) get(key []byte) (value []byte, found bool, err error) {
	at := c.block - 1
	if at < 0 || !c.run.mayHold(at, key) {
		at = c.run.blockOf(key)
	}
	if c.block != at+1 || c.key == nil || bytes.Compare(c.key, key) > 0 {
		if c.block != at+1 || c.buf == nil {
			c.block, c.key = 0, nil
			if err := c.run.read(at, &c.buf); err != nil {
				return nil, false, err
			}
			c.block = at + 1
		}
		if c.key, c.value, c.rest, err = cut(c.buf); err != nil {
			return nil, false, err
		}
	}
	for bytes.Compare(c.key, key) < 0 {
		if len(c.rest) == 0 {
			return nil, false, nil
		}
		if c.key, c.value, c.rest, err = cut(c.rest); err != nil {
			return nil, false, err
		}
	}
	return c.value, bytes.Equal(c.key, key), nil
}

// blockOf returns the block that a key is in, if it is in the run.
func (r *run) blockOf(key []byte) int {
	return max(0, sort.Search(len(r.index), func(i int) bool { return r.index[i].first > string(key) })-1)
}

// mayHold tells whether a key is in a block, if it is in the run.
func (r *run) mayHold(block int, key []byte) bool {
	return (block == 0 || r.index[block].first <= string(key)) && (block+1 == len(r.index) || string(key) < r.index[block+1].first)
}

// seek moves to the first key not below from.
func (c *cursor) seek(from []byte) error {
	if c.run == nil {
		c.places = c.places[sort.Search(len(c.places), func(i int) bool { return bytes.Compare(c.table.at(c.places[i]).key(), from) >= 0 }):]
		return c.next()
	}
	c.block = c.run.blockOf(from)
	for {
		if err := c.next(); err != nil || c.key == nil || bytes.Compare(c.key, from) >= 0 {
			return err
		}
	}
}

func (c *cursor) next() (err error) {
	if c.run == nil {
		if len(c.places) == 0 {
			c.key = nil
			return nil
		}
		pair := c.table.at(c.table.current(c.places[0]))
		c.key, c.value = pair.key(), pair.value()
		c.places = c.places[1:]
		return nil
	}
	if len(c.rest) == 0 {
		if c.block == len(c.run.index) {
			c.key = nil
			return nil
		}
		if err := c.run.read(c.block, &c.buf); err != nil {
			return err
		}
		c.rest = c.buf
		c.block++
	}
	c.key, c.value, c.rest, err = cut(c.rest)
	return err
}

// merger goes through the pairs of several cursors, in order. Where they hold the same key, the first of them counts.
type merger struct {
	cursors []*cursor
	least   *cursor // where the pair returned last is from
}

// newMerger begins at a key.
func newMerger(cursors []*cursor, from []byte) (merger, error) {
	for _, c := range cursors {
		if err := c.seek(from); err != nil {
			return merger{}, err
		}
	}
	return merger{cursors: cursors}, nil
}

// next returns the next pair, and a nil key at the end.
func (m *merger) next() (key, value []byte, err error) {
	if m.least != nil {
		if err := m.least.next(); err != nil {
			return nil, nil, err
		}
		m.least = nil
	}
	for _, c := range m.cursors {
		if c.key == nil {
			continue
		}
		order := -1
		if m.least != nil {
			order = bytes.Compare(c.key, m.least.key)
		}
		if order < 0 {
			m.least = c
		} else if order == 0 {
			if err := c.next(); err != nil {
				return nil, nil, err
			}
		}
	}
	if m.least == nil {
		return nil, nil, nil
	}
	return m.least.key, m.least.value, nil
}
