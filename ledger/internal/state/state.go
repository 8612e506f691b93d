package state

import (
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
)

// State is the ledger's state inside one transaction or snapshot, as typed records. It is not safe
// for concurrent use.
type State struct {
	kv.Reader          // the store; see [State.Get]
	Reading   *Reading // the request that records are read for; may be nil
	Counters  Counters // as of the last event of the transaction
	Durable   Counters // as of the beginning of the transaction
	// Clock is the current time of the clock. Ceilings are those of this time, so that a clock that
	// has gone back lowers them.
	Clock time.Time
	// Now is the later of Clock and the time of the last event. Sale windows and reservations end
	// by it.
	Now          time.Time
	ClockErr     error               // error if the clock is too far ahead of the log and not confirmed; otherwise nil
	Writer       kv.Writer           // nil in a snapshot
	Plain        bool                // records have no checksums, because they are in the memory of an audit
	Copied       bool                // the store copies what is written
	Known        *Cache              // cache beyond the transaction; may be nil
	recent       recent              // definitions looked up last
	LastSale     NumberedSale        // the sale looked up last
	salesKept    map[uint64]Sale     // other sales that were read, as stored
	LastBuyer    NumberedName        // the buyer whose name was looked up last
	Tallies      map[TallyKey]*Tally // changed tallies, until [State.FlushTallies]
	Recounts     []recounted         // changes by the current event, if Plain
	Levels       LevelPage           // memory for the levels of chains; the zero value allocates
	Buffer       Buffer              // encodes records
	Written      event.Written       // encodes events
	Journaled    bool                // events are appended to a journal
	RecordMemory Pieces              // memory for Records
	Records      [][]byte            // the encoded events of the transaction, for the journal
	Work         *Work               // counts what is recorded; may be nil
	Frontier     *merkle.Frontier    // frontier of the tree; nil until it is needed
	Samplers     Samplers            // the samplers
	Salts        func([]byte)        // fills its argument with random bytes
	SaltMemory   []byte              // memory for some salts
	UnusedSalts  []byte              // the unused part of SaltMemory
	// EventsAhead is about how many more events will be recorded, in addition to those known; 0 if
	// unknown.
	EventsAhead int
	TruthKey    TruthKeyState   // whether the ledger has a truth key
	Linked      Linked          // links of the event applied last
	noiseNames  map[string]bool // names of the noise keys, once read
	recordCache recordCache     // records read or written last, or expected next
}

// Snapshot returns the state in a reader. Nothing can be written to it.
func Snapshot(r kv.Reader) (*State, error) {
	s := &State{Reader: r}
	var err error
	s.Counters, _, err = Lookup(s, BucketMeta, []byte(KeyCounters), DecodeCounters)
	s.Durable = s.Counters
	return s, err
}

// Begin starts a transaction at the time now, or at the time of the last event if that is later.
func Begin(w kv.Writer, now time.Time) (*State, error) {
	s, err := Snapshot(w)
	if err != nil {
		return nil, err
	}
	s.Writer, s.Salts = w, RandomBytes
	s.SetClock(now)
	return s, nil
}

// CheckBegun returns [errs.ErrCorrupt] if the store has no events, because every ledger begins with
// some.
func (s *State) CheckBegun() error {
	if s.Counters.Events == 0 {
		return errs.Corrupt(nil, "the file is not a Sluice ledger, or its counters are missing")
	}
	return nil
}

// SetClock sets the time of the clock. The time of the log does not decrease, even if the clock has
// gone back.
func (s *State) SetClock(clock time.Time) {
	s.Clock = clock.UTC().Round(0) // as read from the log, without a monotonic reading
	s.Now = s.Clock
	if s.Now.Before(s.Counters.Last) {
		s.Now = s.Counters.Last
	}
}
