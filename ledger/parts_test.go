package ledger

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/rules"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
)

// afterPart returns a Progress function that calls then once, after the first part of a request. If
// then changes anything, what the request has read ahead is out of date.
func afterPart(then func()) func(done, total int) {
	done := false
	return func(int, int) {
		if !done {
			done = true
			then()
		}
	}
}

// raiseInParts raises objects to ε=1, partially if need be, and calls then after the first part.
func raiseInParts(t *testing.T, l *Ledger, names []string, then func()) api.RaiseResult {
	t.Helper()
	r := raiseOf(t, "raise", "1", names...)
	r.Partial, r.Progress = true, afterPart(then)
	return raise(t, l, r)
}

// An object of the part that was read ahead withdraws: nothing is drawn from it.
func TestRaise_ObjectChangedAfterReadAhead_IsReadAgain(t *testing.T) {
	names := crowd(3 * state.PartSize)
	l := voters(t, inMemory(t, Options{}), "10", names...)
	leaver, riser := names[state.PartSize+7], names[state.PartSize+8]
	result := raiseInParts(t, l, names, func() {
		must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "leave", Object: leaver}))
		release(t, l, releaseOf(t, "rise", riser, "2"))
	})
	check.That(t, len(result.Refused) == 1 && result.Refused[0].Object == leaver &&
		result.Refused[0].Reason == api.Withdrawn, "refused: %+v", result.Refused)
	if want := len(names) - 2; result.Drawn != want || result.Derived != 1 {
		t.Errorf("%d drawn and %d derived, want %d and 1", result.Drawn, result.Derived, want)
	}
	check.Equal(t, objectOf(t, l, riser).Spent, eps(t, "2"), "%s has spent", riser)
	wantClean(t, l, api.VerifyRequest{})
}

// An object withdraws in the transaction of the part before its own, ahead of that part.
func TestRaise_ObjectWithdrawnInSharedCommit_IsRefused(t *testing.T) {
	names := crowd(3 * state.PartSize)
	l, s := openShim(t, votersFile(t, "10", names...), Options{})
	leaver := names[state.PartSize+7]
	first, leads := s.holdRelease(t, l, releaseOf(t, "first", names[0], "0.5"))
	s.set(nil, nil)
	var group sync.WaitGroup
	group.Go(func() { must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "leave", Object: leaver})) })
	waitQueued(t, l, 1)
	group.Go(func() {
		result := raiseInParts(t, l, names, func() {})
		check.That(t, len(result.Refused) == 1 && result.Refused[0].Object == leaver, "refused: %+v", result.Refused)
	})
	waitQueued(t, l, 2)
	first.open()
	must(t, await(t, leads).err)
	group.Wait()
	wantClean(t, l, api.VerifyRequest{})
}

// A request that begins to hold budget records no event, but what was decided ahead is out of date.
func TestRaise_HoldAddedAfterReadAhead_IsRespected(t *testing.T) {
	names := crowd(3 * state.PartSize)
	l := voters(t, inMemory(t, Options{}), "1.5", names...)
	other := vote()
	other.Name = "other"
	define(t, l, other)
	enroll(t, l, "other", "1.5", names...)

	held, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	rest := api.RaiseRequest{Key: "hold", Question: "other", Epsilon: eps(t, "1"), Objects: names[state.PartSize:]}
	asked := false
	rest.Truth = func(ctx context.Context, q string, objects []string) ([]string, error) {
		if !asked {
			asked = true
			close(held)
			<-goOn
		}
		return sameTruth("no")(ctx, q, objects)
	}
	result := raiseInParts(t, l, names, func() {
		go func() { done <- check.Err(l.Raise(context.Background(), rest)) }()
		<-held
	})
	check.That(t, result.Drawn == state.PartSize && len(result.Refused) == 2*state.PartSize,
		"%d drawn and %d refused, want %d and %d", result.Drawn, len(result.Refused), state.PartSize, 2*state.PartSize)
	close(goOn)
	must(t, <-done)
	wantClean(t, l, api.VerifyRequest{})
}

