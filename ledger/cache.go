package ledger

import (
	"sync"

	"github.com/sluicedp/sluice/policy"
)

// cache remembers questions and policies, which never change. Only committed ones are put in: the
// number of one that was rolled back may be given to another.
type cache struct {
	mu        sync.Mutex
	questions map[uint32]*question
	policies  map[uint32]policy.Policy
}

// cached is how many questions, and policies, are remembered.
const cached = 1024

func remember[T any](c *cache, all *map[uint32]T, number uint32, load func(uint32) (T, error)) (T, error) {
	c.mu.Lock()
	value, found := (*all)[number]
	c.mu.Unlock()
	if found {
		return value, nil
	}
	value, err := load(number)
	if err != nil {
		return value, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if *all == nil || len(*all) >= cached {
		*all = make(map[uint32]T)
	}
	(*all)[number] = value
	return value, nil
}

// question returns a question by its number.
func (s *state) question(number uint32) (*question, error) {
	if s.known == nil || number > s.durable.questions {
		return s.loadQuestion(number)
	}
	return remember(s.known, &s.known.questions, number, s.loadQuestion)
}

// policy returns a policy by its number.
func (s *state) policy(number uint32) (policy.Policy, error) {
	if s.known == nil || number > s.durable.policies {
		return s.loadPolicy(number)
	}
	return remember(s.known, &s.known.policies, number, s.loadPolicy)
}
