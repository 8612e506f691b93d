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

// A transaction that changes much needs much memory in the base, and makes other transactions wait.
// So a large checkpoint is first staged: its records are written in portions, one after the other,
// to a bucket of their own, the staging area. The last of these transactions also writes the mark.
//
// From then on the base has the whole checkpoint, durably: the staged records replace the other
// records of the base, as the frozen layer does. Then each portion is written to its place in a
// small transaction of its own. The last of these also empties the staging area.
//
// If the base is opened in between, its staging area has portions with the mark of the base. They
// are written to their places again, with the same result. Portions with another mark are from a
// checkpoint that was interrupted before all of it was staged.

// Staging is the bucket of the staging area. Only this package may use it.
const Staging = "aside"

const (
	// By default the size of a portion is Limit / portionShare, between smallestPortion and
	// largestPortion. Smaller portions would take longer in all, because each transaction has two
	// flushes and writes the list of free pages.
	portionShare    = 16
	smallestPortion = 4 << 10
	largestPortion  = 1 << 20
	// minRecord is the minimum number of bytes that a record counts as. A record in a random
	// place changes a page of its own, however short the record is. bbolt keeps about ten kilobytes
	// of memory for that page until the commit. So the largest portion changes about 2,000 pages.
	minRecord = 512
	// portionsPerTx is the number of portions that one transaction stages.
	portionsPerTx = 4
	// maxBuckets limits the number of buckets in the staging area. A ledger has about a dozen. The
	// limit bounds the work that a forged file can cause.
	maxBuckets = 64
)

// portion is a part of a frozen layer: records of one bucket, in the order of their keys.
type portion struct {
	mark    []byte // of the base after all portions are staged
	isLast  bool   // it is the last portion of its checkpoint
	bucket  string
	records []byte // pairs of key and value; the value of a deleted record is empty
}

// A stored portion begins with a byte that is lastPortion for the last portion. Mark, bucket and
// records follow. A checksum of these and of the key under which the portion is stored, its number,
// is at the end.
const (
	anyPortion  = 0
	lastPortion = 1
)

// beginPortion returns the encoded beginning of a portion: the byte anyPortion, the mark and the
// bucket. It reuses the memory of b. The caller appends records with appendText, and then calls
// endPortion.
func beginPortion(b, mark []byte, bucket string) []byte {
	return appendText(appendText(append(b[:0], anyPortion), mark), bucket)
}

// endPortion completes an encoded portion: it marks the last portion of a checkpoint, and appends
// the checksum. number is the key under which the portion will be stored.
func endPortion(b, number []byte, last bool) []byte {
	if last {
		b[0] = lastPortion
	}
	return binary.BigEndian.AppendUint32(b, sumOf(number, b))
}

// appendText appends the length of a text, as a varint, and the text.
func appendText[T string | []byte](b []byte, text T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// sumOf returns the CRC-32C of the number of a portion, followed by its encoded content b.
func sumOf(number, b []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(number, table), table, b)
}

// errPortion returns the error for a damaged portion.
func errPortion() error {
	return fmt.Errorf("%w: a staged part of a checkpoint is damaged", kv.ErrCorrupt)
}

// decodePortion decodes the portion b that is stored under the key number. The result refers to the
// memory of b. It returns [kv.ErrCorrupt] if the checksum is wrong or the beginning is not valid.
// The records are checked by each.
func decodePortion(number, b []byte) (p portion, err error) {
	end := len(b) - crc32.Size
	if len(number) != 8 || end < 1 || b[0] > lastPortion || binary.BigEndian.Uint32(b[end:]) != sumOf(number, b[:end]) {
		return p, errPortion()
	}
	mark, rest, hasMark := cutText(b[1:end])
	bucket, records, hasBucket := cutText(rest)
	if !hasMark || !hasBucket || len(bucket) == 0 || string(bucket) == Staging {
		return p, errPortion()
	}
	return portion{mark, b[0] == lastPortion, string(bucket), records}, nil
}

// cutText returns the text at the beginning of b, and the rest of b. isWhole is false if b does not
// begin with a whole text.
func cutText(b []byte) (text, rest []byte, isWhole bool) {
	n, width := binary.Uvarint(b)
	if width <= 0 || n > uint64(len(b)-width) {
		return nil, nil, false
	}
	end := width + int(n)
	return b[width:end:end], b[end:], true
}

