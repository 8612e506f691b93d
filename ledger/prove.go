package ledger

import (
	"context"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// prove returns the log of the first size events, and proves that it has the leaves of some.
func (l *Ledger) prove(s *state.State, size uint64, numbers []uint64) (head evidence.Head, proof []tlog.Hash, err error) {
	leaves := make([]uint64, len(numbers))
	for i, number := range slices.Sorted(slices.Values(numbers)) {
		leaves[i] = number - 1
	}
	prefetchProof(s, size, leaves)
	if head, err = l.head(s, size); err != nil {
		return head, nil, err
	}
	proof, err = merkle.Prove(size, leaves, s)
	return head, proof, err
}

// prefetchProof has the store fetch what the head and the proof of some leaves are made of, all at once: they are on as many
// pages as the tree has levels.
func prefetchProof(s *state.State, size uint64, leaves []uint64) {
	if _, can := s.Reader.(kv.Prefetcher); !can {
		return
	}
	var asked askedHashes
	_, _ = tlog.TreeHash(int64(size), &asked) // what is wrong with the question shows when it is asked in earnest
	_, _ = merkle.Prove(size, leaves, &asked)
	prefetchEvents(s, asked.events)
}

// prefetchEvents has the store fetch some events, if it can.
func prefetchEvents(s *state.State, numbers []uint64) {
	p, can := s.Reader.(kv.Prefetcher)
	if !can || len(numbers) < 2 { // one is read as fast without
		return
	}
	numbers = slices.Compact(slices.Sorted(slices.Values(numbers)))
	keys := make([][]byte, len(numbers))
	for i, number := range numbers {
		keys[i] = state.EventKey(number)
	}
	p.Prefetch(state.BucketEvents, keys)
}

// askedHashes is a [tlog.HashReader] that notes in which events the hashes are that it is asked for. It has none.
type askedHashes struct{ events []uint64 }

func (a *askedHashes) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	for _, index := range indexes {
		if leaf, at := merkle.Locate(index); at >= 0 {
			a.events = append(a.events, leaf+1)
		}
	}
	return make([]tlog.Hash, len(indexes)), nil
}

// evidenceOf returns an event for a document, whole or erased, with its leaf.
func evidenceOf(s *state.State, number uint64) (evidence.Entry, error) {
	n, err := s.Entry(number)
	if err != nil {
		return evidence.Entry{}, err
	}
	leaf := n.Leaf()
	if leaf != n.Hashes[0] {
		return evidence.Entry{}, errs.Corrupt(nil, "event %d does not have its leaf", number)
	}
	return evidence.Entry{Event: n.Event, Leaf: leaf}, nil
}

// proveSigned proves that events are in the log of the first size events, or in that of now if size is 0, and signs it.
func (l *Ledger) proveSigned(ctx context.Context, size uint64, numbers []uint64) (proof []tlog.Hash, signed []byte, err error) {
	var head evidence.Head
	err = l.engine.View(ctx, func(s *state.State) (err error) {
		if size == 0 {
			size = s.Counters.Events
		}
		head, proof, err = l.prove(s, size, numbers)
		return err
	})
	if err == nil {
		signed, err = l.sign(head)
	}
	return proof, signed, err
}
