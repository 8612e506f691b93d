package ledger

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Invariant 1: no response leaves the ledger before the transaction that records it is on disk.
// What stands between are the two sides of a commit; the shim stops the clock at either.

// No read waits for a commit in progress: until it is durable, readers see what was there before.
// Nor does its caller learn anything, or another one that uses the same key.
func TestRelease_UntilItsCommitIsDurable_IsNotSeen(t *testing.T) {
	for name, isDecided := range map[string]bool{"decided": true, "written": false} {
		t.Run(name, func(t *testing.T) {
			l, s := openShim(t, votersFile(t, "1", "ann"), Options{})
			before := stats(t, l).Events
			commit := newGate(t)
			if isDecided {
				s.set(commit.pass, nil)
			} else {
				s.set(nil, commit.pass)
			}
			first := async(func() (api.Response, error) { return l.Release(t.Context(), releaseOf(t, "1", "ann", "0.5")) })
			commit.wait(t)
			second := async(func() (api.Response, error) { return l.Release(t.Context(), releaseOf(t, "1", "ann", "0.5")) })
			pending(t, first)
			pending(t, second)
			wantUnreleased(t, l, "ann")
			check.Equal(t, stats(t, l).Events, before, "events that are seen before the commit")
			commit.open()
			a, b := await(t, first), await(t, second)
			must(t, a.err)
			must(t, b.err)
			levels := objectOf(t, l, "ann").Chains[0].Levels
			check.That(t, a.value == b.value && len(levels) == 1 && levels[0].Response == a.value.Value,
				"two callers got %v and %v, a reader sees %+v", a.value, b.value, levels)
		})
	}
}

// wantUnreleased fails if any reader sees a response of an object.
func wantUnreleased(t *testing.T, l *Ledger, name string) {
	t.Helper()
	o := objectOf(t, l, name)
	check.That(t, o.Spent.IsZero() && len(o.Chains[0].Levels) == 0, "a reader sees %+v", o)
	found := responses(t, l, "vote", eps(t, "0.5"))
	check.That(t, len(found) == 0, "a reader sees the responses %v", found)
	check.Equal(t, countKind(events(t, l), "released"), 0, "released events that a reader sees")
	_, err := l.Estimate(t.Context(), api.EstimateRequest{Question: "vote"})
	check.That(t, err != nil, "an estimate is made from responses that are not there")
}

func TestAFailureBeforeTheCommitChangesNothing(t *testing.T) {
	l, s := openShim(t, votersFile(t, "1", "ann"), Options{})
	s.set(failing, nil)
	unchanged(t, s, func() {
		wantErr(t, check.Err(l.Release(t.Context(), releaseOf(t, "1", "ann", "0.5"))), errDisk)
	})
	wantUnreleased(t, l, "ann")
	s.set(nil, nil)
	release(t, l, releaseOf(t, "1", "ann", "0.5")) // the key is not burnt, the ledger not stopped
	check.Equal(t, objectOf(t, l, "ann").Spent, eps(t, "0.5"), "spent after one sale")
	auditStore(t, s)
}

// A caller that is refused because of a neighbour in its batch must not be told so when the batch
// then fails: what it was refused for never happened.
func TestARefusalDoesNotRestOnACommitThatFailed(t *testing.T) {
	path := votersFile(t, "1", "ann", "bob")
	l, s := openShim(t, path, Options{})
	define(t, l, api.Question{Name: "smoker", Values: []string{"yes", "no"}, Encoding: "direct"})
	enroll(t, l, "smoker", "1", "ann")

	first, leader := s.holdRelease(t, l, releaseOf(t, "0", "bob", "1"))
	spender := async(func() (api.Response, error) { return l.Release(t.Context(), releaseOf(t, "1", "ann", "1")) })
	waitQueued(t, l, 1)
	loser := async(func() (api.Response, error) {
		r := releaseOf(t, "2", "ann", "0.5")
		r.Question = "smoker"
		return l.Release(t.Context(), r)
	})
	waitQueued(t, l, 2)
	s.set(failing, nil)
	first.open()
	must(t, await(t, leader).err)
	wantErr(t, await(t, spender).err, errDisk)
	if got := await(t, loser); got.err == nil || isRefused(got.err) {
		t.Errorf("got the error %v, although nobody has spent anything; want the failure of the commit", got.err)
	}
	o := objectOf(t, l, "ann")
	check.That(t, o.Spent.IsZero(), "spent %s", o.Spent)
}

// crashCommit makes a release whose commit ends with an error that leaves its outcome open, checks
// that the ledger has stopped, and returns it opened again.
func crashCommit(t *testing.T, before, after func() error) *Ledger {
	t.Helper()
	path := votersFile(t, "1", "ann")
	l, s := openShim(t, path, Options{})
	s.set(before, after)
	_, err := l.Release(t.Context(), releaseOf(t, "1", "ann", "0.5"))
	wantErr(t, err, api.ErrStopped)
	wantErr(t, err, kv.ErrUncertain)
	wantStopped(t, l)
	must(t, l.Close())
	return open(t, path, Options{})
}

