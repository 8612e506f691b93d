package scratch

import (
	"encoding/binary"
	"hash/maphash"
)

// expectations are keys that will be asked for, with their hashes and with where they were found. They are asked for about
// in this order, each several times: so to find one again is cheaper than to hash it and to look for its pair again.
type expectations struct {
	all      []expectation
	keys     []byte
	last     int  // the one asked for last
	complete bool // what is added next begins a new list
}

// knowledge is what is known of where a pair stands.
type knowledge uint8

const (
	unknown knowledge = iota
	likely            // a pair with the same first bits of the hash stands or stood there
	certain           // the pair does, or did
)

// expectation is a key with its bucket, and its hash.
type expectation struct {
	key   []byte
	hash  uint64
	place place // where the pair stands in the table, or stood once
	known knowledge
}

func (e *expectations) add(seed maphash.Seed, bucket uint32, key []byte) {
	if e.complete {
		*e = expectations{all: e.all[:0], keys: e.keys[:0], last: -1}
	}
	from := len(e.keys)
	e.keys = append(binary.BigEndian.AppendUint32(e.keys, bucket), key...)
	key = e.keys[from:len(e.keys):len(e.keys)]
	e.all = append(e.all, expectation{key: key, hash: maphash.Bytes(seed, key)})
}

// find returns a key if it is among those next to the one asked for last.
func (e *expectations) find(buckets []string, bucket string, key []byte) *expectation {
	const back, ahead = 1, 4
	if one := e.is(e.last+1, buckets, bucket, key); one != nil { // most are
		return one
	}
	for at := e.last - back; at <= e.last+ahead; at++ {
		if one := e.is(at, buckets, bucket, key); one != nil {
			return one
		}
	}
	return nil
}

// is returns the key with a number, if it is the one asked for.
func (e *expectations) is(at int, buckets []string, bucket string, key []byte) *expectation {
	if uint(at) >= uint(len(e.all)) {
		return nil
	}
	one := &e.all[at]
	if len(one.key) != 4+len(key) || string(one.key[4:]) != string(key) || buckets[binary.BigEndian.Uint32(one.key)] != bucket {
		return nil
	}
	e.last = at
	return one
}

// forget forgets where the pairs stand.
func (e *expectations) forget() {
	for i := range e.all {
		e.all[i].known = unknown
	}
}
