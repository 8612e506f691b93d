package hostile

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
)

// A page of bbolt begins with its id (8 bytes), kind (2), number of elements (2), and the number of
// overflow pages that follow it (4). An element of a branch page has the position (4) and length
// (4) of a key, and a page (8). An element of a leaf page has flags, position, and the lengths of
// key and value (4 each). A meta page has 56 bytes, of which the last 8 are its transaction, and a
// checksum of them.
const (
	head       = 16
	branchKind = 1
	leafKind   = 2
	freeKind   = 16
	metaFields = 56
)

// damager damages copies of a file.
type damager struct {
	*rand.Rand
	sound    []byte
	pageSize int
	data     []byte
	meta     bool // an older state may look like the last one, so that only a checkpoint can detect it
}

// damage returns a copy of a file with the n-th damage, and describes it.
func damage(sound []byte, n int) (data []byte, what string, meta bool) {
	d := &damager{Rand: rand.New(rand.NewPCG(8, uint64(n))), sound: sound, data: slices.Clone(sound)}
	d.pageSize = int(binary.NativeEndian.Uint32(sound[head+8:]))
	ways := []func() string{d.flip, d.cut, d.zero, d.swap, d.swapWithIDs, d.redirect, d.ascend, d.spoilFree, d.spoilMeta, d.spoilElement, d.spoilHead, d.copyPage}
	times := 1
	if n%3 == 2 {
		times = 2 + d.IntN(3)
	}
	var done []string
	for i := range times {
		way := n % len(ways)
		if i > 0 {
			way = d.IntN(len(ways))
		}
		if len(d.data) < 4*d.pageSize {
			break // too little is left
		}
		done = append(done, ways[way]())
	}
	return d.data, strings.Join(done, "; "), d.meta
}

func (d *damager) pages() int { return len(d.data) / d.pageSize }

func (d *damager) page(id int) []byte { return d.data[id*d.pageSize:][:d.pageSize] }

// used returns a page that is probably in use and is not a meta page.
func (d *damager) used() int {
	for range 1000 {
		if id := 2 + d.IntN(d.pages()-2); binary.NativeEndian.Uint64(d.page(id)) == uint64(id) {
			return id
		}
	}
	return 2
}

// ofKind returns a page of a kind, or any page if there is none.
func (d *damager) ofKind(kind uint16) int {
	var found []int
	for id := 2; id < d.pages(); id++ {
		if p := d.page(id); binary.NativeEndian.Uint64(p) == uint64(id) && binary.NativeEndian.Uint16(p[8:]) == kind {
			found = append(found, id)
		}
	}
	if len(found) == 0 {
		return d.used()
	}
	return found[d.IntN(len(found))]
}

// elements returns the number of elements of a page, as far as they fit in it.
func (d *damager) elements(id int) int {
	return min(int(binary.NativeEndian.Uint16(d.page(id)[10:])), (d.pageSize-head)/16)
}

func (d *damager) flip() string {
	n, id := 1+d.IntN(8), d.used()
	for range n {
		d.page(id)[d.IntN(d.pageSize)] ^= 1 << d.IntN(8)
	}
	return fmt.Sprintf("%d bits flipped on page %d", n, id)
}

func (d *damager) cut() string {
	at := d.IntN(len(d.data))
	if d.IntN(2) == 0 {
		at = at / d.pageSize * d.pageSize
	}
	if d.IntN(2) == 0 {
		clear(d.data[at:])
		return fmt.Sprintf("zeros from %d on", at)
	}
	d.data = d.data[:at]
	return fmt.Sprintf("cut at %d", at)
}

func (d *damager) zero() string {
	var ids []int
	for range 1 + d.IntN(3) {
		id := d.used()
		clear(d.page(id))
		ids = append(ids, id)
	}
	return fmt.Sprintf("pages %d zeroed", ids)
}

// two returns two pages; in one of ten cases, the meta pages.
func (d *damager) two() (a, b int) {
	if d.IntN(10) == 0 {
		d.meta = true
		return 0, 1
	}
	return d.used(), d.used()
}

func (d *damager) swap() string {
	a, b := d.two()
	kept := slices.Clone(d.page(a))
	copy(d.page(a), d.page(b))
	copy(d.page(b), kept)
	return fmt.Sprintf("pages %d and %d swapped", a, b)
}

