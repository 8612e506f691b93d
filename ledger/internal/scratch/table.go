package scratch

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"slices"
)

// table holds the pairs in memory. They stand one behind the other in pages, and are found by an index of numbers: so
// there are no pointers for the garbage collector to follow, however many pairs there are.
//
// A pair is a head, the key, the value, and room for the value to grow. One that outgrows its room moves behind the
// others, and leaves behind where to.
type table struct {
	seed  maphash.Seed
	pages [][]byte // each as long as it is filled
	page  int      // the one being filled
	slots []slot   // a power of two of them, at most three quarters filled; a pair stands behind where its hash points to
	least int      // how many slots there are at first
	count int      // of the pairs
	held  int      // bytes that they take, with their places in the index and in the order
}

// place is where a pair stands: the page and, in the last bits, the offset there.
type place uint64

const (
	offsetBits = 20
	placeBits  = 44
	pageSize   = 256 << 10 // of a page with more than one pair
	firstPage  = 4 << 10
)

const slotSize = 8 // bytes

// slot is an entry of the index: the first bits of the hash and, in the last placeBits, the place plus one. Zero is none.
type slot uint64

const (
	head     = 12 // bytes: the length of the key, of the value, and of the room for it
	overhead = head + 24
	// The flags of a pair stand in the length of the key.
	flagMoved   = 1 << 31 // it stands where the value says
	flagDeleted = 1 << 30 // there is no such pair, whatever runs hold
	lengthMask  = flagDeleted - 1
)

// framed is a pair as it is in its page, with what stands behind it.
type framed []byte

func (t *table) at(p place) framed { return t.pages[p>>offsetBits][p&(1<<offsetBits-1):] }

func (p framed) keyField() uint32    { return binary.LittleEndian.Uint32(p) }
func (p framed) is(flag uint32) bool { return p.keyField()&flag != 0 }

func (p framed) key() []byte { return p[head:][:p.keyField()&lengthMask] }
func (p framed) room() int   { return int(binary.LittleEndian.Uint32(p[8:])) }

// value returns the value, nil if the pair was deleted.
func (p framed) value() []byte {
	if p.is(flagDeleted) {
		return nil
	}
	from, n := head+int(p.keyField()&lengthMask), int(binary.LittleEndian.Uint32(p[4:]))
	return p[from : from+n : from+n]
}

// set sets the value, which must fit.
func (p framed) set(value []byte, flags uint32) {
	if value == nil {
		flags |= flagDeleted
	}
	binary.LittleEndian.PutUint32(p[4:], uint32(len(value)))
	copy(p[head+int(p.keyField()&lengthMask):], value)
	binary.LittleEndian.PutUint32(p, p.keyField()&lengthMask|flags)
}

// current returns where a pair stands that stood in a place.
func (t *table) current(p place) place {
	for pair := t.at(p); pair.is(flagMoved); pair = t.at(p) {
		p = place(binary.LittleEndian.Uint64(pair.value()))
	}
	return p
}

// find returns the slot of a key, and whether there is such a pair. A new one may be put into the slot.
func (t *table) find(key []byte, hash uint64) (at int, found bool) {
	mask := len(t.slots) - 1
	for at = int(hash) & mask; ; at = (at + 1) & mask {
		s := t.slots[at]
		if s == 0 {
			return at, false
		}
		if uint64(s)>>placeBits == hash>>placeBits && bytes.Equal(t.at(s.place()).key(), key) {
			return at, true
		}
	}
}

// touchSlot reads where the index would hold a hash.
func (t *table) touchSlot(hash uint64) byte {
	if len(t.slots) == 0 {
		return 0
	}
	return byte(t.slots[int(hash)&(len(t.slots)-1)])
}

// touchPair reads where a pair with a hash seems to stand.
func (t *table) touchPair(hash uint64) byte {
	if t.count == 0 {
		return 0
	}
	mask := len(t.slots) - 1
	for at := int(hash) & mask; t.slots[at] != 0; at = (at + 1) & mask {
		if uint64(t.slots[at])>>placeBits == hash>>placeBits {
			return t.at(t.slots[at].place())[0]
		}
	}
	return 0
}

func (s slot) place() place { return place(s&(1<<placeBits-1)) - 1 }

func slotOf(p place, hash uint64) slot { return slot(hash>>placeBits<<placeBits | uint64(p+1)) }

// get returns a pair, or nil.
func (t *table) get(key []byte, hash uint64) framed {
	if t.count > 0 {
		if at, found := t.find(key, hash); found {
			return t.at(t.slots[at].place())
		}
	}
	return nil
}

