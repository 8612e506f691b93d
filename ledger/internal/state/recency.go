package state

import (
	"hash/maphash"
)

// Recency tells of each name of an object or request since which event no record of it has changed, as far as the ledger
// was open. Every put and delete of a transaction goes by it, whoever makes it. Names share a place: then one seems to have
// changed with the other, and is read once more. It is used by the one goroutine that commits.
type Recency struct {
	seed   maphash.Seed
	events [4096]uint64
	all    uint64 // since when no record has changed of which places know nothing
}

// NewRecency returns one that knows of no change.
func NewRecency() *Recency { return &Recency{seed: maphash.MakeSeed()} }

// Last returns the first event of the last transaction that can have changed a record of a name, or would have if it had not failed; 0 for
// none. A snapshot with that event or a later one shows what the transaction has left.
func (r *Recency) Last(name string) uint64 {
	return max(r.all, r.events[maphash.String(r.seed, name)%uint64(len(r.events))])
}

// ChangedMany notes that a transaction that begins with an event writes so many records that nobody looks which: most
// places would be theirs.
func (r *Recency) ChangedMany(event uint64) {
	if r != nil {
		r.all = event
	}
}

// Changed notes that a transaction that begins with an event writes or deletes a record.
func (r *Recency) Changed(bucket string, key []byte, event uint64) {
	if r == nil {
		return
	}
	switch bucket {
	case BucketObjects: // the lists of questions right behind an object are on nobody's desk
		key = key[:len(key)-1]
	case BucketChains:
		key = key[len(ChainKey(0, "")):]
	case BucketRequests:
	default:
		return
	}
	r.events[maphash.Bytes(r.seed, key)%uint64(len(r.events))] = event
}
