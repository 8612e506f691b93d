package engine

import (
	"testing"
	"time"
)

// A batch is decided at the clock reading that began last, in any order of the queue, and also if
// the clock has jumped back. All proposals of the batch were in progress during that reading.
func TestNewest_ClockJumpsBack_IsTheReadingThatBeganLast(t *testing.T) {
	later, earlier := time.Unix(9, 0), time.Unix(5, 0)
	before, after := &Proposal{now: later, reading: 1}, &Proposal{now: earlier, reading: 2}
	for _, batch := range [][]*Proposal{{before, after}, {after, before}, {after}} {
		if got := newest(batch); !got.Equal(earlier) {
			t.Errorf("of %d proposals: %v, want %v", len(batch), got, earlier)
		}
	}
}
