package batch

import "github.com/sluicedp/sluice/ledger/internal/state"

// Glance keeps what a request about few objects has read in the snapshot in which it was looked up, for its transaction.
// The zero value is empty.
type Glance struct {
	Desk   state.Desk
	Events uint64 // in the log, in the snapshot; 0 if nothing is kept
}

// Begin has a snapshot keep what is read in it, if that is for so few objects that they are looked up one by one.
func (g *Glance) Begin(s *state.State, objects int) {
	g.Events = 0
	if objects >= state.Gathered {
		return
	}
	g.Desk.Clear()
	s.Desk, g.Events = &g.Desk, s.Counters.Events
}

// Show puts on the desk of a transaction what was read and has not changed since. What the transaction itself has changed
// is on its desk already, and stays.
func (g *Glance) Show(s *state.State) {
	if g.Events == 0 || s.Changes == nil {
		return
	}
	show(s, g.Events, &g.Desk.Objects, &s.Desk.Objects)
	show(s, g.Events, &g.Desk.Chains, &s.Desk.Chains)
	show(s, g.Events, &g.Desk.Requests, &s.Desk.Requests)
}

func show[T any](s *state.State, events uint64, from, to *state.Drawer[T]) {
	for i := range from.Sheets {
		if one := &from.Sheets[i]; s.Changes.Last(one.ID.Name) <= events {
			to.Note(one.ID, &one.Record, one.Found)
		}
	}
}
