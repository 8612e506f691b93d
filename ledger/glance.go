package ledger

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
