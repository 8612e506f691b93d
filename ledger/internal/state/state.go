package state

import (
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
)

// State is the ledger's state inside one transaction, as typed records.
type State struct {
	kv.Reader          // what records are read from; see [State.Get]
	Reading   *Reading // whom they are read for; nil observes nothing
	Counters  Counters // as the events of the transaction leave them
	Durable   Counters // as they were when the transaction began
	// Clock is what the clock says: ceilings are those of this instant, and a clock gone back
	// lowers them
	Clock time.Time
	// Now is the same or, if that is later, the time of the last event: windows and reservations
	// end by it
	Now       time.Time
	Far       error               // that the clock is further ahead of the log than anybody has confirmed; nil if not
	Writer    kv.Writer           // nil when only reading
	Plain     bool                // records have no checksums: they are in an audit's memory
	Copied    bool                // the store copies what is put
	Known     *Cache              // nil if nothing is remembered beyond the transaction
	recent    recent              // of what is known
	Latest    NumberedSale        // the sale last looked up
	salesKept map[uint64]Sale     // others that were read, as they are stored
	Client    NumberedName        // the buyer whose name was last looked up
	Tallies   map[TallyKey]*Tally // those that changed, until flush
	Recounts  []recounted         // of the event being applied, if plain
	Levels    LevelPage           // for the levels of chains; the zero value asks for new memory
	Buffer    Buffer              // for records
	Written   event.Written       // for events
	Journaled bool                // events are to be appended to a journal
	Bare      Pieces              // for that
	Records   [][]byte            // of the events of the transaction, for the journal
	Work      *Work               // counts what is recorded; nil if nobody observes it
	Edge      *merkle.Edge        // of the tree; nil until it is needed
	Chances   Chances             // what is drawn from
	Salts     func([]byte)        // fills memory for some salts with random bytes
	Salting   []byte              // such memory
	Salted    []byte              // what of it is not used yet
	// Coming is how many events are to be recorded, about, besides those that are known; 0 if
	// nobody has said
	Coming     int
	Keyed      TruthKeyState   // whether the ledger has a truth key
	Linked     Linked          // of the event applied last
	noiseNames map[string]bool // of the noise keys, once they were read
	near       near            // records that were read or written last, or are likely to be wanted next
}

// Snapshot returns the state that a reader shows. Nothing can be written to it.
func Snapshot(r kv.Reader) (*State, error) {
	s := &State{Reader: r}
	var err error
	s.Counters, _, err = Lookup(s, BucketMeta, []byte(KeyCounters), DecodeCounters)
	s.Durable = s.Counters
	return s, err
}

// Begin starts a transaction at the time now, or at that of the last event if the clock has gone
// back since.
func Begin(w kv.Writer, now time.Time) (*State, error) {
	s, err := Snapshot(w)
	if err != nil {
		return nil, err
	}
	s.Writer, s.Salts = w, RandomBytes
	s.SetClock(now)
	return s, nil
}

// CheckBegun returns [errs.ErrCorrupt] for a store without the events that begin every ledger.
func (s *State) CheckBegun() error {
	if s.Counters.Events == 0 {
		return errs.Corrupt(nil, "not a Sluice ledger, or its counters are missing")
	}
	return nil
}

// SetClock says what time it is. That of the log does not run back, whatever the clock does.
func (s *State) SetClock(clock time.Time) {
	s.Clock = clock.UTC().Round(0) // as it will be read from the log: without a monotonic reading
	s.Now = s.Clock
	if s.Now.Before(s.Counters.Last) {
		s.Now = s.Counters.Last
	}
}
