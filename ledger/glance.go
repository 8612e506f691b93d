package ledger

import "github.com/sluicedp/sluice/ledger/internal/state"

// glance keeps what a request about few objects has read in the snapshot in which it was looked up, for its transaction.
// The zero value is empty.
type glance struct {
	desk   state.Desk
	events uint64 // in the log, in the snapshot; 0 if nothing is kept
}

// begin has a snapshot keep what is read in it, if that is for so few objects that they are looked up one by one.
func (g *glance) begin(s *state.State, objects int) {
	g.events = 0
	if objects >= state.Gathered {
		return
	}
	g.desk.Clear()
	s.Desk, g.events = &g.desk, s.Counters.Events
}

// show puts on the desk of a transaction what was read and has not changed since. What the transaction itself has changed
// is on its desk already, and stays.
func (g *glance) show(s *state.State) {
	if g.events == 0 || s.Changes == nil {
		return
	}
	show(s, g.events, &g.desk.Objects, &s.Desk.Objects)
	show(s, g.events, &g.desk.Chains, &s.Desk.Chains)
	show(s, g.events, &g.desk.Requests, &s.Desk.Requests)
}

func show[T any](s *state.State, events uint64, from, to *state.Drawer[T]) {
	for i := range from.Sheets {
		if one := &from.Sheets[i]; s.Changes.Last(one.ID.Name) <= events {
			to.Note(one.ID, &one.Record, one.Found)
		}
	}
}
