package ledger

import (
	"bytes"
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
)

// manyLevels is a ledger with as many chains as it takes to read in the background, more often than there is memory.
func manyLevels(t *testing.T) (l *Ledger, names []string) {
	t.Helper()
	names = crowd((levelsAhead+2)*levelsRead + 100)
	return filledOnce(t, "many levels", func(l *Ledger) {
		voters(t, l, "9", names...)
		carryOut(t, l, order(t, "all", "0.5"))
	}), names
}

func recountOf(ctx context.Context, include func(string) bool, l *Ledger) (api.Estimate, error) {
	return l.Estimate(ctx, api.EstimateRequest{Question: "vote", Include: include})
}

// A record that is damaged is found wherever it is, and nothing of its batch is passed on.
func TestDamageIsFoundInTheBackground(t *testing.T) {
	l, names := manyLevels(t)
	for _, at := range []int{0, levelsRead - 1, levelsRead, 3*levelsRead + 17, len(names) - 1} {
		var whole []byte
		key := state.ChainKey(1, names[at])
		must(t, l.engine.Store.View(func(r kv.Reader) error {
			value, err := r.Get(state.BucketChains, key)
			whole = bytes.Clone(value)
			return err
		}))
		put := func(value []byte) {
			must(t, l.engine.Store.Update(func(w kv.Writer) error { return w.Put(state.BucketChains, key, value) }))
		}
		flipped := bytes.Clone(whole)
		flipped[2] ^= 4
		tooLong := append(bytes.Clone(whole[:len(whole)-wire.SumLength]), 0)
		for what, value := range map[string][]byte{
			"a flipped bit": flipped, "three bytes": whole[:3], "one more byte, with its checksum": wire.Seal(state.BucketChains, key, tooLong),
			"another's record": wire.Seal(state.BucketChains, state.ChainKey(1, "?"), bytes.Clone(whole[:len(whole)-wire.SumLength])),
		} {
			put(value)
			seen := 0
			_, err := recountOf(t.Context(), func(string) bool { seen++; return true }, l)
			if wantErr(t, err, api.ErrCorrupt); seen != at/levelsRead*levelsRead {
				t.Errorf("%s in record %d: %d were counted", what, at, seen)
			}
		}
		put(whole)
		wantAll(t, l, names)
	}
}

// onSnapshot has something done when the n-th snapshot from now on is read.
func onSnapshot(l *Ledger, n int64, what func()) {
	var left atomic.Int64
	left.Store(n)
	l.engine.Clock = func() time.Time {
		if left.Add(-1) == 0 {
			what()
		}
		return epoch()
	}
}

// Whoever reads meets the panics of the background, and can go on after them.
func TestPanicsInTheBackgroundGoOnWhereTheyCanBeCaught(t *testing.T) {
	l, names := manyLevels(t)
	for n := range int64(levelsAhead + 2) {
		onSnapshot(l, 1+n, func() { panic("the clock is broken") })
		func() {
			defer func() {
				p := recover()
				check.That(t, p == "the clock is broken", "snapshot %d: %v", n, p)
			}()
			_, err := recountOf(t.Context(), everybody, l)
			t.Errorf("snapshot %d: %v", n, err)
		}()
		wantAll(t, l, names)
	}
}

// A goroutine that ends in the background, as one of a test does that fails, is no end of the records.
func TestReadingThatEndsEarlyIsAnError(t *testing.T) {
	l, names := manyLevels(t)
	onSnapshot(l, 3, runtime.Goexit)
	e, err := recountOf(t.Context(), everybody, l)
	check.That(t, err != nil, "%d objects of %d", e.N, len(names))
	wantAll(t, l, names)
}

func wantAll(t *testing.T, l *Ledger, names []string) {
	t.Helper()
	e, err := recountOf(t.Context(), everybody, l)
	if must(t, err); e.N != int64(len(names)) {
		t.Errorf("%d of %d objects were counted", e.N, len(names))
	}
}

// Whoever stops early leaves nothing running behind: synctest.Test would not end.
func TestStoppingEarlyLeavesNothingInTheBackground(t *testing.T) {
	for i, after := range []int{1, levelsRead, levelsRead + 1, 3 * levelsRead} {
		if i%oneIn(2) != 0 {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			l, _ := manyLevels(t)
			seen := 0
			ctx := context.Background() // which never ends, as that of the test does
			for _, err := range l.Responses(ctx, "vote", eps(t, "0.5")) {
				must(t, err)
				if seen++; seen == after {
					break
				}
			}

			ctx, cancel := context.WithCancel(ctx)
			left := after
			wantErr(t, check.Err(recountOf(ctx, func(string) bool {
				if left--; left == 0 {
					cancel()
				}
				return true
			}, l)), context.Canceled)

			func() {
				defer func() {
					p := recover()
					check.That(t, p == "enough", "panic: %v", p)
				}()
				left = after
				_, _ = recountOf(t.Context(), func(string) bool {
					if left--; left == 0 {
						panic("enough")
					}
					return true
				}, l)
			}()

			left = after
			_, err := recountOf(t.Context(), func(string) bool {
				if left--; left == 0 {
					must(t, l.Close())
				}
				return true
			}, l)
			if err != nil { // unless all was read by then
				wantErr(t, err, api.ErrClosed)
			}
		})
	}
}

// Whoever is asked meanwhile may write.
func TestWritingWhileReadingInTheBackground(t *testing.T) {
	l, names := manyLevels(t)
	seen := 0
	_, err := recountOf(t.Context(), func(name string) bool {
		if seen++; seen%500 == 0 {
			release(t, l, releaseOf(t, "again "+name, name, "1"))
		}
		return true
	}, l)
	if must(t, err); seen != len(names) {
		t.Errorf("%d of %d objects", seen, len(names))
	}
}
