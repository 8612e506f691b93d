package ledger

import "hash/maphash"

// recency tells of each name of an object or request since which event no record of it has changed, as far as the ledger
// was open. Every put and delete of a transaction goes by it, whoever makes it. Names share a place: then one seems to have
// changed with the other, and is read once more. It is used by the one goroutine that commits.
type recency struct {
	seed   maphash.Seed
	events [4096]uint64
	all    uint64 // since when no record has changed of which places know nothing
}

func newRecency() *recency { return &recency{seed: maphash.MakeSeed()} }

// last returns the first event of the last transaction that can have changed a record of a name, or would have if it had not
// failed; 0 for none. A snapshot with that event or a later one shows what the transaction has left.
func (r *recency) last(name string) uint64 {
	return max(r.all, r.events[maphash.String(r.seed, name)%uint64(len(r.events))])
}

// changedMany notes that a transaction that begins with an event writes so many records that nobody looks which: most
// places would be theirs.
func (r *recency) changedMany(event uint64) {
	if r != nil {
		r.all = event
	}
}

// changed notes that a transaction that begins with an event writes or deletes a record.
func (r *recency) changed(bucket string, key []byte, event uint64) {
	if r == nil {
		return
	}
	switch bucket {
	case bucketObjects: // the lists of questions right behind an object are on nobody's desk
		key = key[:len(key)-1]
	case bucketChains:
		key = key[len(chainKey(0, "")):]
	case bucketRequests:
	default:
		return
	}
	r.events[maphash.Bytes(r.seed, key)%uint64(len(r.events))] = event
}
