package kv

// Fault is a part of a store that cannot be read, or has content that the store does not write.
type Fault struct {
	Bucket string // "" for the store as a whole
	// From and To limit the keys that may be affected: from From on, and below To. nil means no
	// limit.
	From, To []byte
	Text     string // description for people
}

// Inspector is a [Store] that can be read although it is damaged.
type Inspector interface {
	// Inspect is View with a Reader that does not trust the bytes of the store. The methods of the
	// Reader return for any content of the store, and Scan passes keys that rise. The Reader is
	// slower than that of View at finding single records. Inspect returns the error of fn, or an
	// error of reading the store.
	//
	// Scan reports what it cannot read to fault, and continues after it. Another Scan may report
	// the same part again. What Scan passes is valid only until visit returns. Get returns
	// [ErrCorrupt] if it finds damage. Faults of the store as a whole are reported first.
	Inspect(fault func(Fault), fn func(Reader) error) error
}
