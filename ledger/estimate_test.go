package ledger

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/fixture"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/internal/wire"
	"github.com/sluicedp/sluice/privacy"
	"github.com/sluicedp/sluice/rrchain"
	"github.com/sluicedp/sluice/rrchain/estimate"
)

// These tests record chosen responses without a draw, and compare estimates with those of package
// rrchain/estimate.

// responseOf returns an event with a chosen response to the first question.
func responseOf(t *testing.T, object, epsilon string, v int) event.Change {
	t.Helper()
	return &event.Released{Object: object, Question: 1, Epsilon: eps(t, epsilon), Response: event.Response{Value: event.Value{Index: v}, Method: event.MethodRaise}}
}

// tryResponse records a response without drawing it.
func tryResponse(t *testing.T, l *Ledger, object, epsilon string, value int) error {
	t.Helper()
	_, _, err := l.engine.Submit(t.Context(), func(s *state.State) ([]event.Change, error) {
		return withSettled(s.Counters.Events+1, []event.Change{responseOf(t, object, epsilon, value)}), nil
	})
	return err
}

func setResponse(t *testing.T, l *Ledger, object, epsilon string, value int) {
	t.Helper()
	must(t, tryResponse(t, l, object, epsilon, value))
}

// polledLedger is a ledger of six objects: one has answered at 0.5, two at 1, two at both, and the
// last one not at all.
func polledLedger(t *testing.T) *Ledger {
	l := voters(t, inMemory(t, Options{}), "9", "a", "b", "c", "d", "e", "f")
	setResponse(t, l, "a", "0.5", 0)
	setResponse(t, l, "b", "1", 1)
	setResponse(t, l, "c", "1", 2)
	setResponse(t, l, "d", "0.5", 0)
	setResponse(t, l, "d", "1", 1)
	setResponse(t, l, "e", "0.5", 2)
	setResponse(t, l, "e", "1", 1)
	return l
}

// wantEstimate compares an estimate with that of package estimate for the counts. Without an
// Include function it compares a recount of all objects, too.
func wantEstimate(t *testing.T, l *Ledger, r api.EstimateRequest, confidence float64, counts ...estimate.Counts) {
	t.Helper()
	shares := check.Value(estimate.Frequencies(estimate.Options{Confidence: confidence, Pool: r.Pool, Population: r.Population}, counts...))(t)
	p := check.Value(estimate.Disagreement(counts...))(t)
	want := api.Estimate{Question: "vote", Event: stats(t, l).Events}
	combinedAs(&want, len(counts), r, p)
	for _, c := range counts {
		level := api.LevelCount{Epsilon: c.Epsilon}
		for _, n := range c.ByValue {
			level.N += n
		}
		want.N += level.N
		want.Levels = append(want.Levels, level)
	}
	for v, f := range shares {
		want.Values = append(want.Values, api.ValueEstimate{Value: vote().Values[v], Estimate: f.Estimate, StdErr: f.StdErr, Low: f.Low, High: f.High})
	}
	r.Question = "vote"
	includes := []func(string) bool{r.Include}
	if r.Include == nil {
		includes = append(includes, includeAll)
	}
	for _, r.Include = range includes {
		got, err := l.Estimate(t.Context(), r)
		check.That(t, err == nil && reflect.DeepEqual(got, want), "got\n%+v, %v\nwant\n%+v", got, err, want)
	}
}

// combinedAs sets in an estimate how levels are combined, and what it covers.
func combinedAs(e *api.Estimate, levels int, r api.EstimateRequest, p float64) {
	e.Method, e.Covers = "level", "panel"
	if r.Population {
		e.Covers = "population"
	}
	if levels > 1 {
		e.Method, e.Disagreement = "stratified", &p
		if r.Pool {
			e.Method = "pooled"
		}
	}
}

