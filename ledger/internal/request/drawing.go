package request

import (
	"context"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/fold"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// drawing is what a release and a raise do with each object: get the response of its chain at one
// ε.
type drawing struct {
	*protocol
	hold     *rules.Hold     // keeps budget for the objects of later parts
	level    state.Level     // the level that the last object got or had already
	released event.Released  // the event of the last response
	changes  [2]event.Change // memory for that event and the one that binds the chain
}

// objectRequest returns the request for one object, by the ceilings of the time at which the key
// was looked up.
func (d *drawing) objectRequest() rules.Request {
	return rules.Request{Question: d.question, Epsilon: d.epsilon, At: d.at, Hold: d.hold}
}

// assess reads an object into o, and returns what the request ask means for it: a verdict or a
// refusal. The refusal says which ε is possible instead, unless the request is decided before its
// key is looked up.
func (d *drawing) assess(
	s *state.State, name string, ask rules.Request, o *rules.Subject,
) (event.Verdict, *api.Refusal, error) {
	if refusal, err := rules.ReadSubject(s, d.question, name, d.epsilon, o); err != nil || refusal != nil {
		return 0, refusal, err
	}
	v, refusal, err := d.Rules.Assess(s, o, ask)
	if err == nil && refusal != nil && !d.decidesFirst {
		err = d.Rules.FindLargest(s, o, ask, rules.Offered(d.question), refusal)
	}
	return v, refusal, err
}

// answer draws or derives the response of one object and records it. It adds the verdict to counts,
// and keeps the level in d.level. It records nothing if the response exists already, or if it
// returns a refusal. It returns errOvertaken if a true value is needed that the host was not asked
// for, or that can no longer be used.
func (d *drawing) answer(s *state.State, name string, counts *event.Counts) (*api.Refusal, error) {
	var o rules.Subject
	ask := d.objectRequest()
	ask.At = rules.Earlier(d.at, s.Clock)
	v, refusal, err := d.assess(s, name, ask, &o)
	if err != nil || refusal != nil {
		return refusal, err
	}
	truth, asked := d.trueValues.Of(name)
	if v == event.Drawn {
		switch {
		case !asked:
			return nil, errOvertaken
		case truth == rules.NoTruth:
			return d.refuseWithoutTruth(s, &o)
		}
		if err := d.checkTruth(d.question, &o.Chain, name, truth); err != nil {
			return nil, err
		}
	}
	counts[v]++
	if v == event.Reused {
		d.level, _ = o.Chain.At(d.epsilon)
		return nil, nil
	}
	r, first, err := d.Rules.Respond(s.Samplers, d.question, &o, d.epsilon, truth)
	if err != nil {
		return nil, err
	}
	d.released = event.Released{Object: name, Question: d.question.Number, Epsilon: d.epsilon, Response: r}
	// first has the event that binds the chain, if it must be bound. d.released is the last event.
	_, last, err := fold.Record(s, append(append(d.changes[:0], first...), &d.released))
	d.level = state.NewLevel(d.epsilon, r.Value, last)
	return nil, err
}

// reusedLevel returns the question and ε of the request if some of its responses were recorded
// before, and the zero value if none were. The event that settles the request records it.
func (d *drawing) reusedLevel(counts event.Counts) event.Wanted {
	if counts[event.Reused] == 0 {
		return event.Wanted{}
	}
	return event.Wanted{Question: d.question.Number, Epsilon: d.epsilon}
}

// refuseWithoutTruth returns the refusal of an object because the host has no usable true value of
// it, with the largest ε that is possible instead.
func (d *drawing) refuseWithoutTruth(s *state.State, o *rules.Subject) (*api.Refusal, error) {
	refusal := rules.LacksTruth(o.Name, d.epsilon)
	return refusal, d.Rules.FindLargest(s, o, d.objectRequest(), rules.Offered(d.question), refusal)
}

// refuseAllWithoutTruth returns the refusals of objects that the host has no usable true value of.
// If an object has withdrawn since it was assessed, that refusal is returned instead.
func (d *drawing) refuseAllWithoutTruth(ctx context.Context, names []string) (refused []api.Refusal, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	err = d.Engine.View(ctx, func(s *state.State) error {
		for _, name := range names {
			var o rules.Subject
			refusal, err := rules.ReadSubject(s, d.question, name, d.epsilon, &o)
			if err == nil && refusal == nil {
				refusal, err = d.refuseWithoutTruth(s, &o)
			}
			if err != nil {
				return err
			}
			refused = append(refused, *refusal)
		}
		return nil
	})
	return refused, err
}

// alternative adds to the error of a refused request what is possible instead: how many objects can
// answer at its ε, and the largest ε at which all can. It returns other errors unchanged.
func (d *drawing) alternative(ctx context.Context, err error) error {
	bid := rules.Bid{Question: d.question}
	f := &forecast{Executor: d.Executor, bid: bid, panel: d.panel, withoutTruth: d.withoutTruth}
	return f.alternative(ctx, err, d.epsilon)
}

// prepare checks the request and prepares the drawing for it. own has the steps of the request that
// embeds the drawing. names are the sorted names of its objects; r.Objects is not used.
func (d *drawing) prepare(ctx context.Context, e *Executor, own steps, r api.RaiseRequest, names []string) (err error) {
	if err := d.begin(e, own, r.Key); err != nil {
		return err
	}
	if d.question, err = e.Question(ctx, r.Question); err != nil {
		return err
	}
	d.epsilon, d.source = r.Epsilon, r.Truth
	d.panel = Panel{Names: names, All: r.All, Question: d.question.Number}
	d.id = event.RaiseRequest(r.Question, r.Epsilon, r.Partial, names, r.All)
	return d.question.CheckLevel(r.Epsilon)
}
