package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/engine"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/fold"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/rrchain"
)

// Callers that change the ledger share commits. Each gets the same guarantees as if it were alone.

// queueReleases makes n releases: the commit of number 0 is blocked, and the others are queued
// after it in order. It returns the gate that blocks the commit, and the answers.
func queueReleases(t *testing.T, l *Ledger, s *shim, n int, request func(i int) (context.Context, api.ReleaseRequest)) (*gate, []chan answer[api.Response]) {
	t.Helper()
	commit := s.holdCommit(t)
	answers := make([]chan answer[api.Response], n)
	for i := range answers {
		ctx, r := request(i)
		answers[i] = async(func() (api.Response, error) { return l.Release(ctx, r) })
		if i == 0 {
			commit.wait(t)
		}
		waitQueued(t, l, i)
	}
	return commit, answers
}

func crowdRelease(t *testing.T) func(i int) (context.Context, api.ReleaseRequest) {
	return func(i int) (context.Context, api.ReleaseRequest) {
		return t.Context(), releaseOf(t, fmt.Sprint("sale ", i), fmt.Sprintf("person-%05d", i), "0.5")
	}
}

// Callers that wait share one commit. A batch is bounded, so that the time of one commit is, too.
func TestCommit_ManyCallersWaiting_BatchIsBounded(t *testing.T) {
	const waiting = engine.MostTogether + 100
	l, s := openShim(t, votersFile(t, "1", crowd(1+waiting)...), Options{})
	before := s.commits.Load()
	commit, answers := queueReleases(t, l, s, 1, crowdRelease(t))
	for i := range waiting {
		_, r := crowdRelease(t)(1 + i)
		answers = append(answers, async(func() (api.Response, error) { return l.Release(t.Context(), r) }))
	}
	waitQueued(t, l, waiting)
	commit.open()
	for i, one := range answers {
		a := await(t, one)
		check.That(t, a.err == nil && a.value.Object == fmt.Sprintf("person-%05d", i), "caller %d got %v, %v", i, a.value, a.err)
	}
	check.Equal(t, s.commits.Load()-before, 3, "commits: that of the first, of a full batch and of the rest")
	auditStore(t, s)
}

// Between two parts of a raise, other callers commit for as long as the last part took, even if
// they come only then. The test delays the first part until it takes longer than the first release
// after it. Otherwise the test shows nothing.
func TestRaise_BetweenParts_OthersCommitFirst(t *testing.T) {
	names := crowd(2 * state.PartSize)
	l, s := openShim(t, votersFile(t, "1", names...), Options{})
	for attempt, hold := 0, soon; hold < patience; attempt, hold = attempt+1, 2*hold {
		call := func(what, epsilon string, objects ...string) chan answer[api.RaiseResult] {
			r := raiseOf(t, fmt.Sprint(what, " ", attempt), epsilon, objects...)
			r.All = len(objects) == 0
			return async(func() (api.RaiseResult, error) { return l.Raise(t.Context(), r) })
		}
		parts := s.holdCommit(t)
		raised := call("all", fmt.Sprintf("0.5%d", attempt))
		parts.wait(t)
		began := time.Now()
		time.Sleep(hold)
		earlier := call("earlier", fmt.Sprintf("0.1%d", attempt), names[0])
		waitQueued(t, l, 1)
		first, opened := s.holdCommit(t), time.Now()
		parts.open()
		first.wait(t)
		later := call("later", fmt.Sprintf("0.2%d", attempt), names[0])
		waitQueued(t, l, 2) // with the second part
		second := s.holdCommit(t)
		first.open()
		must(t, await(t, earlier).err)
		isConclusive := time.Since(opened) < opened.Sub(began)
		second.wait(t)
		waiting := l.engine.Load().Waiting
		s.set(nil, nil)
		second.open()
		must(t, await(t, later).err)
		must(t, await(t, raised).err)
		if isConclusive {
			check.That(t, waiting == 1,
				"%d calls wait for the caller that came after the second part, want that part alone", waiting)
			return
		}
	}
	t.Fatal("a release takes longer than the part that is delayed")
}

