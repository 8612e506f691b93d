package spill

import "bytes"

// expectations are keys that will be asked for, with their hashes. They are asked for about in this order, each several
// times: so to find one again is cheaper than to hash it again.
type expectations struct {
	all      []expectation
	keys     []byte
	last     int  // the one asked for last
	complete bool // what is added next begins a new list
}

// expectation is a key: where it stands in keys, and its hash.
type expectation struct {
	from, to int
	hash     uint64
}

func (e *expectations) add(key []byte, hash uint64) {
	if e.complete {
		*e = expectations{all: e.all[:0], keys: e.keys[:0]}
	}
	from := len(e.keys)
	e.keys = append(e.keys, key...)
	e.all = append(e.all, expectation{from, len(e.keys), hash})
}

// hashOf returns the hash of a key that is among those next to the one asked for last.
func (e *expectations) hashOf(key []byte) (hash uint64, found bool) {
	const back, ahead = 1, 4
	for i := max(e.last-back, 0); i < min(e.last+ahead, len(e.all)); i++ {
		if one := &e.all[i]; bytes.Equal(e.keys[one.from:one.to], key) {
			e.last = i
			return one.hash, true
		}
	}
	return 0, false
}
