package engine

import (
	"errors"
	"slices"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/fold"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// A part of a long request can be made, but for its place in the file, while the part in front of it is committed: decided,
// recorded, hashed and encoded. Its transaction then only puts the records. That holds if the state is still the one
// that the part in front leaves behind.

// Leaving is the state that a part leaves behind, as far as the next one needs it. It can be told before the part is committed.
type Leaving struct {
	Cursor   string // the last object
	Dealt    uint64 // see standing
	First    uint64 // its first event
	Counters state.Counters
	edge     *merkle.Edge
	records  map[recordKey][]byte // the tallies and the request; nil for one that is deleted
}

type recordKey struct{ bucket, key string }

// Leave tells what a request leaves behind that has been recorded.
func Leave(s *state.State, key string) (Leaving, error) {
	left := Leaving{Counters: s.Counters, edge: s.Edge.Clone(), records: map[recordKey][]byte{}}
	for at, t := range s.Tallies {
		key := at.Bytes()
		left.records[recordKey{state.BucketTallies, string(key)}] = nil
		if t.Recorded > 0 {
			left.records[recordKey{state.BucketTallies, string(key)}] = wire.Seal(state.BucketTallies, key, t.Encode())
		}
	}
	r, known, err := s.Request(key)
	if err != nil || !known {
		return left, errs.Corrupt(err, "request %q is missing", key)
	}
	left.records[recordKey{state.BucketRequests, key}] = wire.Seal(state.BucketRequests, []byte(key), r.Encode())
	return left, nil
}

// Stage is a writer that keeps what is put. It reads from the snapshot in front of a part, and has besides it what that part
// leaves behind.
type Stage struct {
	kv.Reader
	records map[recordKey][]byte // those that may be read again
	puts    []spooled
	wrote   []string // the buckets of puts
}

// ErrNotAhead says that a part cannot be made before its transaction. Nothing is wrong with it.
var ErrNotAhead = errors.New("not to be made ahead")

// Begin empties the stage and puts it in front of a snapshot. There is room for the records of so many objects.
func (g *Stage) Begin(r kv.Reader, left Leaving, objects int) {
	clear(g.puts)
	const each, others = 3, 16 // an event, an object and a chain
	*g = Stage{Reader: r, records: left.records, puts: slices.Grow(g.puts[:0], each*objects+others), wrote: g.wrote[:0]}
}

func (g *Stage) Put(bucket string, key, value []byte) error {
	if n := len(g.puts); n == 0 || g.puts[n-1].bucket != bucket && !slices.Contains(g.wrote, bucket) {
		g.wrote = append(g.wrote, bucket)
	}
	g.puts = append(g.puts, spooled{bucket, key, value})
	switch bucket {
	case state.BucketObjects, state.BucketChains, state.BucketEvents: // they are on the desk and in the edge
	default:
		g.records[recordKey{bucket, string(key)}] = value
	}
	return nil
}

func (g *Stage) Get(bucket string, key []byte) ([]byte, error) {
	if value, known := g.records[recordKey{bucket, string(key)}]; known {
		return value, nil
	}
	switch bucket {
	case state.BucketObjects, state.BucketChains, state.BucketEvents:
		if slices.Contains(g.wrote, bucket) {
			return nil, ErrNotAhead
		}
	}
	return g.Reader.Get(bucket, key)
}

func (g *Stage) Scan(bucket string, from []byte, visit func(key, value []byte) bool) error {
	if slices.Contains(g.wrote, bucket) {
		return ErrNotAhead
	}
	for at := range g.records {
		if at.bucket == bucket {
			return ErrNotAhead
		}
	}
	return g.Reader.Scan(bucket, from, visit)
}

func (g *Stage) Delete(string, []byte) error { return ErrNotAhead }

// Made is a part that was made before its transaction.
type Made struct {
	state *state.State // behind it
	puts  []spooled    // in the memory of the stage, which is used again in the transaction after the next
}

// Make makes a part of a request that follows on what another leaves behind.
func (left Leaving) Make(s *state.State, g *Stage, changes []event.Change) (*Made, error) {
	s.Counters, s.Edge, s.Writer = left.Counters, left.edge, g
	s.SetClock(s.Clock) // again: the log is later now
	if _, _, err := fold.Record(s, changes); err != nil {
		return nil, err
	}
	if err := s.FlushDesk(); err != nil {
		return nil, err
	}
	return &Made{s, g.puts}, s.Counters.CheckWhole()
}

// adopt goes on with the state behind a part.
func adopt(s *state.State, m *Made) {
	s.Counters, s.Edge, s.Tallies, s.Desk = m.state.Counters, m.state.Edge, m.state.Tallies, m.state.Desk
	clear(s.Near)
}
