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

// Forecast returns what objects can answer to a question. The result may come from the cache. It is
// put there only if it holds until an event or a known time changes it.
func (e *Executor) Forecast(ctx context.Context, r api.BudgetRequest) (out api.Budget, err error) {
	f := &forecast{Executor: e}
	if err := f.prepare(ctx, r); err != nil {
		return out, err
	}
	err = e.Engine.View(ctx, func(s *state.State) (err error) {
		var found bool
		if out, found, err = f.readCached(s); err != nil || found {
			return err
		}
		until, err := f.read(ctx, s, &out)
		if err == nil && f.isSteady(s) {
			e.Forecasts.Keep(f.form(), out, until)
		}
		return err
	})
	if err != nil {
		return api.Budget{}, err
	}
	out.Levels, out.Refused = slices.Clone(out.Levels), slices.Clone(out.Refused) // the cache shares these slices
	return out, nil
}

// forecast is a request for what objects can answer, to the host or to a buyer.
type forecast struct {
	*Executor
	bid          rules.Bid // the question and the buyer
	buying       bool      // the request is for a buyer
	panel        Panel
	levels       []privacy.Epsilon // ascending; if empty, the highest levels that objects can have
	withoutTruth []string          // sorted names of the objects that the host has no true value of
}

// prepare checks the request and prepares the forecast for it.
func (f *forecast) prepare(ctx context.Context, r api.BudgetRequest) (err error) {
	if f.bid.Client, f.buying = r.Buyer, r.Buyer != ""; f.buying {
		if err := event.CheckName("buyer", r.Buyer); err != nil {
			return err
		}
	}
	if f.panel.Names, err = event.CheckAsked(r.Objects, r.All, math.MaxInt); err != nil {
		return err
	}
	if f.bid.Question, err = f.Question(ctx, r.Question); err != nil {
		return err
	}
	f.panel.All, f.panel.Question = r.All, f.bid.Question.Number
	if len(r.Epsilons) > rules.MaxLevels {
		return errs.Invalid("a budget at %d values of ε: at most %d are possible", len(r.Epsilons), rules.MaxLevels)
	}
	for _, epsilon := range r.Epsilons {
		if err := f.bid.Question.CheckLevel(epsilon); err != nil {
			return err
		}
	}
	f.levels = slices.Clone(r.Epsilons)
	slices.SortFunc(f.levels, privacy.Epsilon.Compare)
	f.levels = slices.Compact(f.levels)
	return nil
}

// through returns the panel of the request, with the objects enrolled up to the last event of a
// state.
func (f *forecast) through(s *state.State) Panel {
	p := f.panel
	p.Through = s.Counters.Events
	return p
}

// form returns the digests of the request's fields and of its objects, which together are its key
// in the cache.
func (f *forecast) form() [2]event.Sum {
	form := event.NewForm("budget")
	form.Field("Question").Text(f.bid.Question.Name)
	form.Field("Buyer").Text(f.bid.Client)
	levels := form.Field("Epsilons")
	for _, epsilon := range f.levels {
		levels.Epsilon(epsilon)
	}
	form.Objects(f.panel.Names, f.panel.All)
	id := form.Finish()
	return [2]event.Sum{id.Sum, id.Objects}
}

// read computes the budget in a snapshot and sets out to it. until is the time at which the result
// changes if there are no events, or zero if it does not. If no object is enrolled, read returns
// [errs.ErrUnknown].
func (f *forecast) read(ctx context.Context, s *state.State, out *api.Budget) (until time.Time, err error) {
	if f.bid.Buyer, _, err = s.BuyerNumber(f.bid.Client); err != nil {
		return until, err
	}
	levels := f.levels
	if len(levels) == 0 {
		if levels, err = f.candidateLevels(ctx, s); err != nil {
			return until, err
		}
	}
	o := f.newCount(s, levels)
	if err = f.count(ctx, s, o); err != nil {
		return until, err
	}
	*out, until = o.Result()
	if out.Objects == 0 {
		return until, fmt.Errorf("question %q: no object is enrolled: %w", f.bid.Question.Name, errs.ErrUnknown)
	}
	out.Largest, err = f.largest(ctx, s, o)
	return until, err
}

// newCount returns an empty count at these levels.
func (f *forecast) newCount(s *state.State, levels []privacy.Epsilon) *rules.Count {
	return &rules.Count{
		Rules: f.Rules, State: s, Bid: f.bid, Buying: f.buying, Levels: levels, WithoutTruth: f.withoutTruth,
		Lowest: privacy.MaxEpsilon(),
	}
}

// candidateLevels returns the levels to count at if the request names none. These are the highest
// levels that objects can have. If no object can answer, it returns the lowest level of the
// question.
func (f *forecast) candidateLevels(ctx context.Context, s *state.State) ([]privacy.Epsilon, error) {
	o := f.newCount(s, []privacy.Epsilon{privacy.MaxEpsilon()})
	o.Maxima = rules.Maxima{}
	if err := f.count(ctx, s, o); err != nil {
		return nil, err
	}
	if levels := o.Maxima.Levels(); len(levels) > 0 {
		return levels, nil
	}
	if f.bid.Question.Encoding == event.EncodingFinite { // no object can answer, not even at the lowest level
		return f.bid.Question.Mechanism.Family.Epsilons()[:1], nil
	}
	lowest, err := privacy.EpsilonFromNano(1)
	return []privacy.Epsilon{lowest}, err
}

