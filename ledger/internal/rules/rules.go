package rules

import "time"

// Rules decide who may have what, and draw it. They know the host's keys, and what requests in
// memory hold.
type Rules struct {
	ReadOnly bool    // nothing is drawn
	Binder   *Binder // nil without a truth key
	Bound    bool    // the ledger has a truth key, whether or not it was opened with it
	// Patience is how long a source of truths may take for a batch; 0 for ever.
	Patience time.Duration
	Noise    noises // does not change after Open
	Holds    Holds  // of the raises that are under way
}
