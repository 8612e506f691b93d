package kv

import "bytes"

// Walk reads pairs one at a time, where a scan would have to call back. It scans a part of the
// pairs at a time, and copies them.
type Walk struct {
	scan  func(from []byte, visit func(key, value []byte) bool) error
	from  []byte // where the next part begins
	bytes []byte // of the pairs of the part that was read last
	ends  []int  // in bytes, of each key and each value
	next  int    // in ends, of the next key
	last  bool   // whether no part follows
}

// walkPart is how many pairs are scanned at a time.
const walkPart = 256

// NewWalk returns a walk from a key on, over the pairs that scan visits in rising order of their
// keys.
func NewWalk(from []byte, scan func(from []byte, visit func(key, value []byte) bool) error) *Walk {
	return &Walk{scan: scan, from: bytes.Clone(from)}
}

// Next returns the next pair, and a nil key at the end. Both are valid until the next call.
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

// read reads the next part.
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
