package request

import (
	"context"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/fold"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// drawing is what a release and a raise do with each object: bring its chain to one ε.
type drawing struct {
	*protocol
	hold     *rules.Hold     // keeps budget for the objects of later parts
	given    state.Level     // the response that the last object got or had
	released event.Released  // the event of the last response
	recorded [2]event.Change // memory for that event and the one that binds the chain
}

// asking returns the request for one object, as of the instant at which the key was looked up.
func (x *drawing) asking() rules.Asking {
	return rules.Asking{Question: x.question, Epsilon: x.epsilon, At: x.at, Hold: x.hold}
}

// assess reads an object into o and decides what the request means for it. If the request is
// decided before its key is looked up, a refusal does not say which ε is possible instead.
func (x *drawing) assess(
	s *state.State, name string, ask rules.Asking, o *rules.Subject,
) (event.Verdict, *api.Refusal, error) {
	if refusal, err := rules.ReadSubject(s, x.question, name, x.epsilon, o); err != nil || refusal != nil {
		return 0, refusal, err
	}
	v, refusal, err := x.Rules.Assess(s, o, ask)
	if err == nil && refusal != nil && !x.prompt {
		err = x.Rules.OrLess(s, o, ask, rules.Offered(x.question), refusal)
	}
	return v, refusal, err
}

// answer draws or derives the response of one object, records it, and counts the verdict. It
// records nothing if the response exists already or the object is refused.
func (x *drawing) answer(s *state.State, name string, counts *event.Counts) (*api.Refusal, error) {
	var o rules.Subject
	ask := x.asking()
	ask.At = rules.Earlier(x.at, s.Clock)
	v, refusal, err := x.assess(s, name, ask, &o)
	if err != nil || refusal != nil {
		return refusal, err
	}
	truth, asked := x.truths.Of(name)
	if v == event.Drawn {
		switch {
		case !asked:
			return nil, errOvertaken
		case truth == rules.NoTruth:
			return x.refuseUntold(s, &o)
		}
		if err := x.checkTruth(x.question, &o.Chain, name, truth); err != nil {
			return nil, err
		}
	}
	counts[v]++
	if v == event.Reused {
		x.given, _ = o.Chain.At(x.epsilon)
		return nil, nil
	}
	r, first, err := x.Rules.Respond(s.Chances, x.question, &o, x.epsilon, truth)
	if err != nil {
		return nil, err
	}
	x.released = event.Released{Object: name, Question: x.question.Number, Epsilon: x.epsilon, Response: r}
	_, last, err := fold.Record(s, append(append(x.recorded[:0], first...), &x.released))
	x.given = state.NewLevel(x.epsilon, r.Value, last)
	return nil, err
}

// again returns the responses that are handed out again, or the zero value if there are none.
func (x *drawing) again(counts event.Counts) event.Wanted {
	if counts[event.Reused] == 0 {
		return event.Wanted{}
	}
	return event.Wanted{Question: x.question.Number, Epsilon: x.epsilon}
}

// refuseUntold returns the refusal of an object because the host has no true value of it.
func (x *drawing) refuseUntold(s *state.State, o *rules.Subject) (*api.Refusal, error) {
	refusal := rules.LacksTruth(o.Name, x.epsilon)
	return refusal, x.Rules.OrLess(s, o, x.asking(), rules.Offered(x.question), refusal)
}

// refuseAllUntold returns the refusals of objects that the host has no true value of. If an object
// is now refused for another reason, that refusal is returned instead.
func (x *drawing) refuseAllUntold(ctx context.Context, names []string) (refused []api.Refusal, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	err = x.Engine.View(ctx, func(s *state.State) error {
		for _, name := range names {
			var o rules.Subject
			refusal, err := rules.ReadSubject(s, x.question, name, x.epsilon, &o)
			if err == nil && refusal == nil {
				refusal, err = x.refuseUntold(s, &o)
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

// alternative adds to the error of a refused request what is possible instead.
func (x *drawing) alternative(ctx context.Context, err error) error {
	f := &forecast{Executor: x.Executor, bid: rules.Bid{Question: x.question}, panel: x.panel, untold: x.untold}
	return f.alternative(ctx, err, x.epsilon)
}

// set checks a request for a level and prepares the drawing for it.
func (x *drawing) set(ctx context.Context, e *Executor, own steps, r api.RaiseRequest, objects []string) (err error) {
	if err := x.begin(e, own, r.Key); err != nil {
		return err
	}
	if x.question, err = e.Question(ctx, r.Question); err != nil {
		return err
	}
	x.epsilon, x.source = r.Epsilon, r.Truth
	x.panel = Panel{Names: objects, All: r.All, Question: x.question.Number}
	x.id = event.RaiseRequest(r.Question, r.Epsilon, r.Partial, objects, r.All)
	return x.question.CheckLevel(r.Epsilon)
}
