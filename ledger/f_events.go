package ledger

import (
	"crypto/sha256"
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
)

// desked is how many changes of a request are made before the records that they concern are written.
const desked = 512

// saltsAtOnce is how many salts are drawn at a time: each call of the operating system's generator takes as long as some
// hundred bytes of it. None is kept beyond the request that it is drawn for.
const saltsAtOnce = 64

// record appends changes to the log under the next numbers, each with a salt of its own, and applies them.
// It returns the number of the first and of the last event.
func (s *state) record(changes []event.Change) (first, last uint64, err error) {
	first = s.counters.events + 1
	if len(changes) >= desked {
		s.nearTallies()
	}
	var salts []byte // for the next changes
	for i, c := range changes {
		// A long request has long been done with the objects it began with: they can be put while it goes on.
		if s.desk != nil && (i+1)%desked == 0 {
			if err := s.flushDesk(); err != nil {
				return 0, 0, err
			}
		}
		if len(salts) == 0 {
			salts = make([]byte, min(len(changes)-i, saltsAtOnce)*len(event.Salt{}))
			s.salts(salts)
		}
		if end, is := c.(*event.Settled); is {
			end.Spent = s.counters.underway.spent
		}
		ev := event.Event{Number: s.counters.events + 1, Time: s.now, Change: c, Salt: event.Salt(salts)}
		salts = salts[len(ev.Salt):]
		if err := s.append(ev); err != nil {
			return 0, 0, err
		}
	}
	return first, s.counters.events, nil
}

// flush writes what is kept in memory during a transaction.
func (s *state) flush() error {
	if s.desk != nil {
		if err := s.flushDesk(); err != nil {
			return err
		}
	}
	if err := s.flushTallies(); err != nil {
		return err
	}
	return s.flushCounters()
}

// flushCounters writes where the log ends, and what it made.
func (s *state) flushCounters() (err error) {
	if s.edge != nil { // else no event was added, or this is an audit, which has a tree of its own
		if s.counters.root, err = s.edge.Root(); err != nil {
			return err
		}
	}
	return s.put(bucketMeta, []byte(keyCounters), s.counters.Encode())
}

// append applies an event and adds it to the log.
func (s *state) append(ev event.Event) error {
	if s.edge == nil {
		edge, err := merkle.LoadEdge(s.counters.events, s)
		if err != nil {
			return err
		}
		s.edge = edge
	}
	if err := apply(s, ev); err != nil {
		return fmt.Errorf("event %d (%s): %w", ev.Number, ev.Change.Kind(), err)
	}
	bytes := s.written.Write(&ev)
	hashes, err := s.edge.Append(bytes.Leaf())
	if err != nil {
		return err
	}
	s.draft.key().U64(ev.Number)
	bytes.Record(s.draft.value(), s.linked.previous, hashes)
	if err := s.write(bucketEvents); err != nil {
		return err
	}
	if err := s.eraseFrom(s.linked.erase); err != nil {
		return err
	}
	return s.eraseFrom(s.linked.eraseRequests)
}

// eraseFrom erases an event and those about the same object before it. The state is then again the fold of the
// log: what is left of an object's events makes nothing but what its forgotten event says, and requests whose
// digest nobody knows.
func (s *state) eraseFrom(number uint64) error {
	for number != 0 {
		n, err := s.entry(number)
		if err != nil {
			return err
		}
		if n.Erased != nil || n.Previous >= number {
			return errs.Corrupt(nil, "event %d was erased before, or follows on event %d", number, n.Previous)
		}
		if err := s.putEntry(n.Erase()); err != nil {
			return err
		}
		if c, ok := n.Change.(*event.Settled); ok && c.Alone {
			if err := s.eraseDigest(c.Key); err != nil {
				return err
			}
		}
		number = n.Previous
	}
	return nil
}

// eraseDigest makes a key one of which nobody can tell any more what was asked with it.
func (s *state) eraseDigest(key string) error {
	r, found, err := s.request(key)
	if err != nil || !found {
		return errs.Corrupt(err, "request %q is missing", key)
	}
	r.digest = [sha256.Size]byte{}
	return s.putRequest(key, r)
}
