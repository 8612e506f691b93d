package ledger

import (
	"context"

	"github.com/sluicedp/sluice/ledger/api"
)

// Release returns the response of an object at ε. Above the chain's current level the response is
// drawn by the transition kernel, and the object is charged the difference. At a recorded level the
// recorded response is returned. Between and below recorded levels a response is derived without
// the true value, at no cost. The response is durable before Release returns. It is the same for
// every caller, for good.
//
// Errors: [*api.RefusedError] (nothing was changed), [api.ErrUnknown], [api.ErrInvalid],
// [*api.KeyConflictError], the error of the Truth function, and the errors of any write.
func (l *Ledger) Release(ctx context.Context, r api.ReleaseRequest) (api.Response, error) {
	return l.requests.Release(ctx, r)
}