func TestEstimate_PoolOrPopulation_IsWhatIsRequested(t *testing.T) {
	for _, r := range []api.EstimateRequest{{Pool: true}, {Population: true}, {Pool: true, Population: true}} {
		wantEstimate(t, polledLedger(t), r, 0.95,
			estimate.Counts{Epsilon: eps(t, "0.5"), ByValue: []int64{1, 0, 0}},
			estimate.Counts{Epsilon: eps(t, "1"), ByValue: []int64{0, 3, 1}})
		r.Epsilon = eps(t, "0.5")
		wantEstimate(t, polledLedger(t), r, 0.95, estimate.Counts{Epsilon: eps(t, "0.5"), ByValue: []int64{2, 0, 1}})
	}
}

// If objects with one value answer at a lower ε than the others, the default estimate is still
// right. Half of 4,000 objects have the first value and answer at 0.5 only, the others also at 3.
// The default interval contains the true share, the pooled one is far from it, and the levels
// disagree.
func TestEstimate_EpsilonDependsOnValue_DefaultIsUnbiased(t *testing.T) {
	names := crowd(4000)
	l := voters(t, inMemory(t, Options{}), "9", names...)
	values := vote().Values
	truth := map[string]string{}
	for i, name := range names {
		truth[name] = values[i%2]
	}
	low := api.RaiseRequest{Key: "all", Question: "vote", Epsilon: eps(t, "0.5"), All: true, Truth: truthsOf(truth)}
	raise(t, l, low)
	high := api.RaiseRequest{Key: "some", Question: "vote", Epsilon: eps(t, "3"), Truth: truthsOf(truth)}
	for i, name := range names {
		if i%2 == 1 {
			high.Objects = append(high.Objects, name)
		}
	}
	raise(t, l, high)
	// An interval of this confidence misses the share once in 10⁹ runs.
	got := check.Value(l.Estimate(t.Context(), api.EstimateRequest{Question: "vote", Confidence: 1 - 1e-9}))(t)
	if first := got.Values[0]; !(first.Low <= 0.5 && 0.5 <= first.High) || *got.Disagreement > 1e-9 {
		t.Errorf("the estimate is %+v, want an interval with the share 0.5, and disagreement", got)
	}
	got = check.Value(l.Estimate(t.Context(), api.EstimateRequest{Question: "vote", Confidence: 1 - 1e-9, Pool: true}))(t)
	if first := got.Values[0]; first.High > 0.4 || got.Method != "pooled" {
		t.Errorf("the share is 0.5, the pooled estimate %+v; want one that is far from it", got)
	}
}

func TestEstimate_NoResponses_IsErrNoResponses(t *testing.T) {
	l := polledLedger(t)
	for name, r := range map[string]api.EstimateRequest{
		"no such level": {Question: "vote", Epsilon: eps(t, "2")},
		"no object":     {Question: "vote", Include: func(string) bool { return false }},
	} {
		if _, err := l.Estimate(t.Context(), r); err == nil {
			t.Errorf("%s: got no error", name)
		} else {
			wantErr(t, err, api.ErrNoResponses)
		}
	}
	define(t, l, smoker())
	wantErr(t, check.Err(l.Estimate(t.Context(), api.EstimateRequest{Question: "smoker"})), api.ErrNoResponses)
}

func TestEstimate_InvalidConfidence_IsErrInvalid(t *testing.T) {
	l := polledLedger(t)
	for _, confidence := range []float64{-0.5, 1, 95, math.NaN(), math.Inf(1), math.Inf(-1)} {
		wantErr(t, check.Err(l.Estimate(t.Context(), api.EstimateRequest{Question: "vote", Confidence: confidence})), api.ErrInvalid)
	}
}

func TestLevels_AfterForget_CountRemainingResponses(t *testing.T) {
	l := polledLedger(t)
	want := []api.LevelCount{{Epsilon: eps(t, "0.5"), N: 3}, {Epsilon: eps(t, "1"), N: 4}}
	got, err := api.Collect(l.Levels(t.Context(), "vote"))
	check.That(t, err == nil && slices.Equal(got, want), "got %v, %v, want %v", got, err, want)
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "forget", Object: "a"}))
	want[0].N = 2
	got, err = api.Collect(l.Levels(t.Context(), "vote"))
	check.That(t, err == nil && slices.Equal(got, want), "after one was forgotten: %v, %v, want %v", got, err, want)
	wantErr(t, check.Err(api.Collect(l.Levels(t.Context(), "nothing"))), api.ErrUnknown)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, check.Err(api.Collect(l.Levels(ctx, "vote"))), context.Canceled)
}

