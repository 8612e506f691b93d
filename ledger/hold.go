package ledger

import (
	"slices"
	"sync"

	"github.com/sluicedp/sluice/privacy"
)

// hold reserves what a request of several transactions still has to charge, so that it can be whole:
// whoever was counted in at its beginning has the budget left when its turn comes. For an object that
// has had its turn the hold is 0 by itself. Holds live in memory; they end with the request, or with
// the process.
type hold struct {
	question uint32
	epsilon  privacy.Epsilon
	panel    panel
}

type holds struct {
	mu     sync.Mutex
	active []*hold
}

func (h *holds) add(one *hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.active = append(slices.Clip(h.active), one)
}

func (h *holds) remove(one *hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.active = slices.DeleteFunc(slices.Clone(h.active), func(other *hold) bool { return other == one })
}

// list returns the holds, in memory that nobody changes any more.
func (h *holds) list() []*hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.active
}

// heldBudget is what other requests hold of an object's budget.
type heldBudget struct {
	chain privacy.Epsilon // on the chain that is asked for
	all   privacy.Epsilon // on all chains
}

// on returns what other requests hold of an object's budget, given that a charge is granted: a hold
// counts as far as it goes beyond the highest level of its chain.
func (h *holds) on(s *state, name string, ask charge) (held heldBudget, err error) {
	reach, err := h.reach(s, name, ask.hold)
	for number, epsilon := range reach {
		level := ask.level
		if number != ask.question {
			c, found, err := s.chain(number, name)
			if err != nil {
				return held, err
			}
			if !found {
				continue // the request that holds will refuse the object
			}
			level = c.current()
		}
		rest := less(epsilon, level)
		if number == ask.question {
			held.chain = rest
		}
		sum, above := held.all.Add(rest)
		if above != nil {
			sum = privacy.MaxEpsilon()
		}
		held.all = sum
	}
	return held, err
}

// reach returns the highest ε that other requests hold for an object, by question. A request that holds
// itself looks only at those that were there before: it had its budget when later ones came.
func (h *holds) reach(s *state, name string, own *hold) (map[uint32]privacy.Epsilon, error) {
	var reach map[uint32]privacy.Epsilon
	for _, one := range h.list() {
		if one == own {
			break
		}
		covered, err := one.panel.contains(s, name)
		if err != nil {
			return nil, err
		}
		if covered && reach[one.question].Less(one.epsilon) {
			if reach == nil {
				reach = map[uint32]privacy.Epsilon{}
			}
			reach[one.question] = one.epsilon
		}
	}
	return reach, nil
}
