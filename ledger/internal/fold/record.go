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

// saltsAtOnce is how many salts are drawn at a time. Each call of the operating system's generator
// takes as long as about a hundred bytes of its output. No salt is kept beyond its transaction.
const saltsAtOnce = 64

// Record appends changes to the log under the next numbers, and applies them. Each event gets the
// time of the state and a salt of its own. It returns the numbers of the first and last event.
// After an error the transaction must not be committed. It does not stop if the context of the
// request ends.
func Record(s *state.State, changes []event.Change) (first, last uint64, err error) {
	s.Reading.Pause()
	defer s.Reading.Resume()
	first = s.Counters.Events + 1
	for i, c := range changes {
		if end, is := c.(*event.Settled); is {
			// The sum is known only now, after the other events of the request were applied.
			end.Spent = s.Counters.InProgress.Spent
		}
		ev := event.Event{Number: s.Counters.Events + 1, Time: s.Now, Change: c, Salt: nextSalt(s, len(changes)-i)}
		if err := Append(s, ev); err != nil {
			return 0, 0, err
		}
		s.Work.Count(c)
	}
	return first, s.Counters.Events, nil
}

// nextSalt returns a new salt. If no drawn salt is left, it draws at least one and at most
// saltsAtOnce. needed is the number of salts that the caller needs at least, including this one.
func nextSalt(s *state.State, needed int) event.Salt {
	if len(s.UnusedSalts) == 0 {
		n := min(max(needed, s.EventsAhead), saltsAtOnce) * len(event.Salt{})
		s.SaltMemory = slices.Grow(s.SaltMemory[:0], n)
		s.UnusedSalts = s.SaltMemory[:n]
		s.Salts(s.UnusedSalts)
	}
	salt := event.Salt(s.UnusedSalts)
	s.UnusedSalts = s.UnusedSalts[len(salt):]
	return salt
}

// Append applies an event and adds it to the log, with the hashes of the tree that it completes.
// Then it erases the events that this one destroys. In a journaled transaction, it also keeps the
// encoded event for the journal.
func Append(s *state.State, ev event.Event) error {
	if s.Frontier == nil {
		frontier, err := merkle.LoadFrontier(s.Counters.Events, s)
		if err != nil {
			return err
		}
		s.Frontier = frontier
	}
	if err := applyNext(s, ev); err != nil {
		return err
	}
	written := s.Written.Write(&ev)
	hashes, err := s.Frontier.Append(written.Leaf())
	if err != nil {
		return err
	}
	if s.Journaled {
		s.Records = append(s.Records, s.RecordMemory.Keep(written.Bare()))
	}
	return add(s, ev.Number, written, hashes)
}

// applyNext is [Apply] with the number and the kind of the event in its error.
func applyNext(s *state.State, ev event.Event) error {
	if err := Apply(s, ev); err != nil {
		return fmt.Errorf("event %d (%s): %w", ev.Number, ev.Change.Kind(), err)
	}
	return nil
}

// add writes the record of the event that was just applied, with its link and the hashes of the
// tree that it completes. Then it erases the events that this one destroys.
func add(s *state.State, number uint64, written *event.Written, hashes []tlog.Hash) error {
	s.Buffer.Key().U64(number)
	written.Record(s.Buffer.Value(), s.Linked.Previous, hashes)
	if err := s.Write(state.BucketEvents); err != nil {
		return err
	}
	return eraseForgotten(s)
}

// Recorded is an event read from a journal, with its encoding and the hashes of the Merkle tree.
// These follow from the log up to the event, and do not depend on the state.
type Recorded struct {
	event   event.Event
	written event.Written
	hashes  []tlog.Hash // hashes of the tree that it completes
}

// Reader reads the events of a journal, one after the other, and computes their hashes.
type Reader struct {
	Frontier *merkle.Frontier // the Merkle tree after the last event read, as roots of its complete subtrees
	made     []tlog.Hash      // memory for the hashes of several events
}

// maxHashes is the largest number of hashes for which memory is allocated in advance.
const maxHashes = 1024

// Read reads the next event from bare, its encoding in the journal. The result shares the memory of
// bare and of texts.
func (r *Reader) Read(bare []byte, texts *wire.Texts) (e Recorded, err error) {
	if e.event, e.written, err = event.ReadBare(r.Frontier.Size()+1, bare, texts); err != nil {
		return e, err
	}
	hashes, err := r.Frontier.Append(e.written.Leaf())
	if err != nil {
		return e, err
	}
	// Earlier results keep the old memory.
	if cap(r.made)-len(r.made) < len(hashes) {
		r.made = make([]tlog.Hash, 0, len(hashes)+min(2*cap(r.made), maxHashes))
	}
	from := len(r.made)
	r.made = append(r.made, hashes...)
	e.hashes = slices.Clip(r.made[from:])
	return e, nil
}

// Restore applies an event of a journal and adds it to the log, as [Append] did when it was
// recorded. It does not update the frontier of the tree in s, because [Reader] has its own.
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

// flushCounters writes the counters, including the root of the tree.
func flushCounters(s *state.State) error {
	if s.Frontier != nil { // otherwise no event was added, or an audit computes the root
		s.Counters.Root = s.Frontier.Root()
	}
	return s.Put(state.BucketMeta, []byte(state.KeyCounters), s.Counters.Encode())
}
