package memtable

import "bytes"

// index finds the records of a bucket by the hashes of their keys. It is an open-addressed hash
// table without pointers, so that the garbage collector need not scan it. The zero value is empty.
type index struct {
	slots []slot // a power of two of them, at most three quarters in use
	count int    // number of slots in use
}

// slot is a slot of an index: free, or with a record.
type slot struct {
	hash   uint32 // lower half of the hash: enough for as many records as a layer can have
	number uint32 // the [id] of the record, plus 1; 0 if the slot is free
}

// find returns the record of layer l with a key. hash must be the hash of the key. found is false
// if the index does not have the key.
func (ix *index) find(l *layer, key []byte, hash uint64) (i id, found bool) {
	if ix.count == 0 {
		return 0, false
	}
	mask := len(ix.slots) - 1
	for at := int(uint32(hash)) & mask; ; at = (at + 1) & mask {
		s := ix.slots[at]
		if s.number == 0 {
			return 0, false
		}
		if s.hash == uint32(hash) && bytes.Equal(l.key(id(s.number-1)), key) {
			return id(s.number - 1), true
		}
	}
}

// add adds a record that is not in the index. It doubles the table if more than three quarters of
// it would be in use.
func (ix *index) add(hash uint64, i id) {
	const smallest = 8
	if 4*(ix.count+1) > 3*len(ix.slots) {
		before := ix.slots
		ix.slots = make([]slot, max(smallest, 2*len(before)))
		for _, s := range before {
			if s.number > 0 {
				ix.place(s)
			}
		}
	}
	ix.place(slot{uint32(hash), uint32(i) + 1})
	ix.count++
}

// place puts a slot at the first free position from that of its hash on. At least one position must
// be free.
func (ix *index) place(s slot) {
	mask := len(ix.slots) - 1
	at := int(s.hash) & mask
	for ix.slots[at].number > 0 {
		at = (at + 1) & mask
	}
	ix.slots[at] = s
}

// reset empties the index. It keeps the memory for later records, unless less than a sixteenth of
// it was in use.
func (ix *index) reset() {
	const rest = 16
	if ix.count*rest < len(ix.slots) {
		ix.slots = nil
	}
	clear(ix.slots)
	ix.count = 0
}