// The clock goes back to a time before the survey: the ceiling is that of the earlier time.
func TestRaise_ClockSetBackAfterReadAhead_UsesEarlierCeiling(t *testing.T) {
	now := epoch().Add(24 * time.Hour)
	l := inMemory(t, Options{Now: func() time.Time { return now }})
	define(t, l, vote())
	names := crowd(3 * state.PartSize)
	calendar := check.Value(policy.Steps(policy.Step{At: epoch().Add(12 * time.Hour), Ceiling: eps(t, "1")}))(t)
	must(t, check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: "enrol", Question: "vote", Objects: names, Policy: calendar, Cap: boundless()})))
	result := raiseInParts(t, l, names, func() { now = epoch() })
	check.That(t, result.Drawn == state.PartSize && len(result.Refused) == 2*state.PartSize,
		"%d drawn and %d refused, want %d and %d", result.Drawn, len(result.Refused), state.PartSize, 2*state.PartSize)
}

// An obstacle that exists only while the part before is executed leaves no object out.
func TestRaise_RefusedInReadAhead_IsDecidedAgain(t *testing.T) {
	names := crowd(3 * state.PartSize)
	late := epoch().Add(24 * time.Hour)
	calendar := check.Value(policy.Steps(policy.Step{At: epoch().Add(12 * time.Hour), Ceiling: eps(t, "1")}))(t)
	now := late
	for name, test := range map[string]struct {
		enroll     api.EnrollRequest
		come, gone func(*Ledger, *rules.Hold)
	}{
		"a hold": {
			api.EnrollRequest{Cap: eps(t, "1.5")},
			func(l *Ledger, h *rules.Hold) { l.rules.Holds.Add(h) },
			func(l *Ledger, h *rules.Hold) { l.rules.Holds.Remove(h) },
		},
		"a clock that went back": {
			api.EnrollRequest{Policy: calendar, Cap: boundless()},
			func(*Ledger, *rules.Hold) { now = epoch() },
			func(*Ledger, *rules.Hold) { now = late },
		},
	} {
		t.Run(name, func(t *testing.T) {
			memory := &kv.Memory{}
			begin(t, memory)
			s := &shim{Store: memory}
			l := openMemory(t, s, Options{Now: func() time.Time { return now }})
			other := vote()
			other.Name = "other"
			for _, q := range []api.Question{vote(), other} {
				define(t, l, q)
				test.enroll.Key, test.enroll.Question, test.enroll.Objects = "enrol in "+q.Name, q.Name, names
				must(t, check.Err(l.Enroll(t.Context(), test.enroll)))
			}
			q := check.Value(l.requests.Question(t.Context(), "other"))(t)
			some := request.Panel{Names: names, Question: q.Number}
			h := &rules.Hold{Question: q.Number, Epsilon: eps(t, "1"), Covers: some.Contains}
			request := raiseOf(t, "raise", "1", names...)
			request.Partial = true
			parts := 0
			request.Progress = func(int, int) {
				switch parts++; parts {
				case 1: // the next read is for the last part
					s.onRead(func() {
						s.onRead(nil)
						test.come(l, h)
					})
				case 2:
					test.gone(l, h)
				}
			}
			if result := raise(t, l, request); result.Drawn != len(names) || len(result.Refused) > 0 {
				t.Errorf("%d drawn and %d refused of %d", result.Drawn, len(result.Refused), len(names))
			}
			wantClean(t, l, api.VerifyRequest{})
		})
	}
}

