package prover

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/observe"
)

// Prover shows what is in a log, and signs it.
type Prover struct {
	Engine *engine.Engine // of the ledger whose log it is
	About  event.About    // what the log says of itself
	Signer note.Signer    // nil signs nothing
	Known  note.Verifiers // keys of the host, one of which may be the signer's; nil if there are none
	newest atomic.Pointer[observe.Checkpoint]
}

// Gave notes that a checkpoint of so many events has left this process. One of fewer events that comes late does not count: it may have
// waited for whoever takes it.
func (p *Prover) Gave(events uint64) {
	given := &observe.Checkpoint{Events: events, Signed: time.Now()}
	for {
		before := p.newest.Load()
		if before != nil && events < before.Events || p.newest.CompareAndSwap(before, given) {
			return
		}
	}
}

// Newest returns the newest checkpoint that has left this process; the zero value if there is none.
func (p *Prover) Newest() observe.Checkpoint {
	if c := p.newest.Load(); c != nil {
		return *c
	}
	return observe.Checkpoint{}
}

// Head returns the tree of the first events.
func (p *Prover) Head(s *state.State, events uint64) (evidence.Head, error) {
	if events > s.Counters.Events {
		return evidence.Head{}, errs.Invalid("the log has %d events, not %d", s.Counters.Events, events)
	}
	root, err := tlog.TreeHash(int64(events), s)
	return evidence.Head{Origin: p.About.Origin(), Events: events, Root: root}, err
}

// CheckExtends returns a RollbackError if the log does not extend the one that a checkpoint is of.
func (p *Prover) CheckExtends(s *state.State, trusted evidence.Head) error {
	failure := &evidence.RollbackError{Checkpoint: trusted, Ledger: evidence.Head{Origin: p.About.Origin(), Events: s.Counters.Events}}
	if trusted.Origin != failure.Ledger.Origin || trusted.Events > s.Counters.Events {
		return failure
	}
	head, err := p.Head(s, trusted.Events)
	if err != nil {
		return err
	}
	if failure.Ledger.Root = head.Root; head.Root != trusted.Root {
		return failure
	}
	return nil
}

