package rules

import (
	"slices"
	"sync"

	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// Hold keeps the budget that a raise of several transactions still has to charge. So the objects
// that the raise counted at its beginning have the budget left when their part comes. For an object
// that was already charged, the hold has no effect, because its chain has reached the level.
//
// Holds are in memory, and end with the request or the process. Reservations are stored and last
// longer.
type Hold struct {
	Question uint32                                            // number of the question
	Epsilon  privacy.Epsilon                                   // the level that the raise is for
	Covers   func(s *state.State, object string) (bool, error) // reports whether the hold is for an object
}

// Holds is the list of the holds of a ledger. Its methods may be called concurrently.
type Holds struct {
	mu      sync.Mutex
	active  []*Hold // in the order of Add; replaced, and never changed, because List has returned it
	changes uint64  // number of calls of Add and Remove
}

// Add adds a hold, which limits other requests from now on.
func (h *Holds) Add(one *Hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.active, h.changes = append(slices.Clip(h.active), one), h.changes+1 // Clip makes append copy
}

// Remove removes a hold. It does nothing if the hold is nil.
func (h *Holds) Remove(one *Hold) {
	if one == nil {
		return // no change is counted
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.active, h.changes = slices.DeleteFunc(slices.Clone(h.active), func(other *Hold) bool { return other == one }),
		h.changes+1
}

// Version returns the number of changes to the list so far, additions and removals.
func (h *Holds) Version() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changes
}

// List returns the holds in the order in which they were added. The slice is never changed after it
// was returned.
func (h *Holds) List() []*Hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.active
}

// Held is what other requests hold of the budget of an object.
type Held struct {
	plain  privacy.Epsilon // on the requested chain, by the host's raises and by buyers that hold a level of it already
	shares privacy.Epsilon // on the same chain, by new buyers, each of whom raises the ceiling by a share of the policy
	all    privacy.Epsilon // on all chains
}

// heldByOthers returns what other requests hold of the budget of an object, as it would be if a
// charge were granted. On each chain, only the ε above its highest level is held, because the
// levels below it are paid already.
func heldByOthers(s *state.State, subject *Subject, req *Charge, holds []*Hold) (held Held, err error) {
	if req.Sale != 0 {
		return held, nil // Older holds were counted when it was reserved, and newer holds have counted it.
	}
	reach := Reaches{}
	if err := reach.hold(s, subject.Name, req.Hold, holds); err != nil {
		return held, err
	}
	if err := ReservedBudget(s, subject, req.Request, &reach); err != nil {
		return held, err
	}
	// Each reach is the highest ε that other requests hold in a question.
	for _, one := range reach {
		level, found, err := levelAfter(s, subject.Name, one.Question, req)
		if err != nil {
			return held, err
		}
		if !found {
			continue // the request with the hold will refuse the object
		}
		if one.Question == req.Question.Number {
			held.plain, held.shares = state.Minus(one.plain, level), state.Minus(one.shares, level)
		}
		held.all = state.Plus(held.all, state.Minus(one.Epsilon(), level))
	}
	return held, nil
}

// levelAfter returns the current ε of an object's chain in a question as it would be if a charge
// were granted. found is false if the object has no such chain.
func levelAfter(
	s *state.State, name string, question uint32, req *Charge,
) (epsilon privacy.Epsilon, found bool, err error) {
	if question == req.Question.Number {
		return req.After, true, nil
	}
	if req.Level != nil {
		if epsilon, found = req.Level(question); found {
			return epsilon, true, nil
		}
	}
	c, found, err := s.Chain(question, name)
	return c.Current(), found, err
}

// Reaches has, for one object, the highest ε that requests hold in each question. A slice is
// enough, because there are few questions.
type Reaches []reach

// reach is the highest ε that requests hold in a question. It is divided into what known buyers and
// the host hold (plain), and what new buyers hold (shares), as in [Held].
type reach struct {
	Question      uint32
	plain, shares privacy.Epsilon
}

// Epsilon returns the highest ε of the reach.
func (r reach) Epsilon() privacy.Epsilon { return state.Higher(r.plain, r.shares) }

// of returns the reach in a question, which the caller may change. It adds an empty one if there is
// none. The pointer is valid until the next call.
func (r *Reaches) of(question uint32) *reach {
	i := slices.IndexFunc(*r, func(one reach) bool { return one.Question == question })
	if i < 0 {
		i = len(*r)
		*r = append(*r, reach{Question: question})
	}
	return &(*r)[i]
}

// hold adds what holds keep for an object. holds is in the order in which the holds were added, and
// own is the hold of the request itself, or nil. A request with a hold counts only older holds,
// because it had its budget before the newer ones were added.
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

// ReservedBudget adds to into what open reservations hold for an object. In the requested question,
// a reservation unlocks no further share if its buyer holds a level or makes the request. It then
// counts as plain, and otherwise as shares.
func ReservedBudget(s *state.State, subject *Subject, req Request, into *Reaches) error {
	for _, number := range subject.Object.Held {
		r, err := s.Sale(number)
		if err != nil {
			return err
		}
		if !r.HoldsOn(subject.Object, s.Now) {
			continue
		}
		held, same := into.of(r.Question), req.Question != nil && r.Question == req.Question.Number
		if same && (r.Buyer == req.Buyer || !subject.Chain.HeldBy(r.Buyer).IsZero()) {
			held.plain = state.Higher(held.plain, r.Epsilon)
		} else {
			held.shares = state.Higher(held.shares, r.Epsilon)
		}
	}
	return nil
}

// HeldBudget returns what open reservations hold of the budget of an object, over all questions. On
// each chain, only the ε above its highest level is held.
func HeldBudget(s *state.State, name string, o state.Object) (held privacy.Epsilon, err error) {
	reach := Reaches{}
	// There is no request, because only the higher of plain and shares is used.
	if err := ReservedBudget(s, &Subject{Object: o}, Request{}, &reach); err != nil {
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
