package request

import (
	"context"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// KeptByQuote returns how many names, lines and listed refusals a quote keeps, and how many objects
// it counts.
func (e *Executor) KeptByQuote(ctx context.Context, o api.Order) (names, lines, listed, counted int, err error) {
	t := &trade{}
	if err := t.prepare(ctx, e, o); err != nil {
		return 0, 0, 0, 0, err
	}
	t.isQuote, t.countsOnly = true, true
	err = e.Engine.View(ctx, func(s *state.State) error {
		t.start(s, Progress{Through: s.Counters.Events})
		return t.assessPanel(s, t.at, nil)
	})
	return len(t.names), len(t.lines), len(t.refused.Listed), t.refused.Count() + int(t.sum.objects), err
}