// Prove returns the log of the first size events, and proves that it has the leaves of some.
func (p *Prover) Prove(s *state.State, size uint64, numbers []uint64) (head evidence.Head, proof []tlog.Hash, err error) {
	leaves := make([]uint64, len(numbers))
	for i, number := range slices.Sorted(slices.Values(numbers)) {
		leaves[i] = number - 1
	}
	prefetchProof(s, size, leaves)
	if head, err = p.Head(s, size); err != nil {
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

// EvidenceOf returns an event for a document, whole or erased, with its leaf.
func EvidenceOf(s *state.State, number uint64) (evidence.Entry, error) {
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

// proveSigned proves that events are in the log of the first size events, and signs it.
func (p *Prover) proveSigned(ctx context.Context, size uint64, numbers []uint64) (proof []tlog.Hash, signed []byte, err error) {
	var head evidence.Head
	err = p.Engine.View(ctx, func(s *state.State) (err error) {
		head, proof, err = p.Prove(s, size, numbers)
		return err
	})
	if err == nil {
		signed, err = p.Sign(head)
	}
	return proof, signed, err
}

// Receipt returns the receipt of a sale, in the log as the sale left it: whenever it is made, it says nothing of what came later.
func (p *Prover) Receipt(ctx context.Context, sale state.Sale, number uint64) (evidence.Receipt, error) {
	m := receiptMaker{sale: sale}
	if err := p.Engine.View(ctx, func(s *state.State) error { return m.begin(s, number) }); err != nil {
		return evidence.Receipt{}, err
	}
	// Leaves never change: snapshots of any time go with one checkpoint, and none is long.
	for from := uint64(0); from < m.sale.Objects; from += atATime {
		err := p.Engine.View(ctx, func(s *state.State) error { return m.add(s, from, min(atATime, m.sale.Objects-from)) })
		if err != nil {
			return evidence.Receipt{}, err
		}
	}
	proof, signed, err := p.proveSigned(ctx, sale.Last(), m.numbers)
	if err != nil {
		return evidence.Receipt{}, err
	}
	return m.Finish(proof, signed), nil
}

// atATime is how many events a snapshot reads.
const atATime = 4096

// receiptMaker reads what a receipt is made of.
type receiptMaker struct {
	*evidence.ReceiptMaker
	sale    state.Sale
	numbers []uint64 // of the events in it
}

// begin reads all but the responses.
func (m *receiptMaker) begin(s *state.State, number uint64) (err error) {
	question, err := s.Definition(state.BucketQuestions, m.sale.Question)
	if err != nil {
		return err
	}
	buyer, err := s.Definition(state.BucketBuyers, m.sale.Buyer)
	if err != nil {
		return err
	}
	m.numbers = []uint64{1, question, buyer, m.sale.Event}
	var all [4]evidence.Entry
	for i, number := range m.numbers {
		if all[i], err = EvidenceOf(s, number); err != nil {
			return err
		}
	}
	if c, ok := all[3].Change.(*event.SaleMade); !ok || c.Sale != number {
		return errs.Corrupt(nil, "event %d does not make sale %d", m.sale.Event, number)
	}
	m.ReceiptMaker, err = evidence.NewReceipt(all[0], all[1], all[2], all[3])
	return err
}

// add adds n responses behind the first from.
func (m *receiptMaker) add(s *state.State, from, n uint64) error {
	next := make([]uint64, n)
	for i := range next {
		next[i] = m.sale.Event + 1 + from + uint64(i)
	}
	prefetchEvents(s, next)
	for _, number := range next {
		ev, err := EvidenceOf(s, number)
		if err == nil {
			err = m.Add(ev)
		}
		if err != nil {
			return err
		}
	}
	m.numbers = append(m.numbers, next...)
	return nil
}

// Statement returns the statement that the request with a key recorded.
func (p *Prover) Statement(ctx context.Context, key string) (evidence.Statement, error) {
	m := statementMaker{prover: p}
	if err := p.Engine.View(ctx, func(s *state.State) error { return m.begin(s, key) }); err != nil {
		return evidence.Statement{}, err
	}
	if err := m.collect(ctx); err != nil {
		return evidence.Statement{}, err
	}
	return m.finish(ctx)
}

// statementMaker is a statement being made.
type statementMaker struct {
	prover *Prover
	last   uint64                    // the stated event
	events map[uint64]evidence.Entry // those of the statement, by number
}

// begin finds the event that the request with this key recorded.
func (m *statementMaker) begin(s *state.State, key string) error {
	r, end, err := s.LastPart(key)
	if err != nil || len(r.Settled) != 1 {
		return errs.Corrupt(err, "the request for a statement was not settled")
	}
	m.last, m.events = end.First, map[uint64]evidence.Entry{}
	return m.add(s, m.last)
}

// add reads an event, unless it was read before.
func (m *statementMaker) add(s *state.State, number uint64) error {
	if _, known := m.events[number]; known {
		return nil
	}
	ev, err := EvidenceOf(s, number)
	if err != nil {
		return err
	}
	if ev.Erased != nil {
		return fmt.Errorf("%w: the object of the statement", errs.ErrForgotten)
	}
	m.events[number] = ev
	return m.addNeeded(s, ev.Event)
}

// addNeeded reads the events that one refers to.
func (m *statementMaker) addNeeded(s *state.State, ev event.Event) error {
	policy, buyer := uint32(0), uint32(0)
	switch c := ev.Change.(type) {
	case *event.Enrolled:
		policy = c.Policy
	case *event.TermsChanged:
		policy = c.Policy
	case *event.Reserved:
		buyer = c.Buyer
	case *event.SaleMade:
		buyer = c.Buyer
	case *event.Held:
		r, err := s.Sale(c.Sale)
		if err != nil {
			return err
		}
		if err := m.addDefined(s, 0, c.Policy, 0); err != nil {
			return err
		}
		return m.add(s, r.Granted)
	case *event.Sold:
		r, err := s.Sale(c.Sale)
		if err != nil {
			return err
		}
		return m.add(s, r.Event)
	case *event.Forgotten:
		for _, r := range c.Chains {
			if err := m.addDefined(s, r.Question, r.Policy, 0); err != nil {
				return err
			}
		}
	}
	return m.addDefined(s, event.QuestionOf(ev), policy, buyer)
}

// addDefined reads the events that defined a question, a policy and a buyer. 0 is none.
func (m *statementMaker) addDefined(s *state.State, question, policy, buyer uint32) error {
	for _, one := range []struct {
		bucket string
		number uint32
	}{{state.BucketQuestions, question}, {state.BucketPolicies, policy}, {state.BucketBuyers, buyer}} {
		if one.number == 0 {
			continue
		}
		number, err := s.Definition(one.bucket, one.number)
		if err != nil {
			return err
		}
		if err := m.add(s, number); err != nil {
			return err
		}
	}
	return nil
}

// collect reads the events of the list, in short snapshots: events do not change unless they are erased.
func (m *statementMaker) collect(ctx context.Context) error {
	c, ok := m.events[m.last].Change.(*event.Stated)
	if !ok {
		return errs.Corrupt(nil, "event %d states nothing", m.last)
	}
	numbers := slices.Concat([]uint64{1}, c.Events)
	if c.Forgotten != 0 {
		numbers = append(numbers, c.Forgotten)
	}
	for some := range slices.Chunk(numbers, atATime) {
		err := m.prover.Engine.View(ctx, func(s *state.State) error {
			prefetchEvents(s, some)
			for _, number := range some {
				if err := m.add(s, number); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// finish puts the events in words, and proves them.
func (m *statementMaker) finish(ctx context.Context) (evidence.Statement, error) {
	numbers := slices.Sorted(maps.Keys(m.events))
	object := m.events[m.last].Change.(*event.Stated).Object
	proof, signed, err := m.prover.proveSigned(ctx, m.last, numbers)
	if err != nil {
		return evidence.Statement{}, err
	}
	all := make([]evidence.Entry, len(numbers))
	for i, number := range numbers {
		all[i] = m.events[number]
	}
	return evidence.NewStatement(object, all, proof, signed)
}
