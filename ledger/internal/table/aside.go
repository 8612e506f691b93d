package table

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"runtime"

	"github.com/sluicedp/sluice/ledger/internal/kv"
)

// A base pays in memory, and others in time, for all that one transaction changes. So a checkpoint of much is first written
// aside: in portions, one behind the other, to a bucket of their own, and with the last of them the mark. From then on the base has
// all of it, durably: what is aside lies over the rest, as the frozen layer does. Then each portion is put into its place and removed, in
// a small transaction of its own. Who opens the base in between finds portions with its mark, and goes on. Those with
// another mark are of a checkpoint that did not come so far.

// Aside is the bucket of what is written aside. Nobody else may use it.
const Aside = "aside"

const (
	// A portion is by default a share of the room, between these bounds. At random, each record changes a page of its own, of which
	// bbolt keeps some ten kilobytes until it is committed.
	portionShare    = 128
	smallestPortion = 1 << 10
	largestPortion  = 512 << 10
	// portionsTogether is how many are written aside in one transaction.
	portionsTogether = 8
)

// portion is a part of a frozen layer: records of one bucket, in the order of their keys.
type portion struct {
	mark    []byte // of the base once all portions are there
	last    bool   // none is behind it
	bucket  string
	records []byte // each with its key and its value, which is empty if it was deleted
}

// add adds a record.
func (p *portion) add(key, value []byte) {
	p.records = binary.AppendUvarint(p.records, uint64(len(key)))
	p.records = append(p.records, key...)
	p.records = binary.AppendUvarint(p.records, uint64(len(value)))
	p.records = append(p.records, value...)
}

// encode returns a portion as it is stored: whether it is the last, the mark, the bucket, the records, and a checksum of all that and its number.
func (p *portion) encode(number []byte) []byte {
	b := make([]byte, 1, 1+2*binary.MaxVarintLen64+len(p.mark)+len(p.bucket)+len(p.records)+crc32.Size)
	if p.last {
		b[0] = 1
	}
	b = appendText(b, p.mark)
	b = appendText(b, []byte(p.bucket))
	b = append(b, p.records...)
	return binary.BigEndian.AppendUint32(b, sumOf(number, b))
}

func appendText(b, text []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func sumOf(number, b []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(number, table), table, b)
}

// decodePortion reads what encode has written. The portion refers to it.
func decodePortion(number, b []byte) (p portion, err error) {
	damaged := fmt.Errorf("%w: a part of a checkpoint that was written aside is damaged", kv.ErrCorrupt)
	end := len(b) - crc32.Size
	if len(number) != 8 || end < 1 || b[0] > 1 || binary.BigEndian.Uint32(b[end:]) != sumOf(number, b[:end]) {
		return p, damaged
	}
	p.last = b[0] == 1
	mark, rest, sound := cutText(b[1:end])
	bucket, records, also := cutText(rest)
	if !sound || !also || len(bucket) == 0 || string(bucket) == Aside {
		return p, damaged
	}
	p.mark, p.bucket, p.records = mark, string(bucket), records
	err = p.each(func(key, value []byte) error {
		if len(key) == 0 {
			return damaged
		}
		return nil
	})
	return p, err
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
		if !sound || !also {
			return fmt.Errorf("%w: a part of a checkpoint that was written aside is damaged", kv.ErrCorrupt)
		}
		if err := visit(key, value); err != nil {
			return err
		}
		rest = next
	}
	return nil
}

// divide divides the newest versions in a layer, in the order of buckets and keys.
func (l *layer) divide(mark []byte, size int, visit func(portion) error) error {
	p := portion{mark: mark}
	for _, b := range l.buckets {
		for c := seek([]*layer{l}, b.name, nil, math.MaxUint64); c.key != nil; c.next() {
			if len(p.records) > 0 && (p.bucket != b.name || len(p.records) >= size) {
				if err := visit(p); err != nil {
					return err
				}
				p.records = make([]byte, 0, size)
			}
			p.bucket = b.name
			p.add(c.key, c.value)
		}
	}
	p.last = true
	return visit(p)
}

// setAside writes the frozen layer aside, and returns in how many portions. What an earlier try has left goes first.
func (t *Table) setAside(c *layers) (count int, err error) {
	number, stored := uint64(0), [][]byte(nil)
	flush := func(last bool) error {
		err := t.update(c.mark, func(w kv.Writer) error {
			if number == uint64(len(stored)) {
				if err := clearAside(w); err != nil {
					return err
				}
			}
			for i, b := range stored {
				if err := w.Put(Aside, numbered(number-uint64(len(stored)-1-i)), b); err != nil {
					return err
				}
			}
			if last {
				return w.Put(t.options.Mark.Bucket, t.options.Mark.Key, c.next)
			}
			return nil
		})
		stored = nil
		return err
	}
	err = c.frozen.divide(c.next, t.options.Portion, func(p portion) error {
		number++
		stored = append(stored, p.encode(numbered(number)))
		if runtime.Gosched(); p.last || len(stored) == portionsTogether {
			return flush(p.last)
		}
		return nil
	})
	return int(number), err
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

// placeAll puts everything that is aside into its place.
func (t *Table) placeAll(c *layers) error {
	for n := 1; ; n++ {
		more, err := t.place(c)
		if err != nil || !more {
			return err
		}
		t.placed.Store(int64(min(n, c.portions)) * whole / int64(c.portions))
		t.at(Placed)
		t.takeTime()
	}
}

// place puts the first portion into its place, and tells whether another one is behind it.
func (t *Table) place(c *layers) (more bool, err error) {
	err = t.update(c.next, func(w kv.Writer) error {
		var key, stored []byte
		err := w.Scan(Aside, nil, func(k, v []byte) bool {
			key, stored = bytes.Clone(k), bytes.Clone(v) // what is put may move what is there
			return false
		})
		if err != nil {
			return err
		}
		p, err := decodePortion(key, stored)
		if err != nil {
			return err
		}
		if !bytes.Equal(p.mark, c.next) {
			return fmt.Errorf("%w: a part of another checkpoint is in the place of this one's", kv.ErrCorrupt)
		}
		more = !p.last
		if err := p.each(func(key, value []byte) error { return change(w, p.bucket, key, value) }); err != nil {
			return err
		}
		return w.Delete(Aside, key)
	})
	return more, err
}

// readAside returns what lies aside over a base with a mark, or nil if that is nothing, and how many portions it is in.
func (t *Table) readAside(r kv.Reader, mark []byte) (over *layer, count int, err error) {
	whole, next := false, uint64(0)
	scanned := r.Scan(Aside, nil, func(key, stored []byte) bool {
		var p portion
		if p, err = decodePortion(key, stored); err != nil {
			return false
		}
		if !bytes.Equal(p.mark, mark) {
			return true
		}
		if number := binary.BigEndian.Uint64(key); over == nil {
			over, next = &layer{}, number
		} else if number != next {
			whole = false
			return false
		}
		next++
		count, whole = count+1, p.last
		err = p.each(func(key, value []byte) error {
			over.put(p.bucket, key, value, t.hash(key), 1)
			return nil
		})
		return err == nil
	})
	if scanned != nil {
		return nil, 0, scanned
	}
	if err == nil && over != nil && !whole {
		err = fmt.Errorf("%w: parts of a checkpoint that was written aside are missing", kv.ErrCorrupt)
	}
	return over, count, err
}
