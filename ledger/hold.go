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

// on returns what other requests hold of an object's budget, given that the asking one, x, is
// granted: holds on the same chain count only as far as they go beyond x's ε.
func (h *holds) on(s *state, name string, x *raise) (privacy.Epsilon, error) {
	reach := map[uint32]privacy.Epsilon{} // the highest ε held for, by question
	for _, one := range h.list() {
		if one == x.hold {
			continue
		}
		covered, err := one.panel.contains(s, name)
		if err != nil {
			return privacy.Epsilon{}, err
		}
		if covered && reach[one.question].Less(one.epsilon) {
			reach[one.question] = one.epsilon
		}
	}
	held := privacy.Epsilon{}
	for number, epsilon := range reach {
		spent := x.request.Epsilon
		if number != x.question.number {
			c, found, err := s.chain(number, name)
			if err != nil {
				return held, err
			}
			if !found {
				continue // the request that holds will refuse the object
			}
			spent = c.current()
		}
		sum, err := held.Add(less(epsilon, spent))
		if err != nil {
			sum = privacy.MaxEpsilon()
		}
		held = sum
	}
	return held, nil
}
