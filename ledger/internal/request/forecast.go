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

// Forecast returns what objects can answer to a question. The result may come from the cache.
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
	out.Levels, out.Refused = slices.Clone(out.Levels), slices.Clone(out.Refused) // the cache shares these slices
	return out, nil
}

// forecast is a request for what objects can answer.
type forecast struct {
	*Executor
	bid    rules.Bid
	buying bool
	panel  Panel
	levels []privacy.Epsilon // ascending; empty if they are to be found
	untold []string          // sorted names of the objects that the host has no true value of
}

// set checks the request and prepares the forecast for it.
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

// through returns the panel of the request as of a state.
func (x *forecast) through(s *state.State) Panel {
	p := x.panel
	p.Through = s.Counters.Events
	return p
}

// form returns a digest of the request, which is its key in the cache.
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

// read computes the budget in a snapshot. until is the time at which the result changes if there
// are no events, or zero if it does not.
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

// counting returns an empty count at these levels.
func (x *forecast) counting(s *state.State, levels []privacy.Epsilon) *rules.Count {
	return &rules.Count{
		Rules: x.Rules, State: s, Bid: x.bid, Buying: x.buying, Levels: levels, Untold: x.untold,
		Lowest: privacy.MaxEpsilon(),
	}
}

// tops returns the levels to count at if the request has none: the largest ε that objects can have.
// If no object can answer, it returns the lowest level.
func (x *forecast) tops(ctx context.Context, s *state.State) ([]privacy.Epsilon, error) {
	o := x.counting(s, []privacy.Epsilon{privacy.MaxEpsilon()})
	o.Tops = rules.Tops{}
	if err := x.count(ctx, s, o); err != nil {
		return nil, err
	}
	if levels := o.Tops.Levels(); len(levels) > 0 {
		return levels, nil
	}
	if x.bid.Question.Encoding == event.EncodingFinite { // no object can answer, not even at the lowest level
		return x.bid.Question.Mechanism.Family.Epsilons()[:1], nil
	}
	lowest, err := privacy.EpsilonFromNano(1)
	return []privacy.Epsilon{lowest}, err
}

// count adds all objects of the panel to o.
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

// largest returns the largest ε that all objects can have, given the result of a first count. Where
// the objects have different offers, each further count may find a lower ε. The result is found
// when a count does not lower it, and is 0 if that takes more than [mostLooks] counts.
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

// mostLooks is how often all objects are counted to find the largest ε before the search is given
// up.
const mostLooks = 16

// mostSince is the largest number of new events that are read to see if a cached budget still
// holds. After more events, all objects are counted again.
const mostSince = 4096

// isSteady reports whether the answer follows from the events and the time alone: no running
// request holds budget, and the clock has not gone back.
func (x *forecast) isSteady(s *state.State) bool {
	return len(x.Rules.Holds.List()) == 0 && s.Clock.Equal(s.Now)
}

// recall returns the cached answer if no event since then concerns the objects of the request and
// its time has not passed.
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

// isConcerned reports whether an event may have changed what the objects of the request can have.
func (x *forecast) isConcerned(s *state.State, c event.Change) (bool, error) {
	switch c := c.(type) {
	case *event.Settled, *event.Answered, *event.ObjectRefused, *event.Stated, *event.TruthBound, *event.BuyerNamed,
		*event.PolicyDefined, *event.QuestionDefined, *event.Reserved, *event.SaleMade:
		return false, nil // if objects are concerned, other events of the same transaction say so
	case event.Personal:
		p := x.through(s)
		return p.Contains(s, c.About())
	}
	return true, nil
}

// alternative adds to the error of a refused request what is possible instead. That is how many of
// its objects can answer at epsilon, and the largest ε at which all of them can.
func (x *forecast) alternative(ctx context.Context, err error, epsilon privacy.Epsilon) error {
	x.levels = []privacy.Epsilon{epsilon}
	return x.explain(ctx, err, func(s *state.State, out *api.Budget) error { return x.readAround(ctx, s, out) })
}

// explain adds to a [*api.RefusedError] what is possible instead, as read finds it in a snapshot.
// Other errors stay as they are, and so does the error if read fails.
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

// readAround counts at the requested level and, if it is lower, at the largest level that all
// objects can have.
func (x *forecast) readAround(ctx context.Context, s *state.State, out *api.Budget) error {
	_, err := x.read(ctx, s, out)
	if err != nil || out.Largest.IsZero() || !out.Largest.Less(x.levels[0]) {
		return err
	}
	x.levels = []privacy.Epsilon{out.Largest, x.levels[0]}
	_, err = x.read(ctx, s, out)
	return err
}

// mostKept is the largest number of budgets in the cache.
const mostKept = 64

// Forecasts is a cache of computed budgets, by the digest of the request. The zero value is empty.
// Its methods may be called concurrently.
type Forecasts struct {
	mu  sync.Mutex
	All map[[2]event.Sum]KeptForecast // guarded by mu
}

// KeptForecast is a cached budget.
type KeptForecast struct {
	Budget api.Budget // as of the event in its field Event
	Until  time.Time  // when time alone changes it; zero if never
}

// Keep stores a budget. It replaces another one if the cache is full.
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

// Get returns a cached budget, and until when it holds if there are no other events.
func (b *Forecasts) Get(key [2]event.Sum) (out api.Budget, until time.Time, found bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one, found := b.All[key]
	return one.Budget, one.Until, found
}
