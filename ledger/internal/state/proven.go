package state

import (
	"time"

	"github.com/sluicedp/sluice/policy"
)

// compared identifies a comparison by the canonical texts of its two policies.
type compared struct{ newer, older string }

// comparison is the result of comparing two policies from a time on.
type comparison struct {
	from time.Time
	more error // nil if the newer policy allows nothing that the older one does not
}

// AtMost is [policy.Policy.AtMost] with a cache. It returns nil if newer allows nothing, from a
// time on, that older does not allow. One comparison may take a fifth of a millisecond, and many
// objects have the same few policies. A nil cache keeps nothing.
func (c *Cache) AtMost(newer, older policy.Policy, from time.Time) error {
	if c == nil {
		return newer.AtMost(older, from)
	}
	key := compared{newer.String(), older.String()}
	c.mu.Lock()
	last, known := c.compared[key]
	c.mu.Unlock()
	// A proof from a time on also holds from every later time. An error holds only for the same
	// time.
	if known && (last.more == nil && !from.Before(last.from) || last.more != nil && from.Equal(last.from)) {
		return last.more
	}
	now := comparison{from, newer.AtMost(older, from)}
	c.mu.Lock()
	defer c.mu.Unlock()
	keep(&c.compared, key, now, maxCached)
	return now.more
}
