package ledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// A raise of all objects waits for a checkpoint before it takes the capacity that other requests
// need: releases continue, and do not wait for it.
func TestRaise_CheckpointSlow_LeavesCapacityForReleases(t *testing.T) {
	names := crowd(2 * state.PartSize)
	l, f := openHeld(t, votersFile(t, "9", names...), Options{Memory: 16 << 20})
	raise(t, l, raiseOf(t, "first", "1", names...)) // so much that a checkpoint has more than one transaction
	held := newGate(t)
	f.let.Store(1)
	f.hold.Store(held)
	written, parts, raised := make(chan error, 1), make(chan int, len(names)), make(chan error, 1)
	go func() { written <- l.engine.Checkpoint() }()
	held.wait(t)
	go func() {
		second := raiseOf(t, "second", "2", names...)
		second.Progress = func(done, _ int) { parts <- done }
		_, err := l.Raise(t.Context(), second)
		raised <- err
	}()
	done := <-parts
	check.That(t, done == state.PartSize, "the first part has %d people", done)
	for i, name := range names[:20] {
		release(t, l, releaseOf(t, fmt.Sprint(i), name, "3"))
	}
	select {
	case <-parts:
		t.Error("the raise goes on before the checkpoint is over")
	case <-time.After(time.Second): // much longer than a part takes
	}
	held.open()
	must(t, <-raised)
	must(t, <-written)
	wantClean(t, l, api.VerifyRequest{})
}
