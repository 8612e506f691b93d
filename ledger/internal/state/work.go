package state

import (
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
)

// Work counts what a transaction records, for the observer of the ledger.
type Work struct {
	made [event.MethodResale + 1]uint64 // number of responses and answers, by method
	// Requests is the number of settled requests; each part of a large request counts. Events that
	// record the host's keys belong to no request.
	Requests int
	Spent    uint64                // by all objects, in nano-nats
	LeftOut  map[api.Reason]uint64 // number of refused objects, by reason
}

// Count counts a change that was recorded. A response or answer counts by its method, a settled
// request with its cost, and a refusal by its reason. Other changes do not count. It may be called
// on nil.
func (w *Work) Count(c event.Change) {
	if w == nil {
		return
	}
	switch c := c.(type) {
	case *event.Released:
		w.made[c.Method]++
	case *event.Answered:
		w.made[c.Method]++
	case *event.Sold:
		w.made[c.Method]++
	case *event.Settled:
		w.Requests++
		w.Spent += c.Spent
	case *event.ObjectRefused:
		if w.LeftOut == nil {
			w.LeftOut = map[api.Reason]uint64{}
		}
		w.LeftOut[c.Reason]++
	}
}

// Draws returns the number of responses and answers that were not resales, by the name of the
// method. Methods without any are omitted.
func (w *Work) Draws() map[string]uint64 {
	draws := map[string]uint64{}
	for m := event.MethodRaise; m < event.MethodResale; m++ {
		if n := w.made[m]; n > 0 {
			draws[m.String()] = n
		}
	}
	return draws
}

// Resold returns the number of responses that were sold again.
func (w *Work) Resold() uint64 { return w.made[event.MethodResale] }
