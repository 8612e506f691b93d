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
	Engine *engine.Engine // of the ledger whose log it is
	About  event.About    // what the log says of itself
	Signer note.Signer    // nil signs nothing
	Known  note.Verifiers // keys of the host, one of which may be the signer's; nil if there are none
	newest atomic.Pointer[observe.Checkpoint]
}

// Gave notes that a checkpoint of so many events has left this process. One of fewer events that
// comes late does not count: its recipient may have delayed it.
func (m *Maker) Gave(events uint64) {
	given := &observe.Checkpoint{Events: events, Signed: time.Now()}
	for {
		before := m.newest.Load()
		if before != nil && events < before.Events || m.newest.CompareAndSwap(before, given) {
			return
		}
	}
}

// Newest returns the newest checkpoint that has left this process; the zero value if there is none.
func (m *Maker) Newest() observe.Checkpoint {
	if c := m.newest.Load(); c != nil {
		return *c
	}
	return observe.Checkpoint{}
}

// Head returns the tree of the first events.
func (m *Maker) Head(s *state.State, events uint64) (api.Head, error) {
	if events > s.Counters.Events {
		return api.Head{}, errs.Invalid("the log has %d events, not %d", s.Counters.Events, events)
	}
	root, err := tlog.TreeHash(int64(events), s)
	return api.Head{Origin: m.About.Origin(), Events: events, Root: root}, err
}

// CheckExtends returns a RollbackError if the log does not extend the one that a checkpoint is of.
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

// Prove returns the log of the first size events, and proves that some events are in it.
func (m *Maker) Prove(
	s *state.State, size uint64, numbers []uint64,
) (head api.Head, proof []tlog.Hash, err error) {
	leaves := make([]uint64, len(numbers))
	for i, number := range slices.Sorted(slices.Values(numbers)) {
		leaves[i] = number - 1
	}
	prefetchProof(s, size, leaves)
	if head, err = m.Head(s, size); err != nil {
		return head, nil, err
	}
	proof, err = merkle.Prove(size, leaves, s)
	return head, proof, err
}

// proveSigned proves that events are in the log of the first size events, and signs it.
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

// prefetchProof has the store fetch what the head and the proof of some leaves are made of, all at
// once: they are on as many pages as the tree has levels.
func prefetchProof(s *state.State, size uint64, leaves []uint64) {
	if _, can := s.Reader.(kv.Prefetcher); !can {
		return
	}
	var wanted wantedHashes
	_, _ = tlog.TreeHash(int64(size), &wanted) // errors of the arguments come from the real reads
	_, _ = merkle.Prove(size, leaves, &wanted)
	prefetchEvents(s, wanted.events)
}

// prefetchEvents has the store fetch some events, if it can.
func prefetchEvents(s *state.State, numbers []uint64) {
	fetch, can := s.Reader.(kv.Prefetcher)
	if !can || len(numbers) < 2 { // one is read as fast without
		return
	}
	numbers = slices.Compact(slices.Sorted(slices.Values(numbers)))
	keys := make([][]byte, len(numbers))
	for i, number := range numbers {
		keys[i] = state.EventKey(number)
	}
	fetch.Prefetch(state.BucketEvents, keys)
}

// wantedHashes is a [tlog.HashReader] that notes in which events the hashes are that it is asked
// for. It has none.
type wantedHashes struct{ events []uint64 }

func (w *wantedHashes) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	for _, index := range indexes {
		if leaf, at := merkle.Locate(index); at >= 0 {
			w.events = append(w.events, leaf+1)
		}
	}
	return make([]tlog.Hash, len(indexes)), nil
}

// perSnapshot is how many events one snapshot reads.
const perSnapshot = 4096
