package ledger

import (
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Pages of objects that enrol in the order of their names are nearly full.
func TestPagesOfObjectsAreFull(t *testing.T) {
	path := create(t)
	l := open(t, path, Options{})
	define(t, l, vote())
	enroll(t, l, "vote", "10", crowd(20_000)...)
	closed(t, l)
	for bucket, full := range bareFill(t, path, state.BucketObjects, state.BucketChains, state.BucketEvents) {
		check.That(t, !(full < 0.8), "pages of %s are full to %.2f", bucket, full)
	}
}