// A request keeps a limited number of true values. It requests the others again, part by part, and
// no more often than that.
func TestRaise_MoreTruthsThanKept_RequestsThemAgain(t *testing.T) {
	names := crowd(5*state.PartSize + 1)
	l := voters(t, inMemory(t, Options{}), "10", names...)
	l.requests.MaxTrueValues = 2 * state.PartSize
	asked := map[string]int{}
	request := raiseOf(t, "raise", "1")
	request.Truth = func(ctx context.Context, q string, objects []string) ([]string, error) {
		for _, name := range objects {
			asked[name]++
		}
		return sameTruth("yes")(ctx, q, objects)
	}
	result := raise(t, l, request)
	check.That(t, result.Drawn == len(names), "%+v", result)
	for i, name := range names {
		want := 1
		if i >= 2*state.PartSize {
			want = 2
		}
		check.Need(t, asked[name] == want,
			"asked %d times for the truth about object %d, want %d", asked[name], i, want)
	}
}

// If a source has no value the second time, a partial request leaves the object out, and a whole
// one stops.
func TestRaise_TruthMissingOnSecondRequest_RefusesTheObject(t *testing.T) {
	names := crowd(3 * state.PartSize)
	for _, partial := range []bool{true, false} {
		l := voters(t, inMemory(t, Options{}), "10", names...)
		l.requests.MaxTrueValues = state.PartSize
		last, times := names[len(names)-1], 0
		request := raiseOf(t, "raise", "1", names...)
		request.Partial = partial
		request.Truth = func(ctx context.Context, q string, objects []string) ([]string, error) {
			values, err := sameTruth("yes")(ctx, q, objects)
			if i := slices.Index(objects, last); i >= 0 {
				if times++; times > 1 {
					values[i] = ""
				}
			}
			return values, err
		}
		result, err := l.Raise(t.Context(), request)
		if partial {
			must(t, err)
			check.That(t, len(result.Refused) == 1 && result.Refused[0].Reason == api.NoTruth &&
				result.Drawn == len(names)-1, "%d drawn, refused %+v", result.Drawn, result.Refused)
			continue
		}
		wantErr(t, err, api.ErrPartlyDone)
		refused := refusals(t, err)
		check.That(t, len(refused) == 1 && refused[0].Object == last, "refused %+v", refused)
	}
}

// A partial request names unknown objects, several in one part, and withdrawn ones.
func TestRaise_PartialWithUnknownAndWithdrawn_ListsThem(t *testing.T) {
	known := crowd(3 * state.PartSize)
	l := voters(t, inMemory(t, Options{}), "10", known...)
	gone := []string{known[3], known[state.PartSize+5], known[state.PartSize+9], known[3*state.PartSize-1]}
	for _, name := range gone {
		must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "leave " + name, Object: name}))
	}
	request := raiseOf(t, "raise", "1", append(slices.Clone(known), "person-05000x", "person-05001x", "person-09999x")...)
	request.Partial = true
	for range 2 { // the second result is read from the log
		result := raise(t, l, request)
		check.That(t, len(result.Refused) == 7 && result.Drawn == len(known)-len(gone),
			"%d drawn, refused %+v", result.Drawn, result.Refused)
	}
	wantClean(t, l, api.VerifyRequest{})
}

// A request whose commit failed resumes after the last part that was committed.
func TestRaise_CommitOfAPartFails_ResumesAfterTheLastPart(t *testing.T) {
	names := crowd(4 * state.PartSize)
	l, s := openShim(t, votersFile(t, "10", names...), Options{})
	request := raiseOf(t, "raise", "1", names...)
	request.Progress = afterPart(func() { s.set(func() error { return errDisk }, nil) })
	wantErr(t, check.Err(l.Raise(t.Context(), request)), errDisk)
	s.set(nil, nil)
	release(t, l, releaseOf(t, "between", names[2*state.PartSize], "1"))
	request.Progress = nil
	result := raise(t, l, request)
	check.That(t, result.Drawn == len(names)-1 && result.Reused == 1, "%+v", result)
	wantClean(t, l, api.VerifyRequest{})
}

// panicking is a store of which one View panics, as it may on a damaged page.
type panicking struct {
	kv.Store
	left atomic.Int64
}

