package kv

// Fault is a part of a store that cannot be read, or is not as the store writes it.
type Fault struct {
	Bucket string // "" for the store as a whole
	// From and To bound the keys that may be concerned: From on, and below To. nil is no bound.
	From, To []byte
	Text     string // for people
}

// Inspector is a [Store] that can be read although it is damaged.
type Inspector interface {
	// Inspect is View with a Reader that relies on nothing in the bytes of the store: whatever they
	// are, its methods return, and Scan passes rising keys. What Scan cannot read it reports to
	// fault, and goes on behind it; the same part may be reported again by another Scan. What is
	// wrong with the store as a whole is reported first. What Scan passes lasts only until visit
	// returns. Get returns [ErrCorrupt] where it meets damage. It is slower than View at finding
	// single records.
	Inspect(fault func(Fault), fn func(Reader) error) error
}
