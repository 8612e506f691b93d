package ledger

import (
	"context"

	"github.com/sluicedp/sluice/ledger/api"
)

// Release returns the response of an object at ε. Above the chain's current level it draws it by
// the transition kernel, which charges the object the difference; at a recorded level it hands out
// the recorded response; between and below recorded levels it derives one without the truth, for
// free. The response is durable before Release returns. It is the same for every caller, for ever.
//
// Errors: [*api.RefusedError] (nothing was changed), [api.ErrUnknown], [api.ErrInvalid],
// [*api.KeyConflictError], the error of the Truth function, and those of any write.
func (l *Ledger) Release(ctx context.Context, r api.ReleaseRequest) (api.Response, error) {
	return l.requests.Release(ctx, r)
}
