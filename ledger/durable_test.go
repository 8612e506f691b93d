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

// Invariant 1: no response leaves the ledger before the transaction that records it is on disk. The
// shim can block or fail a commit before its transaction is written, and after that.

// Until a commit is durable, its caller and any other caller with the same key wait. Readers do not
// wait: they see the state before the commit.
func TestRelease_CommitNotDurable_IsNotSeen(t *testing.T) {
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
	check.That(t, o.Spent.IsZero() && len(o.Chains[0].Levels) == 0, "a reader sees the object %+v", o)
	found := responses(t, l, "vote", eps(t, "0.5"))
	check.That(t, len(found) == 0, "a reader sees the responses %v", found)
	check.Equal(t, countKind(events(t, l), "released"), 0, "released events that a reader sees")
	_, err := l.Estimate(t.Context(), api.EstimateRequest{Question: "vote"})
	check.That(t, err != nil, "an estimate counts responses that are not durable")
}

func TestRelease_FailsBeforeCommit_ChangesNothing(t *testing.T) {
	l, s := openShim(t, votersFile(t, "1", "ann"), Options{})
	s.set(failing, nil)
	unchanged(t, s, func() {
		wantErr(t, check.Err(l.Release(t.Context(), releaseOf(t, "1", "ann", "0.5"))), errDisk)
	})
	wantUnreleased(t, l, "ann")
	s.set(nil, nil)
	release(t, l, releaseOf(t, "1", "ann", "0.5")) // the key can be used again, and the ledger has not stopped
	check.Equal(t, objectOf(t, l, "ann").Spent, eps(t, "0.5"), "spent after one sale")
	auditStore(t, s)
}

// A caller that another request of its batch leaves without budget does not get a refusal if the
// commit then fails: nothing was spent.
func TestRelease_CompetingCommitFails_IsNotRefused(t *testing.T) {
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
		t.Errorf("got the error %v, although nothing was spent; want the failure of the commit", got.err)
	}
	o := objectOf(t, l, "ann")
	check.That(t, o.Spent.IsZero(), "ann has spent %s, want nothing", o.Spent)
}

// crashCommit makes a release whose commit has an uncertain outcome, checks that the ledger has
// stopped, and opens it again.
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

