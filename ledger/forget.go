package ledger

import (
	"context"
	"fmt"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Forget destroys everything about an object: its responses and the levels they were given at, the
// truth its chains are bound to, and what every event of the log says of it. What it has spent, of
// its cap and on each question, stays, and so does what it earned: otherwise it could be enrolled
// as new and give away its budget again. It takes part in nothing any more, as after
// [Ledger.Withdraw]; enrolled again, it has a new chain, which costs what it costs besides what was
// spent.
//
// The log stays provable: of each event there is left when it happened, of what kind it was, what
// was paid, and a hash that says nothing without the salt that is destroyed as well. Receipts,
// checkpoints and proofs that others have keep their worth, and what buyers were given stays with
// them.
//
// The bytes are gone from the file's records, and from the journal, which is overwritten, when
// Forget returns; from the file's unused pages, and from what a crash has left of copies, with the
// next [Ledger.Compact]. Copies that are made after it ([Ledger.Backup]) have none of them.
// Overwriting binds no solid-state disk and no file system that copies on write. Copies of the
// file, and the blocks that a file system has freed, are the host's to clean. If the process dies
// or the ledger is closed before Forget returns, the person may be forgotten or not: call it again
// with the same key. What the journal holds then, [Open] destroys.
//
// A journal that is kept elsewhere ([Options.Journal]) may hold bytes back, until another host has
// what they say. Then Forget waits, and the log says for what; it also waits for a
// [Ledger.Compact]. If ctx ends before, the person is forgotten, but the bytes are not destroyed
// yet: the error wraps a [*journal.HeldError], which tells up to which event they are. Call it
// again with the same key.
//
// The object's name stays in the event of this request and with the spending. Answers about panels
// stay, as they are about everybody in them, but not which panel they are about: a request for an
// answer about it gets a new one. The digests of requests that named the object are destroyed,
// alone or with others; a request that named others for which it recorded nothing loses its digest
// as well. A request whose digest of several names is destroyed is recognized by its key, the
// number of names, and all its other fields. Idempotency keys stay: they should name nobody.
//
// It returns [api.ErrUnknown] if nothing is known of the object. A repeated request about this object
// alone returns [api.ErrForgotten]; other repeated requests leave the object out of what they return.
func (l *Ledger) Forget(ctx context.Context, r api.ObjectRequest) error {
	if err := event.CheckName("object", r.Object); err != nil {
		return err
	}
	id := event.ObjectRequest(event.RequestForget, r.Object)
	forget := func(s *state.State) (event.Change, error) { return forgetObject(s, r.Object) }
	if err := l.requests.Once(ctx, r.Key, "", id, forget); err != nil {
		return err
	}
	return l.engine.Erase(ctx) // also for a request that was settled before: its caller may not have come to this
}

// forgetObject returns the change that destroys what there is about an object, or nil if there is
// nothing.
func forgetObject(s *state.State, name string) (event.Change, error) {
	o, known, err := s.Object(name)
	if err != nil {
		return nil, err
	}
	if !known {
		x, found, err := s.Stranger(name)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, fmt.Errorf("object %q: %w", name, api.ErrUnknown)
		}
		return &event.Forgotten{Object: name, Events: x.Total()}, nil
	}
	if o.Total() == 0 && s.Counters.Named == 0 {
		return nil, nil
	}
	c := &event.Forgotten{Object: name, Events: o.Total(), Account: o.Account()}
	numbers, err := s.QuestionsOf(name)
	if err != nil {
		return nil, err
	}
	for _, number := range numbers {
		ch, found, err := s.Chain(number, name)
		if err != nil || !found {
			return nil, errs.Corrupt(err, "object %q has lost its chain in question %d", name, number)
		}
		c.Chains = append(c.Chains, event.Remnant{Question: number, Policy: ch.Policy, Spent: ch.Total()})
	}
	return c, nil
}
