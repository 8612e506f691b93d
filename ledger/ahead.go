package ledger

import (
	"fmt"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// ahead reads the next part of a request, and makes it where that can be done early, while one is committed. What it
// found holds if nobody but the request itself has changed the ledger since; else it is found anew.
type ahead struct {
	done    chan struct{} // closed when that has ended; nil if nothing was begun
	behind  engine.Leaving
	desk    *state.Desk
	spare   *state.Desk // which the transaction may be working on
	stage   *engine.Stage
	rest    *engine.Stage // likewise
	chances state.Chances
	names   []string
	last    bool
	events  uint64 // in the log, in the snapshot
	upTo    uint64 // the last event with which what was found still holds, or 0
	err     error  // why nothing was found

	made   *engine.Made // nil if only names were found
	ending ending       // of what was made
	clock  time.Time
	holds  uint64 // how often they had changed
}

func newAhead() *ahead {
	return &ahead{desk: state.NewPartDesk(), spare: state.NewPartDesk(), stage: &engine.Stage{}, rest: &engine.Stage{}, chances: state.NewChances()}
}

// begin begins with the part of a request behind another.
func (a *ahead) begin(b *bulk, behind engine.Leaving) {
	a.wait()
	a.desk, a.spare, a.stage, a.rest = a.spare, a.desk, a.rest, a.stage
	a.desk.Clear()
	a.behind, a.upTo, a.made, a.done = behind, 0, nil, make(chan struct{})
	a.holds = b.holds.Version()
	go func() {
		defer close(a.done)
		defer func() {
			if p := recover(); p != nil {
				a.err = fmt.Errorf("panic: %v", p) // the transaction will meet it, where the caller can
			}
		}()
		a.err = b.engine.Store.View(func(r kv.Reader) error { return a.look(b, r) })
	}()
}

func (a *ahead) look(b *bulk, r kv.Reader) error {
	s, err := state.Snapshot(r)
	if err != nil {
		return err
	}
	s.Known, s.Desk, s.Chances = &b.engine.Known, a.desk, a.chances
	s.SetClock(b.engine.Clock())
	a.events, a.clock = s.Counters.Events, s.Clock
	if a.names, a.last, err = b.panel.after(s, a.behind.Cursor, state.PartSize); err != nil || !b.early {
		return err
	}
	if a.events+1 != a.behind.First && a.events != a.behind.Counters.Events {
		return engine.ErrNotAhead
	}
	p, err := b.work.Decide(s, a.names)
	if err != nil {
		return nil // the transaction will come to the same, and say so
	}
	for _, r := range p.refused {
		if r.Remedy == RemedyWaiting {
			return nil // the reason may be gone by then: a reservation may have ended
		}
	}
	if s.Salts = state.RandomBytes; b.engine.Salts != nil {
		s.Salts = b.engine.Salts
	}
	a.stage.Begin(r, a.behind, len(a.names))
	s.Reader = a.stage
	a.ending = b.finish(p, a.names, a.last, a.behind.Dealt)
	a.ending.end.First = a.behind.Counters.Events + 1
	a.made, err = a.behind.Make(s, a.stage, a.ending.changes)
	a.stage.Reader = nil // it ends now
	return err
}

// wait waits until nothing is going on.
func (a *ahead) wait() {
	if a != nil && a.done != nil {
		<-a.done
	}
}

// own tells by which events the request itself has meanwhile changed the ledger, objects that were not read.
func (a *ahead) own(first, last uint64) {
	a.wait()
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
func (a *ahead) holdsStill(b *bulk, s *state.State) bool {
	return a.made != nil && b.holds.Version() == a.holds && !s.Clock.Before(a.clock)
}

// next returns the part behind an object as it was made, or decides it.
func (b *bulk) next(s *state.State, st *standing) (ending, *engine.Made, error) {
	a := b.ahead
	a.wait()
	var names []string
	var last bool
	var err error
	found := a != nil && a.done != nil && a.err == nil && a.behind.Cursor == st.cursor && a.upTo == s.Counters.Events
	switch {
	case found && a.holdsStill(b, s):
		return a.ending, a.made, nil
	case found && a.made == nil:
		names, last, s.Desk = a.names, a.last, a.desk
	default:
		if names, last, err = b.panel.after(s, st.cursor, state.PartSize); err != nil {
			return ending{}, nil, err
		}
	}
	p, err := b.work.Decide(s, names)
	if err != nil {
		return ending{}, nil, err
	}
	e := b.finish(p, names, last, st.dealt)
	e.end.First = s.Counters.Events + 1
	return e, nil, nil
}
