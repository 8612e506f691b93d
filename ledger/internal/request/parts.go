package request

import (
	"context"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Work is what a request over many objects does with them.
type Work interface {
	// Precheck reads the whole panel after an object, before anything is written, and may refuse
	// the request. It returns the number of objects.
	Precheck(ctx context.Context, p Panel, after string) (int, error)
	// Truths gets the true values that the part after an object needs and that Precheck did not ask
	// for, or keep.
	Truths(ctx context.Context, after string) error
	// Decide decides about the objects of one part. It may record changes by itself, and returns
	// the others. The objects may be others than before.
	Decide(s *state.State, names []string) (Part, error)
}

// Part is what one transaction does for a request over many objects.
type Part struct {
	Changes  []event.Change         // that are not recorded yet, in order
	Counts   event.Counts           // of its objects
	Refused  []api.Refusal          // in the question, if it is not a sweep
	Question uint32                 // of Refused, by number
	Swept    []*event.SweptQuestion // of a sweep, with the refusals of each question
	Left     int                    // objects at the end that are left to the next part
	Again    event.Wanted           // the responses handed out again, if there are any
}

// Settle adds the refusals to the changes, and their numbers to what settles the part.
func (p Part) Settle(end *event.Settled) []event.Change {
	end.Counts, end.Again = p.Counts, p.Again
	changes := p.Changes
	for _, one := range p.Swept {
		end.Swept = append(end.Swept, one.SweptCount)
		end.Refused += one.Refused
		for _, r := range one.Refusals {
			changes = append(changes, &event.ObjectRefused{Question: one.Question, Refusal: r})
		}
	}
	return Settling(changes, p.Question, p.Refused, end)
}

// bulk is a request over many objects, executed in parts of bounded size.
type bulk struct {
	protocol
	work     Work
	progress func(done, total int) // optional
	outcome  Outcome               // of all parts

	surveyed    bool // by this attempt
	done, total int  // objects, of this attempt
	// The part that was decided last:
	objects int
	cursor  string // the last object
	changes []event.Change
}

// found reads what came of the parts that are settled, and after which object the next one begins.
func (b *bulk) found(s *state.State) (err error) {
	if b.outcome, err = outcomeOf(s, b.st.settled); err != nil || b.st.Done || b.st.dealt == 0 {
		return err
	}
	if b.panel.All || b.st.dealt > uint64(len(b.panel.Names)) {
		return errs.Corrupt(nil, "request %q has dealt with %d objects", b.key, b.st.dealt)
	}
	b.st.Cursor = b.panel.Names[b.st.dealt-1]
	return nil
}

func (b *bulk) look(*state.State) error {
	b.outcome = Outcome{}
	return nil
}

func (b *bulk) ask(ctx context.Context) (err error) {
	if !b.surveyed {
		if b.total, err = b.work.Precheck(ctx, b.panel, b.st.Cursor); err != nil {
			return err
		}
		b.surveyed = true
	}
	if err := b.Engine.AwaitRoom(ctx); err != nil {
		return err
	}
	return b.work.Truths(ctx, b.st.Cursor)
}

// isPart reports whether the request may have several parts: of a request for all, the number is
// not known.
func (b *bulk) isPart() bool {
	return b.panel.All || len(b.panel.Names) > state.PartSize || b.st.parts > 0
}

func (b *bulk) commit(ctx context.Context) error {
	if err := b.propose(ctx, engine.Proposal{Part: b.isPart()}); err != nil {
		return err
	}
	b.outcome.settle(b.end, b.st.Last, b.changes)
	b.st.Cursor, b.st.dealt = b.cursor, b.end.Done
	if b.done += b.objects; b.progress != nil {
		b.progress(b.done, b.total)
	}
	return nil
}

// decide decides about the part after the cursor.
func (b *bulk) decide(s *state.State) ([]event.Change, error) {
	some, last, err := b.panel.After(s, b.st.Cursor, state.PartSize)
	if err != nil {
		return nil, err
	}
	p, err := b.work.Decide(s, some)
	if err != nil {
		return nil, err
	}
	b.cursor = ""
	if b.objects = len(some) - p.Left; b.objects > 0 {
		b.cursor = some[b.objects-1]
	}
	switch b.end.Final = last && p.Left == 0; {
	case b.end.Final || b.end.Alone:
	case b.panel.All:
		b.end.Object = b.cursor
	default: // the event outlives the names, and says only how many of them are dealt with
		b.end.Done = b.st.dealt + uint64(b.objects)
	}
	b.changes = p.Settle(b.end)
	return b.changes, nil
}

func (b *bulk) forget() {
	b.protocol.forget()
	b.surveyed, b.done = false, 0
}

// Bulk is a request over many objects whose work another package does.
type Bulk struct {
	Key      string                // its idempotency key
	Id       event.Identity        // by which a repetition is recognized
	Panel    Panel                 // its objects
	Progress func(done, total int) // optional
	Work     Work                  // what it does with them
}

// Bulk executes a request over many objects.
func (e *Executor) Bulk(ctx context.Context, r Bulk) (Outcome, error) {
	b := &bulk{work: r.Work, progress: r.Progress}
	b.Executor, b.steps, b.key, b.id, b.panel = e, b, r.Key, r.Id, r.Panel
	err := b.run(ctx)
	return b.outcome, err
}

// EachPart passes the panel after an object to visit, in snapshots of one part each.
func (e *Executor) EachPart(
	ctx context.Context, p *Panel, after string, visit func(s *state.State, names []string) error,
) error {
	for last := false; !last; {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := e.Engine.View(ctx, func(s *state.State) error {
			names, end, err := p.After(s, after, state.PartSize)
			if err != nil {
				return err
			}
			if last = end; len(names) > 0 {
				after = names[len(names)-1]
			}
			return visit(s, names)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
