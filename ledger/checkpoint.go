package ledger

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Publishing says when the ledger signs checkpoints by itself, and who gets them. The newest checkpoint is
// worth what the place is worth where it is kept: a witness, another disk, a message bus.
type Publishing struct {
	// To is called with each checkpoint, by one goroutine. When it fails it is called again after a while,
	// with the newest checkpoint then; the ledger goes on meanwhile. It must return soon after its context ends,
	// which it does when the ledger is closed, and must not close the ledger itself. nil publishes nothing.
	To func(ctx context.Context, checkpoint []byte) error
	// Events is after how many new events there is a checkpoint, Interval after how long, if there are new
	// events at all. 0 is never. There is also one when the ledger is opened and one when it is closed, which
	// has 5 seconds.
	Events   uint64
	Interval time.Duration
}

// Checkpoint signs the log as it is now: a note by [Options.Signer] in the form of
// https://c2sp.org/tlog-checkpoint. Whoever keeps it can show later that nothing in the log before it was
// changed or dropped (see [Options.Checkpoint], [Ledger.Consistency]). It reads only. Without a Signer it
// returns [ErrNoSigner].
func (l *Ledger) Checkpoint(ctx context.Context) ([]byte, error) {
	var head evidence.Head
	err := l.engine.View(ctx, func(s *state.State) (err error) {
		head, err = l.head(s, s.Counters.Events)
		return err
	})
	if err != nil {
		return nil, err
	}
	return l.sign(head)
}

// Head returns the log's tree at a size, at most its number of events; 0 stands for that number.
func (l *Ledger) Head(ctx context.Context, events uint64) (head evidence.Head, err error) {
	err = l.engine.View(ctx, func(s *state.State) (err error) {
		if events == 0 {
			events = s.Counters.Events
		}
		head, err = l.head(s, events)
		return err
	})
	return head, err
}

// Consistency proves that the tree of the first from events is the beginning of that of the first to
// events: [tlog.CheckTree] verifies it. 0 < from ≤ to, and to is at most the number of events.
func (l *Ledger) Consistency(ctx context.Context, from, to uint64) (proof tlog.TreeProof, err error) {
	err = l.engine.View(ctx, func(s *state.State) (err error) {
		if from == 0 || from > to || to > s.Counters.Events {
			return errs.Invalid("a proof that %d events are the first of %d, in a log of %d", from, to, s.Counters.Events)
		}
		proof, err = tlog.ProveTree(int64(to), int64(from), s)
		return err
	})
	return proof, err
}

// head returns the tree of the first events.
func (l *Ledger) head(s *state.State, events uint64) (evidence.Head, error) {
	if events > s.Counters.Events {
		return evidence.Head{}, errs.Invalid("the log has %d events, not %d", s.Counters.Events, events)
	}
	root, err := tlog.TreeHash(int64(events), s)
	return evidence.Head{Origin: l.about.Origin(), Events: events, Root: root}, err
}

func (l *Ledger) sign(head evidence.Head) ([]byte, error) {
	if l.signer == nil {
		return nil, ErrNoSigner
	}
	signed, err := merkle.Checkpoint{Origin: head.Origin, Size: head.Events, Root: head.Root}.Sign(l.signer)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	return signed, nil
}

// checkSigner refuses a key that signs for another log.
func (l *Ledger) checkSigner() error {
	if l.signer != nil && l.signer.Name() != l.about.Origin() {
		return errs.Invalid("the signer's key is named %q, the log %q", l.signer.Name(), l.about.Origin())
	}
	return nil
}

// checkExtends returns a RollbackError if the log does not extend the one that a checkpoint is of.
func (l *Ledger) checkExtends(s *state.State, trusted evidence.Head) error {
	failure := &evidence.RollbackError{Checkpoint: trusted, Ledger: evidence.Head{Origin: l.about.Origin(), Events: s.Counters.Events}}
	if trusted.Origin != failure.Ledger.Origin || trusted.Events > s.Counters.Events {
		return failure
	}
	head, err := l.head(s, trusted.Events)
	if err != nil {
		return err
	}
	if failure.Ledger.Root = head.Root; head.Root != trusted.Root {
		return failure
	}
	return nil
}

// publisher hands checkpoints to the host.
type publisher struct {
	ledger *Ledger
	Publishing
	sent   uint64 // the size of the last checkpoint handed over
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended
}

const (
	// closing is how long the last checkpoint may take.
	closing = 5 * time.Second
	// shortest and longest are how long a publisher waits after a failure.
	shortest = time.Second
	longest  = time.Minute
)

// startPublishing begins to hand out checkpoints, if that is wanted.
func (l *Ledger) startPublishing(wanted Publishing) error {
	if wanted.To == nil || l.engine.ReadOnly {
		return nil
	}
	if l.signer == nil {
		return ErrNoSigner
	}
	if wanted.Interval < 0 {
		return errs.Invalid("checkpoints after %v", wanted.Interval)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.publisher = &publisher{ledger: l, Publishing: wanted, cancel: cancel, done: make(chan struct{})}
	go l.publisher.run(ctx)
	return nil
}

// run hands out checkpoints until the ledger is closed or stopped, and one more if it is closed.
func (p *publisher) run(ctx context.Context) {
	defer close(p.done)
	for wait := shortest; ctx.Err() == nil; {
		if err := p.publish(ctx); err != nil && ctx.Err() == nil {
			p.ledger.engine.Log.Error().Err(err).Msg("checkpoint not published")
			pause(ctx, wait)
			wait = min(2*wait, longest)
			continue
		}
		wait = shortest
		p.await(ctx)
	}
	if p.ledger.engine.Queue.Stopped() != nil {
		return // what is durable only the next Open can tell
	}
	last, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	if err := p.publish(last); err != nil {
		p.ledger.engine.Log.Error().Err(err).Msg("last checkpoint not published")
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// await waits until the next checkpoint is due, or ctx ends.
func (p *publisher) await(ctx context.Context) {
	c := &p.ledger.engine.Queue
	if p.Interval > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.Interval)
		defer cancel()
	}
	// The error is that of ctx; whoever called looks at it.
	_ = c.Await(ctx, func() bool { return p.Events > 0 && c.Durable-p.sent >= p.Events })
}

// publish hands out a checkpoint of what is durable, if that is more than before.
func (p *publisher) publish(ctx context.Context) error {
	l := p.ledger
	size := l.engine.Queue.DurableEvents()
	if size == p.sent {
		return nil
	}
	var head evidence.Head
	err := l.engine.Store.View(func(r kv.Reader) error {
		s, err := state.Snapshot(r)
		if err == nil {
			head, err = l.head(s, size)
		}
		return err
	})
	if err != nil {
		return err
	}
	signed, err := l.sign(head)
	if err == nil {
		err = p.To(ctx, signed)
	}
	if err == nil {
		p.sent = size
	}
	return err
}

// close hands out the last checkpoint. It may be called on nil.
func (p *publisher) close() {
	if p == nil {
		return
	}
	p.cancel()
	select {
	case <-p.done:
	case <-time.After(2 * closing): // its To does not heed the context
	}
}
