package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/observe"
)

// notes records what an observer gets.
type notes struct {
	mu      sync.Mutex
	commits []observe.Commit
	refused []observe.Refusal
	audits  []observe.Audit
}

func (n *notes) Committed(c observe.Commit) { n.add(func() { n.commits = append(n.commits, c) }) }
func (n *notes) Refused(r observe.Refusal)  { n.add(func() { n.refused = append(n.refused, r) }) }
func (n *notes) Audited(a observe.Audit)    { n.add(func() { n.audits = append(n.audits, a) }) }

func (n *notes) add(one func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	one()
}

// sum adds up all commits reported so far, and clears them.
func (n *notes) sum() (all observe.Commit) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all.Draws, all.LeftOut = map[string]uint64{}, map[api.Reason]uint64{}
	for _, c := range n.commits {
		all.Requests, all.Events, all.Bytes = all.Requests+c.Requests, all.Events+c.Events, all.Bytes+c.Bytes
		all.Resold, all.Charged, all.Duration = all.Resold+c.Resold, all.Charged+c.Charged, max(all.Duration, c.Duration)
		for method, count := range c.Draws {
			all.Draws[method] += count
		}
		for reason, count := range c.LeftOut {
			all.LeftOut[reason] += count
		}
	}
	n.commits = nil
	return all
}

// wantWork checks the commits reported since the last check, except bytes and duration.
func (n *notes) wantWork(t *testing.T, what string, want observe.Commit) {
	t.Helper()
	got := n.sum()
	check.That(t, got.Events == 0 || got.Bytes > 0 && got.Duration > 0,
		"%s: %d events took %d bytes and %v", what, got.Events, got.Bytes, got.Duration)
	same := got.Requests == want.Requests && got.Resold == want.Resold && maps.Equal(got.Draws, want.Draws) && maps.Equal(got.LeftOut, want.LeftOut)
	check.That(t, same && !(got.Charged < want.Charged-1e-9) && !(got.Charged > want.Charged+1e-9),
		"%s: reported was %+v, want %+v", what, got, want)
}

// For each kind of request, an observer gets what it drew, sold again, charged and left out.
func TestObserver_Commits_ReportsDrawsAndCharges(t *testing.T) {
	seen := &notes{}
	l := sellers(t, open(t, create(t), Options{Observer: seen}), "3", "3", crowd(4)...)
	seen.audits = nil // of a file that may be a copy, when it is opened
	seen.wantWork(t, "a question and an enrolment", observe.Commit{Requests: 2})

	sell(t, l, purchase(t, "first", "acme", "1", crowd(2)...))
	seen.wantWork(t, "a sale of two", observe.Commit{Requests: 1, Draws: map[string]uint64{"raise": 2}, Charged: 2})
	sell(t, l, purchase(t, "again", "bolt", "1", crowd(4)...))
	seen.wantWork(t, "a sale of the same and two more", observe.Commit{Requests: 1, Draws: map[string]uint64{"raise": 2}, Resold: 2, Charged: 2})
	sell(t, l, purchase(t, "again", "bolt", "1", crowd(4)...))
	seen.wantWork(t, "the same request", observe.Commit{})

	release(t, l, releaseOf(t, "high", crowd(1)[0], "2"))
	release(t, l, releaseOf(t, "low", crowd(1)[0], "0.5"))
	release(t, l, releaseOf(t, "between", crowd(1)[0], "1.5"))
	seen.wantWork(t, "releases", observe.Commit{Requests: 3, Draws: map[string]uint64{"raise": 1, "degrade": 1, "insert": 1}, Charged: 1})

	answer := api.AnswerRequest{Key: "majority", Question: "vote", Query: "majority:yes", Epsilon: eps(t, "0.25"), Objects: crowd(4), AcceptLoss: true, Truth: sameTruth("yes")}
	must(t, check.Err(l.Answer(t.Context(), answer)))
	seen.wantWork(t, "an answer", observe.Commit{Requests: 1, Draws: map[string]uint64{"fresh": 1}, Charged: 1})

	partial := raiseOf(t, "most of them", "2.5", append(crowd(4), "stranger")...)
	partial.Partial = true
	raise(t, l, partial)
	seen.wantWork(t, "a raise that leaves an object out", observe.Commit{
		Requests: 1, Draws: map[string]uint64{"raise": 4}, Charged: 0.5 + 3*1.5, LeftOut: map[api.Reason]uint64{api.NotEnrolled: 1},
	})
	check.That(t, len(seen.refused) == 0 && len(seen.audits) == 0,
		"reported without cause: %+v, %+v", seen.refused, seen.audits)
}

