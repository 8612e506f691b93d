package fold

import (
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// saltsAtOnce is how many salts are drawn at a time: each call of the operating system's generator
// takes as long as some hundred bytes of it. None is kept beyond its transaction.
const saltsAtOnce = 64

// Record appends changes to the log under the next numbers, each at the time of the state and with
// a salt of its own, and applies them. It returns the number of the first and of the last event.
// After an error the transaction must not be committed. The context of the request that it is
// recorded for does not interrupt it.
func Record(s *state.State, changes []event.Change) (first, last uint64, err error) {
	s.Reading.Pause()
	defer s.Reading.Resume()
	first = s.Counters.Events + 1
	for i, c := range changes {
		if end, is := c.(*event.Settled); is {
			end.Spent = s.Counters.Underway.Spent
		}
		ev := event.Event{Number: s.Counters.Events + 1, Time: s.Now, Change: c, Salt: nextSalt(s, len(changes)-i)}
		if err := Append(s, ev); err != nil {
			return 0, 0, err
		}
		s.Work.Count(c)
	}
	return first, s.Counters.Events, nil
}

// nextSalt returns a salt. So many are needed at least, this one among them.
func nextSalt(s *state.State, needed int) event.Salt {
	if len(s.Salted) == 0 {
		n := min(max(needed, s.Coming), saltsAtOnce) * len(event.Salt{})
		s.Salting = slices.Grow(s.Salting[:0], n)
		s.Salted = s.Salting[:n]
		s.Salts(s.Salted)
	}
	salt := event.Salt(s.Salted)
	s.Salted = s.Salted[len(salt):]
	return salt
}

// Append applies an event and adds it to the log, with the hashes of the tree that it completes. It
// erases the events that this one destroys.
func Append(s *state.State, ev event.Event) error {
	if s.Edge == nil {
		edge, err := merkle.LoadEdge(s.Counters.Events, s)
		if err != nil {
			return err
		}
		s.Edge = edge
	}
	if err := applyNext(s, ev); err != nil {
		return err
	}
	written := s.Written.Write(&ev)
	hashes, err := s.Edge.Append(written.Leaf())
	if err != nil {
		return err
	}
	if s.Journaled {
		s.Records = append(s.Records, s.Bare.Keep(written.Bare()))
	}
	return add(s, ev.Number, written, hashes)
}

func applyNext(s *state.State, ev event.Event) error {
	if err := Apply(s, ev); err != nil {
		return fmt.Errorf("event %d (%s): %w", ev.Number, ev.Change.Kind(), err)
	}
	return nil
}

// add adds the event that was applied to the log, and erases those that it destroys.
func add(s *state.State, number uint64, written *event.Written, hashes []tlog.Hash) error {
	s.Buffer.Key().U64(number)
	written.Record(s.Buffer.Value(), s.Linked.Previous, hashes)
	if err := s.Write(state.BucketEvents); err != nil {
		return err
	}
	return eraseForgotten(s)
}

// Recorded is an event of a journal, with what follows from the log before it alone, and not from
// the state.
type Recorded struct {
	event   event.Event
	written event.Written
	hashes  []tlog.Hash // of the tree, that it completes
}

// Reader reads the events of a journal, one after another.
type Reader struct {
	Edge *merkle.Edge // of the tree behind the last of them
	made []tlog.Hash  // memory for hashes
}

// mostHashes is for how many hashes memory is asked for at a time, at most.
const mostHashes = 1024

// Read reads the next event. It is in the memory of bare, and in that of texts.
func (x *Reader) Read(bare []byte, texts *wire.Texts) (e Recorded, err error) {
	if e.event, e.written, err = event.ReadBare(x.Edge.Size()+1, bare, texts); err != nil {
		return e, err
	}
	hashes, err := x.Edge.Append(e.written.Leaf())
	if err != nil {
		return e, err
	}
	if cap(x.made)-len(x.made) < len(hashes) {
		x.made = make([]tlog.Hash, 0, len(hashes)+min(2*cap(x.made), mostHashes))
	}
	from := len(x.made)
	x.made = append(x.made, hashes...)
	e.hashes = slices.Clip(x.made[from:])
	return e, nil
}

// Restore applies an event of a journal and adds it to the log, as [Append] did when it was
// recorded. The edge of the state does not go along.
func Restore(s *state.State, e *Recorded) error {
	if err := applyNext(s, e.event); err != nil {
		return err
	}
	return add(s, e.event.Number, &e.written, e.hashes)
}

// Flush writes what is kept in memory during a transaction: the tallies and the counters. It is the
// last call before the commit.
func Flush(s *state.State) error {
	if err := s.FlushTallies(); err != nil {
		return err
	}
	return flushCounters(s)
}

// flushCounters writes where the log ends, and what it made.
func flushCounters(s *state.State) error {
	if s.Edge != nil { // else no event was added, or this is an audit, which has a tree of its own
		s.Counters.Root = s.Edge.Root()
	}
	return s.Put(state.BucketMeta, []byte(state.KeyCounters), s.Counters.Encode())
}
