package ledger

import (
	"slices"
	"sync"

	"github.com/sluicedp/sluice/ledger/internal/budget"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/terms"
	"github.com/sluicedp/sluice/privacy"
)

// hold keeps what a raise of several transactions still has to charge, so that it can be whole:
// whoever was counted in at its beginning has the budget left when its turn comes. For an object that
// has had its turn the hold is 0 by itself. Holds live in memory; they end with the request, or with
// the process. What lasts longer is a reservation, which is in the file.
type hold struct {
	question uint32
	epsilon  privacy.Epsilon
	covers   func(s *state.State, object string) (bool, error) // whether an object is one of those it is for
}

type holds struct {
	mu      sync.Mutex
	active  []*hold
	changes uint64
}

func (h *holds) add(one *hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.active, h.changes = append(slices.Clip(h.active), one), h.changes+1
}

func (h *holds) remove(one *hold) {
	if one == nil {
		return // nothing changes
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.active, h.changes = slices.DeleteFunc(slices.Clone(h.active), func(other *hold) bool { return other == one }), h.changes+1
}

// version returns how often the holds have changed.
func (h *holds) version() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changes
}

// list returns the holds, in memory that nobody changes any more.
func (h *holds) list() []*hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.active
}

// heldBudget is what other requests hold of an object's budget.
type heldBudget struct {
	plain  privacy.Epsilon // on the chain that is asked for, by the host's own and by buyers who are counted already
	shares privacy.Epsilon // the same by new buyers, each of whom unlocks a share
	all    privacy.Epsilon // on all chains
}

// heldBudget returns what other requests hold of an object's budget, given that a charge is granted: a
// hold counts as far as it goes beyond the highest level of its chain.
func (l *Rules) heldBudget(s *state.State, x *terms.Subject, ask charge) (held heldBudget, err error) {
	if ask.sale != 0 {
		return held, nil // whoever held before was counted when it was reserved, and it by whoever came later
	}
	reach := reaches{}
	if err := l.holds.reach(s, x.Name, ask.hold, &reach); err != nil {
		return held, err
	}
	if err := reservedBudget(s, x, ask.asking, &reach); err != nil {
		return held, err
	}
	for _, one := range reach {
		level, found, err := levelAfter(s, x.Name, one.question, ask)
		if err != nil {
			return held, err
		}
		if !found {
			continue // the request that holds will refuse the object
		}
		if one.question == ask.question.Number {
			held.plain, held.shares = budget.Minus(one.plain, level), budget.Minus(one.shares, level)
		}
		held.all = budget.Plus(held.all, budget.Minus(one.epsilon(), level))
	}
	return held, nil
}

// levelAfter returns the ε of an object's chain once a charge is granted.
func levelAfter(s *state.State, name string, question uint32, ask charge) (epsilon privacy.Epsilon, found bool, err error) {
	if question == ask.question.Number {
		return ask.reaches, true, nil
	}
	if ask.level != nil {
		if epsilon, found = ask.level(question); found {
			return epsilon, true, nil
		}
	}
	c, found, err := s.Chain(question, name)
	return c.Current(), found, err
}

// reaches are the highest ε that requests hold for an object, by question. There are few.
type reaches []reach

type reach struct {
	question      uint32
	plain, shares privacy.Epsilon
}

func (r reach) epsilon() privacy.Epsilon { return budget.Higher(r.plain, r.shares) }

// of returns the reach in a question, to be changed in place.
func (r *reaches) of(question uint32) *reach {
	i := slices.IndexFunc(*r, func(one reach) bool { return one.question == question })
	if i < 0 {
		i = len(*r)
		*r = append(*r, reach{question: question})
	}
	return &(*r)[i]
}

// reach adds what the requests that hold in memory hold for an object. A request that holds itself looks
// only at those that were there before: it had its budget when later ones came.
func (h *holds) reach(s *state.State, name string, own *hold, into *reaches) error {
	for _, one := range h.list() {
		if one == own {
			break
		}
		covered, err := one.covers(s, name)
		if err != nil {
			return err
		}
		if covered {
			r := into.of(one.question)
			r.plain = budget.Higher(r.plain, one.epsilon)
		}
	}
	return nil
}

// reservedBudget adds what reservations hold for an object. In the question that is asked about, those of buyers who hold a level
// already, or who are asking, unlock nothing more.
func reservedBudget(s *state.State, x *terms.Subject, ask asking, into *reaches) error {
	for _, number := range x.Object.Held {
		r, err := s.Sale(number)
		if err != nil {
			return err
		}
		if !r.HoldsOn(x.Object, s.Now) {
			continue
		}
		held := into.of(r.Question)
		if ask.question != nil && r.Question == ask.question.Number && (r.Buyer == ask.buyer || !x.Chain.HeldBy(r.Buyer).IsZero()) {
			held.plain = budget.Higher(held.plain, r.Epsilon)
		} else {
			held.shares = budget.Higher(held.shares, r.Epsilon)
		}
	}
	return nil
}