// The reports add up to what the ledger has, also when requests share commits and a request takes
// several.
func TestObserver_SharedCommits_AddUpToTheLog(t *testing.T) {
	seen := &notes{}
	path := create(t)
	l := open(t, path, Options{Observer: seen})
	before := stats(t, l).Events
	names := crowd(3000)
	sellers(t, l, "3", "3", names...)
	raise(t, l, raiseOf(t, "all of them", "0.5", names...))
	failed := race(t, 16, func(i int) error {
		return check.Err(l.Release(t.Context(), releaseOf(t, fmt.Sprint(i), names[i], "1")))
	})
	if len(failed) > 0 {
		t.Fatal(failed)
	}
	commits := len(seen.commits)
	reported := seen.sum()
	if reported.Events != stats(t, l).Events-before {
		t.Errorf("%d events were reported, the log went from %d to %d", reported.Events, before, stats(t, l).Events)
	}
	check.That(t, reported.Draws["raise"] == 3016 && reported.Charged == 3000*0.5+16*0.5 && commits >= 5 && reported.Requests >= 19,
		"of %d commits was reported %+v", commits, reported)
}

// The requests that share a commit are counted, except those that are refused in it.
func TestObserver_RefusedInSharedCommit_IsNotCounted(t *testing.T) {
	seen := &notes{}
	l, s := openShim(t, votersFile(t, "1", crowd(4)...), Options{Observer: seen})
	commit, answers := queueReleases(t, l, s, 4, func(i int) (context.Context, api.ReleaseRequest) {
		ctx, r := crowdRelease(t)(i)
		if i == 2 {
			_, before := crowdRelease(t)(1)
			r.Key = before.Key // of another request
		}
		return ctx, r
	})
	commit.open()
	for i, one := range answers {
		err := await(t, one).err
		check.That(t, (err != nil) == (i == 2), "release %d: %v", i, err)
	}
	shared := slices.ContainsFunc(seen.commits, func(c observe.Commit) bool { return c.Requests == 2 })
	check.That(t, len(seen.commits) == 2 && shared, "reported was %+v", seen.commits) // in either order
	seen.wantWork(t, "two commits", observe.Commit{Requests: 3, Draws: map[string]uint64{"raise": 3}, Charged: 1.5})
}

