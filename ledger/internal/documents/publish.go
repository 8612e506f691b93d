package documents

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/callback"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Publisher hands checkpoints to the host as the log grows.
type Publisher struct {
	maker    *Maker
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

// StartPublisher begins to hand checkpoints to a function: after so many events, and after so long.
// 0 is never.
func StartPublisher(
	m *Maker, to func(ctx context.Context, checkpoint []byte) error, events uint64, interval time.Duration,
) (*Publisher, error) {
	if m.Signer == nil {
		return nil, errs.ErrNoSigner
	}
	if interval < 0 {
		return nil, errs.Invalid("checkpoints after %v", interval)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Publisher{
		maker: m, to: to, events: events, interval: interval, cancel: cancel, done: make(chan struct{}),
	}
	go p.run(ctx)
	return p, nil
}

// run hands out checkpoints until the ledger is closed or stopped, and one more if it is closed.
func (p *Publisher) run(ctx context.Context) {
	defer close(p.done)
	for wait := shortest; ctx.Err() == nil; {
		if err := p.publish(ctx); err != nil && ctx.Err() == nil {
			p.logFailure(err, "checkpoint not published")
			waiting, cancel := context.WithTimeout(ctx, wait)
			<-waiting.Done()
			cancel()
			wait = min(2*wait, longest)
			continue
		}
		wait = shortest
		p.await(ctx)
	}
	if p.maker.Engine.Queue.Stopped() != nil {
		return // only the next Open can find out what is durable
	}
	last, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	if err := p.publish(last); err != nil {
		p.logFailure(err, "last checkpoint not published")
	}
}

func (p *Publisher) logFailure(err error, text string) {
	p.maker.Engine.Log.Now(func(log *zerolog.Logger) { log.Error().Err(err).Msg(text) })
}

// await waits until the next checkpoint is due, or ctx ends.
func (p *Publisher) await(ctx context.Context) {
	q := &p.maker.Engine.Queue
	if p.interval > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.interval)
		defer cancel()
	}
	// The error is that of ctx, which run reads.
	_ = q.Await(ctx, func() bool { return p.events > 0 && q.Durable-p.sent >= p.events })
}

// publish hands out a checkpoint of what is durable, if that is more than before. It reads the
// store itself, since the last checkpoint comes when the engine is closed for others.
func (p *Publisher) publish(ctx context.Context) error {
	size := p.maker.Engine.Queue.DurableEvents()
	if size == p.sent {
		return nil
	}
	var head api.Head
	err := p.maker.Engine.Store.View(func(r kv.Reader) error {
		s, err := state.Snapshot(r)
		if err == nil {
			head, err = p.maker.Head(s, size)
		}
		return err
	})
	if err != nil {
		return err
	}
	var signed []byte
	err = callback.Call("Options.Signer", func() (err error) {
		signed, err = p.maker.Sign(head)
		return err
	})
	if err == nil {
		err = callback.Call("Publishing.To", func() error { return p.to(ctx, signed) })
	}
	if err == nil {
		p.sent = size
		p.maker.Gave(size)
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
