package ledger

import (
	"context"
	"fmt"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Withdraw ends an object's part in all questions: nothing more is drawn from it, sold of it or
// answered about it. An answer about a panel with the object may still be derived at a lower ε from
// a recorded one. That needs no true value. What was released stays released. What was spent stays
// spent, even if the object is enrolled again. Responses that were delivered before can still be
// read, and requests that were made before can be repeated. Withdraw returns [api.ErrUnknown] if
// there is no such object. Withdrawing twice does nothing.
func (l *Ledger) Withdraw(ctx context.Context, r api.ObjectRequest) error {
	if err := event.CheckName("object", r.Object); err != nil {
		return err
	}
	id := event.ObjectRequest(event.RequestWithdraw, r.Object)
	return l.requests.Once(ctx, r.Key, r.Object, id, func(s *state.State) (event.Change, error) {
		o, found, err := s.Object(r.Object)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, fmt.Errorf("object %q: %w", r.Object, api.ErrUnknown)
		}
		out, err := s.IsOut(r.Object, o)
		if err != nil || out {
			return nil, err
		}
		return &event.Withdrawn{Object: r.Object}, nil
	})
}
