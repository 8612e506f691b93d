package memtable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"runtime"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// A base pays in memory, and others in time, for all that one transaction changes. So a checkpoint
// of much is first written aside: in portions, one behind the other, to a bucket of their own, and
// with the last of them the mark. From then on the base has all of it, durably: what is aside lies
// over the rest, as the frozen layer does. Then each portion is put into its place, in a small
// transaction of its own, the last of which removes all that is aside. Who opens the base in
// between finds portions with its mark, and begins to place them anew, which comes to the same.
// Portions with another mark are of a checkpoint that did not come so far.

// Aside is the bucket of what is written aside. Nobody else may use it.
const Aside = "aside"

const (
	// A portion is by default a share of the room, between these bounds. Each transaction has two
	// flushes and writes the list of free pages, so smaller ones take longer in all.
	portionShare    = 16
	smallestPortion = 4 << 10
	largestPortion  = 1 << 20
	// leastRecord is how many bytes a record counts as, at least. At random, each changes a page of
	// its own, however short it is, of which bbolt keeps some ten kilobytes until it is committed:
	// the largest portion changes some 2,000 pages.
	leastRecord = 512
	// asideTogether is how many portions one transaction writes aside.
	asideTogether = 4
	// mostBuckets is how many there may be aside. A ledger has a dozen; a forged file should not
	// keep anybody busy.
	mostBuckets = 64
)

// portion is a part of a frozen layer: records of one bucket, in the order of their keys.
type portion struct {
	mark    []byte // of the base once all portions are there
	last    bool   // none is behind it
	bucket  string
	records []byte // each with its key and its value, which is empty if it was deleted
}

// Where a portion is stored, the first byte says whether it is the last. Mark, bucket and records
// follow, and a checksum of all that and of the number of the portion, which is its key.
const (
	notLast = 0
	isLast  = 1
)

// beginPortion returns the beginning of a portion that is to be stored, in memory that may be used
// again.
func beginPortion(b, mark []byte, bucket string) []byte {
	return appendText(appendText(append(b[:0], notLast), mark), bucket)
}

// endPortion returns a portion that is whole.
func endPortion(b, number []byte, last bool) []byte {
	if last {
		b[0] = isLast
	}
	return binary.BigEndian.AppendUint32(b, sumOf(number, b))
}

func appendText[T string | []byte](b []byte, text T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func sumOf(number, b []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(number, table), table, b)
}

func errPortion() error {
	return fmt.Errorf("%w: a part of a checkpoint that was written aside is damaged", kv.ErrCorrupt)
}

// decodePortion reads what is stored. The portion refers to it.
func decodePortion(number, b []byte) (p portion, err error) {
	end := len(b) - crc32.Size
	if len(number) != 8 || end < 1 || b[0] > isLast || binary.BigEndian.Uint32(b[end:]) != sumOf(number, b[:end]) {
		return p, errPortion()
	}
	mark, rest, sound := cutText(b[1:end])
	bucket, records, also := cutText(rest)
	if !sound || !also || len(bucket) == 0 || string(bucket) == Aside {
		return p, errPortion()
	}
	return portion{mark, b[0] == isLast, string(bucket), records}, nil
}

// cutText returns a text and what is behind it.
func cutText(b []byte) (text, rest []byte, sound bool) {
	n, width := binary.Uvarint(b)
	if width <= 0 || n > uint64(len(b)-width) {
		return nil, nil, false
	}
	end := width + int(n)
	return b[width:end:end], b[end:], true
}

// each visits the records in order, with an empty value for one that was deleted.
func (p *portion) each(visit func(key, value []byte) error) error {
	for rest := p.records; len(rest) > 0; {
		key, behind, sound := cutText(rest)
		value, next, also := cutText(behind)
		if !sound || !also || len(key) == 0 {
			return errPortion()
		}
		if err := visit(key, value); err != nil {
			return err
		}
		rest = next
	}
	return nil
}

