package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/fault"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/output"
	"github.com/sluicedp/sluice/cmd/ledgerctl/internal/words"
	"github.com/sluicedp/sluice/ledger"
)

func (a *app) logCommand() *cobra.Command {
	t := &tail{app: a}
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Print the events, one a line",
		Long: `Print the events of the ledger in order, one a line; with --json, each as a JSON object.
Prices are in minor units of the ledger's currency. Of events about a person who was forgotten since,
marked erased, there is left of what kind they were, when, and what was paid.

With --follow, go on with events as they are recorded, until interrupted. The file is not kept open
meanwhile, so that others can write to it.`,
		Example: `  ledgerctl log --since 100
  ledgerctl log --object 17 --json
  ledgerctl log --refused-by 2026-05-01
  ledgerctl log --follow`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			return t.run(cmd.Context())
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&t.object, "object", "", "only events about the person with this `ID`")
	flags.StringVar(&t.request, "refused-by", "", "only whom the request with this `KEY` refused, and left out")
	flags.Uint64Var(&t.next, "since", 1, "begin with the event of this `NUMBER`")
	flags.BoolVar(&t.follow, "follow", false, "wait for more events until interrupted")
	return cmd
}

// tail prints the log from an event on.
type tail struct {
	app     *app
	object  string // "" for all
	request string // the key of the request whose refusals are printed; "" for all events
	follow  bool
	next    uint64 // the event to go on with
	last    uint64 // the last event read
	ledger  string // id of the ledger that was read
	found   bool   // anything was printed
}

const (
	// batch is how many events are read while the file is open. They are printed when it is closed, so
	// that a pager standing still keeps no writer waiting.
	batch = 4096
	// pollEvery is how often a followed log is looked at.
	pollEvery = time.Second
)

func (t *tail) run(ctx context.Context) error {
	if t.request != "" && t.follow {
		return fault.Usage("--since NUMBER goes on where an earlier list ended", "--refused-by and --follow do not go together")
	}
	t.next = max(t.next, 1)
	err := t.loop(ctx)
	if t.follow && errors.Is(err, context.Canceled) {
		return nil // it is how following ends
	}
	return err
}

func (t *tail) loop(ctx context.Context) error {
	for {
		events, err := t.read(ctx)
		if errors.Is(err, ledger.ErrInUse) && t.follow && t.ledger != "" {
			err = nil // try again
		}
		if err != nil {
			return err
		}
		if err := t.print(events); err != nil {
			return err
		}
		switch {
		case len(events) == batch:
		case !t.follow:
			return t.checkFound(ctx)
		default:
			if err := sleep(ctx, pollEvery); err != nil {
				return err
			}
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// read returns the next events, at most a batch of them.
func (t *tail) read(ctx context.Context) (events []ledger.Event, err error) {
	err = t.app.with(reading, func(l *ledger.Ledger) error {
		if err := t.checkSame(ctx, l); err != nil {
			return err
		}
		for ev, err := range t.events(ctx, l) {
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

func (t *tail) events(ctx context.Context, l *ledger.Ledger) iter.Seq2[ledger.Event, error] {
	if t.request != "" {
		return l.Refusals(ctx, t.request, t.next)
	}
	return l.Events(ctx, t.next)
}

// checkSame notices that the file is not the one that was read so far, or is an older copy of it.
func (t *tail) checkSame(ctx context.Context, l *ledger.Ledger) error {
	id := l.About().ID
	if t.ledger == "" {
		t.ledger = id
		return nil
	}
	stats, err := l.Stats(ctx)
	if err != nil {
		return err
	}
	if id != t.ledger || stats.Events < t.last {
		return fmt.Errorf("%q: %w", t.app.db, ledger.ErrReplaced)
	}
	return nil
}

func (t *tail) print(events []ledger.Event) error {
	var out bytes.Buffer
	for _, ev := range events {
		t.last, t.next = ev.Number, ev.Number+1
		if t.object != "" && ev.Object != t.object {
			continue
		}
		t.found = true
		if t.app.JSON {
			if err := output.WriteJSON(&out, ev); err != nil {
				return err
			}
			continue
		}
		writeEvent(&out, ev)
	}
	_, err := t.app.Stdout.Write(out.Bytes())
	return err
}

// checkFound tells an object without events from one that does not exist.
func (t *tail) checkFound(ctx context.Context) error {
	if t.found || t.object == "" {
		return nil
	}
	return t.app.with(reading, func(l *ledger.Ledger) error {
		_, err := l.Object(ctx, t.object)
		return err
	})
}

// writeEvent writes an event on one line for people.
func writeEvent(w io.Writer, ev ledger.Event) {
	fmt.Fprintf(w, "%6d  %s  %-9s", ev.Number, ev.Time.Format("2006-01-02T15:04:05.000Z07:00"), ev.Kind)
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, " %s=%s", name, words.Quoted(value))
		}
	}
	if ev.Erased {
		fmt.Fprint(w, " erased")
	}
	field("id", ev.ID)
	field("currency", ev.Currency)
	field("object", ev.Object)
	field("question", ev.Question)
	field("values", strings.ReplaceAll(words.Listed(ev.Values), ", ", ","))
	field("encoding", string(ev.Encoding))
	if ev.Mechanism != nil {
		field("levels", strings.ReplaceAll(words.Listed(levelsOf(ev.Mechanism)), ", ", ","))
	}
	field("noise-key", ev.NoiseKey)
	if ev.Policy != nil {
		fmt.Fprintf(w, " policy=%s", ev.Policy)
	}
	if ev.Cap != nil {
		field("cap", ev.Cap.String())
	}
	if ev.Epsilon != nil {
		field(epsilonOf(ev), ev.Epsilon.String())
	}
	field("query", ev.Query)
	if ev.Sale > 0 {
		fmt.Fprintf(w, " sale=%d", ev.Sale)
	}
	field("buyer", ev.Buyer)
	if ev.Objects > 0 {
		fmt.Fprintf(w, " objects=%d", ev.Objects)
	}
	field("response", words.Brief(ev.Response))
	field("method", ev.Method)
	if ev.Price != nil {
		fmt.Fprintf(w, " price=%d", *ev.Price)
	}
	if ev.Expires != nil {
		field("expires", words.Stamp(*ev.Expires))
	}
	field("key", ev.Key)
	for i, n := range ev.Counts {
		fmt.Fprintf(w, "%s%d", [...]string{" counts=", ","}[min(i, 1)], n)
	}
	if ev.LeftOut > 0 {
		fmt.Fprintf(w, " refused=%d", ev.LeftOut)
	}
	for _, r := range ev.Refused {
		writeRefusal(w, r)
	}
	fmt.Fprintln(w)
}

func writeRefusal(w io.Writer, r ledger.Refusal) {
	fmt.Fprintf(w, " reason=%s asked=%s", r.Reason, r.Asked)
	if r.Reason == ledger.ChainCeiling || r.Reason == ledger.ObjectCap {
		fmt.Fprintf(w, " cost=%s ceiling=%s spent=%s remaining=%s", r.Cost, r.Ceiling, r.Spent, r.Remaining)
	}
	fmt.Fprintf(w, " helps=%s", r.Remedy)
	if !r.Largest.IsZero() {
		fmt.Fprintf(w, " largest=%s", r.Largest)
	}
}

// epsilonOf names what the ε of an event is.
func epsilonOf(ev ledger.Event) string {
	if ev.Kind == "forgotten" {
		return "spent"
	}
	return "epsilon"
}
