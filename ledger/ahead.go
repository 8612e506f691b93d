package ledger

import "github.com/sluicedp/sluice/ledger/store"

// ahead reads the next part of a request while one is recorded and committed. What it has read holds if nobody but the
// request itself has changed the ledger since; else it is read again.
type ahead struct {
	done   chan struct{} // closed when the reading has ended; nil if there is none
	behind string
	desk   *desk
	spare  *desk // which the transaction may be working on
	names  []string
	last   bool
	events uint64 // in the log, in the snapshot
	upTo   uint64 // the last event with which what was read still holds, or 0
	err    error
}

// begin begins to read the part of a panel behind an object.
func (a *ahead) begin(l *Ledger, p panel, behind string) {
	a.wait()
	if a.desk == nil {
		a.desk, a.spare = &desk{}, &desk{}
	}
	a.desk, a.spare = a.spare, a.desk
	a.desk.clear()
	a.behind, a.upTo, a.done = behind, 0, make(chan struct{})
	go func() {
		defer close(a.done)
		a.err = l.store.View(func(r store.Reader) error {
			s, err := readState(r)
			if err != nil {
				return err
			}
			s.known, s.desk = &l.known, a.desk
			a.events = s.counters.events
			a.names, a.last, err = p.after(s, behind, partSize)
			return err
		})
	}()
}

// wait waits until the reading has ended.
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

// next returns the part behind an object, and whether it is the last.
func (b *bulk) next(s *state, behind string) (names []string, last bool, err error) {
	a := &b.ahead
	a.wait()
	if a.done == nil || a.err != nil || a.behind != behind || a.upTo != s.counters.events {
		return b.panel.after(s, behind, partSize)
	}
	s.desk = a.desk
	return a.names, a.last, nil
}
