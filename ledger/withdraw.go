package ledger

import (
	"context"
	"fmt"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Withdraw ends an object's part in all questions: nothing more is drawn from it, sold of it or
// asked about it. (An answer about a panel that it was in may still be derived for a lower ε from
// one that is recorded: that asks nobody.) What was released stays released, and what was spent
// stays spent, also when the object is enrolled again. Responses delivered before can still be
// read, and requests made before can be repeated. It returns [api.ErrUnknown] if there is no such
// object; withdrawing twice does nothing.
func (l *Ledger) Withdraw(ctx context.Context, key, object string) error {
	if err := event.CheckName("object", object); err != nil {
		return err
	}
	id := event.ObjectRequest(event.RequestWithdraw, object)
	return l.requests.Once(ctx, key, object, id, func(s *state.State) (event.Change, error) {
		o, found, err := s.Object(object)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, fmt.Errorf("object %q: %w", object, api.ErrUnknown)
		}
		out, err := s.IsOut(object, o)
		if err != nil || out {
			return nil, err
		}
		return &event.Withdrawn{Object: object}, nil
	})
}