func (p *panicking) View(fn func(kv.Reader) error) error {
	if p.left.Add(-1) == 0 {
		panic("torn page")
	}
	return p.Store.View(fn)
}

// A panic in a survey reaches the caller, and nothing has changed.
func TestRaise_PanicInSurvey_ReachesTheCaller(t *testing.T) {
	names := crowd(4 * state.PartSize)
	s := &panicking{Store: &kv.Memory{}}
	begin(t, s)
	l := voters(t, openMemory(t, s, Options{}), "10", names...)
	request := raiseOf(t, "again", "2")
	asked := 0
	request.Truth = func(ctx context.Context, q string, objects []string) ([]string, error) {
		if asked++; asked == 2 {
			s.left.Store(1)
		}
		return sameTruth("yes")(ctx, q, objects)
	}
	func() {
		defer func() {
			p := recover()
			check.That(t, p == "torn page", "recovered %v", p)
		}()
		_, err := l.Raise(t.Context(), request)
		t.Errorf("no panic, but %v", err)
	}()
	result := raise(t, l, request)
	check.That(t, result.Drawn == len(names), "%+v", result)
	wantClean(t, l, api.VerifyRequest{})
}

// The slices of a survey keep their bounds even if the objects at them have withdrawn: no true
// value is requested twice.
func TestRaise_WithdrawnAtSliceEnds_RequestsEachTruthOnce(t *testing.T) {
	names := crowd(3*state.PartSize + 1)
	l := voters(t, inMemory(t, Options{}), "10", names...)
	left := append(slices.Clone(names[5:25]), names[state.PartSize-1], names[3*state.PartSize-1], names[3*state.PartSize])
	for _, name := range left {
		must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "leave " + name, Object: name}))
	}
	var asked []string
	request := raiseOf(t, "raise", "1")
	request.Truth = func(ctx context.Context, q string, objects []string) ([]string, error) {
		asked = append(asked, objects...)
		return sameTruth("yes")(ctx, q, objects)
	}
	total := 0
	request.Progress = func(_, all int) { total = all }
	result := raise(t, l, request)
	want := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(left, name) })
	check.That(t, result.Drawn == len(want) && total == len(want) && slices.Equal(asked, want),
		"%d of %d drawn, %d asked for, want %d", result.Drawn, total, len(asked), len(want))
	wantClean(t, l, api.VerifyRequest{})
}

// Times are compared as they are in the log. A monotonic reading would hide that the machine's
// clock was set back.
func TestState_SetClock_DropsTheMonotonicReading(t *testing.T) {
	s := &state.State{}
	s.SetClock(time.Now())
	check.That(t, s.Clock == s.Clock.Round(0) && s.Now == s.Now.Round(0), "%v and %v", s.Clock, s.Now)
}

// The memory of a part's changes is used again for the part after the next. The results of each
// part, above all its refusals, are returned all the same.
func TestRaise_ManyParts_ListsAllObjectsLeftOut(t *testing.T) {
	const parts = 5
	names := crowd(parts * state.PartSize)
	l := voters(t, inMemory(t, Options{}), "10", names...)
	request := raiseOf(t, "raise", "1")
	request.Partial = true
	var left []string
	for i := 0; i < len(names); i += 1000 { // some in each part, at other places
		left = append(left, names[i])
	}
	request.Truth = func(_ context.Context, _ string, objects []string) ([]string, error) {
		values := make([]string, len(objects))
		for i, name := range objects {
			if _, out := slices.BinarySearch(left, name); !out {
				values[i] = "yes"
			}
		}
		return values, nil
	}
	result := raise(t, l, request)
	var refused []string
	for _, r := range result.Refused {
		refused = append(refused, r.Object)
	}
	check.That(t, slices.Equal(refused, left) && result.Drawn == len(names)-len(left),
		"%d drawn, and %d left out of %d: %.5q", result.Drawn, len(refused), len(left), refused)
	wantClean(t, l, api.VerifyRequest{})
}