// A request that is refused as a whole is reported with all objects that cause it, by reason. No
// commit is reported then.
func TestObserver_RefusedRequest_ReportsEveryReason(t *testing.T) {
	seen := &notes{}
	names := crowd(5)
	l := sellers(t, inMemory(t, Options{Observer: seen}), "3", "1", names...)
	seen.sum()
	by := func(call string, d drawing) func() error {
		d.key, d.truth = call, sameTruth("yes")
		return func() error { return check.Err(d.by(t, l, call)) }
	}
	type counts = map[api.Reason]uint64
	for what, c := range map[string]struct {
		call func() error
		want counts
	}{
		"a release":      {by("Release", drawing{epsilon: "2", objects: names}), counts{api.ObjectCap: 1}},
		"a raise of all": {by("Raise", drawing{epsilon: "2"}), counts{api.ObjectCap: uint64(len(names))}},
		"a sale":         {by("Sell", drawing{epsilon: "1", objects: []string{names[0], "stranger"}}), counts{api.NotEnrolled: 1}},
		"an answer":      {by("Answer", drawing{epsilon: "1.5", objects: names[:3]}), counts{api.ObjectCap: 3}},
		"an enrolment": {func() error {
			return check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: "e", Question: "vote", Objects: names[:2], Policy: market(t, "3"), Cap: eps(t, "2")}))
		}, counts{api.CapDiffers: 2}},
		"an answer that takes levels on offer off the market": {func() error {
			r := answerRequest(t, "d", "plurality", "0.5", api.TruthOf("yes"), names[:3]...)
			r.AcceptLoss = false
			return check.Err(l.Answer(t.Context(), r))
		}, counts{}},
		"what cannot be right": {func() error { return check.Err(l.Release(t.Context(), releaseOf(t, "", names[0], "1"))) }, nil},
	} {
		seen.refused = nil
		check.That(t, c.call() != nil, "%s is not refused", what)
		if c.want == nil {
			check.That(t, len(seen.refused) == 0, "%s: reported was %+v", what, seen.refused)
			continue
		}
		check.That(t, len(seen.refused) == 1 && maps.Equal(seen.refused[0].People, c.want) &&
			seen.refused[0].Question == "vote", "%s: reported was %+v, want %v", what, seen.refused, c.want)
	}
	seen.wantWork(t, "nothing", observe.Commit{})
}

// A commit is decided twice if a request that is refused in it has recorded something. A request
// refused before that is reported once.
func TestObserver_CommitDecidedTwice_ReportsARefusalOnce(t *testing.T) {
	seen := &notes{}
	path := create(t)
	l := voters(t, open(t, path, Options{}), "1", "ann", "bea", "eve")
	define(t, l, api.Question{Name: "other", Values: []string{"yes", "no"}})
	enroll(t, l, "other", "1", "ann", "bea")
	closed(t, l)
	l, s := openShim(t, path, Options{Observer: seen})

	released := func(key, question, object string) chan answer[api.Response] {
		r := releaseOf(t, key, object, "1")
		r.Question = question
		return async(func() (api.Response, error) { return l.Release(t.Context(), r) })
	}
	commit := s.holdCommit(t)
	leads := released("leads", "vote", "eve")
	commit.wait(t)
	spends := released("spends", "vote", "bea")
	waitQueued(t, l, 1)
	late := released("late", "other", "bea")
	waitQueued(t, l, 2)
	whole := async(func() (api.RaiseResult, error) { // it draws for ann before bea is refused
		r := raiseOf(t, "whole", "1", "ann", "bea")
		r.Question = "other"
		return l.Raise(t.Context(), r)
	})
	waitQueued(t, l, 3)
	commit.open()
	must(t, await(t, leads).err)
	must(t, await(t, spends).err)
	var refused *api.RefusedError
	err := await(t, late).err
	check.That(t, errors.As(err, &refused), "a release without a budget: %v", err)
	err = await(t, whole).err
	check.That(t, errors.As(err, &refused), "a raise without a budget: %v", err)
	check.That(t, len(seen.refused) == 2, "of two refusals was reported %+v", seen.refused)
}

