package ledger

import (
	"errors"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// A sale is one transaction, of however many objects. It goes through them once to decide, and once more to record, and
// keeps of each only a line in between; with a truth key it also binds those that are not bound yet, which is another time.
// What else there is of the objects comes to a desk part by part. While the transaction works on one part, the next ones
// are read in the background, in snapshots of what was there before it: so two cores are busy, and nobody waits for the
// records being put. Only the transaction decides, and records.

// partDesks is how many desks there are for the parts: one is worked on, one is ready, and one is being filled.
const partDesks = 3

// eachPart passes the objects of a trade to visit, part by part, each with its place among the names. What there is of
// them is on the desk, and what changes there is written behind each part. fresh tells that the transaction has changed
// no record of an object yet.
func (x *selling) eachPart(s *state.State, fresh bool, visit func(from int, names []string) error) error {
	if len(x.names) <= state.PartSize {
		return visit(0, x.names) // they stay on the desk of the transaction
	}
	if err := s.FlushDesk(); err != nil {
		return err
	}
	former := s.Desk
	former.Clear() // what it has may be changed on other desks now
	defer func() { s.Desk = former }()
	r := x.readParts(s, fresh)
	defer r.stop()
	from := 0
	for some := range slices.Chunk(x.names, state.PartSize) {
		if s.Desk = r.next(); s.Desk == nil { // nobody reads in the background, or any more
			s.Desk = x.desks[0]
			s.Desk.Clear()
			if err := s.Gather(some, x.Question.Number); err != nil {
				return err
			}
		}
		if err := visit(from, some); err != nil {
			return err
		}
		if err := s.FlushDesk(); err != nil {
			return err
		}
		r.giveBack(s.Desk)
		from += len(some)
	}
	return nil
}

// partReader reads the parts of a trade in the background, in snapshots of what was there before the transaction.
type partReader struct {
	desks chan *state.Desk // filled, in order; closed behind the last one
	free  chan *state.Desk // to be filled
	quit  chan struct{}
}

// readParts begins to read, if what the snapshots show is what the transaction has. Who calls it must call stop.
func (x *selling) readParts(s *state.State, fresh bool) *partReader {
	r := &partReader{make(chan *state.Desk, 1), make(chan *state.Desk, partDesks), make(chan struct{})}
	if x.desks == nil {
		for range partDesks {
			x.desks = append(x.desks, state.NewPartDesk())
		}
	}
	if !fresh {
		close(r.desks)
		return r
	}
	for _, one := range x.desks {
		r.free <- one
	}
	go r.run(x.ledger, x.names, x.Question.Number, s.Durable.Events)
	return r
}

// run fills desks to the end, or until something is wrong: then the transaction reads itself, and meets it where the
// caller can.
func (r *partReader) run(l *Ledger, names []string, question uint32, events uint64) {
	defer close(r.desks)
	defer func() { _ = recover() }()
	for some := range slices.Chunk(names, state.PartSize) {
		var one *state.Desk
		select {
		case one = <-r.free:
		case <-r.quit:
			return
		}
		one.Clear()
		if l.readPart(one, some, question, events) != nil {
			return
		}
		select {
		case r.desks <- one:
		case <-r.quit:
			return
		}
	}
}

// readPart brings objects to a desk as they are in a snapshot that ends with an event.
func (l *Ledger) readPart(into *state.Desk, names []string, question uint32, events uint64) error {
	return l.engine.Store.View(func(in kv.Reader) error {
		s, err := state.Snapshot(in)
		if err != nil {
			return err
		}
		if s.Counters.Events != events {
			return engine.ErrNotAhead
		}
		s.Desk = into
		if err := s.Gather(names, question); err != nil || len(names) >= state.Gathered {
			return err
		}
		for _, name := range names { // too few to be gathered
			_, _, chain := s.Chain(question, name)
			_, _, object := s.Object(name)
			if err := errors.Join(chain, object); err != nil {
				return err
			}
		}
		return nil
	})
}

// next returns the next part, or nil if there is none.
func (r *partReader) next() *state.Desk { return <-r.desks }

func (r *partReader) giveBack(one *state.Desk) {
	select {
	case r.free <- one:
	default:
	}
}

// stop waits until nothing runs in the background.
func (r *partReader) stop() {
	close(r.quit)
	for range r.desks {
	}
}
