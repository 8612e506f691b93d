package table

import "testing"

// Updates that fill the room faster than a checkpoint empties what is below are slowed down, before they would have to stop.
func TestUpdatesKeepPaceWithACheckpoint(t *testing.T) {
	const limit = 1000
	for _, one := range []struct {
		size, room int64
		done       float64 // of the checkpoint
		slow       bool
	}{
		{0, limit, 0, false}, {249, limit, 0, false}, {251, limit, 0, true}, // when it begins there is some room
		{620, limit, 0.5, false}, {630, limit, 0.5, true}, {999, limit, 0.99, true}, {999, limit, 1, false},
		{limit, limit, 0, false}, {5 * limit, limit, 0.5, false}, // all wait for its end
		{1140, 1900, 0, false}, {1160, 1900, 0, true}, {1900, 1900, 0, false}, // the frozen one is small
	} {
		if slow := outruns(one.size, one.room, limit, int64(one.done*whole)); slow != one.slow {
			t.Errorf("%d bytes of %d, %v of it done: slowed down %v, want %v", one.size, one.room, one.done, slow, one.slow)
		}
	}
}