// asideWriter writes a frozen layer aside, several portions in one transaction.
type asideWriter struct {
	table  *Table
	layers *layers
	bucket string   // of the portion that was begun
	size   int      // of that one, about
	full   [][]byte // portions for the next transaction, the last of which is not ended
	number uint64   // of that one
	spare  [][]byte // memory of those that were written
	// records is how many are in the portions for the next transaction.
	records int
	effort  *effort
}

// setAside writes the frozen layer aside, and returns in how many portions.
func (t *Table) setAside(c *layers, e *effort) (count int, err error) {
	w := &asideWriter{table: t, layers: c, effort: e}
	for _, b := range c.frozen.buckets {
		for at := seek([]*layer{c.frozen}, b.name, nil, math.MaxUint64); at.key != nil; at.next() {
			if err := w.add(b.name, at.key, at.value); err != nil {
				return 0, err
			}
		}
	}
	return int(w.number), w.flush(true)
}

// add adds a record to the portion that was begun, or begins the next.
func (w *asideWriter) add(bucket string, key, value []byte) error {
	if len(w.full) == 0 || bucket != w.bucket || w.size >= w.table.options.Portion {
		if err := w.begin(bucket); err != nil {
			return err
		}
	}
	w.size += max(len(key)+len(value), leastRecord)
	w.records++
	b := &w.full[len(w.full)-1]
	*b = appendText(appendText(*b, key), value)
	return nil
}

// begin begins a portion, and ends the one before.
func (w *asideWriter) begin(bucket string) error {
	switch len(w.full) {
	case 0:
	case asideTogether:
		if err := w.flush(false); err != nil {
			return err
		}
		runtime.Gosched()
	default:
		w.end(false)
	}
	var memory []byte
	if n := len(w.spare); n > 0 {
		memory, w.spare = w.spare[n-1], w.spare[:n-1]
	} else {
		memory = make([]byte, 0, w.table.options.Portion/2+smallestPortion)
	}
	w.number++
	w.size, w.bucket, w.full = 0, bucket, append(w.full, beginPortion(memory, w.layers.next, bucket))
	return nil
}

// end ends the portion that was begun.
func (w *asideWriter) end(last bool) {
	i := len(w.full) - 1
	w.full[i] = endPortion(w.full[i], numbered(w.number), last)
}

// flush writes the portions. What an earlier try has left goes before the first, and with the last
// comes the mark.
func (w *asideWriter) flush(last bool) error {
	w.end(last)
	first, begun := w.number-uint64(len(w.full))+1, time.Now()
	err := w.table.update(w.layers.mark, func(to kv.Writer) error {
		w.table.stage.Store(w.effort.begin(Aside, w.records))
		if first == 1 {
			if err := clearAside(to); err != nil {
				return err
			}
		}
		for i, b := range w.full {
			if err := to.Put(Aside, numbered(first+uint64(i)), b); err != nil {
				return err
			}
		}
		if last {
			mark := w.table.options.Mark
			return to.Put(mark.Bucket, mark.Key, w.layers.next)
		}
		return nil
	})
	w.full, w.spare = w.spare[:0], w.full
	w.table.stage.Store(w.effort.end(Aside, w.records, time.Since(begun)))
	w.records = 0
	return err
}

