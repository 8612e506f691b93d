package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicedp/sluice/ledger"
)

// process is a ledger in this process.
type process struct {
	ledger *ledger.Ledger
	o      options
}

func openProcess(path string, o options) (*process, error) {
	l, err := ledger.Open(context.Background(), path, ledger.Options{})
	return &process{ledger: l, o: o}, err
}

func (p *process) close() error { return p.ledger.Close() }

// call implements [way].
func (p *process) call(ctx context.Context, what kind, first int, lasting time.Duration) (turn, error) {
	do := p.release
	if what == reads {
		do = p.read
	}
	before := ownTime()
	t, err := crowd(p.o.callers, lasting, func(i int) error { return do(ctx, first+i) })
	t.server = ownTime() - before
	return t, err
}

func (p *process) release(ctx context.Context, n int) error {
	r, err := callAt(n, p.o.objects).request()
	if err != nil {
		return err
	}
	_, err = p.ledger.Release(ctx, r)
	return err
}

func (p *process) read(ctx context.Context, n int) error {
	_, err := p.ledger.Object(ctx, callAt(n, p.o.objects).object)
	return err
}

// crowd runs concurrent callers for the given time, each with one call at a time. The calls have
// rising numbers. A call that is in progress at the end is finished.
func crowd(callers int, lasting time.Duration, do func(i int) error) (turn, error) {
	var next atomic.Int64
	var group sync.WaitGroup
	each, errs := make([][]time.Duration, callers), make([]error, callers)
	began := time.Now()
	for caller := range callers {
		group.Go(func() {
			for now := time.Now(); now.Sub(began) < lasting && errs[caller] == nil; {
				errs[caller] = do(int(next.Add(1)) - 1)
				after := time.Now()
				each[caller] = append(each[caller], after.Sub(now))
				now = after
			}
		})
	}
	group.Wait()
	t := turn{took: time.Since(began), answered: int(next.Load()), sent: int(next.Load())}
	t.p50, t.p99 = waits(each, t)
	return t, errors.Join(errs...)
}
