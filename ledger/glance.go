package ledger

import "hash/maphash"

// glance keeps what a request about few objects has read in the snapshot in which it was looked up, for its transaction.
// The zero value is empty.
type glance struct {
	desk   desk
	events uint64 // in the log, in the snapshot; 0 if nothing is kept
}

// begin has a snapshot keep what is read in it, if that is for so few objects that they are looked up one by one.
func (g *glance) begin(s *state, objects int) {
	g.events = 0
	if objects >= gathered {
		return
	}
	g.desk.clear()
	s.desk, g.events = &g.desk, s.counters.events
}

// show puts on the desk of a transaction what was read and has not changed since. What the transaction itself has changed
// is on its desk already, and stays.
func (g *glance) show(s *state) {
	if g.events == 0 || s.changes == nil {
		return
	}
	show(s, g.events, &g.desk.objects, &s.desk.objects)
	show(s, g.events, &g.desk.chains, &s.desk.chains)
	show(s, g.events, &g.desk.requests, &s.desk.requests)
}

func show[T any](s *state, events uint64, from, to *drawer[T]) {
	for i := range from.sheets {
		if one := &from.sheets[i]; s.changes.last(one.id.name) <= events {
			to.note(one.id, &one.record, one.found)
		}
	}
}

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