// An audit is reported with what it has found, and with the number of objects that have spent all
// of their budget.
func TestObserver_Audits_ReportsProblemsAndExhaustedObjects(t *testing.T) {
	seen := &notes{}
	path := create(t)
	l := sellers(t, open(t, path, Options{Observer: seen}), "3", "1", crowd(5)...)
	seen.audits = nil // of a file that may be a copy, when it is opened
	enroll(t, l, "vote", "900", "rich")
	raise(t, l, raiseOf(t, "two", "1", crowd(2)...))
	release(t, l, releaseOf(t, "some", crowd(5)[4], "0.999999999"))
	must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "gone", Object: crowd(2)[1]}))
	done := check.Value(l.Verify(t.Context(), api.VerifyRequest{}))(t)
	ended, end := context.WithCancel(t.Context())
	end()
	wantErr(t, check.Err(l.Verify(ended, api.VerifyRequest{})), context.Canceled)
	check.Need(t, len(seen.audits) == 2, "%d audits are reported", len(seen.audits))
	if a := seen.audits[0]; a.Events != done.Events || a.Problems != 0 || a.Exhausted != 2 || a.Duration <= 0 || a.Err != nil {
		t.Errorf("reported was %+v", a)
	}
	if a := seen.audits[1]; !errors.Is(a.Err, context.Canceled) || a.Exhausted != 0 {
		t.Errorf("of an audit that was canceled was reported %+v", a)
	}
	closed(t, l)

	damaged, clock := &notes{}, newClock(time.Now().Add(-time.Hour)) // so that all events are in the future
	l = open(t, path, Options{Observer: damaged, ReadOnly: true, Now: clock.read})
	must(t, check.Err(l.Verify(t.Context(), api.VerifyRequest{})))
	check.That(t, len(damaged.audits) == 1 && damaged.audits[0].Problems == 1,
		"of an audit that found something was reported %+v", damaged.audits)
}

// A standby reports nothing of what another host commits, and everything once it has taken over.
func TestObserver_Standby_ReportsOnlyAfterTakeover(t *testing.T) {
	c := newHostPair(t, "ann", "bea")
	seen := &notes{}
	options := c.options("b")
	options.Observer = seen
	b := open(t, c.file, options)
	release(t, c.a, releaseOf(t, "elsewhere", "bea", "1"))
	c.catchUp(b)
	seen.wantWork(t, "a standby", observe.Commit{})
	if h := healthOf(t, b); h.Events != stats(t, c.a).Events {
		t.Errorf("a standby that has caught up with %d events has the health %+v", stats(t, c.a).Events, h)
	}
	l := check.Value(b.TakeOver(t.Context()))(t)
	t.Cleanup(func() { _ = l.Close() })
	release(t, l, releaseOf(t, "here", "bea", "2"))
	seen.wantWork(t, "after a takeover", observe.Commit{Requests: 1, Draws: map[string]uint64{"raise": 1}, Charged: 1})
}

func healthOf(t testing.TB, l *Ledger) observe.Health {
	t.Helper()
	return check.Value(l.Health(t.Context()))(t)
}

// A reservation counts until it is captured, cancelled or expired. An expired one counts again if
// the clock goes back, unless the log has a later time.
func TestHealth_Reservations_CountsThoseInForce(t *testing.T) {
	begun := epoch().Add(time.Hour)
	clock := newClock(begun)
	l := sellers(t, inMemory(t, Options{Now: clock.read}), "3", "9", crowd(5)...)
	var held []uint64
	for i := range 4 {
		r := api.ReserveRequest{Key: fmt.Sprint("r", i), Order: purchase(t, "", "acme", "1", crowd(5)[i]).Order, Until: begun.Add(time.Duration(i+1) * time.Hour)}
		held = append(held, reserve(t, l, r).Number)
	}
	sell(t, l, purchase(t, "s", "acme", "1", crowd(5)[4]))
	want := func(what string, n int) {
		t.Helper()
		for range 2 {
			got := healthOf(t, l).Reservations
			check.That(t, got == n, "%s: %d reservations, want %d", what, got, n)
		}
	}
	want("four are reserved", 4)
	must(t, l.Cancel(t.Context(), "c", held[3]))
	want("one is cancelled", 3)
	capture(t, l, "k", held[2])
	want("one is captured", 2)
	clock.set(begun.Add(time.Hour))
	want("one has run out", 1)
	clock.set(begun)
	want("the clock has gone back", 2)
	clock.set(begun.Add(time.Hour))
	reserve(t, l, api.ReserveRequest{Key: "r4", Order: purchase(t, "", "bolt", "2", crowd(5)[4]).Order, Until: begun.Add(time.Hour + time.Minute)})
	want("another is reserved", 2)
	clock.set(begun)
	want("the clock has gone back, and the log has not: it stays expired", 2)
	wantErr(t, check.Err(l.Capture(t.Context(), api.CaptureRequest{Key: "late", Reservation: held[0], Truth: sameTruth("yes")})), &api.ReservationError{})
	clock.set(begun.Add(100 * time.Hour))
	want("all have run out", 0)
}

