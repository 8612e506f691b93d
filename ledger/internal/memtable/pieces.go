package memtable

import "bytes"

// pieces is memory for keys and values. What is copied to a piece stays as long as the layer. The
// first value of a record is in a piece. Later values, written while an older version is kept, have
// memory of their own, which is freed when no reader needs them.
type pieces struct {
	all      [][]byte // filled one after the other
	filling  int      // index of the piece that is being filled; later pieces are empty
	separate [][]byte // values with memory of their own
	free     []uint32 // indexes of separate that are free
}

// location is the position of a key or a value. It has no pointer, so that the garbage collector
// need not scan it.
type location struct {
	piece  uint32 // index of the piece or, with the bit isSeparate set, of a value in separate
	from   uint32 // offset in the piece; 0 for a value in separate
	length uint32
}

// isSeparate is the bit that marks a location in separate.
const isSeparate = 1 << 31

// The first pieces are small, because many layers are small. Pieces grow up to largePiece.
const (
	smallPiece = 4 << 10
	largePiece = 1 << 20
)

// put copies a key or a value, and returns its location. The copy has memory of its own if isOwn is
// true. Otherwise it is in the piece that is being filled, or in the next one if it does not fit
// there.
func (p *pieces) put(b []byte, isOwn bool) location {
	if isOwn {
		return p.putSeparate(bytes.Clone(b))
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
	at := location{uint32(n), uint32(len(*last)), uint32(len(b))}
	*last = append(*last, b...)
	return at
}

// replace overwrites the value at a location, and shortens the location. If the new value is empty
// or longer than the old one, replace does nothing and returns false. It also does so if the old
// value has memory of its own.
func (p *pieces) replace(at *location, value []byte) bool {
	if at.piece >= isSeparate || len(value) == 0 || uint32(len(value)) > at.length {
		return false
	}
	copy(p.all[at.piece][at.from:], value)
	at.length = uint32(len(value))
	return true
}

// reset frees everything. For later content it keeps the pieces that were in use.
func (p *pieces) reset() {
	p.all = p.all[:min(p.filling+1, len(p.all))]
	for i := range p.all {
		p.all[i] = p.all[i][:0]
	}
	clear(p.separate)
	p.filling, p.separate, p.free = 0, p.separate[:0], p.free[:0]
}

// putSeparate stores b itself as a value with memory of its own, and returns its location.
func (p *pieces) putSeparate(b []byte) location {
	last := len(p.free) - 1
	if last < 0 {
		p.separate = append(p.separate, b)
		return location{isSeparate | uint32(len(p.separate)-1), 0, uint32(len(b))}
	}
	n := p.free[last]
	p.free, p.separate[n] = p.free[:last], b
	return location{isSeparate | n, 0, uint32(len(b))}
}

// release frees a value with memory of its own, and returns its length. It returns 0 for a location
// in a piece.
func (p *pieces) release(at location) int64 {
	if at.piece < isSeparate {
		return 0
	}
	n := at.piece &^ isSeparate
	p.separate[n] = nil
	p.free = append(p.free, n)
	return int64(at.length)
}

// bytes returns the content of a location, or nil if its length is 0.
func (p *pieces) bytes(at location) []byte {
	switch {
	case at.length == 0:
		return nil
	case at.piece >= isSeparate:
		return p.separate[at.piece&^isSeparate]
	}
	end := at.from + at.length
	return p.all[at.piece][at.from:end:end]
}
