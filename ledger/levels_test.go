package ledger

import (
	"bytes"
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/codectest"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
)

// samePick fails unless a scan finds in a chain what decoding all of it finds there. It returns whether the chain is sound.
func samePick(t *testing.T, x levelScan, payload []byte) (sound bool) {
	t.Helper()
	var found foundLevel
	picked, err := x.pick(newLevelBatch(), payload, &found)
	c, all := state.DecodeChain(payload)
	if (err == nil) != (all == nil) {
		t.Fatalf("%x: %v; decoded %v", payload, err, all)
	}
	if err != nil {
		return false
	}
	var want state.Level
	have := false
	for _, l := range c.Levels { // in damaged ones they need not rise
		if x.current || l.Epsilon == x.epsilon {
			want, have = l, true
		}
	}
	if picked != have || picked && (found.epsilon != want.Epsilon || found.event != want.Event || !want.Response.IsUnary() && found.index != want.Response.Index) {
		t.Fatalf("%x: %v, %+v; decoded %v, %+v", payload, picked, found, have, want)
	}
	return true
}

// usualChains are chains as a ledger has them.
func usualChains(t testing.TB) (chains []state.Chain) {
	t.Helper()
	at := func(epsilon int64, index int, ev uint64, buyers ...uint32) state.Level {
		l := state.NewLevel(nano(t, epsilon), event.Value{Index: index}, ev)
		l.Buyers = buyers
		return l
	}
	return []state.Chain{
		{Enrolled: 1},
		{Enrolled: 300, Levels: []state.Level{at(1_000_000_000, 2, 128)}},
		{Enrolled: 1 << 40, Policy: 7, Noise: 127, Buyers: 126, Bound: &event.Tag{1, 2, 0x80}, Answered: nano(t, 5), Levels: []state.Level{
			at(1, 0, 1), at(127, 1, 1<<62), at(128, 126, 3, 1, 300, 1<<32-1), at(privacy.MaxEpsilonNano, 127, 1<<63-1, 5)}},
	}
}

// A scan finds what is there, and the faults that are there, whatever the bytes are.
func TestAScanDecodesAsAChainIsDecoded(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	sound := 0
	for range 50_000 {
		payload := codectest.Oddly(random, usualChains(t)[random.IntN(3)].Encode())
		if samePick(t, levelScan{epsilon: nano(t, 128), current: random.IntN(2) == 0}, payload) {
			sound++
		}
	}
	if sound < 10_000 || sound > 45_000 {
		t.Errorf("%d of 50,000 were sound: the test compares little", sound)
	}
}

// A response is no row of bits because the one before was: in a damaged file both may stand next to each other.
func TestRowsAndOthersInOneBatch(t *testing.T) {
	row := func(ones ...int) event.Value {
		bits, err := rrchain.NewBits(3, ones...)
		must(t, err)
		return event.Value{Bits: bits}
	}
	want := []event.Value{row(1), {}, {Index: 2}, row(), row(0, 2), {Index: 1}}
	b, x := newLevelBatch(), levelScan{ledger: inMemory(t, Options{}), question: &event.Question{Number: 7}, current: true}
	for i, response := range want {
		key := state.ChainKey(7, string('a'+rune(i)))
		c := state.Chain{Enrolled: 1, Levels: []state.Level{state.NewLevel(nano(t, 5), row(0), 1), state.NewLevel(nano(t, 1e9), response, uint64(i))}}
		b.stored = append(append(b.stored, key...), wire.Seal(state.BucketChains, key, c.Encode())...)
		b.ends = append(b.ends, storedRecord{len(key), len(b.stored)})
	}
	x.check(b)
	var got []event.Value
	on, err := b.visit(func(name string, at *state.Level) bool {
		if name != string('a'+rune(len(got))) || at.Event != uint64(len(got)) || at.Epsilon != nano(t, 1e9) {
			t.Errorf("%q: %+v", name, at)
		}
		got = append(got, at.Response)
		return true
	})
	if must(t, err); !on || !slices.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
}

func FuzzPick(f *testing.F) {
	for _, c := range usualChains(f) {
		f.Add(c.Encode(), int64(128), false)
	}
	for _, odd := range codectest.OddPayloads() {
		f.Add(odd, int64(0), true)
	}
	f.Fuzz(func(t *testing.T, payload []byte, epsilon int64, current bool) {
		if at, err := privacy.EpsilonFromNano(epsilon); err == nil {
			samePick(t, levelScan{epsilon: at, current: current}, payload)
		}
	})
}

// manyLevels is a ledger with as many chains as it takes to read in the background, more often than there is memory.
func manyLevels(t *testing.T) (l *Ledger, names []string) {
	t.Helper()
	names = crowd((levelsAhead+2)*levelsRead + 100)
	l = voters(t, inMemory(t, Options{}), "9", names...)
	carryOut(t, l, order(t, "all", "0.5"))
	return l, names
}

func recountOf(ctx context.Context, include func(string) bool, l *Ledger) (Estimate, error) {
	return l.Estimate(ctx, EstimateRequest{Question: "vote", Include: include})
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
			if wantErr(t, err, ErrCorrupt); seen != at/levelsRead*levelsRead {
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
				if p := recover(); p != "the clock is broken" {
					t.Errorf("snapshot %d: %v", n, p)
				}
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
	if e, err := recountOf(t.Context(), everybody, l); err == nil {
		t.Errorf("%d objects of %d", e.N, len(names))
	}
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
	for _, after := range []int{1, levelsRead, levelsRead + 1, 3 * levelsRead} {
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
			_, err := recountOf(ctx, func(string) bool {
				if left--; left == 0 {
					cancel()
				}
				return true
			}, l)
			wantErr(t, err, context.Canceled)

			func() {
				defer func() {
					if p := recover(); p != "enough" {
						t.Errorf("panic: %v", p)
					}
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
			_, err = recountOf(t.Context(), func(string) bool {
				if left--; left == 0 {
					must(t, l.Close())
				}
				return true
			}, l)
			if err != nil { // unless all was read by then
				wantErr(t, err, ErrClosed)
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
