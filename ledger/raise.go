package ledger

import (
	"context"

	"github.com/sluicedp/sluice/ledger/api"
)

// Raise raises many objects to ε, as [Ledger.Release] does for one object. Unless the request is
// partial, it is executed for all objects or for none: if any object is refused, no object is drawn
// (but see [api.ErrPartlyDone]), and the [*api.RefusedError] lists the refused objects. Responses
// are read with [Ledger.Responses] afterwards.
//
// True values are requested in batches, before anything is written. Beyond the first million
// objects, they are requested again when the objects are drawn. The objects are then drawn in
// transactions of bounded size. Until then their budget is held, so that no other request can use
// it. If ctx ends, the source of true values fails or the process dies, the committed transactions
// are kept. The same request with the same key continues after them.
func (l *Ledger) Raise(ctx context.Context, r api.RaiseRequest) (api.RaiseResult, error) {
	return l.requests.Raise(ctx, r)
}
