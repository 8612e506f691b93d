package ledger

import (
	"context"

	"github.com/sluicedp/sluice/ledger/api"
)

// Raise brings many objects to ε as [Ledger.Release] does one. It is whole or nothing, unless the
// request is partial: if any object is refused, no object is drawn from (but see [api.ErrPartlyDone]),
// and the [*api.RefusedError] says who. Responses are read with [Ledger.Responses] afterwards.
//
// True values are asked for, in batches, before anything is written; those of objects beyond the
// first million once more when their turn comes. Then the objects are carried out in transactions
// of bounded size; meanwhile their budget is held, so that nobody else can take it. If ctx ends,
// the source of truths fails or the process dies in between, the parts committed so far stay, and
// the same request with the same key goes on where it stopped.
func (l *Ledger) Raise(ctx context.Context, r api.RaiseRequest) (api.RaiseResult, error) {
	return l.requests.Raise(ctx, r)
}
