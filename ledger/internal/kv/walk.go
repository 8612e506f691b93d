package kv

import "bytes"

// Walk iterates over pairs without a callback. It scans walkPart pairs at a time, and copies them.
// After Next has returned an error, the walk must not be used.
type Walk struct {
	scan  func(from []byte, visit func(key, value []byte) bool) error
	from  []byte // start of the next part
	bytes []byte // pairs of the part read last
	ends  []int  // two offsets in bytes for each pair: the end of its key, and the end of its value
	next  int    // index in ends of the next key
	last  bool   // no part follows
}

// walkPart is the number of pairs that are scanned at a time.
const walkPart = 256

// NewWalk returns a walk that begins at key from. scan must visit pairs in rising order of their
// keys, from a key on.
func NewWalk(from []byte, scan func(from []byte, visit func(key, value []byte) bool) error) *Walk {
	return &Walk{scan: scan, from: bytes.Clone(from)}
}

// Next returns the next pair, or a nil key at the end. Both slices are valid until the next call.
func (w *Walk) Next() (key, value []byte, err error) {
	if w.next == len(w.ends) && !w.last {
		if err := w.read(); err != nil {
			return nil, nil, err
		}
	}
	if w.next == len(w.ends) {
		return nil, nil, nil
	}
	begin := 0
	if w.next > 0 {
		begin = w.ends[w.next-1]
	}
	middle, end := w.ends[w.next], w.ends[w.next+1]
	w.next += 2
	return w.bytes[begin:middle:middle], w.bytes[middle:end:end], nil
}

// read replaces the current part by the next one: up to walkPart pairs from key w.from on. If a
// further pair exists, its key becomes w.from, where the part after this one begins. Otherwise
// w.last stays true.
func (w *Walk) read() error {
	w.bytes, w.ends, w.next, w.last = w.bytes[:0], w.ends[:0], 0, true
	return w.scan(w.from, func(key, value []byte) bool {
		if w.last = len(w.ends) < 2*walkPart; !w.last {
			w.from = append(w.from[:0], key...)
			return false
		}
		w.bytes = append(w.bytes, key...)
		w.ends = append(w.ends, len(w.bytes))
		w.bytes = append(w.bytes, value...)
		w.ends = append(w.ends, len(w.bytes))
		return true
	})
}
