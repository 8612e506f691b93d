package ledger

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Invariant 8: by default a raise draws for all its objects or for none. A partial one lists the
// objects that it left out, with the reasons. Large raises take several transactions, which must
// not show.

// big is the size of a request of two parts, of which the last is short.
const big = state.PartSize + 404

// bigPanel returns a ledger with a crowd of voters, who are all enrolled in smoker, too.
func bigPanel(t *testing.T, limit string) *Ledger {
	t.Helper()
	return filledOnce(t, "a big panel, each with "+limit, func(l *Ledger) {
		voters(t, l, limit, crowd(big)...)
		define(t, l, smoker())
		enroll(t, l, "smoker", limit, crowd(big)...)
	})
}

func smoker() api.Question { return api.Question{Name: "smoker", Values: []string{"yes", "no"}} }

// lastOfCrowd is in the last part of a raise of the crowd.
const lastOfCrowd = "person-04499"

func wantNoHolds(t *testing.T, l *Ledger) {
	t.Helper()
	n := len(l.rules.Holds.List())
	check.That(t, n == 0, "%d holds are left", n)
}

// wantWhole fails unless every object of the crowd has been drawn exactly once.
func wantWhole(t *testing.T, l *Ledger, epsilon string) {
	t.Helper()
	n := len(responses(t, l, "vote", eps(t, epsilon)))
	check.That(t, n == big, "%d objects have answered, want %d", n, big)
	n = countKind(events(t, l), "released")
	check.That(t, n == big, "%d draws for %d objects", n, big)
	wantNoHolds(t, l)
	auditStore(t, l.engine.Store)
}

func TestRaise_Large_ReportsProgressAndIsWhole(t *testing.T) {
	const size = 2*state.PartSize + 808
	l := voters(t, inMemory(t, Options{}), "1", crowd(size)...)
	r := raiseOf(t, "k", "0.5")
	var progress []int
	r.Progress = func(done, total int) {
		check.That(t, total == size, "progress out of %d, want %d", total, size)
		progress = append(progress, done)
	}
	before := stats(t, l).Events
	got := raise(t, l, r)
	want := api.RaiseResult{Drawn: size, First: before + 1, Last: before + size + 3}
	if !reflect.DeepEqual(got, want) || !slices.Equal(progress, []int{state.PartSize, 2 * state.PartSize, size}) {
		t.Errorf("got %+v with the progress %v", got, progress)
	}
	n := len(responses(t, l, "vote", eps(t, "0.5")))
	check.That(t, n == size, "%d of %d have answered", n, size)
	wantNoHolds(t, l)
	auditStore(t, l.engine.Store)
	r.Truth = mustNotAsk(t)
	again := raise(t, l, r)
	check.That(t, reflect.DeepEqual(again, want), "again: %+v", again)
}

