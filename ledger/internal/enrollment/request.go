package enrollment

import (
	"context"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/callback"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// Request is what all requests of this package have in common. Each has its own idempotency key.
type Request struct {
	*request.Executor                       // executes the requests to the ledger
	Key               string                // idempotency key
	Id                event.Identity        // identifies a repeated request
	Question          *event.Question       // nil for all questions
	Partial           bool                  // leave refused objects out; otherwise one refusal refuses the request
	DryRun            bool                  // return what would be done, and record nothing
	Progress          func(done, total int) // optional
}

// Indexes of the counts of each request.
const (
	Done      = iota // objects that the request enrols, puts under other terms, or withdraws
	Unchanged        // objects that need no change
)

// decision decides about one object. It returns its change or its refusal, or neither if the object
// needs no change.
type decision func(s *state.State, numbers *policyNumbers, name string) (event.Change, *api.Refusal, error)

// run executes a request for objects, whose names must be sorted. decide is called for each of
// them. With DryRun it returns what would be done.
func (r *Request) run(ctx context.Context, objects []string, decide decision) (request.Outcome, error) {
	d := &deciding{r, decide}
	p := request.Panel{Names: objects}
	if r.Question != nil {
		p.Question = r.Question.Number
	}
	if r.DryRun {
		return d.dryRun(ctx, p)
	}
	done, err := r.Bulk(ctx, request.Bulk{Key: r.Key, Id: r.Id, Panel: p, Progress: r.Progress, Work: d})
	return done, callback.Report(err)
}

// deciding is the work of a request: it decides about each object separately. Unless the request is
// partial, all objects are checked before the first part is executed, and one refusal refuses the
// request.
type deciding struct {
	*Request
	decide decision
}

// Precheck implements [request.Work]. It decides about all objects after a name, but records
// nothing, and returns their number. It returns the error of a refused request if an object is
// refused, unless the request is partial.
func (d *deciding) Precheck(ctx context.Context, p request.Panel, after string) (total int, err error) {
	var refused request.RefusalList
	counts, err := d.survey(ctx, p, after, &refused)
	if err == nil {
		err = d.refuse(refused)
	}
	return int(counts[Done]+counts[Unchanged]) + refused.Count(), err
}

// survey decides about the objects after a name, and records nothing. It returns the sums of the
// counts, and adds the refusals to refused.
func (d *deciding) survey(
	ctx context.Context, p request.Panel, after string, refused *request.RefusalList,
) (counts event.Counts, err error) {
	err = d.EachPart(ctx, &p, after, func(s *state.State, names []string) error {
		part, err := d.part(s, names)
		for i, n := range part.Counts {
			counts[i] += n
		}
		refused.Add(part.Refused...)
		return err
	})
	return counts, err
}

// dryRun returns what the request would do. If the request would be refused, it returns that error.
// Unlike for a request that is executed, the refusal is not reported to the host's log and
// observer.
func (d *deciding) dryRun(ctx context.Context, p request.Panel) (out request.Outcome, err error) {
	refused := request.NewRefusals(d.Partial)
	out.Counts, err = d.survey(ctx, p, "", &refused)
	if err == nil && len(refused.Listed) > 0 && !d.Partial {
		err = refused.Error(d.Question)
	}
	out.Refused, out.RefusedCount = refused.Listed, refused.Count()
	return out, err
}

// Truths does nothing, because none of these requests needs true values.
func (d *deciding) Truths(context.Context, string) error { return nil }

// Decide implements [request.Work]. It decides about the objects of one part. If one of them is
// refused and the request is not partial, it returns the error of a refused request.
func (d *deciding) Decide(s *state.State, names []string) (request.Part, error) {
	p, err := d.part(s, names)
	if err == nil {
		err = d.refuse(request.Refusals(p.Refused...))
	}
	return p, err
}

// part decides about some objects. The events that define new policies come first, because the
// changes of the objects use their numbers.
func (d *deciding) part(s *state.State, names []string) (p request.Part, err error) {
	if d.Question != nil {
		p.Question = d.Question.Number
	}
	numbers := policyNumbers{state: s}
	for _, name := range names {
		c, refusal, err := d.decide(s, &numbers, name)
		switch {
		case err != nil:
			return p, err
		case refusal != nil:
			p.Refused = append(p.Refused, *refusal)
		case c == nil:
			p.Counts[Unchanged]++
		default:
			p.Counts[Done]++
			p.Changes = append(p.Changes, c)
		}
	}
	p.Changes = append(numbers.defined, p.Changes...)
	return p, nil
}

// refuse returns the error of a refused request, or nil if the request is partial or has no
// refusals. Only requests about one question have refusals, so d.Question is set.
func (d *deciding) refuse(refused request.RefusalList) error {
	if d.Partial || len(refused.Listed) == 0 {
		return nil
	}
	return d.Refuse(d.Key, "", d.Question, privacy.Epsilon{}, &refused, &rules.TruthFaults{}) // no buyer, and no ε
}