// Every second caller is refused inside the batch, because the caller before it takes the budget
// while both wait. The others succeed.
func TestCommit_SomeRefusedInBatch_OthersSucceed(t *testing.T) {
	const callers = 16
	l, s := openShim(t, votersFile(t, "1", crowd(callers)...), Options{})
	define(t, l, smoker())
	enroll(t, l, "smoker", "1", crowd(callers)...)
	commit, answers := queueReleases(t, l, s, callers, func(i int) (context.Context, api.ReleaseRequest) {
		r := releaseOf(t, fmt.Sprint("sale ", i), fmt.Sprintf("person-%05d", i/2), "0.6")
		if i%2 == 1 {
			r.Question = "smoker"
		}
		return t.Context(), r
	})
	commit.open()
	for i, one := range answers {
		a := await(t, one)
		if i%2 == 0 {
			must(t, a.err)
			continue
		}
		want := api.Refusal{Object: fmt.Sprintf("person-%05d", i/2), Reason: api.ObjectCap, Ceiling: eps(t, "1"), Spent: eps(t, "0.6"), Asked: eps(t, "0.6"), Cost: eps(t, "0.6"), Remaining: eps(t, "0.4"), Remedy: "less", Largest: eps(t, "0.4")}
		got := refusals(t, a.err)
		check.That(t, len(got) == 1 && got[0] == want, "refused for %+v, want %+v", got, want)
	}
	auditStore(t, s)
}

// A request that is refused after it has recorded some of its events leaves none of them, and does
// not change the other requests of its batch.
func TestCommit_RefusedHalfway_LeavesNothing(t *testing.T) {
	names := crowd(5)
	l, s := openShim(t, votersFile(t, "1", names...), Options{})
	define(t, l, smoker())
	enroll(t, l, "smoker", "1", names...)
	before := stats(t, l).Events
	commit := s.holdCommit(t)
	var answers []chan answer[int]
	submit := func(do func() (int, error)) {
		answers = append(answers, async(do))
		if len(answers) == 1 {
			commit.wait(t)
		}
		waitQueued(t, l, len(answers)-1)
	}
	sell := func(question, name, epsilon string) {
		r := releaseOf(t, fmt.Sprint(question, " of ", name), name, epsilon)
		r.Question = question
		submit(func() (int, error) { _, err := l.Release(t.Context(), r); return 1, err })
	}
	raise := func(key string, names ...string) {
		r := api.RaiseRequest{Key: key, Question: "vote", Epsilon: eps(t, "0.6"), Objects: names, Truth: sameTruth("yes")}
		submit(func() (int, error) { got, err := l.Raise(t.Context(), r); return got.Drawn, err })
	}
	sell("vote", names[4], "0.1")
	sell("smoker", names[1], "0.6")
	sell("smoker", names[3], "0.6")
	raise("refused at the second", names[0], names[1], names[2])
	raise("refused at the last", names[2], names[3])
	raise("granted", names[0], names[2])
	commit.open()
	for i, want := range []int{1, 1, 1, -1, -1, 2} {
		a := await(t, answers[i])
		if want >= 0 {
			check.That(t, a.err == nil && a.value == want, "request %d: %d, %v", i, a.value, a.err)
			continue
		}
		if got := refusals(t, a.err); len(got) != 1 || got[0].Reason != api.ObjectCap || got[0].Object != names[2*i-5] {
			t.Errorf("request %d is refused for %+v", i, got)
		}
	}
	check.Equal(t, stats(t, l).Events-before, 3*2+3, "events: two for each sale, and three for the raise")
	for i, want := range []string{"0.6", "0.6", "0.6", "0.6", "0.1"} {
		check.Equal(t, objectOf(t, l, names[i]).Spent, eps(t, want), "%s has spent", names[i])
	}
	auditStore(t, s)
}

