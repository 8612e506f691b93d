package bolt

import "slices"

// strips are pieces of the file that were read at once. The pages of a tree that was written in order stand one behind
// the other, or nearly so: or, where pages were free to be used again, by turns in several places.
type strips struct {
	all  [8]strip
	turn uint64
}

// strip is one piece.
type strip struct {
	first uint64 // page
	bytes []byte // of whole pages
	last  uint64 // the page asked for last
	used  uint64 // the turn in which it was asked for
}

// stripSize is how many bytes are read at once.
const stripSize = 64 << 10

// page returns a page, which is one of those in use. It lasts until the next call. What else was read with it may be
// changed by somebody who writes to the file: but not if it belongs to the snapshot, and else nobody asks for it.
func (s *strips) page(i *inspection, id uint64) ([]byte, error) {
	size := uint64(i.pageSize)
	s.turn++
	oldest := &s.all[0]
	for n := range s.all {
		one := &s.all[n]
		if at := id - one.first; id >= one.first && at < uint64(len(one.bytes))/size {
			one.last, one.used = id, s.turn
			return one.bytes[at*size : (at+1)*size : (at+1)*size], nil
		}
		if one.used < oldest.used {
			oldest = one
		}
	}
	for n := range s.all {
		one := &s.all[n]
		if near := id - one.last; id > one.last && near <= max(1, stripSize/size/4) && one.last != 0 {
			one.used = s.turn
			return one.read(i, id, max(1, min(stripSize/size, i.pages-id)))
		}
	}
	oldest.used = s.turn
	return oldest.read(i, id, 1)
}

// empty returns the memory without what was read.
func (s *strips) empty() strips {
	for n := range s.all {
		s.all[n] = strip{bytes: s.all[n].bytes[:0]}
	}
	return strips{all: s.all}
}

// read reads pages from one on, and returns that one.
func (s *strip) read(i *inspection, id, pages uint64) ([]byte, error) {
	size := uint64(i.pageSize)
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
