package outlook

import (
	"sync"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/vocabulary"
)

// mostKept is how many budgets are kept.
const mostKept = 64

// Kept are budgets that were found out before, by what was asked. The zero value is empty.
type Kept struct {
	mu  sync.Mutex
	All map[[2]event.Sum]KeptBudget // used under the lock
}

// KeptBudget is a budget, with the instant at which time changes it.
type KeptBudget struct {
	Budget vocabulary.Budget // as of the event that it says
	Until  time.Time         // or zero
}

// Keep keeps a budget, in place of another if there are many.
func (b *Kept) Keep(key [2]event.Sum, out vocabulary.Budget, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.All == nil {
		b.All = map[[2]event.Sum]KeptBudget{}
	}
	for other := range b.All {
		if len(b.All) < mostKept {
			break
		}
		delete(b.All, other)
	}
	b.All[key] = KeptBudget{out, until}
}

// Get returns what is kept, and until when it holds if nothing else happens.
func (b *Kept) Get(key [2]event.Sum) (out vocabulary.Budget, until time.Time, found bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one, found := b.All[key]
	return one.Budget, one.Until, found
}
