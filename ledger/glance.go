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

// show puts what was read on the desk of a transaction, if nothing has happened since. The state is a fold of the events,
// and they only become more: with as many of them it is the same state.
func (g *glance) show(s *state) {
	if g.events == s.counters.events {
		s.desk.objects.adopt(&g.desk.objects)
		s.desk.chains.adopt(&g.desk.chains)
		s.desk.requests.adopt(&g.desk.requests)
	}
}

// adopt notes what another drawer has read.
func (d *drawer[T]) adopt(other *drawer[T]) {
	for i := range other.sheets {
		s := &other.sheets[i]
		d.note(s.id, s.record, s.found)
	}
}