func (d *damager) swapWithIDs() string {
	a, b := d.two()
	kept := slices.Clone(d.page(a))
	copy(d.page(a)[8:], d.page(b)[8:])
	copy(d.page(b)[8:], kept[8:])
	return fmt.Sprintf("pages %d and %d swapped, with their ids", a, b)
}

func (d *damager) copyPage() string {
	from, to := d.two()
	if keep := d.IntN(2) * 8; keep == 0 {
		copy(d.page(to), d.page(from))
	} else {
		copy(d.page(to)[keep:], d.page(from)[keep:])
	}
	return fmt.Sprintf("page %d copied to %d", from, to)
}

func (d *damager) redirect() string {
	id := d.ofKind(branchKind)
	n := d.IntN(max(1, d.elements(id)))
	to := []int{id, d.ofKind(branchKind), d.used(), d.IntN(d.pages()), d.pages() + d.IntN(1000), d.Int()}[d.IntN(6)]
	binary.NativeEndian.PutUint64(d.page(id)[head+16*n+8:], uint64(to))
	return fmt.Sprintf("element %d of page %d leads to %d", n, id, to)
}

// ascend copies a branch page over one of its children, with the child's id. The result is a cycle
// of pages that are each valid.
func (d *damager) ascend() string {
	id := d.ofKind(branchKind)
	n := d.IntN(max(1, d.elements(id)))
	to := binary.NativeEndian.Uint64(d.page(id)[head+16*n+8:])
	if to < 2 || to >= uint64(d.pages()) {
		return "nothing"
	}
	copy(d.page(int(to))[8:], d.page(id)[8:])
	return fmt.Sprintf("page %d is a copy of page %d above it", to, id)
}

func (d *damager) spoilFree() string {
	id := d.ofKind(freeKind)
	page := d.page(id)
	at := head + 8*d.IntN(max(1, d.elements(id)/2))
	switch d.IntN(6) {
	case 0:
		binary.NativeEndian.PutUint64(page[at:], uint64(d.used()))
	case 1:
		binary.NativeEndian.PutUint16(page[10:], uint16(d.IntN(1<<16)))
	case 2:
		binary.NativeEndian.PutUint16(page[10:], 0xffff)
		binary.NativeEndian.PutUint64(page[head:], d.Uint64()>>d.IntN(64))
	case 3:
		binary.NativeEndian.PutUint32(page[12:], d.Uint32()>>d.IntN(32))
	case 4:
		binary.NativeEndian.PutUint64(page[at:], d.Uint64()>>d.IntN(64))
	default:
		clear(page[at:])
	}
	return fmt.Sprintf("free list on page %d", id)
}

// spoilMeta changes a field of one or both meta pages, and corrects their checksums.
func (d *damager) spoilMeta() string {
	d.meta = true
	at, value := 4*d.IntN(metaFields/4), d.Uint64()>>d.IntN(64)
	if d.IntN(3) == 0 {
		value = uint64(d.IntN(d.pages()))
	}
	first, last := 0, 1
	if d.IntN(2) == 0 {
		first = d.IntN(2)
		last = first
	}
	for id := first; id <= last; id++ {
		fields := d.page(id)[head:]
		if at%8 == 0 && at >= 16 {
			binary.NativeEndian.PutUint64(fields[at:], value)
		} else {
			binary.NativeEndian.PutUint32(fields[at:], uint32(value))
		}
		sum := fnv.New64a()
		_, _ = sum.Write(fields[:metaFields])
		binary.NativeEndian.PutUint64(fields[metaFields:], sum.Sum64())
	}
	return fmt.Sprintf("meta pages %d to %d, at %d: %d", first, last, at, value)
}

func (d *damager) spoilElement() string {
	id := d.ofKind([]uint16{branchKind, leafKind, leafKind}[d.IntN(3)])
	n := d.IntN(max(1, d.elements(id)))
	field := d.page(id)[head+16*n+4*d.IntN(4):]
	value := d.Uint32() >> d.IntN(32)
	binary.NativeEndian.PutUint32(field, value)
	return fmt.Sprintf("element %d of page %d: %d", n, id, value)
}

func (d *damager) spoilHead() string {
	id, at := d.used(), 8+d.IntN(8)
	value := byte(d.IntN(256))
	if d.IntN(2) == 0 {
		at, value = []int{8, 10, 12}[d.IntN(3)], byte(d.IntN(4))
	}
	d.page(id)[at] = value
	return fmt.Sprintf("page %d, byte %d: %d", id, at, value)
}
