package memtable

import "bytes"

// pieces are memory for keys and values. What is copied there stays as long as the layer. A record
// that is written again and again has its later values in memory of their own, which is given back
// when nobody reads them.
type pieces struct {
	all     [][]byte // pieces that are filled one behind the other
	filling int      // the one that is being filled; those behind it are empty
	lent    [][]byte // values in memory of their own
	free    []uint32 // which of these are none
}

// place is where a key or a value is. It is no pointer, so that nobody looks for it.
type place struct {
	piece  uint32 // the number of the piece, or, from isLent on, of a value in memory of its own
	from   uint32
	length uint32
}

// isLent tells both kinds of places apart.
const isLent = 1 << 31

// The first pieces are small, since many layers are.
const (
	smallPiece = 4 << 10
	largePiece = 1 << 20
)

// put copies a key or a value, to memory of its own or to a piece.
func (p *pieces) put(b []byte, own bool) place {
	if own {
		return p.lend(bytes.Clone(b))
	}
	for p.filling < len(p.all) && cap(p.all[p.filling])-len(p.all[p.filling]) < len(b) {
		p.filling++
	}
	n := p.filling
	if n == len(p.all) {
		size := min(smallPiece<<min(n, 10), largePiece)
		p.all = append(p.all, make([]byte, 0, max(size, len(b))))
	}
	last := &p.all[n]
	at := place{uint32(n), uint32(len(*last)), uint32(len(b))}
	*last = append(*last, b...)
	return at
}

// replace writes a value over one that is at least as long, and reports whether it did.
func (p *pieces) replace(at *place, value []byte) bool {
	if at.piece >= isLent || len(value) == 0 || uint32(len(value)) > at.length {
		return false
	}
	copy(p.all[at.piece][at.from:], value)
	at.length = uint32(len(value))
	return true
}

// reset makes all of it free. It keeps the pieces that were in use, for the next.
func (p *pieces) reset() {
	p.all = p.all[:min(p.filling+1, len(p.all))]
	for i := range p.all {
		p.all[i] = p.all[i][:0]
	}
	clear(p.lent)
	p.filling, p.lent, p.free = 0, p.lent[:0], p.free[:0]
}

// lend gives a place to a value in memory of its own.
func (p *pieces) lend(b []byte) place {
	last := len(p.free) - 1
	if last < 0 {
		p.lent = append(p.lent, b)
		return place{isLent | uint32(len(p.lent)-1), 0, uint32(len(b))}
	}
	n := p.free[last]
	p.free, p.lent[n] = p.free[:last], b
	return place{isLent | n, 0, uint32(len(b))}
}

// giveBack frees memory of its own, and returns how many bytes that are.
func (p *pieces) giveBack(at place) int64 {
	if at.piece < isLent {
		return 0
	}
	n := at.piece &^ isLent
	p.lent[n] = nil
	p.free = append(p.free, n)
	return int64(at.length)
}

// bytes returns what is at a place, or nil if that is nothing.
func (p *pieces) bytes(at place) []byte {
	switch {
	case at.length == 0:
		return nil
	case at.piece >= isLent:
		return p.lent[at.piece&^isLent]
	}
	end := at.from + at.length
	return p.all[at.piece][at.from:end:end]
}
