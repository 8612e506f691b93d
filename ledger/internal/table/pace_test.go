package table

import "testing"

// Updates that fill the room faster than a checkpoint empties what is below are slowed down, before they would have to stop.
func TestUpdatesKeepPaceWithACheckpoint(t *testing.T) {
	const limit, records = 1000, 100
	for _, one := range []struct {
		size    int64
		written int
		slow    bool
	}{
		{0, 0, false}, {limit, 0, false}, {limit + 1, 0, true}, // nothing is written yet: there is just so much room as before
		{1250, 30, true}, {1250, 40, false}, {1740, 100, false}, {1760, 100, true}, {1999, 100, true}, // all is put, and not committed
		{2000, 0, false}, {5000, 50, false}, // all wait for its end
	} {
		if slow := outruns(one.size, limit, one.written, records); slow != one.slow {
			t.Errorf("%d bytes of %d, %d of %d records written: slowed down %v, want %v", one.size, limit, one.written, records, slow, one.slow)
		}
	}
	if outruns(limit, limit, 0, 0) || !outruns(limit+1, limit, 0, 0) {
		t.Error("where there is no record to write, only the room counts")
	}
}