// A raise that is refused halfway makes the transaction run again, with the sale before it in the
// batch. The sale is drawn again without another call of its source of true values, and the raise
// is refused for what the sale spent.
func TestCommit_AnotherRefusedHalfway_RedrawsSale(t *testing.T) {
	path := create(t)
	l := sellers(t, open(t, path, Options{}), "1.5", "1", "ann", "bea", "eve")
	define(t, l, smoker())
	enrollUnder(t, l, "smoker", market(t, "1.5"), "1", "bea")
	closed(t, l)
	l, s := openShim(t, path, Options{})
	commit, leads := s.holdRelease(t, l, releaseOf(t, "leads", "eve", "0.1"))
	var asked atomic.Int32
	sale := async(func() (api.Sale, error) {
		r := purchase(t, "sale", "acme", "0.6", "bea")
		r.Question = "smoker"
		r.Truth = func(ctx context.Context, question string, objects []string) ([]string, error) {
			if asked.Add(1) > 1 {
				return nil, errors.New("the source is down")
			}
			return sameTruth("yes")(ctx, question, objects)
		}
		return l.Sell(t.Context(), r)
	})
	waitQueued(t, l, 1)
	raise := async(func() (api.RaiseResult, error) { return l.Raise(t.Context(), raiseOf(t, "raise", "0.9", "ann", "bea")) })
	waitQueued(t, l, 2)
	commit.open()
	must(t, await(t, leads).err)
	must(t, await(t, sale).err)
	got := refusals(t, await(t, raise).err)
	check.That(t, len(got) == 1 && got[0].Spent == eps(t, "0.6"), "the raise is refused for %+v, want that 0.6 is spent", got)
	check.Equal(t, asked.Load(), 1, "requests to the source of truths")
	auditStore(t, s)
}

// When a transaction runs again without the refused request, an earlier request may now fail.
// Requests that were refused because of it are decided again. The time is the same in each run.
func TestCommit_RetriedWithoutRefused_DecidesRestAgain(t *testing.T) {
	l, s := openShim(t, votersFile(t, "1", "eve"), Options{})
	commit, leads := s.holdRelease(t, l, releaseOf(t, "leads", "eve", "0.1"))
	var answers []chan answer[uint64]
	submit := func(decide engine.Decision) {
		answers = append(answers, async(func() (uint64, error) {
			_, last, err := l.engine.Submit(t.Context(), decide)
			return last, err
		}))
		waitQueued(t, l, len(answers))
	}
	buyer := func(s *state.State, name string) []event.Change {
		end := &event.Settled{Key: name, Digest: [32]byte{1}, First: s.Counters.Events + 1, Final: true}
		return []event.Change{&event.BuyerNamed{Number: s.Counters.Buyers + 1, Name: name}, end}
	}
	taken := errors.New("the first number is taken")
	var times []time.Time
	calls := [3]int{}
	submit(func(s *state.State) ([]event.Change, error) { // it fails when it is called again
		times = append(times, s.Clock)
		if calls[0]++; calls[0] > 1 {
			return nil, errors.New("it cannot be done twice")
		}
		return buyer(s, "acme"), nil
	})
	submit(func(s *state.State) ([]event.Change, error) {
		times = append(times, s.Clock)
		if calls[1]++; s.Counters.Buyers > 0 {
			return nil, taken
		}
		return buyer(s, "zeta"), nil
	})
	submit(func(s *state.State) ([]event.Change, error) {
		calls[2]++
		_, _, err := fold.Record(s, buyer(s, "initech"))
		return nil, errors.Join(errors.New("refused halfway"), err)
	})
	commit.open()
	must(t, await(t, leads).err)
	for i, want := range []bool{false, true, false} {
		a := await(t, answers[i])
		check.That(t, (a.err == nil) == want, "request %d: %v", i, a.err)
	}
	want := [3]int{2, 3, 2}
	check.That(t, calls == want, "the requests are decided %d times, want %d", calls, want)
	check.That(t, len(slices.Compact(times)) == 1, "the requests are decided at different times: %v", times)
	must(t, l.engine.View(t.Context(), func(s *state.State) error {
		name, err := s.BuyerName(1)
		check.That(t, s.Counters.Buyers == 1 && name == "zeta", "got %d buyers, the first %q; want one, zeta", s.Counters.Buyers, name)
		return err
	}))
}

