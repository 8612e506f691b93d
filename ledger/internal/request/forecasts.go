package request

import (
	"sync"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/vocabulary"
)

// mostKept is how many budgets are kept.
const mostKept = 64

// Kept are budgets that were found out before, by what was asked. The zero value is empty.
type Forecasts struct {
	mu  sync.Mutex
	All map[[2]event.Sum]KeptForecast // used under the lock
}

// KeptBudget is a budget, with the instant at which time changes it.
type KeptForecast struct {
	Budget vocabulary.Budget // as of the event that it says
	Until  time.Time         // or zero
}

// Keep keeps a budget, in place of another if there are many.
func (b *Forecasts) Keep(key [2]event.Sum, out vocabulary.Budget, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.All == nil {
		b.All = map[[2]event.Sum]KeptForecast{}
	}
	for other := range b.All {
		if len(b.All) < mostKept {
			break
		}
		delete(b.All, other)
	}
	b.All[key] = KeptForecast{out, until}
}

// Get returns what is kept, and until when it holds if nothing else happens.
func (b *Forecasts) Get(key [2]event.Sum) (out vocabulary.Budget, until time.Time, found bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one, found := b.All[key]
	return one.Budget, one.Until, found
}