// A raise that is interrupted after its first part, for any reason, keeps the part and holds
// nothing. The same key resumes it, for the objects that were enrolled when it began. The result is
// that of a raise without interruption.
func TestRaise_LargeInterrupted_ResumesWithItsKey(t *testing.T) {
	type host struct {
		*testing.T
		s     *shim
		l     *Ledger
		clock *fakeClock
		stop  func()
	}
	for name, c := range map[string]struct {
		objects []string
		stop    func(h *host)
		want    error
		after   func(h *host)
	}{
		"cancelled":          {nil, func(h *host) { h.stop() }, context.Canceled, func(*host) {}},
		"cancelled, by name": {crowd(big), func(h *host) { h.stop() }, context.Canceled, func(*host) {}},
		"in another process": {nil, func(h *host) { h.stop() }, context.Canceled, func(h *host) { h.l = openMemory(h, h.s, Options{Now: h.clock.read}) }},
		"others enroll": {nil, func(h *host) { h.stop() }, context.Canceled, func(h *host) {
			enroll(h, h.l, "vote", "1", "aaron", "person-04400x", "zoe")
		}},
		"a failing disk": {nil, func(h *host) { h.s.set(failing, nil) }, errDisk, func(h *host) { h.s.set(nil, nil) }},
		"a broken clock": {nil, func(h *host) { h.clock.set(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)) }, api.ErrClock,
			func(h *host) { h.clock.set(epoch().Add(-time.Hour)) }},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			h := &host{t, &shim{Store: bigPanel(t, "1").engine.Store}, nil, newClock(epoch()), cancel}
			h.l = openMemory(t, h.s, Options{Now: h.clock.read})
			before := stats(t, h.l).Events
			r := raiseOf(t, "k", "0.5", c.objects...)
			r.Progress = afterPart(func() { c.stop(h) })
			wantErr(t, check.Err(h.l.Raise(ctx, r)), c.want)
			wantNoHolds(t, h.l)
			n := len(responses(t, h.l, "vote", eps(t, "0.5")))
			check.That(t, n == state.PartSize, "%d objects have answered, want the %d of one part", n, state.PartSize)
			part := stats(t, h.l).Events
			c.after(h)
			others := stats(t, h.l).Events - part
			r.Progress = nil
			got := raise(t, h.l, r)
			check.That(t, got.Drawn == big && got.First == before+1 && len(got.Refused) == 0, "%+v after event %d", got, before)
			check.That(t, got.Last == before+big+2+others && got.Reused+got.Derived+got.Unlisted == 0,
				"%+v after event %d, with %d of others", got, before, others)
			wantOrderedTimes(t, h.l)
			wantWhole(t, h.l, "0.5")
		})
	}
}

// The budget that a large raise counts on is held, and nothing else is kept from other requests.
func TestRaise_Large_HoldsItsBudget(t *testing.T) {
	l := bigPanel(t, "1")
	r := raiseOf(t, "k", "0.6")
	r.Progress = afterPart(func() {
		rival := releaseOf(t, "rival", lastOfCrowd, "0.5")
		rival.Question = "smoker"
		got := refusals(t, check.Err(l.Release(t.Context(), rival)))[0]
		want := api.Refusal{Object: lastOfCrowd, Reason: api.ObjectCap, Ceiling: eps(t, "1"), Spent: eps(t, "0"), Asked: eps(t, "0.5"), Cost: eps(t, "0.5"), Remaining: eps(t, "0.4"), Remedy: "waiting", Largest: eps(t, "0.4")}
		check.That(t, got == want, "the rival was refused for %+v, want %+v", got, want)
		rival.Epsilon = eps(t, "0.4")
		release(t, l, rival)
		early := releaseOf(t, "early", lastOfCrowd, "0.2") // of the same question: within what is held
		release(t, l, early)
	})
	got := raise(t, l, r)
	check.That(t, got.Drawn == big, "%+v", got)
	o := objectOf(t, l, lastOfCrowd)
	check.That(t, o.Remaining.IsZero(), "%s remains", o.Remaining)
	wantNoHolds(t, l)
	auditStore(t, l.engine.Store)
}

// A large raise restricts no object outside its panel.
func TestRaise_Large_HoldsNoBudgetOfOtherObjects(t *testing.T) {
	for name, objects := range map[string][]string{"all": nil, "by name": crowd(big)} {
		t.Run(name, func(t *testing.T) {
			l := bigPanel(t, "1")
			if objects != nil {
				enroll(t, l, "vote", "1", "zoe")
			}
			enroll(t, l, "smoker", "1", "zoe")
			r := raiseOf(t, "k", "0.6", objects...)
			r.Progress = afterPart(func() {
				if objects == nil {
					enroll(t, l, "vote", "1", "zoe") // too late for this raise
				}
				rival := releaseOf(t, "rival", "zoe", "0.5")
				rival.Question = "smoker"
				release(t, l, rival)
			})
			raise(t, l, r)
			auditStore(t, l.engine.Store)
		})
	}
}