// A policy from a commit that failed must not stay in the cache, because the next policy gets its
// number.
func TestCommit_Fails_NewPolicyIsNotCached(t *testing.T) {
	l, s := openShim(t, votersFile(t, "9", "ann"), Options{})
	enrol := func(key, ceiling string) error {
		return check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: key, Question: "vote", Objects: []string{"zoe"}, Policy: policy.Fixed(eps(t, ceiling)), Cap: boundless()}))
	}
	commit, first := s.holdRelease(t, l, releaseOf(t, "0", "ann", "0.5"))
	lax := async(func() (int, error) { return 0, enrol("lax", "5") })
	waitQueued(t, l, 1)
	raised := async(func() (api.RaiseResult, error) {
		r := raiseOf(t, "1", "4", "zoe")
		r.Partial = true // otherwise it would be refused before it is queued
		return l.Raise(t.Context(), r)
	})
	waitQueued(t, l, 2)
	s.set(failing, nil)
	commit.open()
	must(t, await(t, first).err)
	wantErr(t, await(t, lax).err, errDisk)
	wantErr(t, await(t, raised).err, errDisk)
	s.set(nil, nil)
	must(t, enrol("strict", "1"))
	got := refusals(t, check.Err(l.Release(t.Context(), releaseOf(t, "2", "zoe", "4"))))[0]
	check.That(t, got.Reason == api.ChainCeiling && got.Ceiling == eps(t, "1"), "refused for %+v", got)
	auditStore(t, s)
}

func TestCommit_ContextEndsWhileQueued_LeavesNothing(t *testing.T) {
	const callers, quits = 8, 3
	l, s := openShim(t, votersFile(t, "1", crowd(callers)...), Options{})
	ctx, cancel := context.WithCancel(t.Context())
	commit, answers := queueReleases(t, l, s, callers, func(i int) (context.Context, api.ReleaseRequest) {
		all, r := crowdRelease(t)(i)
		if i == quits {
			return ctx, r
		}
		return all, r
	})
	cancel()
	wantErr(t, await(t, answers[quits]).err, context.Canceled) // at once, while the commit is still blocked
	commit.open()
	for i, one := range answers {
		if i != quits {
			must(t, await(t, one).err)
		}
	}
	for _, ev := range events(t, l) {
		settled, _ := ev.Says.(says.Settled)
		check.That(t, (ev.Object() != fmt.Sprintf("person-%05d", quits) || ev.Kind() != "released") && settled.Key != fmt.Sprint("sale ", quits),
			"there is an event of the caller whose context ended: %+v", ev)
	}
	_, r := crowdRelease(t)(quits)
	release(t, l, r)
	auditStore(t, s)
}

// Once its commit has begun, a call waits for the outcome, because it cannot report that nothing
// happened.
func TestCommit_ContextEndsDuringCommit_WaitsForOutcome(t *testing.T) {
	l, s := openShim(t, votersFile(t, "1", "ann", "bob", "cid"), Options{})
	ctx, cancel := context.WithCancel(t.Context())
	first := s.holdCommit(t)
	answers := make([]chan answer[api.RaiseResult], 3)
	for i, name := range []string{"ann", "bob", "cid"} {
		ctx := ctx
		if i < 2 {
			ctx = t.Context()
		}
		answers[i] = async(func() (api.RaiseResult, error) { return l.Raise(ctx, raiseOf(t, name, "0.5", name)) })
		first.wait(t)
		waitQueued(t, l, i)
	}
	second := s.holdCommit(t)
	first.open()
	second.wait(t) // bob leads the batch, and cid is in it
	cancel()
	pending(t, answers[2])
	second.open()
	for _, one := range answers {
		a := await(t, one)
		check.That(t, a.err == nil && a.value.Drawn == 1, "got %+v, %v", a.value, a.err)
	}
	auditStore(t, s)
}