// manyLevels is a ledger with so many chains that a scan reads more batches in the background than
// it keeps at once.
func manyLevels(t *testing.T) (l *Ledger, names []string) {
	t.Helper()
	names = crowd((levelsAhead+2)*levelsRead + 100)
	return filledOnce(t, "many levels", func(l *Ledger) {
		voters(t, l, "9", names...)
		raise(t, l, raiseOf(t, "all", "0.5"))
	}), names
}

func recountOf(ctx context.Context, include func(string) bool, l *Ledger) (api.Estimate, error) {
	return l.Estimate(ctx, api.EstimateRequest{Question: "vote", Include: include})
}

// A damaged record is found in any batch of a scan, and no record of that batch is passed on.
func TestRecount_DamagedRecord_IsCorrupt(t *testing.T) {
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
				t.Errorf("%s in record %d: %d records were passed on", what, at, seen)
			}
		}
		put(whole)
		wantRecountAll(t, l, names)
	}
}

// onSnapshot calls what when the n-th snapshot from now is read.
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

// A panic in the background of a scan continues in the caller, which can recover it and scan again.
func TestRecount_BackgroundPanics_CallerCanRecover(t *testing.T) {
	l, names := manyLevels(t)
	for n := range int64(levelsAhead + 2) {
		onSnapshot(l, 1+n, func() { panic("the clock is broken") })
		func() {
			defer func() {
				p := recover()
				check.That(t, p == "the clock is broken", "snapshot %d: recovered %v", n, p)
			}()
			t.Errorf("snapshot %d: got the error %v, want a panic", n, check.Err(recountOf(t.Context(), includeAll, l)))
		}()
		wantRecountAll(t, l, names)
	}
}

// If the goroutine in the background exits, the scan returns an error instead of a short result.
func TestRecount_BackgroundExits_IsError(t *testing.T) {
	l, names := manyLevels(t)
	onSnapshot(l, 3, runtime.Goexit)
	e, err := recountOf(t.Context(), includeAll, l)
	check.That(t, err != nil, "got an estimate of %d objects of %d, want an error", e.N, len(names))
	wantRecountAll(t, l, names)
}

func wantRecountAll(t *testing.T, l *Ledger, names []string) {
	t.Helper()
	e, err := recountOf(t.Context(), includeAll, l)
	if must(t, err); e.N != int64(len(names)) {
		t.Errorf("%d of %d objects were counted", e.N, len(names))
	}
}

// A scan that stops early leaves no goroutine: otherwise synctest.Test would not end.
func TestRecount_StoppedEarly_LeavesNoGoroutine(t *testing.T) {
	for i, after := range []int{1, levelsRead, levelsRead + 1, 3 * levelsRead} {
		if i%oneIn(2) != 0 {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			l, _ := manyLevels(t)
			seen := 0
			ctx := context.Background() // which never ends, unlike that of the test
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
			if err != nil { // otherwise all was read before Close
				wantErr(t, err, api.ErrClosed)
			}
		})
	}
}

// The Include function of a scan may write to the ledger.
func TestRecount_IncludeReleases_DoesNotDeadlock(t *testing.T) {
	l, names := manyLevels(t)
	seen := 0
	_, err := recountOf(t.Context(), func(name string) bool {
		if seen++; seen%500 == 0 {
			release(t, l, releaseOf(t, "again "+name, name, "1"))
		}
		return true
	}, l)
	if must(t, err); seen != len(names) {
		t.Errorf("%d of %d objects were read", seen, len(names))
	}
}

// wantSamePick checks that a scan finds in a chain what decoding the whole chain finds. It returns
// whether the chain is sound.
func wantSamePick(t *testing.T, x levels, payload []byte) (sound bool) {
	t.Helper()
	var found foundLevel
	picked, err := x.pick(newLevelBatch(), payload, &found)
	c, all := state.DecodeChain(payload)
	check.Need(t, (err == nil) == (all == nil), "%x: pick returns %v, DecodeChain %v", payload, err, all)
	if err != nil {
		return false
	}
	var want state.Level
	have := false
	for _, l := range c.Levels { // in a damaged chain they need not rise
		if x.Current || l.Epsilon == x.Epsilon {
			want, have = l, true
		}
	}
	check.Need(t, picked == have && (!picked || (found.epsilon == want.Epsilon && found.event == want.Event && (want.Response.IsUnary() || found.index == want.Response.Index))),
		"%x: pick finds %v, %+v; DecodeChain %v, %+v", payload, picked, found, have, want)
	return true
}