// set sets a value, nil if there is to be none. It tells where the pair stands if there was none.
func (t *table) set(key []byte, hash uint64, value []byte) (p place, fresh bool) {
	if 4*(t.count+1) > 3*len(t.slots) {
		t.grow()
	}
	at, found := t.find(key, hash)
	if !found {
		p = t.add(key, value, roomFor(value))
		t.slots[at] = slotOf(p, hash)
		t.count++
		return p, true
	}
	pair := t.at(t.slots[at].place())
	if pair.room() >= len(value) {
		pair.set(value, 0)
		return 0, false
	}
	p = t.add(key, value, 2*len(value)) // what has grown will grow again
	var to [8]byte
	binary.LittleEndian.PutUint64(to[:], uint64(p))
	pair.set(to[:], flagMoved)
	t.slots[at] = slotOf(p, hash)
	return 0, false
}

// add puts a pair behind the others.
func (t *table) add(key, value []byte, room int) place {
	size := head + len(key) + room
	t.held += size + overhead - head
	page, from := t.space(size)
	p := framed(t.pages[page][from:])
	binary.LittleEndian.PutUint32(p, uint32(len(key)))
	binary.LittleEndian.PutUint32(p[8:], uint32(room))
	copy(p[head:], key)
	p.set(value, 0)
	return place(page)<<offsetBits | place(from)
}

// roomFor returns how much room a value is given: at least that of the place where it moves to. Those of a few bytes do not
// grow, for they are numbers; most others do, and to move one costs more than room.
func roomFor(value []byte) int {
	const few, more = 8, 24
	if len(value) <= few {
		return few
	}
	return len(value) + more
}

// space makes room for a pair of a size, which is not cleared.
func (t *table) space(size int) (page, from int) {
	for ; t.page < len(t.pages); t.page++ {
		if b := t.pages[t.page]; cap(b)-len(b) >= size && len(b) < 1<<offsetBits {
			t.pages[t.page] = b[:len(b)+size]
			return t.page, len(b)
		}
	}
	grown := firstPage
	if n := len(t.pages); n > 0 {
		grown = min(2*cap(t.pages[n-1]), pageSize)
	}
	t.page = len(t.pages)
	t.pages = append(t.pages, make([]byte, size, max(grown, size)))
	return t.page, 0
}

// grow makes a larger index. It goes through the pairs as they stand: in the order of the former index the processor would wait
// for each of them.
func (t *table) grow() {
	t.slots = make([]slot, max(t.least, 64, 2*len(t.slots)))
	mask := len(t.slots) - 1
	for page, b := range t.pages {
		for from := 0; from < len(b); {
			pair := framed(b[from:])
			if !pair.is(flagMoved) {
				hash := maphash.Bytes(t.seed, pair.key())
				at := int(hash) & mask
				for t.slots[at] != 0 {
					at = (at + 1) & mask
				}
				t.slots[at] = slotOf(place(page)<<offsetBits|place(from), hash)
			}
			from += head + len(pair.key()) + pair.room()
		}
	}
}

// clear empties the table. It keeps the memory for what comes next, but for pages of a size of their own.
func (t *table) clear() {
	kept := t.pages[:0]
	for _, b := range t.pages {
		if cap(b) <= pageSize {
			kept = append(kept, b[:0])
		}
	}
	clear(t.pages[len(kept):])
	clear(t.slots)
	*t = table{seed: t.seed, least: t.least, pages: kept, slots: t.slots}
}

// sort puts places of one bucket in the order of the keys. Often they are that already.
func (t *table) sort(places []place) {
	if slices.IsSortedFunc(places, t.compare) {
		return
	}
	type sorted struct {
		begins uint64 // the bytes of the key behind those that all keys have in common
		place  place
	}
	common := t.common(places)
	all := make([]sorted, len(places))
	for i, p := range places {
		var begin [8]byte
		copy(begin[:], t.at(p).key()[common:])
		all[i] = sorted{binary.BigEndian.Uint64(begin[:]), p}
	}
	slices.SortFunc(all, func(a, b sorted) int {
		if a.begins != b.begins {
			return cmp.Compare(a.begins, b.begins)
		}
		return t.compare(a.place, b.place)
	})
	for i := range all {
		places[i] = all[i].place
	}
}

// common returns how many bytes all keys begin with.
func (t *table) common(places []place) int {
	var first []byte
	for i, p := range places {
		key := t.at(p).key()
		if i == 0 {
			first = key
		}
		n := 0
		for n < min(len(first), len(key)) && first[n] == key[n] {
			n++
		}
		first = first[:n]
	}
	return len(first)
}

func (t *table) compare(p, q place) int { return bytes.Compare(t.at(p).key(), t.at(q).key()) }

// merge returns the places of two sorted parts in order.
func (t *table) merge(a, b []place) []place {
	merged := make([]place, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if t.compare(a[0], b[0]) > 0 {
			a, b = b, a
		}
		merged = append(merged, a[0])
		a = a[1:]
	}
	return append(append(merged, a...), b...)
}
