package ledger

import "time"

// Rules decide who may have what, and draw it. They know the host's keys, and what requests in memory hold.
type Rules struct {
	readOnly bool
	binder   *binder // nil without a truth key
	bound    bool    // the ledger has a truth key, whether or not it was opened with it
	// patience is how long a source of truths may take for a batch; 0 for ever.
	patience time.Duration
	noise    noises // does not change after Open
	holds    holds
}