// each passes the records to visit in order. The value of a deleted record is empty. It ends at the
// first error of visit, which it returns. It returns [kv.ErrCorrupt] if the records are not valid.
func (p *portion) each(visit func(key, value []byte) error) error {
	for rest := p.records; len(rest) > 0; {
		key, tail, hasKey := cutText(rest)
		value, next, hasValue := cutText(tail)
		if !hasKey || !hasValue || len(key) == 0 {
			return errPortion()
		}
		if err := visit(key, value); err != nil {
			return err
		}
		rest = next
	}
	return nil
}

// stagingWriter stages a frozen layer, several portions in one transaction.
type stagingWriter struct {
	table  *Table
	layers *layers
	bucket string   // of the current portion
	size   int      // approximate size of the current portion
	full   [][]byte // portions for the next transaction; the last one is the current portion
	number uint64   // of the current portion
	spare  [][]byte // memory of portions that were written
	// records is the number of records in full.
	records int
	effort  *effort
}

// stageFrozen writes the frozen layer, which has records, to the staging area. It returns the
// number of portions.
func (t *Table) stageFrozen(c *layers, e *effort) (count int, err error) {
	w := &stagingWriter{table: t, layers: c, effort: e}
	for _, b := range c.frozen.buckets {
		for at := seek([]*layer{c.frozen}, b.name, nil, math.MaxUint64); at.key != nil; at.next() {
			if err := w.add(b.name, at.key, at.value); err != nil {
				return 0, err
			}
		}
	}
	return int(w.number), w.flush(true) // the last portions, and the mark
}

// add adds a record to the current portion, or to a new one if the bucket changes or the portion is
// full.
func (w *stagingWriter) add(bucket string, key, value []byte) error {
	if len(w.full) == 0 || bucket != w.bucket || w.size >= w.table.options.Portion {
		if err := w.begin(bucket); err != nil {
			return err
		}
	}
	w.size += max(len(key)+len(value), minRecord)
	w.records++
	b := &w.full[len(w.full)-1]
	*b = appendText(appendText(*b, key), value)
	return nil
}

