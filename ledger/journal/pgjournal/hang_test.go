//go:build unix

package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/pgtest"
	"github.com/sluicedp/sluice/ledger/journal"
)

// withAddress returns the same hosts with another address of the database and another timeout.
func (h *hosts) withAddress(database string, timeout time.Duration) *hosts {
	return &hosts{database: database, ledger: h.ledger, keys: h.keys, change: func(o *Options) { o.Timeout = timeout }}
}

// A host that stops between BEGIN and COMMIT holds the head of the journal until the server ends
// its transaction, after Options.Timeout. A claim does not wait for that, and what the host commits
// late is not in the journal.
func TestClaim_LeaderHangsInsideATransaction_EndsItsSession(t *testing.T) {
	s, f, a := newSharedFaulty(t, time.Hour)
	before := a.add("before")

	held, on := make(chan struct{}), make(chan struct{})
	f.proxy.SetRule(func(m pgtest.Message) pgtest.Action {
		if committing(m) {
			f.proxy.SetRule(nil)
			close(held)
			<-on
		}
		return pgtest.Pass
	})
	appended := make(chan error, 1)
	group := a.group("late", large)
	go func() { appended <- a.j.Append(t.Context(), group) }()
	<-held

	b := f.hosts.withAddress(s.Address("journals"), 20*time.Second).open(t, "b")
	term, end, err := b.Claim(t.Context())
	check.That(t, err == nil && end == before.After,
		"Claim: the journal ends with %v, not %v: %v", end, before.After, err)
	close(on) // the COMMIT arrives
	// Host a finds out that its group is not there: after the claim, or before it if its new
	// session was faster than that of b.
	err = <-appended
	if fenced := errors.Is(err, journal.ErrFenced) && strings.Contains(err.Error(), "host b"); !fenced && !errors.Is(err, journal.ErrRejected) {
		t.Errorf("Append: %v, neither ErrFenced by host b nor ErrRejected", err)
	}
	a.log.Undo(2)
	next := &author{TB: t, j: b, log: a.log.Clone(), term: term}
	next.wantGroups(a.begin(), before, next.add("of the other host"))
}

// A claim does not end a session that is executing a statement, or one that is not of a host. It
// waits for them.
func TestClaim_BlockedByAnotherSession_WaitsForIt(t *testing.T) {
	s := shared(t)
	s.Database(t, "journals")
	for name, c := range map[string]struct{ application, busy string }{
		"an operator's session":      {"psql", ""},
		"a host's session, at work":  {"sluice a", "SELECT pg_sleep(600)"},
		"a name that begins alike":   {"sluicedump", ""},
		"a session without any name": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits, mostly
			h := newHosts(t, s.Address("journals"), "a", "b")
			newAuthor(t, h, "a")
			blocker := check.Value(pgx.Connect(t.Context(), s.Address("journals")))(t)
			defer func() { _ = blocker.Close(context.Background()) }()
			lock := fmt.Sprintf("SELECT FROM sluice.heads WHERE ledger = '%x' FOR UPDATE", h.ledger)
			for _, sql := range []string{"SELECT set_config('application_name', '" + c.application + "', false)", "BEGIN", lock} {
				check.Must(t, check.Err(blocker.Exec(t.Context(), sql)))
			}
			ended := make(chan error, 1)
			go func() {
				_, err := blocker.Exec(t.Context(), c.busy)
				ended <- err
			}()
			b := h.withAddress(s.Address("journals"), 3*time.Second).open(t, "b")
			check.WantErr(t, check.Err2(b.Claim(t.Context())), context.DeadlineExceeded, "Claim")
			s.Exec(t, "journals", fmt.Sprintf("SELECT pg_cancel_backend(%d)", blocker.PgConn().PID()))
			if err := <-ended; blocker.IsClosed() || err != nil && !strings.Contains(err.Error(), "user request") {
				t.Errorf("the session was ended: %v", err)
			}
			err := blocker.Ping(t.Context())
			check.That(t, err == nil || !blocker.IsClosed(), "the session was ended: %v", err)
		})
	}
}
