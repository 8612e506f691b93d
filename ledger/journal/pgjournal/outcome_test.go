//go:build unix

package pgjournal

import (
	"bytes"
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
	"github.com/sluicedp/sluice/ledger/journal"
)

// raising reports whether a message is a statement by which a host raises the term of its claim.
func raising(m pgtest.Message) bool {
	return m.Kind == 'B' && strings.Contains(m.SQL, "SET term = $5 + 1")
}

// committing reports whether a message is the COMMIT of a host's transaction.
func committing(m pgtest.Message) bool {
	return !m.FromServer && m.Kind == 'Q' && strings.Contains(string(m.Bytes), "COMMIT") || m.Kind == 'B' && strings.Contains(m.SQL, "COMMIT")
}

// large is a record that does not fit into one frame, so that its group is appended by a
// transaction of several statements.
var large = strings.Repeat("x", 5<<20)

// The outcome of an append whose connection breaks is resolved: the group is in the journal and
// Append returns nil, or it never will be and Append returns ErrRejected. The handle can be used in
// both cases.
func TestAppend_ConnectionBreaksAtCommit_OutcomeIsFound(t *testing.T) {
	s := shared(t)
	s.Database(t, "journals")
	for name, c := range map[string]struct {
		records []string
		at      func(pgtest.Message) bool // of the message at which the connection breaks
		landed  bool
		raises  int // number of raises of the term that are executed, and whose answers are lost
	}{
		"one statement, not executed":              {[]string{"small"}, appending, false, 0},
		"one statement, executed":                  {[]string{"small"}, appending, true, 0},
		"a transaction, not committed":             {[]string{"one", large}, committing, false, 0},
		"a transaction, committed":                 {[]string{"one", large}, committing, true, 0},
		"not executed, and three raises are lost":  {[]string{"small"}, appending, false, 3},
		"committed, and three raises are lost too": {[]string{"one", large}, committing, true, 3},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFaulty(t, s, 20*time.Second)
			a := newAuthor(t, f.hosts, "a")
			all := []journal.Group{a.add("before")}
			g := a.group(c.records...)
			cut := breaking(c.at, c.landed, c.raises)
			f.proxy.SetRule(cut.rule)
			err := a.j.Append(t.Context(), g)
			f.proxy.SetRule(nil)
			n := cut.lost.Load()
			check.Need(t, n == int32(1+c.raises), "%d answers were lost, not %d", n, 1+c.raises)
			switch {
			case c.landed && err == nil:
				all = append(all, g)
			case !c.landed && isRejected(err) && !errors.Is(err, journal.ErrFenced):
				a.log.Undo(len(c.records))
			default:
				t.Fatalf("Append: %v", err)
			}
			all = append(all, a.add("after"), a.add("one more", large))
			a.wantGroups(a.begin(), all...)
			a.reopen(f.hosts, "b")
			a.wantGroups(a.begin(), all...)
		})
	}
}

// breaks breaks connections at an append, and at the first raises of the term after it.
type breaks struct {
	at     func(pgtest.Message) bool
	landed bool
	raises int
	lost   atomic.Int32

	mu   sync.Mutex
	over map[int]bool // connections whose next answer is lost
}

func breaking(at func(pgtest.Message) bool, landed bool, raises int) *breaks {
	return &breaks{at: at, landed: landed, raises: raises, over: map[int]bool{}}
}

func (b *breaks) rule(m pgtest.Message) pgtest.Action {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := int(b.lost.Load()) + len(b.over)
	switch {
	case m.FromServer && b.over[m.Connection]:
		delete(b.over, m.Connection)
		b.lost.Add(1)
		return pgtest.Cut
	case n == 0 && b.at(m) && !b.landed:
		b.lost.Add(1)
		return pgtest.Cut
	case n == 0 && b.at(m) || n > 0 && n <= b.raises && raising(m):
		b.over[m.Connection] = true
	}
	return pgtest.Pass
}

