package ledger

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/names"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// BudgetRequest asks what people can answer to a question.
type BudgetRequest struct {
	Question string   `json:"question"`         // by its name
	Objects  []string `json:"objects,omitzero"` // the people, or
	All      bool     `json:"all,omitempty"`    // everyone enrolled in the question, who has not withdrawn
	// Buyer: who would buy; "" for the host itself, which may raise whatever budgets allow
	Buyer string `json:"buyer,omitempty"`
	// Epsilons are the levels that are asked about, in any order, above 0, at most [MaxBudgetLevels]. If there are none, the answer is about
	// those at which the number of people who can answer changes, or 100 of them if there are more.
	Epsilons []privacy.Epsilon `json:"epsilons,omitempty"`
}

// MaxBudgetLevels is how many ε a [BudgetRequest] may ask about.
const MaxBudgetLevels = request.Most

// Budget says how many of some people can answer a question at each of some ε, the largest ε at which all of them can, by when time
// alone will allow more, and what it would cost a buyer. It charges nobody, changes nothing and asks for no truth: whom the host
// has no true value of is not known to it. A [Ledger.Quote], or a partial [Ledger.Raise], at the same instant agrees with it.
//
// Everybody is looked at once, in memory that does not grow with their number. The answer is kept until something happens to one of
// them, or time changes it, so that asking again costs little. It is as of the event that it tells.
//
// Errors: [ErrInvalid], [ErrUnknown].
func (l *Ledger) Budget(ctx context.Context, r BudgetRequest) (Budget, error) {
	x, err := l.newForecast(ctx, r)
	if err != nil {
		return Budget{}, err
	}
	var out Budget
	err = l.engine.View(ctx, func(s *state.State) (err error) {
		var found bool
		if out, found, err = x.recall(s); err != nil || found {
			return err
		}
		until, err := x.look(ctx, s, &out)
		if err == nil && x.steady(s) {
			l.budgets.Keep(x.form(), out, until)
		}
		return err
	})
	if err != nil {
		return Budget{}, err
	}
	out.Levels, out.Refused = slices.Clone(out.Levels), slices.Clone(out.Refused) // others have the same
	return out, nil
}

// forecast is a BudgetRequest being carried out.
type forecast struct {
	ledger *Ledger
	bid    rules.Bid
	buying bool
	names  []string
	all    bool
	levels []privacy.Epsilon // rising; none if they are to be found
	untold []string          // in order, whom the host has no true value of
}

func (l *Ledger) newForecast(ctx context.Context, r BudgetRequest) (*forecast, error) {
	x := &forecast{ledger: l, buying: r.Buyer != "", all: r.All}
	x.bid.Client = r.Buyer
	if x.buying {
		if err := names.Check("buyer", r.Buyer); err != nil {
			return nil, err
		}
	}
	var err error
	if x.names, err = names.CheckAsked(r.Objects, r.All, math.MaxInt); err != nil {
		return nil, err
	}
	if x.bid.Question, err = l.findQuestion(ctx, r.Question); err != nil {
		return nil, err
	}
	if len(r.Epsilons) > MaxBudgetLevels {
		return nil, errs.Invalid("a budget at %d values of ε; %d are possible", len(r.Epsilons), MaxBudgetLevels)
	}
	for _, epsilon := range r.Epsilons {
		if err := x.bid.Question.CheckLevel(epsilon); err != nil {
			return nil, err
		}
	}
	x.levels = slices.Clone(r.Epsilons)
	slices.SortFunc(x.levels, privacy.Epsilon.Compare)
	x.levels = slices.Compact(x.levels)
	return x, nil
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
	f.Objects(x.names, x.all)
	id := f.Finish()
	return [2]event.Sum{id.Sum, id.Objects}
}