// Under load, calls whose contexts end never leave other callers waiting forever.
func TestCommit_ContextsEndUnderLoad_NoCallerHangs(t *testing.T) {
	const sellers, sales = 8, 150
	l := voters(t, newLedger(t), "9", crowd(sellers)...)
	var wg sync.WaitGroup
	for i := range sellers {
		wg.Go(func() {
			for n := range sales {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(300))*time.Microsecond)
				r := releaseOf(t, fmt.Sprint(i, " ", n), fmt.Sprintf("person-%05d", i), "0.5")
				if _, err := l.Release(ctx, r); err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				cancel()
				if _, err := l.Release(t.Context(), r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	finished := async(func() (bool, error) { wg.Wait(); return true, nil })
	await(t, finished)
	check.Equal(t, countKind(events(t, l), "settled"), 2+sellers*sales, "settled events")
	auditStore(t, l.engine.Store)
}

func TestClose_CallersQueued_AllReturn(t *testing.T) {
	const callers = 20
	path := votersFile(t, "1", crowd(callers)...)
	l, s := openShim(t, path, Options{})
	commit, answers := queueReleases(t, l, s, callers, crowdRelease(t))
	closing := async(func() (bool, error) { return true, l.Close() })
	waitClosing(t, l)
	wantErr(t, check.Err(l.Release(t.Context(), releaseOf(t, "late", "person-00000", "0.75"))), api.ErrClosed)
	pending(t, closing)
	commit.open()
	must(t, await(t, closing).err)
	for _, one := range answers {
		if a := await(t, one); a.err != nil {
			wantErr(t, a.err, api.ErrClosed)
		}
	}
	wantErr(t, l.Close(), api.ErrClosed)
	for name, call := range everyCall(t, l) {
		err := call()
		check.That(t, errors.Is(err, api.ErrClosed), "%s on a closed ledger: %v", name, err)
	}
	l = open(t, path, Options{})
	for i := range callers { // what was queued was committed, even if its caller got ErrClosed
		_, r := crowdRelease(t)(i)
		r.Truth = mustNotAsk(t)
		release(t, l, r)
	}
	auditStore(t, l.engine.Store)
}

// Calls that run while the ledger is closed succeed or return ErrClosed.
func TestClose_ConcurrentWrites_EndWithErrClosed(t *testing.T) {
	for range 20 {
		l := voters(t, newLedger(t), "9", crowd(8)...)
		closing := make(chan answer[bool], 1)
		failed := race(t, 9, func(i int) error {
			if i == 8 {
				time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
				closing <- answerOf(true, l.Close())
				return nil
			}
			for n := 0; ; n++ {
				r := releaseOf(t, fmt.Sprint(i, " ", n), fmt.Sprintf("person-%05d", i), "0.5")
				if _, err := l.Release(t.Context(), r); err != nil {
					return err
				}
			}
		})
		must(t, await(t, closing).err)
		for _, err := range failed {
			check.Need(t, errors.Is(err, api.ErrClosed), "got the error %v, want ErrClosed", err)
		}
	}
}

// A reader that has passed the check for Close, and reaches the store only after it, returns
// ErrClosed.
func TestClose_ReadInProgress_EndsWithErrClosed(t *testing.T) {
	l, s := openShim(t, votersFile(t, "1", "ann"), Options{})
	g := newGate(t)
	s.onRead(func() { _ = g.pass() })
	reader := async(func() (api.Stats, error) { return l.Stats(t.Context()) })
	g.wait(t)
	must(t, l.Close())
	g.open()
	wantErr(t, await(t, reader).err, api.ErrClosed)
}

// panicAsError runs a call and turns a panic into an error.
func panicAsError(call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errPanicked, p)
		}
	}()
	return call()
}

var errPanicked = errors.New("panic")