// An append that arrives after its outcome was resolved as rejected changes nothing.
func TestAppend_ArrivesAfterItsOutcomeWasResolved_ChangesNothing(t *testing.T) {
	s := shared(t)
	s.Database(t, "journals")
	for name, c := range map[string]struct {
		records []string
		at      func(pgtest.Message) bool
	}{"one statement": {[]string{"late"}, appending}, "a commit": {[]string{"late", large}, committing}} {
		t.Run(name, func(t *testing.T) {
			f := newFaulty(t, s, 2*time.Second) // the server ends an idle transaction after this time, too
			a := newAuthor(t, f.hosts, "a")
			all := []journal.Group{a.add("before")}
			on := make(chan struct{})
			var held atomic.Int32 // the connection
			var answered atomic.Bool
			f.proxy.SetRule(func(m pgtest.Message) pgtest.Action {
				switch {
				case m.FromServer && int32(m.Connection) == held.Load() && (m.Kind == 'Z' || m.Kind == 'E'):
					answered.Store(true)
				case c.at(m) && held.CompareAndSwap(0, int32(m.Connection)):
					<-on
				}
				return pgtest.Pass
			})
			err := a.j.Append(t.Context(), a.group(c.records...))
			check.Need(t, isRejected(err) && errors.Is(err, context.DeadlineExceeded) && held.Load() != 0,
				"Append: %v", err)
			a.log.Undo(len(c.records))
			close(on)
			until(t, "the server answers the late message", answered.Load)
			all = append(all, a.add("after the late message"))
			a.wantGroups(a.begin(), all...)
		})
	}
}

// A group whose connection breaks while it waits for a standby of the database is acknowledged only
// when the standby has it.
func TestAppend_ConnectionBreaksBeforeTheStandbyConfirms_WaitsForIt(t *testing.T) {
	s := pgtest.Start(t)
	standby := s.Standby(t, "one")
	s.SetSynchronous(t, "one")
	s.Database(t, "journals")
	f := newFaulty(t, s, 60*time.Second)
	a := newAuthor(t, f.hosts, "a")
	all := []journal.Group{a.add("before")}
	s.WaitStreaming(t, "one")
	standby.Stop(t)
	g := a.group("waits")
	outcome := make(chan error, 1)
	go func() { outcome <- a.j.Append(t.Context(), g) }()
	waits := func(what string, n int) {
		pgtest.Until(t, what, func() error {
			rows, err := s.Try("postgres", "SELECT count(*) FILTER (WHERE wait_event = 'SyncRep') + 10 * count(*) FILTER (WHERE wait_event_type = 'Lock') FROM pg_stat_activity")
			if err == nil && rows[0] != fmt.Sprint(n) {
				err = errors.New(rows[0])
			}
			return err
		})
	}
	waits("the append waits for the standby", 1)
	f.proxy.SetRule(withoutCancel)
	f.proxy.CutAll()
	waits("the append waits for the standby, and the raise of the term for the append", 11)
	select {
	case err := <-outcome:
		t.Fatalf("Append has not waited: %v", err)
	default:
	}
	standby.Begin(t)
	check.Must(t, <-outcome)
	all = append(all, g, a.add("after"))
	a.wantGroups(a.begin(), all...)
}

// With Synchronous, a group is not acknowledged while the database waits for no standby, even if
// the journal has it: the disk of that database may be the only one that has it.
func TestAppend_NoStandbyAfterItBroke_IsNotAcknowledged(t *testing.T) {
	s := pgtest.Start(t)
	s.Standby(t, "one")
	s.SetSynchronous(t, "one")
	s.Database(t, "journals")
	f := newFaulty(t, s, 60*time.Second)
	f.change = func(o *Options) { o.Synchronous = true }
	a := newAuthor(t, f.hosts, "a")
	a.add("before")
	cut := breaking(appending, true, 0)
	var raises atomic.Int32
	f.proxy.SetRule(func(m pgtest.Message) pgtest.Action {
		if raising(m) {
			switch raises.Add(1) {
			case 1:
				s.SetSynchronous(t, "")
			case 4:
				s.SetSynchronous(t, "one")
			}
		}
		return cut.rule(m)
	})
	check.Must(t, a.j.Append(t.Context(), a.group("perhaps")))
	n := raises.Load()
	check.That(t, n >= 4, "acknowledged after %d raises of the term, while the database waited for no standby", n)
}

