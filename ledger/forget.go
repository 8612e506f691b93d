package ledger

import (
	"context"
	"fmt"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Forget destroys everything about an object: its responses and their levels, and the tags that
// bind its chains to true values. It also destroys what every event of the log contains about it.
// What the object has spent, of its cap and on each question, is kept, and so is what it earned.
// Otherwise the object could be enrolled as new and spend its budget again. It takes part in
// nothing any more, as after [Ledger.Withdraw]. If it is enrolled again, it has a new chain, whose
// costs are added to what was spent before.
//
// The log stays provable. Of each event these parts are left: its time, its kind, what was paid,
// and a hash that reveals nothing without the salt, which is destroyed as well. Receipts,
// checkpoints and proofs that others have stay valid. Responses that were delivered to buyers stay
// with the buyers.
//
// When Forget returns, the bytes are gone from the file's records, and from the journal, which is
// overwritten. The next [Ledger.Compact] removes them from the file's unused pages, and from copies
// that a crash has left. Copies that are made after it ([Ledger.Backup]) have none of them.
// Overwriting is not effective on solid-state disks, and on file systems that copy on write. The
// host must clean existing copies of the file, and the blocks that a file system has freed.
//
// If the process dies or the ledger is closed before Forget returns, the object may be forgotten or
// not: call it again with the same key. [Open] destroys what the journal still holds.
//
// A journal that is kept elsewhere ([Options.Journal]) may keep bytes until another host has the
// events. Then Forget waits, and logs what it waits for. It also waits for a [Ledger.Compact]. If
// ctx ends before that, the object is forgotten, but the bytes are not destroyed yet. The error
// then wraps a [*journal.HeldError], which has the event up to which they are destroyed. Call
// Forget again with the same key.
//
// The object's name stays in the event of this request and with the spending. Answers about panels
// stay, because they are about all objects in them, but the log no longer shows which panel they
// are about. A later request about such a panel gets a new answer.
//
// The digests of requests that named the object are destroyed. A request that named only other
// objects, for which it recorded nothing, loses its digest as well. A request whose digest of
// several names is destroyed is recognized by its key, the number of names, and all its other
// fields. Idempotency keys are kept: they should not contain names of objects.
//
// Forget returns [api.ErrUnknown] if nothing is known about the object. A repeated request about
// this object alone returns [api.ErrForgotten]. Other repeated requests omit the object from their
// results.
func (l *Ledger) Forget(ctx context.Context, r api.ObjectRequest) error {
	if err := event.CheckName("object", r.Object); err != nil {
		return err
	}
	id := event.ObjectRequest(event.RequestForget, r.Object)
	forget := func(s *state.State) (event.Change, error) { return forgetObject(s, r.Object) }
	// The settled event does not name the object (""), so it is not erased with it.
	if err := l.requests.Once(ctx, r.Key, "", id, forget); err != nil {
		return err
	}
	// A request that was settled before is erased again, because its earlier call may have ended
	// before the erasure.
	return l.engine.Erase(ctx)
}

// forgetObject returns the change that destroys everything about an object. A name that was only
// refused is destroyed as well. It returns nil if there is nothing to destroy, and [api.ErrUnknown]
// if no event names the object.
func forgetObject(s *state.State, name string) (event.Change, error) {
	o, known, err := s.Object(name)
	if err != nil {
		return nil, err
	}
	if !known {
		stranger, found, err := s.Stranger(name)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, fmt.Errorf("object %q: %w", name, api.ErrUnknown)
		}
		return &event.Forgotten{Object: name, Events: stranger.Total()}, nil
	}
	// The object was forgotten before. Since then no event is about it, and no open request can
	// name it.
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
			return nil, errs.Corrupt(err, "object %q: its chain in question %d is missing", name, number)
		}
		c.Chains = append(c.Chains, event.Remnant{Question: number, Policy: ch.Policy, Spent: ch.Total()})
	}
	return c, nil
}
