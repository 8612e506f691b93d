package state

import (
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/vocabulary"
)

// Work counts what transactions record, for whoever observes the ledger.
type Work struct {
	Draws   map[string]uint64            // responses and answers, by how they were drawn
	Resold  uint64                       // responses
	Spent   uint64                       // ε of all people, in nano-nats
	LeftOut map[vocabulary.Reason]uint64 // people, by reason
}

// Count counts a change that was recorded. It may be called on nil.
func (w *Work) Count(c event.Change) {
	if w == nil {
		return
	}
	switch c := c.(type) {
	case *event.Released:
		w.drawn(c.Method)
	case *event.Answered:
		w.drawn(c.Method)
	case *event.Sold:
		w.drawn(c.Method)
	case *event.Settled:
		w.Spent += c.Spent
	case *event.ObjectRefused:
		if w.LeftOut == nil {
			w.LeftOut = map[vocabulary.Reason]uint64{}
		}
		w.LeftOut[c.Reason]++
	}
}

func (w *Work) drawn(by event.Method) {
	if by == event.MethodResale {
		w.Resold++
		return
	}
	if w.Draws == nil {
		w.Draws = map[string]uint64{}
	}
	w.Draws[by.String()]++
}
