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
	// Precheck reads the objects of the panel whose names follow the name after, before anything is
	// written. It may refuse the request. It returns the number of these objects, or 0 if it did
	// not count them.
	Precheck(ctx context.Context, p Panel, after string) (int, error)
	// Truths gets the true values for the next part, which begins with the object that follows the
	// name after. Values that Precheck has kept are not requested again.
	Truths(ctx context.Context, after string) error
	// Decide decides about the objects of one part. It may record changes itself, and returns the
	// changes that it has not recorded. The objects may differ from those that Precheck read.
	Decide(s *state.State, names []string) (Part, error)
}

// Part is what one transaction does for a request over many objects.
type Part struct {
	Changes   []event.Change         // not recorded yet, in order
	Counts    event.Counts           // of the objects of the part
	Refused   []api.Refusal          // the refusals, in Question; empty for a sweep, which has Swept
	Question  uint32                 // the number of the question of Refused
	Swept     []*event.SweptQuestion // of a sweep: the refusals of each question
	Undecided int                    // number of objects at the end of the part that the next part must decide about
	Reused    event.Wanted           // the responses that are handed out again; zero if none
}

// Settle returns the changes of the part, followed by the events of its refusals and the event that
// settles it, end. It writes the counts of the part into end.
func (p Part) Settle(end *event.Settled) []event.Change {
	end.Counts, end.Again = p.Counts, p.Reused
	changes := p.Changes
	for _, one := range p.Swept {
		end.Swept = append(end.Swept, one.SweptCount)
		end.Refused += one.Refused
		for _, r := range one.Refusals {
			changes = append(changes, &event.ObjectRefused{Question: one.Question, Refusal: r})
		}
	}
	return AppendSettled(changes, p.Question, p.Refused, end)
}

// bulk is a request over many objects, executed in parts of bounded size.
type bulk struct {
	protocol
	work       Work
	onProgress func(done, total int) // optional
	outcome    Outcome               // sum of all parts

	isPrechecked bool // Precheck has run in this attempt
	done, total  int  // numbers of objects for the progress, in this attempt
	// Fields of the part that was decided last:
	objects int            // number of objects decided
	cursor  string         // its last object
	changes []event.Change // its events
}

// readSettled reads the outcome of the settled parts. If a request with names is not done, it also
// sets the cursor: the object after which the next part begins. For a request for all, the lookup
// has set it.
func (b *bulk) readSettled(s *state.State) (err error) {
	if b.outcome, err = outcomeOf(s, b.progress.settled); err != nil || b.progress.Done || b.progress.doneObjects == 0 {
		return err
	}
	if b.panel.All || b.progress.doneObjects > uint64(len(b.panel.Names)) {
		return errs.Corrupt(nil, "request %q: %d objects are done, which is more than it names",
			b.key, b.progress.doneObjects)
	}
	b.progress.Cursor = b.panel.Names[b.progress.doneObjects-1]
	return nil
}

// assessNew resets the outcome for a new attempt, of which no part is settled.
func (b *bulk) assessNew(*state.State) error {
	b.outcome = Outcome{}
	return nil
}

// ask prepares the next part. In the first part of an attempt, it runs Precheck. In each part, it
// waits for memory capacity and gets the true values.
func (b *bulk) ask(ctx context.Context) (err error) {
	if !b.isPrechecked {
		if b.total, err = b.work.Precheck(ctx, b.panel, b.progress.Cursor); err != nil {
			return err
		}
		b.isPrechecked = true
	}
	if err := b.Engine.AwaitCapacity(ctx); err != nil {
		return err
	}
	return b.work.Truths(ctx, b.progress.Cursor)
}

// isPart reports whether the request may have more than one part. A request for all objects may,
// because their number is not known.
func (b *bulk) isPart() bool {
	return b.panel.All || len(b.panel.Names) > state.PartSize || b.progress.parts > 0
}

// commit proposes the next part and waits until it is durable. It then adds the part to the
// outcome, moves the cursor, and reports the progress.
func (b *bulk) commit(ctx context.Context) error {
	if err := b.propose(ctx, engine.Proposal{Part: b.isPart()}); err != nil {
		return err
	}
	b.outcome.settle(b.end, b.progress.Last, b.changes)
	b.progress.Cursor, b.progress.doneObjects = b.cursor, b.end.Done
	if b.done += b.objects; b.onProgress != nil {
		b.onProgress(b.done, b.total)
	}
	return nil
}

// decide decides about the part after the cursor, and returns its changes. The event that settles
// it says how far the request is done, so that another call can continue after it.
func (b *bulk) decide(s *state.State) ([]event.Change, error) {
	some, last, err := b.panel.After(s, b.progress.Cursor, state.PartSize)
	if err != nil {
		return nil, err
	}
	p, err := b.work.Decide(s, some)
	if err != nil {
		return nil, err
	}
	b.cursor = ""
	if b.objects = len(some) - p.Undecided; b.objects > 0 {
		b.cursor = some[b.objects-1]
	}
	switch b.end.Final = last && p.Undecided == 0; {
	case b.end.Final || b.end.Alone: // nothing continues after this part
	case b.panel.All:
		b.end.Object = b.cursor
	default: // the names may be forgotten later, so the event has only the number of objects that are done
		b.end.Done = b.progress.doneObjects + uint64(b.objects)
	}
	b.changes = p.Settle(b.end)
	return b.changes, nil
}

// forget overwrites true values and resets the state of the attempt, so that the next one runs
// Precheck again.
func (b *bulk) forget() {
	b.protocol.forget()
	b.isPrechecked, b.done = false, 0
}

// Bulk is a request over many objects whose work is done by another package.
type Bulk struct {
	Key      string                // idempotency key
	Id       event.Identity        // identifies a repeated request
	Panel    Panel                 // the objects
	Progress func(done, total int) // optional
	Work     Work                  // what is done with the objects
}

// Bulk executes a request over many objects.
func (e *Executor) Bulk(ctx context.Context, r Bulk) (Outcome, error) {
	b := &bulk{work: r.Work, onProgress: r.Progress}
	b.Executor, b.steps, b.key, b.id, b.panel = e, b, r.Key, r.Id, r.Panel
	err := b.run(ctx)
	return b.outcome, err
}

// EachPart calls visit for each part of the panel from the object that follows the name after, with
// a new snapshot for each part. It ends with the first error, also of ctx.
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