// numbered returns the key of a portion.
func numbered(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// clearAside removes what was written aside.
func clearAside(w kv.Writer) error {
	var keys [][]byte
	err := w.Scan(Aside, nil, func(key, _ []byte) bool {
		keys = append(keys, bytes.Clone(key))
		return true
	})
	for _, key := range keys {
		if err == nil {
			err = w.Delete(Aside, key)
		}
	}
	return err
}

// placeAll puts everything that is aside into its place, and removes it there.
func (t *Table) placeAll(c *layers, e *effort) error {
	var memory []byte
	for n := 1; n <= c.portions; n++ {
		var p portion
		begun, records := time.Now(), 0
		err := t.update(c.next, func(w kv.Writer) (err error) {
			if p, memory, err = takePortion(w, n, c.next, memory); err != nil {
				return err
			}
			if records, err = p.length(); err != nil {
				return err
			}
			t.stage.Store(e.begin(p.bucket, records))
			if err = p.writeTo(w); err == nil && n == c.portions {
				err = clearAside(w)
			}
			return err
		})
		if err != nil {
			return err
		}
		t.stage.Store(e.end(p.bucket, records, time.Since(begun)))
		if n < c.portions {
			t.at(Placed)
			t.takeTime()
		}
	}
	return nil
}

// takePortion returns a portion of a checkpoint. It copies it to memory, which it returns: what is
// put into its place may move what is aside.
func takePortion(w kv.Writer, n int, mark, memory []byte) (p portion, copied []byte, err error) {
	number := numbered(uint64(n))
	stored, err := w.Get(Aside, number)
	if err != nil {
		return p, memory, err
	}
	copied = append(memory[:0], stored...)
	p, err = decodePortion(number, copied)
	if err == nil && !bytes.Equal(p.mark, mark) {
		err = fmt.Errorf("%w: a part of another checkpoint is in the place of this one's", kv.ErrCorrupt)
	}
	return p, copied, err
}

// length returns how many records there are.
func (p *portion) length() (n int, err error) {
	err = p.each(func(_, _ []byte) error { n++; return nil })
	return n, err
}

// writeTo puts the records of a portion into their places. Now and then it lets others run.
func (p *portion) writeTo(w kv.Writer) error {
	n := 0
	return p.each(func(key, value []byte) error {
		if n++; n%stride == 0 {
			runtime.Gosched()
		}
		return change(w, p.bucket, key, value)
	})
}

// asideReader reads what lies aside over a base with a mark.
type asideReader struct {
	table  *Table
	mark   []byte
	over   *layer // nil if there is nothing with this mark
	count  int    // of portions
	others bool   // there are some with another mark
	ended  bool   // the last one was read
	last   []byte // key that was read last, of this bucket
}

// readAside returns what lies aside over a base with a mark, or nil if that is nothing, and how
// many portions it is in. It refuses what setAside does not write.
func (t *Table) readAside(r kv.Reader, mark []byte) (over *layer, count int, err error) {
	a := &asideReader{table: t, mark: mark}
	scanned := r.Scan(Aside, nil, func(key, stored []byte) bool {
		err = a.read(key, stored)
		return err == nil
	})
	if err = errors.Join(scanned, err); err == nil && a.over != nil && !a.ended {
		err = fmt.Errorf("%w: the last part of a checkpoint that was written aside is missing", kv.ErrCorrupt)
	}
	return a.over, a.count, err
}

// read reads the next portion.
func (a *asideReader) read(number, stored []byte) error {
	p, err := decodePortion(number, stored)
	if err != nil {
		return err
	}
	ours := bytes.Equal(p.mark, a.mark)
	if a.others = a.others || !ours; !ours && a.over == nil {
		return nil
	}
	if a.over == nil {
		a.over = &layer{}
	}
	if a.count++; a.others || a.ended || binary.BigEndian.Uint64(number) != uint64(a.count) {
		return fmt.Errorf("%w: parts of a checkpoint that was written aside are missing, or in the wrong place",
			kv.ErrCorrupt)
	}
	a.ended = p.last
	return a.add(p)
}

// add adds the records of a portion, all of which are behind those before.
func (a *asideReader) add(p portion) error {
	if n := len(a.over.buckets); n == 0 || a.over.buckets[n-1].name != p.bucket {
		if n == mostBuckets || n > 0 && a.over.buckets[n-1].name > p.bucket {
			return errPortion()
		}
		a.last = nil
	}
	return p.each(func(key, value []byte) error {
		if bytes.Compare(key, a.last) <= 0 {
			return errPortion()
		}
		a.last = bytes.Clone(key)
		a.over.put(p.bucket, key, value, a.table.hash(key), 1)
		return nil
	})
}