// usualChains returns chains as ledgers have them.
func usualChains(t testing.TB) (chains []state.Chain) {
	t.Helper()
	at := func(epsilon int64, index int, ev uint64, buyers ...uint32) state.Level {
		l := state.NewLevel(nano(t, epsilon), event.Value{Index: index}, ev)
		for i, buyer := range buyers {
			l.Holders = append(l.Holders, state.Holder{Buyer: buyer, Paid: []uint64{0, 127, 1 << 40}[i%3]})
		}
		return l
	}
	return []state.Chain{
		{Enrolled: 1},
		{Enrolled: 300, Levels: []state.Level{at(1_000_000_000, 2, 128)}},
		{Enrolled: 1 << 40, Policy: 7, Noise: 127, Buyers: 126, Bound: &event.Tag{1, 2, 0x80}, Answered: nano(t, 5), Levels: []state.Level{
			at(1, 0, 1), at(127, 1, 1<<62), at(128, 126, 3, 1, 300, 1<<32-1), at(privacy.MaxEpsilon().Nano(), 127, 1<<63-1, 5)}},
	}
}

// For random bytes, a scan finds the same levels and the same faults as decoding the whole chain.
func TestPick_RandomBytes_AgreesWithDecodeChain(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	sound := 0
	for range 50_000 {
		payload := fixture.Corrupt(random, usualChains(t)[random.IntN(3)].Encode())
		if wantSamePick(t, levels{Epsilon: nano(t, 128), Current: random.IntN(2) == 0}, payload) {
			sound++
		}
	}
	check.That(t, sound >= 10_000 && sound <= 45_000, "%d of 50,000 chains were sound, want 10,000 to 45,000", sound)
}

// In a damaged file, a row of bits and a value may be next to each other in a batch. Each is
// returned as what it is.
func TestLevelBatch_BitsAndValuesMixed_KeepsEach(t *testing.T) {
	row := func(packed byte) event.Value {
		bits := check.Value(rrchain.NewBits(3, []byte{packed}))(t)
		return event.Value{Bits: bits}
	}
	want := []event.Value{row(0b10), {}, {Index: 2}, row(0), row(0b101), {Index: 1}}
	b, x := newLevelBatch(), levels{Question: &event.Question{Number: 7}, Current: true}
	for i, response := range want {
		key := state.ChainKey(7, string('a'+rune(i)))
		c := state.Chain{Enrolled: 1, Levels: []state.Level{state.NewLevel(nano(t, 5), row(0b1), 1), state.NewLevel(nano(t, 1e9), response, uint64(i))}}
		b.stored = append(append(b.stored, key...), wire.Seal(state.BucketChains, key, c.Encode())...)
		b.ends = append(b.ends, storedRecord{len(key), len(b.stored)})
	}
	x.check(b)
	var got []event.Value
	on, err := b.visit(func(name string, at *state.Level) bool {
		check.That(t, name == string('a'+rune(len(got))) && at.Event == uint64(len(got)) && at.Epsilon == nano(t, 1e9),
			"%q: %+v", name, at)
		got = append(got, at.Response)
		return true
	})
	if must(t, err); !on || !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func FuzzPick(f *testing.F) {
	for _, c := range usualChains(f) {
		f.Add(c.Encode(), int64(128), false)
	}
	for _, odd := range fixture.OddPayloads() {
		f.Add(odd, int64(0), true)
	}
	f.Fuzz(func(t *testing.T, payload []byte, epsilon int64, current bool) {
		if at, err := privacy.EpsilonFromNano(epsilon); err == nil {
			wantSamePick(t, levels{Epsilon: at, Current: current}, payload)
		}
	})
}
