package ledger

import (
	"context"
	"fmt"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// Withdraw ends an object's part in all questions: nothing more is drawn from it, sold of it or asked
// about it. (An answer about a panel that it was in may still be derived for a lower ε from one that is recorded: that
// asks nobody.) What was released stays released, and what was spent stays spent, also when the object is
// enrolled again. Responses delivered before can still be read, and requests made before can be
// repeated. It returns [ErrUnknown] if there is no such object; withdrawing twice does nothing.
func (l *Ledger) Withdraw(ctx context.Context, key, object string) error {
	if err := checkName("object", object); err != nil {
		return err
	}
	f := formOf("withdraw")
	f.field("Object").text(object)
	return l.once(ctx, key, object, f, func(s *state) (change, error) {
		o, found, err := s.object(object)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, fmt.Errorf("object %q: %w", object, ErrUnknown)
		}
		out, err := s.isOut(object, o)
		if err != nil || out {
			return nil, err
		}
		return &withdrawn{object}, nil
	})
}

// isOut tells whether an object takes part in nothing any more.
func (s *state) isOut(name string, o object) (bool, error) {
	numbers, err := s.questionsOf(name)
	for _, number := range numbers {
		c, found, err := s.chain(number, name)
		if err != nil || !found {
			return false, errs.Corrupt(err, "object %q has lost its chain in question %d", name, number)
		}
		if !o.withdrew(c) {
			return false, nil
		}
	}
	return true, err
}