// withoutCancel drops requests that cancel a statement: pgx sends one when a connection breaks.
func withoutCancel(m pgtest.Message) pgtest.Action {
	if m.Kind == 0 && bytes.Contains(m.Bytes, []byte{0x04, 0xd2, 0x16, 0x2e}) {
		return pgtest.Cut
	}
	return pgtest.Pass
}

// When the database does not answer at all, the append is uncertain after twice the timeout at
// most, and the handle stops.
func TestAppend_DatabaseDoesNotAnswer_StopsAfterTwiceTheTimeout(t *testing.T) {
	const timeout = time.Second
	_, f, a := newSharedFaulty(t, timeout)
	a.add("before")
	f.proxy.SetRule(func(pgtest.Message) pgtest.Action { return pgtest.Freeze })
	began := time.Now()
	g := a.group("is not answered")
	err := a.j.Append(t.Context(), g)
	check.That(t, isUncertain(err), "Append: %v", err)
	took := time.Since(began)
	check.That(t, took >= 2*timeout && took <= 2*timeout+20*time.Second, "it took %v", took)
	check.WantErr(t, a.j.Append(t.Context(), g), journal.ErrStopped, "then")
	f.proxy.SetRule(nil)
	f.proxy.CutAll()
	check.That(t, !a.reopenAfter(f.hosts, "b", g), "it has landed")
}

// If another host claims the journal before the outcome of an append is resolved, the term is not
// raised. The append is ErrFenced if the journal does not have the group, and uncertain if it has.
func TestAppend_AnotherHostClaimsBeforeTheOutcomeIsFound_IsFenced(t *testing.T) {
	s := shared(t)
	s.Database(t, "journals")
	for name, landed := range map[string]bool{"not there": false, "there": true} {
		t.Run(name, func(t *testing.T) {
			f := newFaulty(t, s, 20*time.Second)
			a := newAuthor(t, f.hosts, "a")
			all := []journal.Group{a.add("before")}
			g := a.group("perhaps")
			cut := breaking(appending, landed, 0)
			var b *Journal
			var claim sync.Once
			f.proxy.SetRule(func(m pgtest.Message) pgtest.Action {
				if raising(m) {
					claim.Do(func() {
						direct := newHosts(t, s.Address("journals"))
						direct.ledger, direct.keys = f.ledger, f.keys
						b = direct.open(t, "b")
						_, _, err := b.Claim(t.Context())
						check.Must(t, err)
					})
				}
				return cut.rule(m)
			})
			err := a.j.Append(t.Context(), g)
			f.proxy.SetRule(nil)
			check.That(t, errors.Is(err, journal.ErrFenced) != landed && isUncertain(err) == landed &&
				strings.Contains(err.Error(), "host b"), "Append: %v", err)
			if landed {
				all = append(all, g)
			} else {
				a.log.Undo(1)
			}
			next := &author{TB: t, j: b, log: a.log.Clone(), term: 2}
			all = append(all, next.add("of the other host"))
			next.wantGroups(a.begin(), all...)
		})
	}
}

// If the outcome of an append is resolved during a trim, the trim returns a HeldError, and the next
// trim succeeds.
func TestTrim_DuringWhichAnOutcomeIsResolved_IsHeld(t *testing.T) {
	_, f, a := newSharedFaulty(t, 20*time.Second)
	old := a.add("old")
	a.add("young")
	b := f.open(t, "b")
	check.Must(t, b.Folded(t.Context(), a.log.End()))
	begun := false
	f.keys["b"].Inject(func(c keyCall) error {
		if c.method == "Keep" && !begun {
			begun = true
			breakAppend(f.proxy, true)
			return a.j.Append(context.Background(), a.group("its connection breaks"))
		}
		return nil
	})
	err := a.j.Trim(t.Context(), old.After)
	check.That(t, errors.Is(err, &journal.HeldError{}) && begun, "Trim: %v", err)
	check.Must(t, a.j.Trim(t.Context(), old.After))
	a.add("after")
	if found, err := read(t, a.j, old.After); err != nil || len(found) != 3 {
		t.Errorf("%d groups are left: %v", len(found), err)
	}
}
