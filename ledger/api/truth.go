package api

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/sluicedp/sluice/ledger/internal/errs"
)

// TruthFunc is how the host tells true values when draws need them. It gets a batch of objects and
// returns one value for each, in the same order, or "" for an object it has none for. It is called
// outside of any transaction, so it may be slow, and it should stop when ctx ends, which has a
// deadline if ledger.Options.TruthTimeout sets one; if it fails or is late, what it was asked for is not
// carried out: the whole request, or of a long one the part whose turn it is, and those behind it.
// A value is kept no longer than the call that asked for it. A source that must know first whom it
// will be asked about fails with [ErrTruthLater]. Any other error of it is passed on
// with [ErrTruthFailed]. Where the context of the request has ended, the error is that
// of the context.
//
// One object's value must not change within an epoch of its chain; see ledger.Options.TruthKey and
// ledger.Ledger.BeginEpoch.
type TruthFunc func(ctx context.Context, question string, objects []string) (values []string, err error)

// TruthOf returns a TruthFunc with the value of one object in one question: of the first that it is
// called for. For any other, and for several at a time, it returns [ErrTruthSource], and nothing is
// drawn: so no request can give one value to many people.
func TruthOf(value string) TruthFunc {
	type named struct{ question, object string }
	var of atomic.Pointer[named]
	return func(_ context.Context, question string, objects []string) ([]string, error) {
		if len(objects) != 1 {
			return nil, fmt.Errorf("%w: TruthOf has the value of one object, and was called for %d: "+
				"a request about several needs a TruthFunc that looks up the value of each", errs.ErrTruthSource,
				len(objects))
		}
		asked := named{question, objects[0]}
		if !of.CompareAndSwap(nil, &asked) && *of.Load() != asked {
			return nil, fmt.Errorf("%w: TruthOf was called before for another object or question: "+
				"call TruthOf for each, or use a TruthFunc that looks up the value", errs.ErrTruthSource)
		}
		return []string{value}, nil
	}
}
