package documents

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicedp/sluice/ledger/observe"
)

// Checkpoints may be issued in another order than they were made in. The newest is the one of the
// most events.
func TestMakerNewest_IssuedOutOfOrder_IsTheLargest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Maker
		begun := time.Now()
		for _, one := range []struct {
			events uint64 // of the checkpoint that leaves a minute later
			want   observe.Checkpoint
		}{
			{7, observe.Checkpoint{Events: 7, Signed: begun.Add(time.Minute)}},
			{7, observe.Checkpoint{Events: 7, Signed: begun.Add(2 * time.Minute)}},
			{6, observe.Checkpoint{Events: 7, Signed: begun.Add(2 * time.Minute)}},
			{8, observe.Checkpoint{Events: 8, Signed: begun.Add(4 * time.Minute)}},
		} {
			time.Sleep(time.Minute)
			p.RecordIssued(one.events)
			if got := p.Newest(); got.Events != one.want.Events || !got.Signed.Equal(one.want.Signed) {
				t.Errorf("after one of %d events the newest is %+v, want %+v", one.events, got, one.want)
			}
		}
	})
}
