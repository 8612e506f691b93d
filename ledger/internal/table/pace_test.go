package table

import "testing"

// Updates that fill the room faster than a checkpoint empties what is below are slowed down, before they would have to stop.
func TestUpdatesKeepPaceWithACheckpoint(t *testing.T) {
	const limit = 1000
	for _, one := range []struct {
		size   int64
		placed float64 // share of the frozen layer
		slow   bool
	}{
		{0, 0, false}, {limit, 0, false}, {limit + 1, 0, true}, // nothing is in its place yet: there is just so much room as before
		{1250, 0.24, true}, {1250, 0.26, false}, {1740, 0.75, false}, {1760, 0.75, true}, {1999, 0.99, true}, {1999, 1, false},
		{2000, 0, false}, {5000, 0.5, false}, // all wait for its end
	} {
		if slow := outruns(one.size, limit, int64(one.placed*whole)); slow != one.slow {
			t.Errorf("%d bytes of %d, %v in its place: slowed down %v, want %v", one.size, limit, one.placed, slow, one.slow)
		}
	}
}
