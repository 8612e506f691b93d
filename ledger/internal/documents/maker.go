package documents

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/observe"
)

// Maker makes the documents of a ledger.
type Maker struct {
	Engine *engine.Engine // of the ledger whose log is proven
	About  event.About    // the identity of the log
	Signer note.Signer    // signs checkpoints; nil if the ledger has no signer
	Known  note.Verifiers // the host's keys, one of which may be the signer's; nil if there are none
	// newest is the newest checkpoint that has left this process.
	newest atomic.Pointer[observe.Checkpoint]
}

// RecordIssued records that a checkpoint of a number of events has left this process. It ignores a
// checkpoint of fewer events than the newest one, which may arrive late because its recipient
// delayed it.
func (m *Maker) RecordIssued(events uint64) {
	given := &observe.Checkpoint{Events: events, Signed: time.Now()}
	for {
		// try again if another goroutine has recorded a checkpoint since the load
		before := m.newest.Load()
		if before != nil && events < before.Events || m.newest.CompareAndSwap(before, given) {
			return
		}
	}
}

// Newest returns the newest checkpoint that has left this process, or the zero value.
func (m *Maker) Newest() observe.Checkpoint {
	if c := m.newest.Load(); c != nil {
		return *c
	}
	return observe.Checkpoint{}
}

// Head returns the head of the log at its first events: origin, number of events and root. If the
// log has fewer events, the error is [errs.ErrInvalid].
func (m *Maker) Head(s *state.State, events uint64) (api.Head, error) {
	if events > s.Counters.Events {
		return api.Head{}, errs.Invalid("the log has %d events, so it has no head at %d", s.Counters.Events, events)
	}
	root, err := tlog.TreeHash(int64(events), s)
	return api.Head{Origin: m.About.Origin(), Events: events, Root: root}, err
}

// CheckExtends returns a [*api.RollbackError] if the log does not extend the log of a trusted
// checkpoint. It does not if it has another origin, fewer events, or another root at the number of
// events of the checkpoint. Only in the last case does the error contain a root of this log.
func (m *Maker) CheckExtends(s *state.State, trusted api.Head) error {
	found := api.Head{Origin: m.About.Origin(), Events: s.Counters.Events}
	if trusted.Origin == found.Origin && trusted.Events <= found.Events {
		head, err := m.Head(s, trusted.Events)
		if err != nil || head.Root == trusted.Root {
			return err
		}
		found.Root = head.Root
	}
	return &api.RollbackError{Checkpoint: trusted, Ledger: found}
}

// Prove returns the head of the log at its first size events, and a proof that the events with some
// numbers are in it. The numbers count from 1. They may be in any order, because the proof is
// always for rising numbers.
func (m *Maker) Prove(
	s *state.State, size uint64, numbers []uint64,
) (head api.Head, proof []tlog.Hash, err error) {
	leaves := make([]uint64, len(numbers))
	for i, number := range slices.Sorted(slices.Values(numbers)) {
		leaves[i] = number - 1 // leaves are counted from 0
	}
	prefetchProof(s, size, leaves)
	if head, err = m.Head(s, size); err != nil {
		return head, nil, err
	}
	proof, err = merkle.Prove(size, leaves, s)
	return head, proof, err
}

// proveSigned returns a proof that the events with some numbers are among the first size events,
// and a signed checkpoint of these. It signs after the snapshot has ended, because the signer may
// be slow.
func (m *Maker) proveSigned(
	ctx context.Context, size uint64, numbers []uint64,
) (proof []tlog.Hash, signed []byte, err error) {
	head, err := engine.Read(ctx, m.Engine, func(s *state.State) (head api.Head, err error) {
		head, proof, err = m.Prove(s, size, numbers)
		return head, err
	})
	if err == nil {
		signed, err = m.Sign(head)
	}
	return proof, signed, err
}

// prefetchProof makes the store load everything that the head and the proof of some leaves need in
// one pass. Otherwise they would be read page by page, on as many pages as the tree has levels. It
// runs both computations on zero hashes, only to record which events they read. It does nothing if
// the store cannot prefetch.
func prefetchProof(s *state.State, size uint64, leaves []uint64) {
	if _, can := s.Reader.(kv.Prefetcher); !can {
		return
	}
	var wanted wantedHashes
	_, _ = tlog.TreeHash(int64(size), &wanted) // the real reads return errors of the arguments
	_, _ = merkle.Prove(size, leaves, &wanted)
	prefetchEvents(s, wanted.events)
}

// prefetchEvents makes the store load some events in one pass. It does nothing if the store cannot
// prefetch, or for a single event.
func prefetchEvents(s *state.State, numbers []uint64) {
	fetch, can := s.Reader.(kv.Prefetcher)
	if !can || len(numbers) < 2 { // a single event is read as fast without it
		return
	}
	numbers = slices.Compact(slices.Sorted(slices.Values(numbers)))
	keys := make([][]byte, len(numbers))
	for i, number := range numbers {
		keys[i] = state.EventKey(number)
	}
	fetch.Prefetch(state.BucketEvents, keys)
}

// wantedHashes is a [tlog.HashReader] that records which events have the requested hashes: the
// record of an event has the hashes that it completes. It returns zero hashes.
type wantedHashes struct{ events []uint64 }

// ReadHashes implements [tlog.HashReader]. It ignores invalid indexes.
func (w *wantedHashes) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	for _, index := range indexes {
		if leaf, at := merkle.Locate(index); at >= 0 {
			w.events = append(w.events, leaf+1)
		}
	}
	return make([]tlog.Hash, len(indexes)), nil
}

// perSnapshot is how many events of a document are read in one snapshot, so that no snapshot is
// long.
const perSnapshot = 4096
