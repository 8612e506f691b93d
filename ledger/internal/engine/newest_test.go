package engine

import (
	"testing"
	"time"
)

// A batch is decided at a time that the clock showed while each of its proposals was being made,
// also if the clock jumps back: at the reading that began last, whatever the order in which
// proposals were queued.
func TestNewest_ClockJumpsBack_IsTheReadingThatBeganLast(t *testing.T) {
	later, earlier := time.Unix(9, 0), time.Unix(5, 0)
	before, after := &Proposal{now: later, reading: 1}, &Proposal{now: earlier, reading: 2}
	for _, batch := range [][]*Proposal{{before, after}, {after, before}, {after}} {
		if got := newest(batch); !got.Equal(earlier) {
			t.Errorf("of %d proposals: %v, want %v", len(batch), got, earlier)
		}
	}
}
