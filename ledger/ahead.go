package ledger

import (
	"fmt"
	"time"

	"github.com/sluicedp/sluice/ledger/store"
)

// ahead reads the next part of a request, and decides it where that can be done early, while one is recorded and
// committed. What it found holds if nobody but the request itself has changed the ledger since; else it is found anew.
type ahead struct {
	done    chan struct{} // closed when that has ended; nil if nothing was begun
	behind  string
	desk    *desk
	spare   *desk // which the transaction may be working on
	chances chances
	names   []string
	last    bool
	events  uint64 // in the log, in the snapshot
	upTo    uint64 // the last event with which what was found still holds, or 0
	err     error  // why nothing was found

	decided bool
	part    part
	clock   time.Time // when it was decided
	holds   []*hold   // that were counted
}

// begin begins with the part of a request behind an object.
func (a *ahead) begin(l *Ledger, b *bulk, behind string) {
	a.wait()
	if a.desk == nil {
		a.desk, a.spare, a.chances = &desk{}, &desk{}, newChances()
	}
	a.desk, a.spare = a.spare, a.desk
	a.desk.clear()
	a.behind, a.upTo, a.decided, a.done = behind, 0, false, make(chan struct{})
	a.holds = l.holds.list()
	go func() {
		defer close(a.done)
		defer func() {
			if p := recover(); p != nil {
				a.err = fmt.Errorf("panic: %v", p) // the transaction will meet it, where the caller can
			}
		}()
		a.err = l.store.View(func(r store.Reader) error { return a.look(l, b, r) })
	}()
}

func (a *ahead) look(l *Ledger, b *bulk, r store.Reader) error {
	s, err := readState(r)
	if err != nil {
		return err
	}
	s.known, s.desk, s.chances = &l.known, a.desk, a.chances
	s.tell(l.clock())
	a.events, a.clock = s.counters.events, s.clock
	if a.names, a.last, err = b.panel.after(s, a.behind, partSize); err != nil || !b.early {
		return err
	}
	a.part, err = b.decide(s, a.names)
	a.decided = err == nil // else the transaction will come to the same, and say so
	return nil
}

// wait waits until nothing is going on.
func (a *ahead) wait() {
	if a.done != nil {
		<-a.done
	}
}

// own tells by which events the request itself has meanwhile changed the ledger, objects that were not read.
func (a *ahead) own(first, last uint64) {
	a.wait()
	switch {
	case a.events >= last:
		a.upTo = a.events
	case a.events+1 == first:
		a.upTo = last
	}
}

// holdsStill tells whether the decision is the one that a transaction would come to: the clock has not gone back, and no
// other request has begun, or ceased, to hold budget.
func (a *ahead) holdsStill(l *Ledger, s *state) bool {
	now := l.holds.list()
	same := len(now) == len(a.holds) && (len(now) == 0 || &now[0] == &a.holds[0])
	return a.decided && same && !s.clock.Before(a.clock)
}

// next returns who is in the part behind an object, whether it is the last, and what is decided for it.
func (b *bulk) next(l *Ledger, s *state, behind string) (names []string, last bool, p part, err error) {
	a := &b.ahead
	a.wait()
	if a.done != nil && a.err == nil && a.behind == behind && a.upTo == s.counters.events {
		names, last, s.desk = a.names, a.last, a.desk
		if a.holdsStill(l, s) {
			return names, last, a.part, nil
		}
	} else if names, last, err = b.panel.after(s, behind, partSize); err != nil {
		return nil, false, part{}, err
	}
	p, err = b.decide(s, names)
	return names, last, p, err
}
