package ledger

import (
	"context"

	"github.com/sluicedp/sluice/privacy"

	"github.com/sluicedp/sluice/ledger/internal/request"
)

// ReleaseRequest asks for the response of one object at one ε.
type ReleaseRequest struct {
	Key      string          `json:"-"`        // idempotency key, 1 to 256 bytes: your order's id, say
	Question string          `json:"question"` // by its name
	Object   string          `json:"object"`   // by its name
	Epsilon  privacy.Epsilon `json:"epsilon"`  // above 0
	Truth    TruthFunc       `json:"-"`        // asked only if ε lies above the current level
	// TrueValue is what Truth would say, if it is at hand: faster, as nobody looks first whether it
	// is needed (but with [Options.TruthKey]). It is used only if ε lies above the current level,
	// and is that of the epoch then: begin none meanwhile. "" is none.
	TrueValue string `json:"-"`
}

// Release returns the response of an object at ε. Above the chain's current level it draws it by
// the transition kernel, which charges the object the difference; at a recorded level it hands out
// the recorded response; between and below recorded levels it derives one without the truth, for
// free. The response is durable before Release returns. It is the same for every caller, for ever.
//
// Errors: [*RefusedError] (nothing was changed), [ErrUnknown], [ErrInvalid], [ErrKeyConflict], the
// error of the Truth function, and those of any write.
func (l *Ledger) Release(ctx context.Context, r ReleaseRequest) (Response, error) {
	q, given, err := l.requests.Release(ctx, request.Release(r))
	if err != nil {
		return Response{}, err
	}
	return describeLevel(q, r.Object, given)
}
