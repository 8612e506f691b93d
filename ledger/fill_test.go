package ledger

import (
	"testing"

	bolt "go.etcd.io/bbolt"
)

// Pages of objects that enrol in the order of their names are nearly full.
func TestPagesOfObjectsAreFull(t *testing.T) {
	path := create(t)
	l := open(t, path, Options{})
	define(t, l, vote())
	enroll(t, l, "vote", "10", crowd(20_000)...)
	closed(t, l)
	db := openBare(t, path)
	must(t, db.View(func(tx *bolt.Tx) error {
		for _, name := range []string{bucketObjects, bucketChains, bucketEvents} {
			stats := tx.Bucket([]byte(name)).Stats()
			if full := float64(stats.LeafInuse) / float64(stats.LeafAlloc); full < 0.8 {
				t.Errorf("pages of %s are full to %.2f", name, full)
			}
		}
		return nil
	}))
}