// begin ends the current portion, if there is one, and begins the next one. If portionsPerTx
// portions are full, it first writes them in one transaction.
func (w *stagingWriter) begin(bucket string) error {
	switch len(w.full) {
	case 0: // this is the first portion
	case portionsPerTx:
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

// end completes the current portion. last reports whether it is the last one of the checkpoint.
func (w *stagingWriter) end(last bool) {
	i := len(w.full) - 1
	w.full[i] = endPortion(w.full[i], portionKey(w.number), last)
}

// flush completes the current portion, and stages all portions in w.full in one transaction. The
// first transaction of a checkpoint also removes what an earlier try has left in the staging area.
// If last is true, the transaction also writes the mark.
func (w *stagingWriter) flush(last bool) error {
	w.end(last)
	first, begun := w.number-uint64(len(w.full))+1, time.Now() // first: number of the first portion in full
	err := w.table.update(w.layers.mark, func(to kv.Writer) error {
		w.table.stage.Store(w.effort.begin(Staging, w.records))
		if first == 1 {
			if err := clearStaging(to); err != nil {
				return err
			}
		}
		for i, b := range w.full {
			if err := to.Put(Staging, portionKey(first+uint64(i)), b); err != nil {
				return err
			}
		}
		if last {
			mark := w.table.options.Mark
			return to.Put(mark.Bucket, mark.Key, w.layers.next)
		}
		return nil
	})
	w.full, w.spare = w.spare[:0], w.full // the memory of these portions is used again
	w.table.stage.Store(w.effort.end(Staging, w.records, time.Since(begun)))
	w.records = 0
	return err
}

// portionKey returns the key of portion n.
func portionKey(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// clearStaging empties the staging area. It collects the keys first, because Scan does not allow
// writes.
func clearStaging(w kv.Writer) error {
	var keys [][]byte
	err := w.Scan(Staging, nil, func(key, _ []byte) bool {
		keys = append(keys, bytes.Clone(key))
		return true
	})
	for _, key := range keys {
		if err == nil { // after an error of Scan, too, nothing is deleted
			err = w.Delete(Staging, key)
		}
	}
	return err
}

// applyStaged writes all staged portions to their places, each in a transaction of its own. The
// last transaction also empties the staging area.
func (t *Table) applyStaged(c *layers, e *effort) error {
	var memory []byte
	for n := 1; n <= c.portions; n++ {
		var p portion
		begun, records := time.Now(), 0
		err := t.update(c.next, func(w kv.Writer) (err error) {
			if p, memory, err = readPortion(w, n, c.next, memory); err != nil {
				return err
			}
			if records, err = p.length(); err != nil {
				return err
			}
			t.stage.Store(e.begin(p.bucket, records))
			if err = p.writeTo(w); err == nil && n == c.portions {
				err = clearStaging(w)
			}
			return err
		})
		if err != nil {
			return err
		}
		t.stage.Store(e.end(p.bucket, records, time.Since(begun)))
		if n < c.portions {
			t.callStep(Applied)
			t.pauseIfAhead()
		}
	}
	return nil
}

// readPortion returns the staged portion n of the checkpoint with this mark. It copies the portion
// to memory, whose slice it returns as copied for the next call. The copy is needed because writes
// to other buckets may move the stored bytes. It returns [kv.ErrCorrupt] if the portion is missing,
// damaged, or of another checkpoint.
func readPortion(w kv.Writer, n int, mark, memory []byte) (p portion, copied []byte, err error) {
	number := portionKey(uint64(n))
	stored, err := w.Get(Staging, number)
	if err != nil {
		return p, memory, err
	}
	copied = append(memory[:0], stored...)
	p, err = decodePortion(number, copied)
	if err == nil && !bytes.Equal(p.mark, mark) {
		err = fmt.Errorf("%w: staged part %d belongs to another checkpoint", kv.ErrCorrupt, n)
	}
	return p, copied, err
}

// length returns the number of records, or [kv.ErrCorrupt] if they are not valid.
func (p *portion) length() (n int, err error) {
	err = p.each(func(_, _ []byte) error { n++; return nil })
	return n, err
}

// writeTo writes the records of a portion to their places. It yields to other goroutines at
// intervals.
func (p *portion) writeTo(w kv.Writer) error {
	n := 0
	return p.each(func(key, value []byte) error {
		if n++; n%yieldInterval == 0 {
			runtime.Gosched()
		}
		return apply(w, p.bucket, key, value)
	})
}

// stagingReader reads the staged portions of a base that has the given mark. Either all portions
// have this mark, or none.
type stagingReader struct {
	table     *Table
	mark      []byte // of the base
	staged    *layer // the records that were read; nil if no portion has this mark
	count     int    // number of portions with this mark
	hasOthers bool   // a portion with another mark was read
	hasLast   bool   // the last portion was read
	last      []byte // key read last, of the current bucket
}

// readStaging returns the staged records of a base with this mark as a layer, and the number of
// portions. The layer is nil if no portion has this mark. Then all portions are from a checkpoint
// that was interrupted before all of it was staged. It returns [kv.ErrCorrupt] for content that
// stageFrozen does not write.
func (t *Table) readStaging(r kv.Reader, mark []byte) (over *layer, count int, err error) {
	a := &stagingReader{table: t, mark: mark}
	scanned := r.Scan(Staging, nil, func(key, stored []byte) bool {
		err = a.read(key, stored)
		return err == nil
	})
	if err = errors.Join(scanned, err); err == nil && a.staged != nil && !a.hasLast {
		err = fmt.Errorf("%w: the last staged part of a checkpoint is missing", kv.ErrCorrupt)
	}
	return a.staged, a.count, err
}

// read reads the next portion. It skips a portion with another mark, unless a portion with the mark
// of the base was read before. It returns [kv.ErrCorrupt] if portions of both kinds exist, or one
// is missing or damaged.
func (a *stagingReader) read(number, stored []byte) error {
	p, err := decodePortion(number, stored)
	if err != nil {
		return err
	}
	isCurrent := bytes.Equal(p.mark, a.mark)
	if a.hasOthers = a.hasOthers || !isCurrent; !isCurrent && a.staged == nil {
		return nil
	}
	if a.staged == nil {
		a.staged = &layer{}
	}
	if a.count++; a.hasOthers || a.hasLast || binary.BigEndian.Uint64(number) != uint64(a.count) {
		return fmt.Errorf("%w: staged parts of a checkpoint are missing or out of order", kv.ErrCorrupt)
	}
	a.hasLast = p.isLast
	return a.add(p)
}

// add adds the records of a portion to the layer. All of them must be after the records read
// before, in the order of buckets and keys. Otherwise, or if there are too many buckets, it returns
// [kv.ErrCorrupt].
func (a *stagingReader) add(p portion) error {
	if n := len(a.staged.buckets); n == 0 || a.staged.buckets[n-1].name != p.bucket {
		if n == maxBuckets || n > 0 && a.staged.buckets[n-1].name > p.bucket {
			return errPortion()
		}
		a.last = nil
	}
	return p.each(func(key, value []byte) error {
		if bytes.Compare(key, a.last) <= 0 {
			return errPortion()
		}
		a.last = bytes.Clone(key)
		a.staged.put(p.bucket, key, value, a.table.hash(key), 1) // of update 1, as Over expects
		return nil
	})
}