// look finds out, in a snapshot. until is when time will change the answer, or zero.
func (x *forecast) look(ctx context.Context, s *state.State, out *Budget) (until time.Time, err error) {
	if x.bid.Buyer, _, err = s.BuyerNumber(x.bid.Client); err != nil {
		return until, err
	}
	levels := x.levels
	if len(levels) == 0 {
		if levels, err = x.tops(ctx, s); err != nil {
			return until, err
		}
	}
	o := x.outlook(s, levels)
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
func (x *forecast) outlook(s *state.State, levels []privacy.Epsilon) *request.Forecast {
	return &request.Forecast{Rules: &x.ledger.rules, State: s, Bid: x.bid, Buying: x.buying, Levels: levels, Untold: x.untold, Lowest: privacy.MaxEpsilon()}
}

// tops returns the levels to look at where none are given.
func (x *forecast) tops(ctx context.Context, s *state.State) ([]privacy.Epsilon, error) {
	o := x.outlook(s, []privacy.Epsilon{privacy.MaxEpsilon()})
	o.Tops = request.Tops{}
	if err := x.count(ctx, s, o); err != nil {
		return nil, err
	}
	if levels := o.Tops.Levels(); len(levels) > 0 {
		return levels, nil
	}
	if x.bid.Question.Encoding == Finite { // nobody can answer: not even at the lowest level
		return x.bid.Question.Mechanism.Family.Epsilons()[:1], nil
	}
	lowest, err := privacy.EpsilonFromNano(1)
	return []privacy.Epsilon{lowest}, err
}

// count adds everybody.
func (x *forecast) count(ctx context.Context, s *state.State, o *request.Forecast) error {
	p := request.Panel{Names: x.names, All: x.all, Question: x.bid.Question.Number, Through: s.Counters.Events}
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

// largest returns the largest ε that everybody can have, given what was found by looking once. Where offers differ that takes more looks:
// each finds a lower ε, until one that nobody lowers any more.
func (x *forecast) largest(ctx context.Context, s *state.State, o *request.Forecast) (privacy.Epsilon, error) {
	for range mostLooks {
		if o.Proven() {
			return o.Lowest, nil
		}
		again := x.outlook(s, []privacy.Epsilon{o.Lowest})
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

// mostLooks is how often everybody is looked at for the sake of the largest ε, before it is given up.
const mostLooks = 16

// mostSince is how many events are read before everybody is looked at again.
const mostSince = 4096

// steady tells whether the answer follows from the events and the time alone: no request holds anything in memory, and the clock has
// not gone back.
func (x *forecast) steady(s *state.State) bool {
	return len(x.ledger.rules.Holds.List()) == 0 && s.Clock.Equal(s.Now)
}

// recall returns an answer that still holds.
func (x *forecast) recall(s *state.State) (out Budget, found bool, err error) {
	key, now := x.form(), s.Counters.Events
	out, until, found := x.ledger.budgets.Get(key)
	passed := s.Clock.Before(out.At) || !until.IsZero() && !s.Clock.Before(until)
	if !found || passed || !x.steady(s) || out.Event > now || now-out.Event > mostSince {
		return out, false, nil
	}
	for number := out.Event + 1; number <= now; number++ {
		ev, err := s.Event(number)
		if err != nil {
			return out, false, err
		}
		if concerns, err := x.concerned(s, ev.Change); err != nil || concerns {
			return out, false, err
		}
	}
	out.Event, out.At = now, s.Clock
	x.ledger.budgets.Keep(key, out, until)
	return out, true, nil
}

// concerned tells whether an event may have changed what somebody can have.
func (x *forecast) concerned(s *state.State, c event.Change) (bool, error) {
	switch c := c.(type) {
	case *event.Settled, *event.Answered, *event.ObjectRefused, *event.Stated, *event.TruthBound, *event.BuyerNamed, *event.PolicyDefined,
		*event.QuestionDefined, *event.Reserved, *event.SaleMade: // what they come with concerns people, if anything does
		return false, nil
	case event.Personal:
		p := request.Panel{Names: x.names, All: x.all, Question: x.bid.Question.Number, Through: s.Counters.Events}
		return p.Contains(s, c.About())
	}
	return true, nil
}

// instead adds to the error of a request that was refused at an ε what its objects could answer: at this ε, and at the largest for all. If
// that cannot be found out, the error stays as it is.
func (x *forecast) instead(ctx context.Context, err error, epsilon privacy.Epsilon) error {
	var refused *RefusedError
	if err == nil || !errors.As(err, &refused) || x.bid.Question == nil {
		return err
	}
	x.levels = []privacy.Epsilon{epsilon}
	var out Budget
	if x.ledger.engine.View(ctx, func(s *state.State) error { return x.lookAround(ctx, s, &out) }) == nil {
		refused.Instead = &out
	}
	return err
}

// lookAround looks at the one level that is asked about, and at the largest that all can have.
func (x *forecast) lookAround(ctx context.Context, s *state.State, out *Budget) error {
	_, err := x.look(ctx, s, out)
	if err != nil || out.Largest.IsZero() || !out.Largest.Less(x.levels[0]) {
		return err
	}
	x.levels = []privacy.Epsilon{out.Largest, x.levels[0]}
	_, err = x.look(ctx, s, out)
	return err
}