// count adds all objects of the panel to o, part by part.
func (f *forecast) count(ctx context.Context, s *state.State, o *rules.Count) error {
	p := f.through(s)
	for after, last := "", false; !last; {
		if err := errs.Context(ctx); err != nil {
			return err
		}
		some, end, err := p.After(s, after, state.PartSize)
		if err != nil {
			return err
		}
		for _, name := range some {
			if err := o.Add(name); err != nil {
				return err
			}
			after = name
		}
		last = end
	}
	return nil
}

// largest returns the largest ε that all objects can have, given o, the result of a first count.
// Where the objects have different offers, each further count may find a lower ε than the one
// before. The result is found when a count does not lower it. It is 0 if that takes more than
// [maxCounts] counts.
func (f *forecast) largest(ctx context.Context, s *state.State, o *rules.Count) (privacy.Epsilon, error) {
	for range maxCounts {
		if o.IsLowestProven() {
			return o.Lowest, nil
		}
		again := f.newCount(s, []privacy.Epsilon{o.Lowest})
		again.Lowest = o.Lowest
		if err := f.count(ctx, s, again); err != nil {
			return privacy.Epsilon{}, err
		}
		if again.Lowest == o.Lowest {
			return o.Lowest, nil
		}
		o = again
	}
	return privacy.Epsilon{}, nil
}

// maxCounts is how often all objects are counted to find the largest ε before the search is given
// up.
const maxCounts = 16

// maxNewEvents is the largest number of new events that are read to see if a cached budget still
// holds. After more events, all objects are counted again.
const maxNewEvents = 4096

// isSteady reports whether the result follows from the events and the time alone, so that it may be
// cached. No running request holds budget, and the clock has not gone back.
func (f *forecast) isSteady(s *state.State) bool {
	return len(f.Rules.Holds.List()) == 0 && s.Clock.Equal(s.Now)
}

// readCached returns the cached result for the request, now as of the last event. found is false if
// there is none, or if it may have changed. That is so if its time has passed, if an event since
// then concerns the objects, or if there are too many events to check.
func (f *forecast) readCached(s *state.State) (out api.Budget, found bool, err error) {
	key, now := f.form(), s.Counters.Events // now: the number of the last event
	out, until, found := f.Forecasts.Get(key)
	passed := s.Clock.Before(out.At) || !until.IsZero() && !s.Clock.Before(until)
	if !found || passed || !f.isSteady(s) || out.Event > now || now-out.Event > maxNewEvents {
		return out, false, nil
	}
	for number := out.Event + 1; number <= now; number++ {
		ev, err := s.Event(number)
		if err != nil {
			return out, false, err
		}
		if concerns, err := f.isConcerned(s, ev.Change); err != nil || concerns {
			return out, false, err
		}
	}
	out.Event, out.At = now, s.Clock
	f.Forecasts.Keep(key, out, until)
	return out, true, nil
}

// isConcerned reports whether an event may have changed what the objects of the request can have.
// It returns true for kinds of events that it does not know.
func (f *forecast) isConcerned(s *state.State, c event.Change) (bool, error) {
	switch c := c.(type) {
	case *event.Settled, *event.Answered, *event.ObjectRefused, *event.Stated, *event.TruthBound, *event.BuyerNamed,
		*event.PolicyDefined, *event.QuestionDefined, *event.Reserved, *event.SaleMade:
		return false, nil // if objects are concerned, other events of the same transaction say so
	case event.Personal:
		p := f.through(s)
		return p.Contains(s, c.About())
	}
	return true, nil
}

// alternative adds to the error of a refused request what is possible instead: how many of its
// objects can answer at epsilon, and the largest ε at which all of them can. It returns other
// errors unchanged. f needs no levels.
func (f *forecast) alternative(ctx context.Context, err error, epsilon privacy.Epsilon) error {
	f.levels = []privacy.Epsilon{epsilon}
	return f.explain(ctx, err, func(s *state.State, out *api.Budget) error { return f.readAlternative(ctx, s, out) })
}

// explain sets the field Instead of a [*api.RefusedError] that err wraps to what read finds in a
// snapshot. It always returns err. It changes nothing if err is another error or read fails.
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

// readAlternative counts at the requested level, the only one in f.levels. If all objects can only
// have a lower level, it counts again at that level and the requested one.
func (f *forecast) readAlternative(ctx context.Context, s *state.State, out *api.Budget) error {
	_, err := f.read(ctx, s, out)
	if err != nil || out.Largest.IsZero() || !out.Largest.Less(f.levels[0]) {
		return err
	}
	f.levels = []privacy.Epsilon{out.Largest, f.levels[0]}
	_, err = f.read(ctx, s, out)
	return err
}

// maxForecasts is the largest number of budgets in the cache.
const maxForecasts = 64

// Forecasts is a cache of computed budgets, by the digests of their requests. The zero value is
// empty. Its methods may be called concurrently.
type Forecasts struct {
	mu  sync.Mutex
	All map[[2]event.Sum]KeptForecast // guarded by mu
}

// KeptForecast is a cached budget.
type KeptForecast struct {
	Budget api.Budget // as of the event in its field Event
	Until  time.Time  // when time alone changes it; zero if never
}

// Keep stores a budget, and until when it holds. If the cache is full, it first removes an
// arbitrary budget.
func (b *Forecasts) Keep(key [2]event.Sum, out api.Budget, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.All == nil {
		b.All = map[[2]event.Sum]KeptForecast{}
	}
	for other := range b.All {
		if len(b.All) < maxForecasts {
			break
		}
		delete(b.All, other)
	}
	b.All[key] = KeptForecast{out, until}
}

// Get returns a cached budget, and until when it holds if there are no other events. The caller
// must not change the slices of the budget.
func (b *Forecasts) Get(key [2]event.Sum) (out api.Budget, until time.Time, found bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one, found := b.All[key]
	return one.Budget, one.Until, found
}