// If the outcome of a commit is lost, the key gets one response, whether or not the commit was
// recorded.
func TestRelease_OutcomeLost_RetriedKeyDrawsOnce(t *testing.T) {
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

// wantStopped checks that every call returns ErrStopped: what a stopped ledger has in memory may
// not be durable.
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

// everyCall returns one call of each method that reads or writes.
func everyCall(t *testing.T, l *Ledger) map[string]func() error {
	return everyCallWith(t.Context(), t, l)
}

func everyCallWith(ctx context.Context, t *testing.T, l *Ledger) map[string]func() error {
	raised, order := raiseOf(t, "R", "0.25"), purchase(t, "s", "acme", "0.25", "ann")
	return map[string]func() error{
		"Release":        callWith(ctx, l.Release, releaseOf(t, "r", "ann", "0.25")),
		"Raise":          callWith(ctx, l.Raise, raised),
		"DefineQuestion": func() error { return l.DefineQuestion(ctx, "d", smoker()) },
		"Enroll":         callWith(ctx, l.Enroll, api.EnrollRequest{Key: "e", Question: "vote", Objects: []string{"bob"}, Cap: boundless()}),
		"Answer":         callWith(ctx, l.Answer, answerRequest(t, "a", "majority:yes", "0.25", ballots("ann"), "ann")),
		"QuoteAnswer":    callWith(ctx, l.QuoteAnswer, answerRequest(t, "", "majority:yes", "0.25", nil, "ann")),
		"Sell":           callWith(ctx, l.Sell, order),
		"Quote":          callWith(ctx, l.Quote, order.Order),
		"Reserve":        callWith(ctx, l.Reserve, api.ReserveRequest{Key: "h", Order: order.Order, For: time.Hour}),
		"Commit":         callWith(ctx, l.Capture, api.CaptureRequest{Key: "c", Reservation: 1, Truth: sameTruth("yes")}),
		"Cancel":         func() error { return l.Cancel(ctx, "x", 1) },
		"Withdraw":       func() error { return l.Withdraw(ctx, api.ObjectRequest{Key: "w", Object: "ann"}) },
		"Forget":         func() error { return l.Forget(ctx, api.ObjectRequest{Key: "f", Object: "ann"}) },
		"Head":           callWith(ctx, l.Head, 0),
		"Consistency":    func() error { return check.Err(l.Consistency(ctx, 1, 2)) },
		"Checkpoint": func() error {
			if _, err := l.Checkpoint(ctx); !errors.Is(err, api.ErrNoSigner) { // the last check, after the one for a closed ledger
				return err
			}
			return nil
		},
		"Verify":     callWith(ctx, l.Verify, api.VerifyRequest{}),
		"Advance":    callWith(ctx, l.Advance, api.AdvanceRequest{Key: "day", Truth: sameTruth("yes")}),
		"Sale":       func() error { return unlessUnknown(check.Err(l.Sale(ctx, 1))) },
		"Sales":      func() error { return firstError(l.Sales(ctx, "")) },
		"Deliveries": func() error { return unlessUnknown(firstError(l.Deliveries(ctx, 1))) },
		"Buyers":     func() error { return check.Err(api.Collect(l.Buyers(ctx))) },
		"Object":     callWith(ctx, l.Object, "ann"),
		"Stats":      func() error { return check.Err(l.Stats(ctx)) },
		"Questions":  func() error { return check.Err(api.Collect(l.Questions(ctx))) },
		"Estimate":   callWith(ctx, l.Estimate, api.EstimateRequest{Question: "vote"}),
		"Events":     func() error { return firstError(l.Events(ctx, 1)) },
		"Responses":  func() error { return firstError(l.Responses(ctx, "vote", eps(t, "0.5"))) },
	}
}

// callWith returns a call of a method with a request.
func callWith[R, V any](ctx context.Context, method func(context.Context, R) (V, error), request R) func() error {
	return func() error { return check.Err(method(ctx, request)) }
}

// isWrite reports whether a call of everyCall changes the ledger.
func isWrite(name string) bool {
	return slices.Contains([]string{"Release", "Raise", "DefineQuestion", "Enroll", "Answer", "Sell", "Reserve", "Commit", "Cancel", "Withdraw", "Forget", "Advance"}, name)
}

// unlessUnknown returns nil for ErrUnknown: the call has read the ledger.
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

// A call that is queued after an uncertain commit is not committed, because that state may not
// exist. This holds while the ledger is closed, too.
func TestCommit_PreviousUncertain_QueuedIsNotCommitted(t *testing.T) {
	for name, closing := range map[string]bool{"open": false, "closing": true} {
		t.Run(name, func(t *testing.T) { queueAfterFailure(t, closing) })
	}
}

func queueAfterFailure(t *testing.T, closing bool) {
	l, s := openShim(t, votersFile(t, "1", "ann", "bob"), Options{})
	commit := newGate(t)
	s.set(commit.pass, uncertain)
	first := async(func() (api.Response, error) { return l.Release(t.Context(), releaseOf(t, "1", "ann", "0.5")) })
	commit.wait(t)
	s.set(nil, nil) // for the commits after it
	// A Release would wait even earlier, until its first snapshot is durable.
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
		t.Errorf("the call after the failed one got the error %v", err)
	}
	await(t, done)
	check.Equal(t, s.commits.Load()-before, 1, "commits, with the one that failed")
}

// If the file is replaced, a release returns ErrReplaced and writes nothing. When the file is put
// back, it succeeds.
func TestRelease_FileReplaced_IsNotWritten(t *testing.T) {
	path := votersFile(t, "1", "ann")
	l := open(t, path, Options{})
	release(t, l, releaseOf(t, "1", "ann", "0.5"))
	rename(t, path, filepath.Join(filepath.Dir(path), "elsewhere.db"))
	wantErr(t, check.Err(l.Release(t.Context(), releaseOf(t, "2", "ann", "0.75"))), api.ErrReplaced)
	rename(t, filepath.Join(filepath.Dir(path), "elsewhere.db"), path)
	release(t, l, releaseOf(t, "2", "ann", "0.75")) // nothing was written, so the ledger has not stopped
	auditStore(t, l.engine.Store)
}

// A reader that has read the state of a commit which then fails returns none of it, not even beside
// an error (invariant 1).
func TestRead_CommitFails_ReturnsNothingWithError(t *testing.T) {
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
