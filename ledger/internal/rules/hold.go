package rules

import (
	"slices"
	"sync"

	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// Hold keeps what a raise of several transactions still has to charge, so that it can be whole:
// whoever was counted in at its beginning has the budget left when its turn comes. For an object
// that has had its turn the hold is 0 by itself. Holds live in memory; they end with the request,
// or with the process. What lasts longer is a reservation, which is in the file.
type Hold struct {
	Question uint32                                            // by number
	Epsilon  privacy.Epsilon                                   // the level that it raises to
	Covers   func(s *state.State, object string) (bool, error) // whether an object is one of those it is for
}

// Holds are those of a ledger. Many goroutines may use them at once.
type Holds struct {
	mu      sync.Mutex
	active  []*Hold
	changes uint64
}

// Add lets a hold count from here on.
func (h *Holds) Add(one *Hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.active, h.changes = append(slices.Clip(h.active), one), h.changes+1
}

// Remove ends a hold; nil is none.
func (h *Holds) Remove(one *Hold) {
	if one == nil {
		return // nothing changes
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.active, h.changes = slices.DeleteFunc(slices.Clone(h.active), func(other *Hold) bool { return other == one }),
		h.changes+1
}

// Version returns how often the holds have changed.
func (h *Holds) Version() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changes
}

// List returns the holds, in memory that nobody changes any more.
func (h *Holds) List() []*Hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.active
}

// Held is what other requests hold of an object's budget.
type Held struct {
	plain  privacy.Epsilon // on the chain that is asked for, by the host's own and by buyers who are counted already
	shares privacy.Epsilon // the same by new buyers, each of whom unlocks a share
	all    privacy.Epsilon // on all chains
}

// heldBeside returns what other requests hold of an object's budget, given that a charge is
// granted: a hold counts as far as it goes beyond the highest level of its chain.
func heldBeside(s *state.State, x *Subject, ask *Charge, holds []*Hold) (held Held, err error) {
	if ask.Sale != 0 {
		return held, nil // all earlier holds were counted when it was reserved, and it by all later ones
	}
	reach := Reaches{}
	if err := reach.hold(s, x.Name, ask.Hold, holds); err != nil {
		return held, err
	}
	if err := ReservedBudget(s, x, ask.Asking, &reach); err != nil {
		return held, err
	}
	for _, one := range reach {
		level, found, err := levelAfter(s, x.Name, one.Question, ask)
		if err != nil {
			return held, err
		}
		if !found {
			continue // the request that holds will refuse the object
		}
		if one.Question == ask.Question.Number {
			held.plain, held.shares = state.Minus(one.plain, level), state.Minus(one.shares, level)
		}
		held.all = state.Plus(held.all, state.Minus(one.Epsilon(), level))
	}
	return held, nil
}

// levelAfter returns the ε of an object's chain once a charge is granted.
func levelAfter(
	s *state.State, name string, question uint32, ask *Charge,
) (epsilon privacy.Epsilon, found bool, err error) {
	if question == ask.Question.Number {
		return ask.Reaches, true, nil
	}
	if ask.Level != nil {
		if epsilon, found = ask.Level(question); found {
			return epsilon, true, nil
		}
	}
	c, found, err := s.Chain(question, name)
	return c.Current(), found, err
}

// Reaches are the highest ε that requests hold for an object, by question. There are few.
type Reaches []reach

type reach struct {
	Question      uint32
	plain, shares privacy.Epsilon
}

func (r reach) Epsilon() privacy.Epsilon { return state.Higher(r.plain, r.shares) }

// of returns the reach in a question, to be changed in place.
func (r *Reaches) of(question uint32) *reach {
	i := slices.IndexFunc(*r, func(one reach) bool { return one.Question == question })
	if i < 0 {
		i = len(*r)
		*r = append(*r, reach{Question: question})
	}
	return &(*r)[i]
}

// hold adds what the requests that hold in memory hold for an object. A request that holds itself
// looks only at those that were there before: it had its budget when later ones came.
func (r *Reaches) hold(s *state.State, name string, own *Hold, holds []*Hold) error {
	for _, one := range holds {
		if one == own {
			break
		}
		covered, err := one.Covers(s, name)
		if err != nil {
			return err
		}
		if covered {
			held := r.of(one.Question)
			held.plain = state.Higher(held.plain, one.Epsilon)
		}
	}
	return nil
}

// ReservedBudget adds what reservations hold for an object. In the question that is asked about,
// those of buyers who hold a level already, or who are asking, unlock nothing more.
func ReservedBudget(s *state.State, x *Subject, ask Asking, into *Reaches) error {
	for _, number := range x.Object.Held {
		r, err := s.Sale(number)
		if err != nil {
			return err
		}
		if !r.HoldsOn(x.Object, s.Now) {
			continue
		}
		held, same := into.of(r.Question), ask.Question != nil && r.Question == ask.Question.Number
		if same && (r.Buyer == ask.Buyer || !x.Chain.HeldBy(r.Buyer).IsZero()) {
			held.plain = state.Higher(held.plain, r.Epsilon)
		} else {
			held.shares = state.Higher(held.shares, r.Epsilon)
		}
	}
	return nil
}

// HeldBudget returns what reservations hold of an object's budget beyond the levels of its chains.
func HeldBudget(s *state.State, name string, o state.Object) (held privacy.Epsilon, err error) {
	reach := Reaches{}
	if err := ReservedBudget(s, &Subject{Object: o}, Asking{}, &reach); err != nil {
		return held, err
	}
	for _, one := range reach {
		c, _, err := s.Chain(one.Question, name)
		if err != nil {
			return held, err
		}
		held = state.Plus(held, state.Minus(one.Epsilon(), c.Current()))
	}
	return held, nil
}
