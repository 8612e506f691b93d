package request

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// Forecast returns what objects can answer to a question.
func (e *Executor) Forecast(ctx context.Context, r api.BudgetRequest) (out api.Budget, err error) {
	x := &forecast{Executor: e}
	if err := x.set(ctx, r); err != nil {
		return out, err
	}
	err = e.Engine.View(ctx, func(s *state.State) (err error) {
		var found bool
		if out, found, err = x.recall(s); err != nil || found {
			return err
		}
		until, err := x.read(ctx, s, &out)
		if err == nil && x.isSteady(s) {
			e.Forecasts.Keep(x.form(), out, until)
		}
		return err
	})
	if err != nil {
		return api.Budget{}, err
	}
	out.Levels, out.Refused = slices.Clone(out.Levels), slices.Clone(out.Refused) // others have the same
	return out, nil
}

// forecast is a request for what objects can answer.
type forecast struct {
	*Executor
	bid    rules.Bid
	buying bool
	panel  Panel
	levels []privacy.Epsilon // rising; none if they are to be found
	untold []string          // in order, the objects that the host has no true value of
}

// set checks the request, and gets it ready.
func (x *forecast) set(ctx context.Context, r api.BudgetRequest) (err error) {
	if x.bid.Client, x.buying = r.Buyer, r.Buyer != ""; x.buying {
		if err := event.CheckName("buyer", r.Buyer); err != nil {
			return err
		}
	}
	if x.panel.Names, err = event.CheckAsked(r.Objects, r.All, math.MaxInt); err != nil {
		return err
	}
	if x.bid.Question, err = x.Question(ctx, r.Question); err != nil {
		return err
	}
	x.panel.All, x.panel.Question = r.All, x.bid.Question.Number
	if len(r.Epsilons) > rules.MostLevels {
		return errs.Invalid("a budget at %d values of ε; %d are possible", len(r.Epsilons), rules.MostLevels)
	}
	for _, epsilon := range r.Epsilons {
		if err := x.bid.Question.CheckLevel(epsilon); err != nil {
			return err
		}
	}
	x.levels = slices.Clone(r.Epsilons)
	slices.SortFunc(x.levels, privacy.Epsilon.Compare)
	x.levels = slices.Compact(x.levels)
	return nil
}

// through returns the panel, as it is in a state.
func (x *forecast) through(s *state.State) Panel {
	p := x.panel
	p.Through = s.Counters.Events
	return p
}

// form returns the identity of the request, as the key of its answer.
func (x *forecast) form() [2]event.Sum {
	f := event.NewForm("budget")
	f.Field("Question").Text(x.bid.Question.Name)
	f.Field("Buyer").Text(x.bid.Client)
	levels := f.Field("Epsilons")
	for _, epsilon := range x.levels {
		levels.Epsilon(epsilon)
	}
	f.Objects(x.panel.Names, x.panel.All)
	id := f.Finish()
	return [2]event.Sum{id.Sum, id.Objects}
}

// read computes it, in a snapshot. until is when time will change the answer, or zero.
func (x *forecast) read(ctx context.Context, s *state.State, out *api.Budget) (until time.Time, err error) {
	if x.bid.Buyer, _, err = s.BuyerNumber(x.bid.Client); err != nil {
		return until, err
	}
	levels := x.levels
	if len(levels) == 0 {
		if levels, err = x.tops(ctx, s); err != nil {
			return until, err
		}
	}
	o := x.counting(s, levels)
	if err = x.count(ctx, s, o); err != nil {
		return until, err
	}
	*out, until = o.Result()
	if out.Objects == 0 {
		return until, fmt.Errorf("question %q: nobody takes part: %w", x.bid.Question.Name, errs.ErrUnknown)
	}
	out.Largest, err = x.largest(ctx, s, o)
	return until, err
}

// outlook begins to count.
func (x *forecast) counting(s *state.State, levels []privacy.Epsilon) *rules.Count {
	return &rules.Count{
		Rules: x.Rules, State: s, Bid: x.bid, Buying: x.buying, Levels: levels, Untold: x.untold,
		Lowest: privacy.MaxEpsilon(),
	}
}

// tops returns the levels to look at where none are given.
func (x *forecast) tops(ctx context.Context, s *state.State) ([]privacy.Epsilon, error) {
	o := x.counting(s, []privacy.Epsilon{privacy.MaxEpsilon()})
	o.Tops = rules.Tops{}
	if err := x.count(ctx, s, o); err != nil {
		return nil, err
	}
	if levels := o.Tops.Levels(); len(levels) > 0 {
		return levels, nil
	}
	if x.bid.Question.Encoding == event.EncodingFinite { // nobody can answer: not even at the lowest level
		return x.bid.Question.Mechanism.Family.Epsilons()[:1], nil
	}
	lowest, err := privacy.EpsilonFromNano(1)
	return []privacy.Epsilon{lowest}, err
}

// count adds everybody.
func (x *forecast) count(ctx context.Context, s *state.State, o *rules.Count) error {
	p := x.through(s)
	for behind, last := "", false; !last; {
		if err := errs.Context(ctx); err != nil {
			return err
		}
		some, end, err := p.After(s, behind, state.PartSize)
		if err != nil {
			return err
		}
		for _, name := range some {
			if err := o.Add(name); err != nil {
				return err
			}
			behind = name
		}
		last = end
	}
	return nil
}