// The response was recorded and the caller does not know it, or it was not: either way the caller's
// key finds one response.
func TestRelease_ItsOutcomeIsLost_IsDrawnOnceByItsKey(t *testing.T) {
	for name, hooks := range map[string][2]func() error{"recorded": {nil, uncertain}, "not recorded": {uncertain, nil}} {
		t.Run(name, func(t *testing.T) {
			l := crashCommit(t, hooks[0], hooks[1])
			r := releaseOf(t, "1", "ann", "0.5")
			if name == "recorded" {
				r.Truth = mustNotAsk(t)
			} else {
				wantUnreleased(t, l, "ann")
			}
			first := release(t, l, r)
			r.Truth = mustNotAsk(t)
			check.Equal(t, release(t, l, r), first, "the response to the same key")
			wantOneRelease(t, l)
		})
	}
}

func wantOneRelease(t *testing.T, l *Ledger) {
	t.Helper()
	check.Equal(t, countKind(events(t, l), "released"), 1, "released events")
	check.Equal(t, objectOf(t, l, "ann").Spent, eps(t, "0.5"), "spent")
	auditStore(t, l.engine.Store)
}

// wantStopped tries every call: what a stopped ledger says may not be durable, so it says nothing.
func wantStopped(t *testing.T, l *Ledger) {
	t.Helper()
	for name, call := range everyCall(t, l) {
		if err := call(); err == nil {
			t.Errorf("%s works on a stopped ledger", name)
		} else {
			wantErr(t, err, api.ErrStopped)
		}
	}
}

// everyCall is one call of each method that reads or writes.
func everyCall(t *testing.T, l *Ledger) map[string]func() error {
	return everyCallWith(t.Context(), t, l)
}

func everyCallWith(ctx context.Context, t *testing.T, l *Ledger) map[string]func() error {
	raised, order := raiseOf(t, "R", "0.25"), purchase(t, "s", "acme", "0.25", "ann")
	return map[string]func() error{
		"Release":        calling(ctx, l.Release, releaseOf(t, "r", "ann", "0.25")),
		"Raise":          calling(ctx, l.Raise, raised),
		"DefineQuestion": func() error { return l.DefineQuestion(ctx, "d", smoker()) },
		"Enroll":         calling(ctx, l.Enroll, api.EnrollRequest{Key: "e", Question: "vote", Objects: []string{"bob"}, Cap: boundless()}),
		"Answer":         calling(ctx, l.Answer, answerRequest(t, "a", "majority:yes", "0.25", ballots("ann"), "ann")),
		"QuoteAnswer":    calling(ctx, l.QuoteAnswer, answerRequest(t, "", "majority:yes", "0.25", nil, "ann")),
		"Sell":           calling(ctx, l.Sell, order),
		"Quote":          calling(ctx, l.Quote, order.Order),
		"Reserve":        calling(ctx, l.Reserve, api.ReserveRequest{Key: "h", Order: order.Order, For: time.Hour}),
		"Commit":         calling(ctx, l.Capture, api.CaptureRequest{Key: "c", Reservation: 1, Truth: sameTruth("yes")}),
		"Cancel":         func() error { return l.Cancel(ctx, "x", 1) },
		"Withdraw":       func() error { return l.Withdraw(ctx, api.ObjectRequest{Key: "w", Object: "ann"}) },
		"Forget":         func() error { return l.Forget(ctx, api.ObjectRequest{Key: "f", Object: "ann"}) },
		"Head":           calling(ctx, l.Head, 0),
		"Consistency":    func() error { return check.Err(l.Consistency(ctx, 1, 2)) },
		"Checkpoint": func() error {
			if _, err := l.Checkpoint(ctx); !errors.Is(err, api.ErrNoSigner) { // which comes last
				return err
			}
			return nil
		},
		"Verify":     calling(ctx, l.Verify, api.VerifyRequest{}),
		"Advance":    calling(ctx, l.Advance, api.AdvanceRequest{Key: "day", Truth: sameTruth("yes")}),
		"Sale":       func() error { return unlessUnknown(check.Err(l.Sale(ctx, 1))) },
		"Sales":      func() error { return firstError(l.Sales(ctx, "")) },
		"Deliveries": func() error { return unlessUnknown(firstError(l.Deliveries(ctx, 1))) },
		"Buyers":     func() error { return check.Err(api.Collect(l.Buyers(ctx))) },
		"Object":     calling(ctx, l.Object, "ann"),
		"Stats":      func() error { return check.Err(l.Stats(ctx)) },
		"Questions":  func() error { return check.Err(api.Collect(l.Questions(ctx))) },
		"Estimate":   calling(ctx, l.Estimate, api.EstimateRequest{Question: "vote"}),
		"Events":     func() error { return firstError(l.Events(ctx, 1)) },
		"Responses":  func() error { return firstError(l.Responses(ctx, "vote", eps(t, "0.5"))) },
	}
}

