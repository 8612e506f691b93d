package api

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// TruthFunc returns the true values of objects when draws need them. It gets a batch of objects,
// and returns one value for each in the same order, or "" for an object without a value. The ledger
// keeps a value no longer than the call that requested it.
//
// TruthFunc is called outside of any transaction, so it may be slow. It should return when ctx
// ends; ledger.Options.TruthTimeout sets a deadline of ctx. If it fails or is late, the request is
// not executed. A request that is executed in parts keeps its earlier parts: only the current part
// and the later ones are not executed.
//
// A source that must first know the objects that it will be called for returns [ErrTruthLater]. Any
// other error of the source is wrapped by [ErrTruthFailed]. If the context of the request has
// ended, the error is the error of that context.
//
// The value of an object must not change within an epoch of its chain; see ledger.Options.TruthKey
// and ledger.Ledger.BeginEpoch.
type TruthFunc func(ctx context.Context, question string, objects []string) (values []string, err error)

// TruthOf returns a TruthFunc with the value of one object in one question: the first ones that it
// is called for. For another object or question, and for several objects in one call, it returns
// [ErrTruthSource], and nothing is drawn. Therefore no request can use one value for several
// objects.
func TruthOf(value string) TruthFunc {
	type named struct{ question, object string }
	var first atomic.Pointer[named]
	return func(_ context.Context, question string, objects []string) ([]string, error) {
		if len(objects) != 1 {
			return nil, fmt.Errorf("%w: TruthOf has the value of one object, but was called for %d: "+
				"for several objects, use a TruthFunc that returns the value of each", errs.ErrTruthSource,
				len(objects))
		}
		called := named{question, objects[0]}
		// The first call sets the object and question; every later call must be for the same.
		if !first.CompareAndSwap(nil, &called) && *first.Load() != called {
			return nil, fmt.Errorf("%w: TruthOf was called before for another object or question: "+
				"make one for each, or use a TruthFunc that returns the value of each", errs.ErrTruthSource)
		}
		return []string{value}, nil
	}
}
