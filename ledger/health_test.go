package ledger

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/journal/journaltest"
	"github.com/sluicedp/sluice/ledger/observe"
)

// hostOf returns the part that a host has in a ledger that has not stopped.
func hostOf(t testing.TB, l *Ledger) observe.Host {
	t.Helper()
	h := check.Value(l.Health(t.Context()))(t)
	return h.Host
}

func wantHost(t testing.TB, what string, got, want observe.Host) {
	t.Helper()
	check.That(t, got == want, "%s: %+v, want %+v", what, got, want)
}

// held is a handle of a journal from which nothing is read before it is let go.
type held struct {
	journal.Follower
	free chan struct{}
}

func (h held) Await(ctx context.Context, after journal.Position) error {
	select {
	case <-h.free:
		return h.Follower.Await(ctx, after)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Each of two hosts says what it does, which host has the ledger, by which term, and how many events it lacks; also after a takeover.
func TestHealth_TwoHosts_SayLeaderTermAndLag(t *testing.T) {
	c := newCouple(t, "ann", "bea")
	free := make(chan struct{})
	o := c.options("b")
	o.Journal = func(ctx context.Context, w journal.Wanted) (journal.Journal, error) {
		return held{c.journal.OpenOn("b"), free}, nil
	}
	b := open(t, c.file, o)
	wantHost(t, "the leader", hostOf(t, c.a), observe.Host{Role: "leader", Answered: true, Leader: "a", Term: 1})
	wantHost(t, "a standby with all", hostOf(t, b), observe.Host{Role: "standby", Answered: true, Leader: "a", Term: 1})
	before := stats(t, c.a).Events
	release(t, c.a, releaseOf(t, "more", "bea", "1"))
	lacks := stats(t, c.a).Events - before
	wantHost(t, "a standby that lags", hostOf(t, b), observe.Host{Role: "standby", Answered: true, Leader: "a", Term: 1, Lag: lacks})
	wantHost(t, "the leader of a standby that lags", hostOf(t, c.a), observe.Host{Role: "leader", Answered: true, Leader: "a", Term: 1})
	close(free)
	c.catchUp(b)
	wantHost(t, "a standby that has caught up", hostOf(t, b), observe.Host{Role: "standby", Answered: true, Leader: "a", Term: 1})
	next := check.Value(b.TakeOver(t.Context()))(t)
	t.Cleanup(func() { _ = next.Close() })
	wantHost(t, "who has taken over", hostOf(t, next), observe.Host{Role: "leader", Answered: true, Leader: "b", Term: 2})
	if h, err := b.Health(t.Context()); !errors.Is(err, api.ErrClosed) || h != (observe.Health{}) {
		t.Errorf("the standby that was closed: %+v, %v", h, err)
	}
}

// A leader that was taken over from, and commits nothing, learns of it when its health is asked for: it stops, and serves no old state.
func TestHealth_TakenOverFrom_LedgerStopsWithoutACommit(t *testing.T) {
	c := newCouple(t, "ann")
	next := check.Value(c.follows().TakeOver(t.Context()))(t)
	t.Cleanup(func() { _ = next.Close() })
	stats(t, c.a) // it does not know yet
	want := observe.Health{Host: observe.Host{Role: "leader", Fenced: true, Answered: true, Leader: "b", Term: 2}}
	for range 2 {
		h, err := c.a.Health(t.Context())
		check.That(t, errors.Is(err, api.ErrStopped) && errors.Is(err, journal.ErrFenced) && h == want,
			"%+v, %v; want %+v", h, err, want)
	}
	_, err := c.a.Object(t.Context(), "ann")
	check.That(t, errors.Is(err, api.ErrStopped), "it answers from an old state: %v", err)
	release(t, next, releaseOf(t, "goes on", "ann", "2"))
}

// A journal that does not answer holds up Health for a second or so, and nothing else; what it says is not known then, and the ledger goes on.
func TestHealth_JournalHangs_IsNotKnownAndNothingStops(t *testing.T) {
	c := newCouple(t, "ann")
	c.journal.Inject(func(ctx context.Context, call journaltest.Call) error {
		if call.Method != "Head" {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	})
	asked := make(chan observe.Host, 1)
	go func() {
		h, err := c.a.Health(context.Background())
		if err != nil {
			h.Host.Role = ""
		}
		asked <- h.Host
	}()
	release(t, c.a, releaseOf(t, "meanwhile", "ann", "2"))
	select {
	case h := <-asked:
		wantHost(t, "a journal that hangs", h, observe.Host{Role: "leader"})
	case <-time.After(time.Minute):
		t.Fatal("Health waits for the journal")
	}
	c.journal.Inject(func(_ context.Context, call journaltest.Call) error {
		if call.Method == "Head" {
			panic("a journal of somebody's own")
		}
		return nil
	})
	wantHost(t, "a journal that panics", hostOf(t, c.a), observe.Host{Role: "leader"})
	c.journal.Inject(nil)
	wantHost(t, "a journal that answers again", hostOf(t, c.a), observe.Host{Role: "leader", Answered: true, Leader: "a", Term: 1})
}

// Without other hosts there is a leader, no term and no lag, before the first commit and after it; a ledger that is open for reading is a reader.
func TestHealth_JournalBesideTheFile_HasNoOtherHosts(t *testing.T) {
	path := votersFile(t, "900", "ann")
	l := open(t, path, Options{})
	alone := observe.Host{Role: "leader", Answered: true}
	wantHost(t, "before the first commit", hostOf(t, l), alone)
	release(t, l, releaseOf(t, "first", "ann", "1"))
	wantHost(t, "after it", hostOf(t, l), alone)
	must(t, l.Close())
	wantHost(t, "for reading", hostOf(t, open(t, path, Options{ReadOnly: true})), observe.Host{Role: "reader", Answered: true})
}
