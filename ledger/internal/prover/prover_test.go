package prover

import (
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/observe"
)

// Checkpoints may be handed out in another order than they were made in: the one of the most events is the newest.
func TestTheNewestCheckpointIsTheLargest(t *testing.T) {
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	p := Prover{Engine: &engine.Engine{Clock: func() time.Time { return now }}}
	for _, one := range []struct {
		events uint64 // of the checkpoint that leaves a minute later
		want   observe.Checkpoint
	}{
		{7, observe.Checkpoint{Events: 7, Signed: now.Add(time.Minute)}},
		{7, observe.Checkpoint{Events: 7, Signed: now.Add(2 * time.Minute)}},
		{6, observe.Checkpoint{Events: 7, Signed: now.Add(2 * time.Minute)}},
		{8, observe.Checkpoint{Events: 8, Signed: now.Add(4 * time.Minute)}},
	} {
		now = now.Add(time.Minute)
		if p.Gave(one.events); p.Newest() != one.want {
			t.Errorf("after one of %d events the newest is %+v, want %+v", one.events, p.Newest(), one.want)
		}
	}
}