// After a panic inside a decision, the other callers of the batch return, and none of them with
// success.
func TestCommit_DecisionPanics_StopsLedger(t *testing.T) {
	const callers = 8
	path := votersFile(t, "1", crowd(callers)...)
	l, s := openShim(t, path, Options{})
	commit := s.holdCommit(t)
	answers := make([]chan answer[int], callers)
	for i := range answers {
		answers[i] = async(func() (int, error) {
			return i, panicAsError(func() error {
				_, r := crowdRelease(t)(i)
				if i != callers/2 {
					return check.Err(l.Release(t.Context(), r))
				}
				_, _, err := l.engine.Submit(t.Context(), func(*state.State) ([]event.Change, error) { panic("a bug") })
				return err
			})
		})
		if i == 0 {
			commit.wait(t)
		}
		waitQueued(t, l, i)
	}
	commit.open()
	panics := 0
	for _, one := range answers[1:] {
		if a := await(t, one); errors.Is(a.err, errPanicked) {
			panics++ // in the goroutine that led the batch
		} else {
			wantErr(t, a.err, api.ErrStopped)
		}
	}
	check.That(t, panics == 1, "%d callers panicked, want one, the leader of the batch", panics)
	err := await(t, answers[0]).err
	check.That(t, err == nil || errors.Is(err, api.ErrStopped), "the caller of the commit before got the error %v", err)
	wantStopped(t, l)
	closed(t, l)
	l = open(t, path, Options{})
	check.Equal(t, countKind(events(t, l), "released"), 1, "recorded responses, with the one before the panic")
	auditStore(t, l.engine.Store)
}

// A draw that panics stops the ledger, and nothing of the release is recorded.
func TestRelease_DrawPanics_RecordsNothing(t *testing.T) {
	path := votersFile(t, "1", "ann")
	l := open(t, path, Options{})
	l.engine.Chances.Values = &rrchain.Sampler{Random: exact.ReplayBits(func([]byte) { panic("no randomness") })}
	err := panicAsError(func() error { return check.Err(l.Release(t.Context(), releaseOf(t, "k", "ann", "0.5"))) })
	wantErr(t, err, errPanicked)
	wantStopped(t, l)
	closed(t, l)
	l = open(t, path, Options{})
	wantUnreleased(t, l, "ann")
	release(t, l, releaseOf(t, "k", "ann", "0.5"))
}

// Readers and writers of all kinds run concurrently, for the race detector, and the log is sound
// afterwards.
func TestLedger_ConcurrentReadsAndWrites_StaysSound(t *testing.T) {
	l := voters(t, newLedger(t), "9", crowd(20)...)
	release(t, l, releaseOf(t, "first", "person-00000", "0.5"))
	for _, err := range race(t, 12, func(i int) error {
		for n := range 10 {
			if err := callOfKind(t, l, i, n); err != nil {
				return fmt.Errorf("kind %d: %w", i, err)
			}
		}
		return nil
	}) {
		t.Error(err)
	}
	auditStore(t, l.engine.Store)
}

func callOfKind(t *testing.T, l *Ledger, kind, n int) (err error) {
	ctx, key := t.Context(), fmt.Sprint(kind, " ", n)
	switch kind % 8 {
	case 0:
		_, err = l.Release(ctx, releaseOf(t, key, fmt.Sprintf("person-%05d", n), "1"))
	case 1:
		_, err = l.Raise(ctx, raiseOf(t, key, fmt.Sprint("0.", n+1)))
	case 2:
		err = l.DefineQuestion(ctx, key, api.Question{Name: key, Values: []string{"a", "b"}, Encoding: "direct"})
	case 3:
		_, err = l.Enroll(ctx, api.EnrollRequest{Key: key, Question: "vote", Objects: []string{key}, Cap: boundless()})
	case 4:
		_, err = l.Object(ctx, "person-00001")
	case 5:
		_, err = l.Estimate(ctx, api.EstimateRequest{Question: "vote"})
	case 6:
		err = firstError(l.Events(ctx, 1))
	case 7:
		err = firstError(l.Responses(ctx, "vote", eps(t, "0.5")))
	}
	return err
}
