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

// Publisher passes signed checkpoints to the host as the log grows.
type Publisher struct {
	maker *Maker
	to    func(ctx context.Context, checkpoint []byte) error // the function of the host
	// A checkpoint is due after events new events, and after interval if there are new events. For
	// either, 0 means never.
	events   uint64
	interval time.Duration
	sent     uint64 // size of the last checkpoint that the host accepted
	cancel   context.CancelFunc
	done     chan struct{} // closed when run has ended
}

const (
	// closing limits the time for the last checkpoint.
	closing = 5 * time.Second
	// shortest and longest are the limits of the wait after a failure.
	shortest = time.Second
	longest  = time.Minute
)

// StartPublisher starts to pass signed checkpoints to the function to. The first call is due at
// once, and the next after so many new events, or after the interval if there are new events. For
// both limits, 0 means never. The errors are [errs.ErrNoSigner], and [errs.ErrInvalid] for a
// negative interval.
func StartPublisher(
	m *Maker, to func(ctx context.Context, checkpoint []byte) error, events uint64, interval time.Duration,
) (*Publisher, error) {
	if m.Signer == nil {
		return nil, errs.ErrNoSigner
	}
	if interval < 0 {
		return nil, errs.Invalid("the interval between checkpoints is %v, must not be negative", interval)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Publisher{
		maker: m, to: to, events: events, interval: interval, cancel: cancel, done: make(chan struct{}),
	}
	go p.run(ctx)
	return p, nil
}

// run publishes checkpoints until ctx ends. After a failure it tries again, and doubles the wait
// from shortest to longest. At the end it publishes one more, unless the ledger has stopped after a
// failed commit.
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
		return // the next Open determines what is durable
	}
	last, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	if err := p.publish(last); err != nil {
		p.logFailure(err, "last checkpoint not published")
	}
}

// logFailure logs an error with a text in this goroutine.
func (p *Publisher) logFailure(err error, text string) {
	p.maker.Engine.Log.Now(func(log *zerolog.Logger) { log.Error().Err(err).Msg(text) })
}

// await waits until the next checkpoint is due, by the number of events or by the interval, or
// until ctx ends.
func (p *Publisher) await(ctx context.Context) {
	q := &p.maker.Engine.Queue
	if p.interval > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.interval)
		defer cancel()
	}
	// Await returns an error if the interval is over, which makes the checkpoint due, or if the
	// caller's ctx ends, which run checks.
	_ = q.Await(ctx, func() bool { return p.events > 0 && q.Durable-p.sent >= p.events })
}

// publish passes a checkpoint of the durable events to the host, if there are new ones since the
// last. It reads the store directly, because the last checkpoint is made when the engine is already
// closed for requests.
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
		p.maker.RecordIssued(size)
	}
	return err
}

// Close makes run publish the last checkpoint, and waits until run has ended, but at most 10
// seconds. p may be nil.
func (p *Publisher) Close() {
	if p == nil {
		return
	}
	p.cancel()
	select {
	case <-p.done:
	case <-time.After(2 * closing): // the host's function ignores its context
	}
}
