package batch

import (
	"fmt"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
)

// ahead reads the next part of a request, and makes it where that can be done early, while one is committed. What it
// found holds if nobody but the request itself has changed the ledger since; else it is found anew.
type ahead struct {
	done    chan struct{} // closed when that has ended; nil if nothing was begun
	Behind  engine.Leaving
	desk    *state.Desk
	spare   *state.Desk // which the transaction may be working on
	stage   *engine.Stage
	rest    *engine.Stage // likewise
	chances state.Chances
	names   []string
	last    bool
	events  uint64 // in the log, in the snapshot
	upTo    uint64 // the last event with which what was found still holds, or 0
	Err     error  // why nothing was found

	Made   *engine.Made // nil if only names were found
	ending ending       // of what was made
	clock  time.Time
	holds  uint64 // how often they had changed
}

func newAhead() *ahead {
	return &ahead{desk: state.NewPartDesk(), spare: state.NewPartDesk(), stage: &engine.Stage{}, rest: &engine.Stage{}, chances: state.NewChances()}
}

// begin begins with the part of a request behind another.
func (a *ahead) begin(b *Bulk, behind engine.Leaving) {
	a.Wait()
	a.desk, a.spare, a.stage, a.rest = a.spare, a.desk, a.rest, a.stage
	a.desk.Clear()
	a.Behind, a.upTo, a.Made, a.done = behind, 0, nil, make(chan struct{})
	a.holds = b.Holds.Version()
	go func() {
		defer close(a.done)
		defer func() {
			if p := recover(); p != nil {
				a.Err = fmt.Errorf("panic: %v", p) // the transaction will meet it, where the caller can
			}
		}()
		a.Err = b.Engine.Store.View(func(r kv.Reader) error { return a.look(b, r) })
	}()
}

func (a *ahead) look(b *Bulk, r kv.Reader) error {
	s, err := state.Snapshot(r)
	if err != nil {
		return err
	}
	s.Known, s.Desk, s.Chances = &b.Engine.Known, a.desk, a.chances
	s.SetClock(b.Engine.Clock())
	a.events, a.clock = s.Counters.Events, s.Clock
	if a.names, a.last, err = b.Panel.After(s, a.Behind.Cursor, state.PartSize); err != nil || !b.Early {
		return err
	}
	if a.events+1 != a.Behind.First && a.events != a.Behind.Counters.Events {
		return engine.ErrNotAhead
	}
	p, err := b.Work.Decide(s, a.names)
	if err != nil {
		return nil // the transaction will come to the same, and say so
	}
	for _, r := range p.Refused {
		if r.Remedy == vocabulary.RemedyWaiting {
			return nil // the reason may be gone by then: a reservation may have ended
		}
	}
	if s.Salts = state.RandomBytes; b.Engine.Salts != nil {
		s.Salts = b.Engine.Salts
	}
	a.stage.Begin(r, a.Behind, len(a.names))
	s.Reader = a.stage
	a.ending = b.finish(p, a.names, a.last, a.Behind.Dealt)
	a.ending.end.First = a.Behind.Counters.Events + 1
	a.Made, err = a.Behind.Make(s, a.stage, a.ending.changes)
	a.stage.Reader = nil // it ends now
	return err
}

// Wait waits until nothing is going on.
func (a *ahead) Wait() {
	if a != nil && a.done != nil {
		<-a.done
	}
}

// own tells by which events the request itself has meanwhile changed the ledger, objects that were not read.
func (a *ahead) own(first, last uint64) {
	a.Wait()
	switch {
	case a == nil:
	case a.events >= last:
		a.upTo = a.events
	case a.events+1 == first:
		a.upTo = last
	}
}

// holdsStill tells whether what was made is what a transaction would come to: the clock has not gone back, and no
// other request has begun, or ceased, to hold budget.
func (a *ahead) holdsStill(b *Bulk, s *state.State) bool {
	return a.Made != nil && b.Holds.Version() == a.holds && !s.Clock.Before(a.clock)
}

// Next returns the part behind an object as it was made, or decides it.
func (b *Bulk) Next(s *state.State, st *Standing) (ending, *engine.Made, error) {
	a := b.Ahead
	a.Wait()
	var names []string
	var last bool
	var err error
	found := a != nil && a.done != nil && a.Err == nil && a.Behind.Cursor == st.Cursor && a.upTo == s.Counters.Events
	switch {
	case found && a.holdsStill(b, s):
		return a.ending, a.Made, nil
	case found && a.Made == nil:
		names, last, s.Desk = a.names, a.last, a.desk
	default:
		if names, last, err = b.Panel.After(s, st.Cursor, state.PartSize); err != nil {
			return ending{}, nil, err
		}
	}
	p, err := b.Work.Decide(s, names)
	if err != nil {
		return ending{}, nil, err
	}
	e := b.finish(p, names, last, st.dealt)
	e.end.First = s.Counters.Events + 1
	return e, nil, nil
}