// There may be more sales than one snapshot reads.
func TestHealth_ManySales_CountsAllReservations(t *testing.T) {
	clock := newClock(epoch().Add(time.Hour))
	const sales = 4200 // atOnce is 4096
	l := sellers(t, inMemory(t, Options{Now: clock.read}), "3", "9", crowd(sales)...)
	held := 0
	for i, name := range crowd(sales) {
		if i%512 == 0 || i > 4090 {
			held++
			reserve(t, l, api.ReserveRequest{Key: name, Order: purchase(t, "", "acme", "1", name).Order, Until: clock.read().Add(time.Hour)})
		} else {
			sell(t, l, purchase(t, name, "acme", "1", name))
		}
	}
	got := healthOf(t, l).Reservations
	check.That(t, got == held, "%d reservations, want %d", got, held)
	clock.set(clock.read().Add(2 * time.Hour))
	got = healthOf(t, l).Reservations
	check.That(t, got == 0, "%d reservations, all of which have run out", got)
}

// Health returns how much only the journal has, until a checkpoint, and how much of the file is
// free.
func TestHealth_PendingAndFree_FollowCheckpointAndCompact(t *testing.T) {
	l := open(t, create(t), Options{Memory: 32 << 20})
	if h := healthOf(t, l); h.Events != 1 || h.Pending != 0 || h.Room != 64<<20 || h.Bytes != stats(t, l).Bytes || h.Bytes == 0 {
		t.Errorf("a new ledger: %+v", h)
	}
	voters(t, l, "900", crowd(300)...)
	begun := healthOf(t, l)
	if begun.Events != stats(t, l).Events || begun.Pending == 0 || begun.Pending >= begun.Events || begun.Memory < 100*300 {
		t.Errorf("before a checkpoint: %+v of %d events", begun, stats(t, l).Events)
	}
	must(t, l.engine.Checkpoint())
	if h := healthOf(t, l); h.Pending != 0 || h.Memory >= begun.Memory || h.Bytes != stats(t, l).Bytes {
		t.Errorf("after a checkpoint: %+v, and before %+v", h, begun)
	}
	release(t, l, releaseOf(t, "r", crowd(1)[0], "1"))
	h := healthOf(t, l)
	check.That(t, h.Pending != 0 && h.Pending <= 4, "a release after a checkpoint: %+v", h)
	before := healthOf(t, l)
	for i, name := range crowd(20) {
		must(t, l.Forget(t.Context(), api.ObjectRequest{Key: fmt.Sprint("f", i), Object: name}))
	}
	after := healthOf(t, l)
	check.That(t, after.Free > before.Free && after.Free < after.Bytes,
		"of %d bytes are free %d after twenty were forgotten, and %d before", after.Bytes, after.Free, before.Free)
	must(t, l.Compact(t.Context(), nil))
	if h := healthOf(t, l); h.Free >= after.Free || h.Bytes >= after.Bytes || h.Free > h.Bytes/2 { // little is left over, most is in use
		t.Errorf("after it was compacted: %+v, and before %+v", h, after)
	}
}

// A ledger that is open for reading has health, too.
func TestHealth_ReadOnlyLedger_IsReported(t *testing.T) {
	path := votersFile(t, "9", "ann")
	h := healthOf(t, open(t, path, Options{ReadOnly: true}))
	check.That(t, h.Events == 5 && h.Pending == 0 && h.Bytes != 0 && h.Checkpoint == (observe.Checkpoint{}),
		"it is %+v", h)
}