// A partial raise reads the objects of each part again when the part begins. An object enrolled
// since the survey is drawn, with a true value that is requested only then.
func TestRaise_LargePartial_SeesLaterEnrollments(t *testing.T) {
	l := bigPanel(t, "1")
	r := raiseOf(t, "k", "0.5", append(crowd(big), "zoe")...)
	r.Partial, r.Progress = true, afterPart(func() { enroll(t, l, "vote", "1", "zoe") })
	got := raise(t, l, r)
	if got.Drawn != big+1 || len(got.Refused) != 0 || responses(t, l, "vote", eps(t, "0.5"))["zoe"].Value == "" {
		t.Errorf("%+v", got)
	}
	auditStore(t, l.engine.Store)
}

// A large raise that comes second must give way to the one in progress: its hold and its survey
// must not make the first one break off in the middle.
func TestRaise_SecondLargeRaise_DoesNotBreakTheFirst(t *testing.T) {
	l := bigPanel(t, "1")
	extra := make([]string, state.PartSize)
	for i := range extra {
		extra[i] = fmt.Sprintf("extra-%05d", i)
	}
	enroll(t, l, "smoker", "1", extra...)
	asked, answer := newGate(t), make(chan answer[api.RaiseResult], 1)
	first := raiseOf(t, "first", "0.6")
	first.Progress = afterPart(func() {
		second := raiseOf(t, "second", "0.5", append(extra, lastOfCrowd)...)
		second.Question = "smoker"
		second.Truth = func(_ context.Context, _ string, objects []string) ([]string, error) {
			_ = asked.pass()
			return slices.Repeat([]string{"yes"}, len(objects)), nil
		}
		go func() {
			result, err := l.Raise(t.Context(), second)
			answer <- answerOf(result, err)
		}()
		asked.wait(t) // it holds, and surveys
	})
	got, err := l.Raise(t.Context(), first)
	check.That(t, err == nil && got.Drawn == big, "the raise in progress returned %+v, %v", got, err)
	asked.open()
	refused := refusals(t, await(t, answer).err)
	check.That(t, len(refused) == 1 && refused[0].Object == lastOfCrowd, "the second raise was refused for %+v", refused)
	wantNoHolds(t, l)
	auditStore(t, l.engine.Store)
}

// A release is decided before a raise begins to hold budget, and is committed after that. The raise
// sees it before it draws anything.
func TestRaise_Large_SeesCommitsDecidedBeforeItsHold(t *testing.T) {
	s := &shim{Store: bigPanel(t, "1").engine.Store}
	l := openMemory(t, s, Options{})
	commit := s.holdCommit(t)
	rival := releaseOf(t, "rival", lastOfCrowd, "0.5")
	rival.Question = "smoker"
	sold := async(func() (api.Response, error) { return l.Release(t.Context(), rival) })
	commit.wait(t)
	s.set(nil, nil)
	ordered := async(func() (api.RaiseResult, error) { return l.Raise(t.Context(), raiseOf(t, "k", "0.6")) })
	waitQueued(t, l, 1)
	commit.open()
	must(t, await(t, sold).err)
	got := refusals(t, await(t, ordered).err)
	check.That(t, len(got) == 1 && got[0].Object == lastOfCrowd, "refused for %+v", got)
	n := len(responses(t, l, "vote", eps(t, "0.6")))
	check.That(t, n == 0, "%d objects of a raise that was refused have answered", n)
	wantNoHolds(t, l)
}

func answerOf[T any](value T, err error) answer[T] { return answer[T]{value, err} }

