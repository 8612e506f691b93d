//go:build unix

package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/pgtest"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/journal"
)

// faultAt injects a fault into one of the messages that pass a proxy.
type faultAt struct {
	mu    sync.Mutex
	place int // index of the message; -1 only counts messages
	what  pgtest.Action
	seen  int
	last  string
}

func (s *faultAt) rule(m pgtest.Message) pgtest.Action {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen++
	if s.seen-1 != s.place {
		return pgtest.Pass
	}
	s.last = fmt.Sprintf("%c of the server: %v", m.Kind, m.FromServer)
	return s.what
}

// faulty are hosts that connect to the server through a proxy.
type faulty struct {
	*hosts
	proxy *pgtest.Proxy
}

func newFaulty(t *testing.T, s *pgtest.Server, patience time.Duration) *faulty {
	p := pgtest.NewProxy(t, s)
	f := &faulty{newHosts(t, p.Address("journals"), "a", "b"), p}
	f.change = func(o *Options) { o.Timeout = patience }
	return f
}

// newSharedFaulty is newShared with a proxy in front of the server.
func newSharedFaulty(t *testing.T, patience time.Duration) (*pgtest.Server, *faulty, *author) {
	t.Helper()
	s := shared(t)
	s.Database(t, "journals")
	f := newFaulty(t, s, patience)
	return s, f, newAuthor(t, f.hosts, "a")
}

// eachFault calls act with a fault in one of its messages, for each message and each kind of fault,
// and then verify with the error of act. begin prepares the journal.
func eachFault(t *testing.T, s *pgtest.Server, begin func(*author, *faulty), act func(context.Context, *author) error, verify func(*author, *faulty, error)) {
	t.Helper()
	const patience = 400 * time.Millisecond // for an answer that is never sent
	messages := 0
	count := &faultAt{place: -1}
	run := func(t *testing.T, fault *faultAt, stuck bool) {
		f := newFaulty(t, s, 20*time.Second)
		a := newAuthor(t, f.hosts, "a")
		begin(a, f)
		ctx := t.Context()
		if stuck {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, patience)
			defer cancel()
		}
		f.proxy.SetRule(fault.rule)
		err := act(ctx, a)
		f.proxy.SetRule(nil)
		f.proxy.CutAll() // otherwise the server would notice much later that the host has gone
		verify(a, f, err)
	}
	run(t, count, false)
	messages = count.seen
	check.Need(t, messages >= 6, "there are only %d messages", messages)
	faults := int(pgtest.Freeze)
	cases := messages * faults
	stride := max(1, cases/testenv.Tries(5, 16, cases))
	if testenv.Short() {
		stride = max(1, cases/5)
	}
	n := int(time.Now().UnixNano()) // over many runs all are tried
	for place := range messages {
		for what := pgtest.Drop; what <= pgtest.Freeze; what++ {
			if n++; n%stride != 0 {
				continue
			}
			fault := &faultAt{place: place, what: what}
			t.Run(fmt.Sprintf("%d-%d", place, what), func(t *testing.T) {
				run(t, fault, what == pgtest.Drop || what == pgtest.Stuck || what == pgtest.Freeze)
				if t.Failed() {
					t.Logf("message %d, %s", place, fault.last)
				}
			})
		}
	}
}

// With a fault in any message of an append: after nil the journal has the group, after ErrRejected
// it does not have it, and after any other error it has it whole or not at all.
func TestAppend_FaultyNetwork_IsWholeOrAbsent(t *testing.T) {
	s := shared(t)
	s.Database(t, "journals")
	for name, records := range map[string][]string{"small": {"one", "two"}, "large": {"one", strings.Repeat("x", 5<<20)}} {
		t.Run(name, func(t *testing.T) {
			var g journal.Group
			eachFault(t, s, func(a *author, _ *faulty) { a.add("before") },
				func(ctx context.Context, a *author) error {
					g = a.group(records...)
					return a.j.Append(ctx, g)
				},
				func(a *author, f *faulty, err error) {
					landed := a.reopenAfter(f.hosts, "b", g)
					check.That(a, err != nil || landed, "an acknowledged group is lost")
					check.That(a, !isRejected(err) || !landed, "the journal has a rejected group: %v", err)
					var all journal.Position
					a.add("after")
					found, err := read(a, a.j, a.begin())
					check.That(a, err == nil && len(found) >= 2,
						"then the journal has %d groups after %v: %v", len(found), all, err)
				})
		})
	}
}

// begin returns where the journal begins.
func (a *author) begin() journal.Position { return journal.Position{Root: emptyRoot()} }

// With a fault in any message of a claim: it succeeds or fails, another host can claim the journal
// after it, and the journal has lost nothing.
func TestClaim_FaultyNetwork_LosesNothing(t *testing.T) {
	s := shared(t)
	s.Database(t, "journals")
	eachFault(t, s, func(a *author, _ *faulty) { a.add("before") },
		func(ctx context.Context, a *author) error {
			_, end, err := a.j.Claim(ctx)
			if err == nil && end != a.log.End() {
				return fmt.Errorf("it ends with %v: %w", end, errs.ErrCorrupt)
			}
			return err
		},
		func(a *author, f *faulty, err error) {
			check.That(a, !errors.Is(err, errs.ErrCorrupt), "%v", err)
			a.reopen(f.hosts, "b")
			a.add("after")
			found, err := read(a, a.j, a.begin())
			check.That(a, err == nil && len(found) == 2, "%d groups: %v", len(found), err)
		})
}

