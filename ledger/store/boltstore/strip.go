package boltstore

import "slices"

// strip is a piece of the file that was read at once. The pages of a tree that was written in order stand one behind
// the other, or nearly so.
type strip struct {
	first uint64 // page
	bytes []byte // of whole pages
	last  uint64 // the page asked for last
}

// stripSize is how many bytes are read at once.
const stripSize = 64 << 10

// page returns a page, which is one of those in use. It lasts until the next call. What else was read with it may be changed by somebody who writes to
// the file: but not if it belongs to the snapshot, and else nobody asks for it.
func (s *strip) page(i *inspection, id uint64) ([]byte, error) {
	size := uint64(i.pageSize)
	if at := id - s.first; id >= s.first && at < uint64(len(s.bytes))/size {
		s.last = id
		return s.bytes[at*size : (at+1)*size : (at+1)*size], nil
	}
	pages := uint64(1)
	if near := id - s.last; id > s.last && near <= max(1, stripSize/size/4) && s.last != 0 {
		pages = max(1, min(stripSize/size, i.pages-id))
	}
	s.last = id
	s.first, s.bytes = id, slices.Grow(s.bytes[:0], int(pages*size))[:pages*size]
	err := i.read(s.bytes, id)
	if err != nil && pages > 1 { // another page may be to blame
		s.bytes = s.bytes[:size]
		err = i.read(s.bytes, id)
	}
	if err != nil {
		s.bytes = s.bytes[:0]
		return nil, err
	}
	return s.bytes[:size:size], nil
}