// Two large raises that both fit share the budget. Of two that do not fit, at most one is executed.
func TestRaise_TwoLargeAtOnce_StayWithinBudget(t *testing.T) {
	for epsilon, fit := range map[string]int{"0.5": 2, "0.6": 1} {
		t.Run(epsilon, func(t *testing.T) {
			l := bigPanel(t, "1")
			failed := race(t, 2, func(i int) error {
				r := raiseOf(t, fmt.Sprint(i), epsilon)
				r.Question = []string{"vote", "smoker"}[i]
				return check.Err(l.Raise(t.Context(), r))
			})
			check.That(t, len(failed) >= 2-fit, "%d of two raises were refused", len(failed))
			wantOverCap(t, failed)
			for _, question := range []string{"vote", "smoker"} {
				n := len(responses(t, l, question, eps(t, epsilon)))
				check.That(t, n == 0 || n == big, "question %q was answered by %d of %d", question, n, big)
			}
			wantNoHolds(t, l)
			auditStore(t, l.engine.Store)
		})
	}
}

// Callers with the same key and request work on it together, and it is done once.
func TestRaise_LargeConcurrentWithOneKey_IsDoneOnce(t *testing.T) {
	l := bigPanel(t, "1")
	results := make([]api.RaiseResult, 4)
	for _, err := range race(t, len(results), func(i int) (err error) {
		results[i], err = l.Raise(t.Context(), raiseOf(t, "k", "0.6"))
		return err
	}) {
		t.Error(err)
	}
	for _, one := range results {
		check.That(t, reflect.DeepEqual(one, results[0]) && one.Drawn == big,
			"one caller got %+v, another %+v", results[0], one)
	}
	wantWhole(t, l, "0.6")
}

// A large raise is for the objects that were enrolled when it began, wherever later names sort.
func TestRaise_LargeForAll_ExcludesLaterEnrollments(t *testing.T) {
	l := bigPanel(t, "1")
	r := raiseOf(t, "k", "0.5")
	r.Progress = afterPart(func() { enroll(t, l, "vote", "1", "aaron", "person-00000x", "person-04400x", "zoe") })
	got := raise(t, l, r)
	check.That(t, got.Drawn == big, "%+v", got)
	wantWhole(t, l, "0.5")
	got = raise(t, l, raiseOf(t, "k2", "0.5"))
	check.That(t, got.Drawn == 4 && got.Reused == big, "the next raise returned %+v", got)
}

// True values are requested before anything is written. A source that fails late leaves nothing.
func TestRaise_LargeWithoutAllTruths_ChangesNothing(t *testing.T) {
	late := func(last string, err error) api.TruthFunc {
		return func(_ context.Context, _ string, objects []string) ([]string, error) {
			values := slices.Repeat([]string{"yes"}, len(objects))
			if i := slices.Index(objects, lastOfCrowd); i >= 0 {
				values[i] = last
				return values, err
			}
			return values, nil
		}
	}
	l := bigPanel(t, "1")
	for name, truth := range map[string]api.TruthFunc{
		"failing": late("yes", errDisk), "unknown": late("?", nil), "missing": late("", nil),
	} {
		unchanged(t, l.engine.Store, func() {
			r := raiseOf(t, "k", "0.5")
			r.Truth = truth
			_, err := l.Raise(t.Context(), r)
			check.That(t, err != nil, "%s: it succeeded", name)
		})
		wantNoHolds(t, l)
	}
	raise(t, l, raiseOf(t, "k", "0.5"))
	wantWhole(t, l, "0.5")
}

// Refusals in several parts are found before anything is drawn, all of them.
func TestRaise_LargeRefused_ListsAllRefusalsAndChangesNothing(t *testing.T) {
	l := bigPanel(t, "1")
	want := []string{"person-00001", "person-04200", lastOfCrowd}
	for i, name := range want {
		r := releaseOf(t, fmt.Sprint(i), name, "0.5")
		r.Question = "smoker"
		release(t, l, r)
	}
	r := raiseOf(t, "k", "0.6")
	unchanged(t, l.engine.Store, func() {
		_, err := l.Raise(t.Context(), r)
		var got []string
		for _, refusal := range refusals(t, err) {
			got = append(got, refusal.Object)
		}
		check.That(t, slices.Equal(got, want), "refused for %q, want %q", got, want)
	})
	wantNoHolds(t, l)
	r.Partial = true
	got := raise(t, l, r)
	check.That(t, got.Drawn == big-3 && len(got.Refused) == 3 && got.Refused[2].Object == lastOfCrowd,
		"partial: %d drawn, refused %+v", got.Drawn, got.Refused)
	again := raise(t, l, r)
	check.That(t, reflect.DeepEqual(again, got), "again: %d drawn, refused %+v", again.Drawn, again.Refused)
}

