package prover

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/internal/callback"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Publisher hands checkpoints to the host.
type Publisher struct {
	prover   *Prover
	to       func(ctx context.Context, checkpoint []byte) error
	events   uint64
	interval time.Duration
	sent     uint64 // the size of the last checkpoint handed over
	cancel   context.CancelFunc
	done     chan struct{} // closed when it has ended
}

const (
	// closing is how long the last checkpoint may take.
	closing = 5 * time.Second
	// shortest and longest are how long a publisher waits after a failure.
	shortest = time.Second
	longest  = time.Minute
)

// StartPublisher begins to hand checkpoints to a function: after so many events, and after so long. 0 is never.
func StartPublisher(p *Prover, to func(ctx context.Context, checkpoint []byte) error, events uint64, interval time.Duration) (*Publisher, error) {
	if p.Signer == nil {
		return nil, errs.ErrNoSigner
	}
	if interval < 0 {
		return nil, errs.Invalid("checkpoints after %v", interval)
	}
	ctx, cancel := context.WithCancel(context.Background())
	made := &Publisher{prover: p, to: to, events: events, interval: interval, cancel: cancel, done: make(chan struct{})}
	go made.run(ctx)
	return made, nil
}

// run hands out checkpoints until the ledger is closed or stopped, and one more if it is closed.
func (p *Publisher) run(ctx context.Context) {
	defer close(p.done)
	for wait := shortest; ctx.Err() == nil; {
		if err := p.publish(ctx); err != nil && ctx.Err() == nil {
			p.prover.Engine.Log.Now(func(log *zerolog.Logger) { log.Error().Err(err).Msg("checkpoint not published") })
			pause(ctx, wait)
			wait = min(2*wait, longest)
			continue
		}
		wait = shortest
		p.await(ctx)
	}
	if p.prover.Engine.Queue.Stopped() != nil {
		return // what is durable only the next Open can tell
	}
	last, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	if err := p.publish(last); err != nil {
		p.prover.Engine.Log.Now(func(log *zerolog.Logger) { log.Error().Err(err).Msg("last checkpoint not published") })
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
func (p *Publisher) await(ctx context.Context) {
	c := &p.prover.Engine.Queue
	if p.interval > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.interval)
		defer cancel()
	}
	// The error is that of ctx; whoever called looks at it.
	_ = c.Await(ctx, func() bool { return p.events > 0 && c.Durable-p.sent >= p.events })
}

// publish hands out a checkpoint of what is durable, if that is more than before.
func (p *Publisher) publish(ctx context.Context) error {
	size := p.prover.Engine.Queue.DurableEvents()
	if size == p.sent {
		return nil
	}
	var head evidence.Head
	err := p.prover.Engine.Store.View(func(r kv.Reader) error {
		s, err := state.Snapshot(r)
		if err == nil {
			head, err = p.prover.Head(s, size)
		}
		return err
	})
	if err != nil {
		return err
	}
	var signed []byte
	err = callback.Call("Options.Signer", func() (err error) {
		signed, err = p.prover.Sign(head)
		return err
	})
	if err == nil {
		err = callback.Call("Publishing.To", func() error { return p.to(ctx, signed) })
	}
	if err == nil {
		p.sent = size
		p.prover.Gave(size)
	}
	return err
}

// Close hands out the last checkpoint. It may be called on nil.
func (p *Publisher) Close() {
	if p == nil {
		return
	}
	p.cancel()
	select {
	case <-p.done:
	case <-time.After(2 * closing): // its To does not heed the context
	}
}
