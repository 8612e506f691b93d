package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/internal/problem"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/event"
)

// logFlags are the flags of log.
type logFlags struct {
	Object string `flag:"object"` // "" for all
	// the key of the request whose refusals are printed; "" for all events
	Request string `flag:"refused-by,not=follow"`
	Next    uint64 `flag:"since" default:"1"`
	Follow  bool   `flag:"follow"`
}

// log runs the command log, which prints the events of the log.
func (a *app) log(cmd *cobra.Command, _ []string, f *logFlags) error {
	t := &tail{logFlags: *f, app: a}
	return t.run(cmd.Context())
}

// tail prints the log from the event Next on.
type tail struct {
	logFlags
	app    *app
	last   uint64 // the last event read
	ledger string // id of the ledger that was read
	found  bool   // an event was printed

	currency string // of the ledger
}

const (
	// batch is the largest number of events that are read while the file is open. They are printed
	// after it is closed, so that writers do not wait for a pager.
	batch = 4096
	// pollEvery is the interval at which a followed log is read.
	pollEvery = time.Second
)

// run prints the log: of a served ledger that is followed as a stream, otherwise in batches.
func (t *tail) run(ctx context.Context) error {
	t.Next = max(t.Next, 1)
	read := t.loop
	if t.Follow && t.app.Remote.Address != "" {
		read = t.watch
	}
	err := read(ctx)
	if t.Follow && errors.Is(err, context.Canceled) {
		return nil // an interrupt is the normal end of --follow
	}
	return err
}

// loop reads and prints the events in batches, until it has printed the last event. With --follow
// it then reads again and again, until ctx ends.
func (t *tail) loop(ctx context.Context) error {
	for {
		events, err := t.read(ctx)
		if errors.Is(err, api.ErrInUse) && t.Follow && t.ledger != "" {
			err = nil // another process has the file open: try again at the next interval
		}
		if err == nil {
			err = t.print(events)
		}
		switch {
		case err != nil:
			return err
		case len(events) == batch: // there may be more: read on at once
		case !t.Follow:
			return t.checkFound(ctx)
		default:
			if err := sleep(ctx, pollEvery); err != nil {
				return err
			}
		}
	}
}

// watch prints the events of a served ledger as they are committed. If the connection breaks, it
// reconnects, unless the first connection failed: t.ledger is still "".
func (t *tail) watch(ctx context.Context) error {
	for {
		err := t.app.with(ctx, reading, func(l backend) error {
			if err := t.checkSame(ctx, l); err != nil {
				return err
			}
			for ev, err := range l.Watch(ctx, t.Next) {
				if err != nil {
					return err
				}
				if err := t.print([]event.Event{ev}); err != nil {
					return err
				}
			}
			return nil
		})
		if kind, _, _ := problem.Classify(err); kind != problem.Unreachable || t.ledger == "" {
			return err
		}
		if err := sleep(ctx, pollEvery); err != nil {
			return err
		}
	}
}

// sleep waits for d. It returns the error of ctx if ctx ends before.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// read opens the ledger, and returns the next events, at most batch.
func (t *tail) read(ctx context.Context) (events []event.Event, err error) {
	err = t.app.with(ctx, reading, func(l backend) error {
		if err := t.checkSame(ctx, l); err != nil {
			return err
		}
		all := l.Events(ctx, t.Next)
		if t.Request != "" {
			all = l.Refusals(ctx, t.Request, t.Next)
		}
		for ev, err := range all {
			if err != nil {
				return err
			}
			if events = append(events, ev); len(events) == batch {
				return nil
			}
		}
		return nil
	})
	return events, err
}

// checkSame compares the ledger with the one that the last call has read. The first call only
// records it. Later calls return [api.ErrReplaced] if this is another ledger, or if the log is now
// shorter than what was read, as that of an older copy.
func (t *tail) checkSame(ctx context.Context, l backend) error {
	id := l.About().ID
	if t.ledger == "" {
		t.ledger, t.currency = id, l.About().Currency
		return nil
	}
	stats, err := l.Stats(ctx)
	if err != nil {
		return err
	}
	if id != t.ledger || stats.Events < t.last {
		return fmt.Errorf("%q: %w", t.app.DB, api.ErrReplaced)
	}
	return nil
}

// print prints the events about t.Object, and records which event is the next one to read.
func (t *tail) print(events []event.Event) error {
	var out bytes.Buffer
	for _, ev := range events {
		t.last, t.Next = ev.Number, ev.Number+1
		if t.Object != "" && ev.Object() != t.Object {
			continue
		}
		t.found = true
		if t.app.JSON {
			if err := output.WriteJSON(&out, ev); err != nil {
				return err
			}
			continue
		}
		output.WriteEvent(&out, ev, t.currency)
	}
	_, err := t.app.Stdout.Write(out.Bytes())
	return err
}

// checkFound is called after the last event. If events of one object were requested and none was
// printed, it returns an error if the ledger does not know the object.
func (t *tail) checkFound(ctx context.Context) error {
	if t.found || t.Object == "" {
		return nil
	}
	return t.app.with(ctx, reading, func(l backend) error {
		_, err := l.Object(ctx, t.Object)
		return err
	})
}