// An interrupted raise holds nothing. If its budget is gone when it resumes, it cannot become whole
// any more: it must say so, and draw nothing more.
func TestRaise_InterruptedAndBudgetGone_DrawsNoMore(t *testing.T) {
	l := bigPanel(t, "1")
	ctx, cancel := context.WithCancel(t.Context())
	r := raiseOf(t, "k", "0.6")
	r.Progress = afterPart(cancel)
	wantErr(t, check.Err(l.Raise(ctx, r)), context.Canceled)
	rival := releaseOf(t, "rival", lastOfCrowd, "0.5")
	rival.Question = "smoker"
	release(t, l, rival)
	unchanged(t, l.engine.Store, func() {
		got := refusals(t, check.Err(l.Raise(t.Context(), r)))
		check.That(t, len(got) == 1 && got[0].Object == lastOfCrowd, "refused for %+v", got)
	})
	wantNoHolds(t, l)
	auditStore(t, l.engine.Store)
}

func TestEnroll_LargeInterrupted_ResumesAndReportsProgress(t *testing.T) {
	l := inMemory(t, Options{})
	define(t, l, vote())
	before := stats(t, l).Events
	ctx, cancel := context.WithCancel(t.Context())
	r := api.EnrollRequest{Key: "k", Question: "vote", Objects: crowd(big), Cap: eps(t, "1")}
	r.Progress = afterPart(cancel)
	wantErr(t, check.Err(l.Enroll(ctx, r)), context.Canceled)
	n := stats(t, l).Chains
	check.That(t, n == state.PartSize, "%d are enrolled after the first part", n)
	var progress []int
	r.Progress = func(done, total int) { progress = append(progress, done, total) }
	got := check.Value(l.Enroll(t.Context(), r))(t)
	want := (api.EnrollResult{Enrolled: big, First: before + 1, Last: before + big + 2})
	check.That(t, reflect.DeepEqual(got, want), "got %+v, want %+v", got, want)
	rest := big - state.PartSize
	check.That(t, slices.Equal(progress, []int{rest, rest}), "progress %v", progress)
	auditStore(t, l.engine.Store)
}

// In several parts, too, no object is enrolled if one cannot be.
func TestEnroll_LargeRefused_EnrollsNoObject(t *testing.T) {
	l := inMemory(t, Options{})
	define(t, l, vote())
	enroll(t, l, "vote", "2", lastOfCrowd)
	unchanged(t, l.engine.Store, func() {
		_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: "k", Question: "vote", Objects: crowd(big), Cap: eps(t, "1")})
		got := refusals(t, err)
		check.That(t, len(got) == 1 && got[0].Object == lastOfCrowd, "refused for %+v", got)
	})
}

// An interrupted raise resumes in the file after the ledger was closed and opened again.
func TestRaise_InterruptedAndReopened_Resumes(t *testing.T) {
	path := create(t)
	l := voters(t, open(t, path, Options{}), "1", crowd(big)...)
	ctx, cancel := context.WithCancel(t.Context())
	r := raiseOf(t, "k", "0.5")
	r.Progress = afterPart(cancel)
	check.Is(t, check.Err(l.Raise(ctx, r)), context.Canceled)
	closed(t, l)
	l = open(t, path, Options{})
	r.Progress = nil
	got := raise(t, l, r)
	check.That(t, got.Drawn == big, "%+v", got)
	wantWhole(t, l, "0.5")
}
