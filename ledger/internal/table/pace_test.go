package table

import "testing"

// Updates that fill the room faster than a checkpoint empties what is below are slowed down, before they would have to stop.
func TestUpdatesKeepPaceWithACheckpoint(t *testing.T) {
	const limit = 1000
	for _, one := range []struct {
		size, room int64
		placed     float64 // share of the frozen layer
		slow       bool
	}{
		{0, limit, 0, false}, {599, limit, 0, false}, {601, limit, 0, true}, // while it is written aside there is some room
		{790, limit, 0.5, false}, {810, limit, 0.5, true}, {999, limit, 0.99, true}, {999, limit, 1, false},
		{limit, limit, 0, false}, {5 * limit, limit, 0.5, false}, // all wait for its end
		{1490, 1900, 0, false}, {1510, 1900, 0, true}, {1900, 1900, 0, false}, // the frozen one is small
	} {
		if slow := outruns(one.size, one.room, limit, int64(one.placed*whole)); slow != one.slow {
			t.Errorf("%d bytes of %d, %v in its place: slowed down %v, want %v", one.size, one.room, one.placed, slow, one.slow)
		}
	}
}