// With a fault in any message of a trim: the groups after its position are complete, and the next
// trim finishes it.
func TestTrim_FaultyNetwork_LosesNothing(t *testing.T) {
	s := shared(t)
	s.Database(t, "journals")
	for _, name := range []string{"where a segment begins", "within a segment"} {
		t.Run(name, func(t *testing.T) {
			var through journal.Position
			var left []journal.Group
			eachFault(t, s, func(a *author, f *faulty) {
				a.add("old")
				g := a.group("older")
				g.Cut = name == "where a segment begins"
				check.Must(a, a.j.Append(a.Context(), g))
				through = g.Before
				left = []journal.Group{g, a.add("younger"), a.add("youngest")}
				b := f.open(a, "b")
				check.Must(a, b.Folded(a.Context(), a.log.End()))
				check.Must(a, b.Close())
			},
				func(ctx context.Context, a *author) error { return a.j.Trim(ctx, through) },
				func(a *author, f *faulty, err error) {
					check.That(a, err == nil || errors.Is(err, &journal.HeldError{}), "Trim: %v", err)
					a.reopen(f.hosts, "a")
					a.wantGroups(through, left...)
					check.Must(a, a.j.Trim(a.Context(), through))
					a.wantGroups(through, left...)
					a.add("after")
					if n := f.keys["b"].Count(a.j.Name()); n != 2 && n != 3 { // the keys of the rest, and of the new term
						a.Errorf("%d keys are left", n)
					}
					check.WantErr(a, check.Err(read(a, a.j, a.begin())), journal.ErrLost, "what was trimmed")
				})
		})
	}
}

// With a fault in any message of a read: it returns an error, or the groups of the journal.
func TestRead_FaultyNetwork_ReturnsErrorOrAllGroups(t *testing.T) {
	s := shared(t)
	s.Database(t, "journals")
	var all []journal.Group
	eachFault(t, s, func(a *author, _ *faulty) { all = []journal.Group{a.add("one"), a.add("two")} },
		func(ctx context.Context, a *author) error {
			f := a.j.(*Journal)
			n := 0
			var err error
			for _, err = range f.Read(ctx, a.begin()) {
				n++
			}
			check.That(a, err != nil || n == 2, "%d groups are read", n)
			return errors.Join(err, f.Await(ctx, all[0].After), f.Folded(ctx, all[0].After), f.Settle(ctx), f.Dismiss(ctx, "b"))
		},
		func(a *author, f *faulty, err error) {
			check.That(a, !errors.Is(err, journal.ErrLost) && !errors.Is(err, journal.ErrForked),
				"nothing is lost: %v", err)
			a.reopen(f.hosts, "b")
			a.wantGroups(a.begin(), all...)
		})
}

// The network repeats an answer, or a query, which the server then answers again. The next append
// reads the surplus answer, and must not take it for its own: it may have been executed or not.
func TestAppend_RepeatedAnswer_IsNotTakenForItsOwn(t *testing.T) {
	s := shared(t)
	s.Database(t, "journals")
	for name, c := range map[string]struct {
		fromServer bool
		end        byte
	}{"an answer is repeated": {true, 'Z'}, "a query is repeated": {false, 'S'}} {
		t.Run(name, func(t *testing.T) {
			f := newFaulty(t, s, 20*time.Second)
			a := newAuthor(t, f.hosts, "a")
			a.add("warm")
			var repeated, lost atomic.Int32 // the number of the connection on which a message is repeated, and of the one whose queries are lost
			f.proxy.SetRule(func(m pgtest.Message) pgtest.Action {
				switch {
				case repeated.Load() == 0 && m.FromServer == c.fromServer && m.Kind == c.end:
					repeated.Store(int32(m.Connection))
					return pgtest.Again
				case lost.Load() == int32(m.Connection) && !m.FromServer:
					return pgtest.Stuck
				}
				return pgtest.Pass
			})
			a.add("the answer, or the query, passes two times")
			if c.fromServer {
				lost.Store(repeated.Load()) // the next append does not reach the server
			}
			g := a.group("next")
			err := a.j.Append(t.Context(), g) // the server may execute it before or after the term is raised
			if c.fromServer && err == nil || err != nil && (!isRejected(err) || errors.Is(err, journal.ErrOrder)) {
				t.Errorf("an append that reads the answer to another query: %v", err)
			}
			landed := a.reopenAfter(f.hosts, "b", g)
			check.That(t, landed == (err == nil), "the next host finds the append: %v; Append returned %v", landed, err)
		})
	}
}

// An append that arrives after another host has claimed the journal changes nothing.
func TestAppend_ArrivesAfterAnotherClaim_IsFenced(t *testing.T) {
	s, f, a := newSharedFaulty(t, 20*time.Second)
	there := []journal.Group{a.add("before")}
	on := make(chan struct{})
	f.proxy.SetRule(func(m pgtest.Message) pgtest.Action {
		if appending(m) {
			<-on // it is delayed until another host has claimed the journal
		}
		return pgtest.Pass
	})
	late := a.group("late")
	a.log.Undo(1)
	outcome := make(chan error)
	go func() { outcome <- a.j.Append(context.Background(), late) }()
	direct := f.database
	f.database = s.Address("journals")
	b := &author{TB: t, j: f.open(t, "b"), log: a.log.Clone()}
	f.database = direct
	b.claim()
	close(on)
	if err := <-outcome; !errors.Is(err, journal.ErrFenced) || !strings.Contains(err.Error(), "host b") {
		t.Errorf("an append that comes late: %v", err)
	}
	there = append(there, b.add("of the next host"))
	b.wantGroups(a.begin(), there...)
}
