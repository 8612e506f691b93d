package state

import (
	"time"

	"github.com/sluicedp/sluice/policy"
)

// compared are two policies, by their texts.
type compared struct{ newer, older string }

// comparison is what came of comparing them from an instant on.
type comparison struct {
	from time.Time
	more error // nil if the newer one allows nothing that the older one does not
}

// AtMost is [policy.Policy.AtMost]. It may take a fifth of a millisecond, and many objects are under the
// same few policies, so what came of it is remembered: what is proven from an instant on holds from
// every later one. A nil cache remembers nothing.
func (c *Cache) AtMost(newer, older policy.Policy, from time.Time) error {
	if c == nil {
		return newer.AtMost(older, from)
	}
	key := compared{newer.String(), older.String()}
	c.mu.Lock()
	last, known := c.compared[key]
	c.mu.Unlock()
	if known && (last.more == nil && !from.Before(last.from) || last.more != nil && from.Equal(last.from)) {
		return last.more
	}
	now := comparison{from, newer.AtMost(older, from)}
	c.mu.Lock()
	defer c.mu.Unlock()
	keep(&c.compared, key, now, cached)
	return now.more
}