// largest returns the largest ε that everybody can have, given what was found by looking once.
// Where offers differ that takes more looks: each finds a lower ε, until one that nobody lowers any
// more.
func (x *forecast) largest(ctx context.Context, s *state.State, o *rules.Count) (privacy.Epsilon, error) {
	for range mostLooks {
		if o.Proven() {
			return o.Lowest, nil
		}
		again := x.counting(s, []privacy.Epsilon{o.Lowest})
		again.Lowest = o.Lowest
		if err := x.count(ctx, s, again); err != nil {
			return privacy.Epsilon{}, err
		}
		if again.Lowest == o.Lowest {
			return o.Lowest, nil
		}
		o = again
	}
	return privacy.Epsilon{}, nil
}

// mostLooks is how often everybody is looked at for the sake of the largest ε, before it is given
// up.
const mostLooks = 16

// mostSince is how many events are read before everybody is looked at again.
const mostSince = 4096

// isSteady reports whether the answer follows from the events and the time alone: no request holds
// anything in memory, and the clock has not gone back.
func (x *forecast) isSteady(s *state.State) bool {
	return len(x.Rules.Holds.List()) == 0 && s.Clock.Equal(s.Now)
}

// recall returns an answer that still holds.
func (x *forecast) recall(s *state.State) (out api.Budget, found bool, err error) {
	key, now := x.form(), s.Counters.Events
	out, until, found := x.Forecasts.Get(key)
	passed := s.Clock.Before(out.At) || !until.IsZero() && !s.Clock.Before(until)
	if !found || passed || !x.isSteady(s) || out.Event > now || now-out.Event > mostSince {
		return out, false, nil
	}
	for number := out.Event + 1; number <= now; number++ {
		ev, err := s.Event(number)
		if err != nil {
			return out, false, err
		}
		if concerns, err := x.isConcerned(s, ev.Change); err != nil || concerns {
			return out, false, err
		}
	}
	out.Event, out.At = now, s.Clock
	x.Forecasts.Keep(key, out, until)
	return out, true, nil
}

// isConcerned reports whether an event may have changed what somebody can have.
func (x *forecast) isConcerned(s *state.State, c event.Change) (bool, error) {
	switch c := c.(type) {
	case *event.Settled, *event.Answered, *event.ObjectRefused, *event.Stated, *event.TruthBound, *event.BuyerNamed,
		*event.PolicyDefined, *event.QuestionDefined, *event.Reserved, *event.SaleMade:
		return false, nil // what they come with concerns people, if anything does
	case event.Personal:
		p := x.through(s)
		return p.Contains(s, c.About())
	}
	return true, nil
}

// alternative adds to the error of a request that was refused at an ε what its objects could
// answer: at this ε, and at the largest for all.
func (x *forecast) alternative(ctx context.Context, err error, epsilon privacy.Epsilon) error {
	x.levels = []privacy.Epsilon{epsilon}
	return x.explain(ctx, err, func(s *state.State, out *api.Budget) error { return x.readAround(ctx, s, out) })
}

// explain adds to the error of a request that was refused what would be possible instead, as read
// finds out in a snapshot. If that cannot be found out, the error stays as it is.
func (e *Executor) explain(
	ctx context.Context, err error, read func(*state.State, *api.Budget) error,
) error {
	var out api.Budget
	refused, is := errors.AsType[*api.RefusedError](err)
	if is && e.Engine.View(ctx, func(s *state.State) error { return read(s, &out) }) == nil {
		refused.Instead = &out
	}
	return err
}

// readAround reads the one level that is asked about, and at the largest that all can have.
func (x *forecast) readAround(ctx context.Context, s *state.State, out *api.Budget) error {
	_, err := x.read(ctx, s, out)
	if err != nil || out.Largest.IsZero() || !out.Largest.Less(x.levels[0]) {
		return err
	}
	x.levels = []privacy.Epsilon{out.Largest, x.levels[0]}
	_, err = x.read(ctx, s, out)
	return err
}

// mostKept is how many budgets are kept.
const mostKept = 64

// Forecasts are budgets that were computed before, by what was asked. The zero value is empty. It may
// be used concurrently.
type Forecasts struct {
	mu  sync.Mutex
	All map[[2]event.Sum]KeptForecast // used under the lock
}

// KeptForecast is a budget, with the instant at which time changes it.
type KeptForecast struct {
	Budget api.Budget // as of the event that it says
	Until  time.Time  // or zero
}

// Keep keeps a budget, in place of another if there are many.
func (b *Forecasts) Keep(key [2]event.Sum, out api.Budget, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.All == nil {
		b.All = map[[2]event.Sum]KeptForecast{}
	}
	for other := range b.All {
		if len(b.All) < mostKept {
			break
		}
		delete(b.All, other)
	}
	b.All[key] = KeptForecast{out, until}
}

// Get returns what is kept, and until when it holds if nothing else happens.
func (b *Forecasts) Get(key [2]event.Sum) (out api.Budget, until time.Time, found bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one, found := b.All[key]
	return one.Budget, one.Until, found
}