// calling is a call of a method with a request.
func calling[R, V any](ctx context.Context, method func(context.Context, R) (V, error), request R) func() error {
	return func() error { return check.Err(method(ctx, request)) }
}

// writes tells whether a call of everyCall changes the ledger.
func writes(name string) bool {
	return slices.Contains([]string{"Release", "Raise", "DefineQuestion", "Enroll", "Answer", "Sell", "Reserve", "Commit", "Cancel", "Withdraw", "Forget", "Advance"}, name)
}

// unlessUnknown lets pass that there is no such thing: the call has read what there is.
func unlessUnknown(err error) error {
	if errors.Is(err, api.ErrUnknown) {
		return nil
	}
	return err
}

func firstError[T any](all func(func(T, error) bool)) (first error) {
	all(func(_ T, err error) bool {
		first = err
		return err == nil
	})
	return first
}

func isRefused(err error) bool {
	_, refused := err.(*api.RefusedError)
	return refused
}

// A call that was queued behind a failed commit must not be carried out on a state that may not be
// there, not even when the ledger is being closed.
func TestNothingIsCommittedAfterAFailedCommit(t *testing.T) {
	for name, closing := range map[string]bool{"open": false, "closing": true} {
		t.Run(name, func(t *testing.T) { queueBehindFailure(t, closing) })
	}
}

func queueBehindFailure(t *testing.T, closing bool) {
	l, s := openShim(t, votersFile(t, "1", "ann", "bob"), Options{})
	commit := newGate(t)
	s.set(commit.pass, uncertain)
	first := async(func() (api.Response, error) { return l.Release(t.Context(), releaseOf(t, "1", "ann", "0.5")) })
	commit.wait(t)
	s.set(nil, nil) // for those behind it
	// A Release would wait even earlier, for what its first snapshot shows to be durable.
	second := async(func() (uint64, error) {
		event, _, err := l.engine.Submit(t.Context(), func(*state.State) ([]event.Change, error) { return []event.Change{&event.TruthKeySet{}}, nil })
		return event, err
	})
	waitQueued(t, l, 1)
	done := async(func() (bool, error) { return true, nil })
	if closing {
		done = async(func() (bool, error) { return true, l.Close() })
		waitClosing(t, l)
	}
	before := s.commits.Load()
	commit.open()
	wantErr(t, await(t, first).err, api.ErrStopped)
	if err := await(t, second).err; !errors.Is(err, api.ErrStopped) && !errors.Is(err, api.ErrClosed) {
		t.Errorf("the call behind the failed one got the error %v", err)
	}
	await(t, done)
	check.Equal(t, s.commits.Load()-before, 1, "commits, with the one that failed")
}

// A file that does not come back is no reason to hang or to guess.
func TestAFileThatWasReplacedIsNotWrittenTo(t *testing.T) {
	path := votersFile(t, "1", "ann")
	l := open(t, path, Options{})
	release(t, l, releaseOf(t, "1", "ann", "0.5"))
	rename(t, path, filepath.Join(filepath.Dir(path), "elsewhere.db"))
	wantErr(t, check.Err(l.Release(t.Context(), releaseOf(t, "2", "ann", "0.75"))), api.ErrReplaced)
	rename(t, filepath.Join(filepath.Dir(path), "elsewhere.db"), path)
	release(t, l, releaseOf(t, "2", "ann", "0.75")) // nothing had happened, so nothing stands in the way
	auditStore(t, l.engine.Store)
}

// What a reader has seen of a commit that then fails must not come beside an error either
// (invariant 1).
func TestNothingComesBesideAnErrorBeforeItIsDurable(t *testing.T) {
	for name, cancelled := range map[string]bool{"the commit fails": false, "the reader gives up": true} {
		t.Run(name, func(t *testing.T) {
			l, s := openShim(t, votersFile(t, "1", "ann"), Options{})
			flush := newGate(t)
			s.set(nil, func() error { _ = flush.pass(); return uncertain() })
			writer := async(func() (api.Response, error) { return l.Release(t.Context(), releaseOf(t, "1", "ann", "0.5")) })
			flush.wait(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			log := async(func() (string, error) {
				for ev, err := range l.Events(ctx, 1) {
					if r, is := recordedBy(ev); err != nil || is {
						return r.Response, err
					}
				}
				return "", nil
			})
			object := async(func() (api.ObjectState, error) { return l.Object(ctx, "ann") })
			time.Sleep(soon)
			if cancelled {
				cancel()
			} else {
				flush.open()
			}
			check.Equal(t, await(t, log).value, "", "the response that the log has")
			if o := await(t, object); len(o.value.Chains) > 0 && len(o.value.Chains[0].Levels) > 0 {
				t.Errorf("the object shows %+v beside the error %v", o.value.Chains, o.err)
			}
			flush.open()
			wantErr(t, await(t, writer).err, api.ErrStopped)
		})
	}
}
