package table

import "testing"

// Updates that fill the room faster than a checkpoint empties what is below are slowed down, before they would have to stop.
func TestUpdatesKeepPaceWithACheckpoint(t *testing.T) {
	const room = 1000
	for _, one := range []struct {
		size   int64
		placed float64 // share of the frozen layer
		slow   bool
	}{
		{0, 0, false}, {300, 0, false}, {301, 0, true}, // while it is written aside there is some room
		{640, 0.5, false}, {660, 0.5, true}, {999, 0.99, true}, {999, 1, false},
		{room, 0, false}, {5 * room, 0.5, false}, // all wait for its end
	} {
		if slow := outruns(one.size, room, int64(one.placed*whole)); slow != one.slow {
			t.Errorf("%d bytes of %d, %v in its place: slowed down %v, want %v", one.size, room, one.placed, slow, one.slow)
		}
	}
}