// Requests that wait for a commit are counted until it is over.
func TestHealth_QueuedRequests_AreCounted(t *testing.T) {
	l, s := openShim(t, votersFile(t, "900", crowd(4)...), Options{})
	commit, answers := queueReleases(t, l, s, 4, crowdRelease(t))
	h := healthOf(t, l)
	check.That(t, h.Waiting == 3, "%d wait, want 3", h.Waiting)
	commit.open()
	for _, one := range answers {
		must(t, await(t, one).err)
	}
	h = healthOf(t, l)
	check.That(t, h.Waiting == 0, "%d wait for nothing", h.Waiting)
}

// The newest checkpoint is the last one that the host has taken or requested.
func TestHealth_Checkpoint_IsTheLastOneTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var witness fakeWitness
		signer, _, public := logKey(t, "sluice-test", 1)
		s := &kv.Memory{}
		beginWithKey(t, s, public)
		witness.fail(true)
		l := openMemory(t, s, Options{Signer: signer, Publish: Publishing{To: witness.take, Events: 1}, Now: time.Now})
		synctest.Wait()
		c := healthOf(t, l).Checkpoint
		check.That(t, c == (observe.Checkpoint{}), "none was taken, and it is %+v", c)
		witness.fail(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if c := healthOf(t, l).Checkpoint; c.Events != 1 || time.Since(c.Signed) > time.Minute || time.Since(c.Signed) <= 0 {
			t.Errorf("one of 1 event was taken, and it is %+v at %v", c, time.Now())
		}
		witness.fail(true)
		define(t, l, vote())
		time.Sleep(24 * time.Hour)
		if c := healthOf(t, l).Checkpoint; c.Events != 1 || time.Since(c.Signed) < 24*time.Hour {
			t.Errorf("no more was taken for a day, and it is %+v at %v", c, time.Now())
		}
		must(t, check.Err(l.Checkpoint(t.Context())))
		if c := healthOf(t, l).Checkpoint; c.Events != stats(t, l).Events || time.Since(c.Signed) != 0 {
			t.Errorf("one was requested, and it is %+v at %v", c, time.Now())
		}
		closed(t, l)
	})
}

// Without a signer no checkpoint is signed, so that none was taken.
func TestHealth_WithoutSigner_HasNoCheckpoint(t *testing.T) {
	l := newLedger(t)
	wantErr(t, check.Err(l.Checkpoint(t.Context())), api.ErrNoSigner)
	c := healthOf(t, l).Checkpoint
	check.That(t, c == (observe.Checkpoint{}), "it is %+v", c)
}

// A ledger that has stopped or is closed has no health.
func TestHealth_StoppedOrClosed_IsAnError(t *testing.T) {
	l, s := openShim(t, votersFile(t, "9", "ann"), Options{})
	s.set(nil, failing)
	_, err := l.Release(t.Context(), releaseOf(t, "r", "ann", "1"))
	check.Need(t, err != nil, "nothing failed")
	wantErr(t, check.Err(l.Health(t.Context())), api.ErrStopped)
	_ = l.Close()
	l = newLedger(t)
	closed(t, l)
	wantErr(t, check.Err(l.Health(t.Context())), api.ErrClosed)
	ended, end := context.WithCancel(t.Context())
	end()
	wantErr(t, check.Err(newLedger(t).Health(ended)), context.Canceled)
}

// A commit that fails is not reported, and a failure is not a refusal.
func TestObserver_CommitFails_ReportsNothing(t *testing.T) {
	seen := &notes{}
	l, s := openShim(t, votersFile(t, "9", "ann"), Options{Observer: seen})
	s.set(failing, nil)
	_, err := l.Release(t.Context(), releaseOf(t, "r", "ann", "1"))
	check.Need(t, err != nil, "nothing failed")
	check.That(t, len(seen.commits) == 0, "of a commit that failed, the observer got %+v", seen.commits)
	s.set(nil, nil)
	release(t, l, releaseOf(t, "r", "ann", "1"))
	seen.wantWork(t, "the same again", observe.Commit{Requests: 1, Draws: map[string]uint64{"raise": 1}, Charged: 1})
	check.That(t, len(seen.refused) == 0, "a failure is no refusal: %+v", seen.refused)
}
