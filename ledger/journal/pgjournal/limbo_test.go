//go:build unix

package pgjournal

import (
	"errors"
	"fmt"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/pgtest"
	"github.com/sluicedp/sluice/ledger/journal"
)

// limbo is a journal of six groups that host a writes to and host b has folded.
type limbo struct {
	*author
	server *pgtest.Server
	proxy  *pgtest.Proxy
	hosts  *hosts
	groups []journal.Group
}

func newLimbo(t *testing.T) *limbo {
	l := &limbo{server: pgtest.Start(t)}
	l.proxy = pgtest.NewProxy(t, l.server)
	l.server.Database(t, "journals")
	l.hosts = newHosts(t, l.proxy.Address("journals"), "a", "b")
	l.author = started(t, l.hosts, "a")
	for n := range 6 {
		l.groups = append(l.groups, l.add(fmt.Sprint("group ", n)))
	}
	check.Must(t, l.hosts.open(t, "b").Folded(t.Context(), l.log.End()))
	return l
}

// lose trims while no standby confirms: the connection breaks while the cut is committed, and the
// server does not hear that nobody waits any more. So the cut is under way, and cannot be seen.
func (l *limbo) lose(through journal.Position) {
	l.Helper()
	l.server.SetSynchronous(l, "nobody")
	begun, broken := false, make(chan struct{})
	l.proxy.SetRule(func(m pgtest.Message) pgtest.Action {
		if !begun && committing(m) {
			begun = true
			go func() {
				defer close(broken)
				l.waitFor("SyncRep", 1)
				l.proxy.CutAll()
			}()
		}
		return withoutCancel(m)
	})
	err := l.j.Trim(l.Context(), through)
	<-broken
	held, is := errors.AsType[*journal.HeldError](err)
	check.Need(l, is && held.Through != through, "Trim: %v", err)
}

// waitFor waits until so many sessions of the server wait for something.
func (l *limbo) waitFor(what string, n int) {
	pgtest.Until(l, what, func() error {
		rows, err := l.server.Try("postgres", "SELECT count(*)::text FROM pg_stat_activity WHERE wait_event_type = '"+what+"' OR wait_event = '"+what+"'")
		if err == nil && rows[0] != fmt.Sprint(n) {
			err = fmt.Errorf("%s wait", rows[0])
		}
		return err
	})
}

// trimBeside trims while a cut is under way, which ends meanwhile.
func (l *limbo) trimBeside(through journal.Position) error {
	done := make(chan error, 1)
	go func() { done <- l.j.Trim(l.Context(), through) }()
	l.waitFor("Lock", 1)
	l.server.SetSynchronous(l, "")
	return <-done
}

// A trim that comes while an earlier cut is under way destroys the key of what that one has
// encrypted anew.
func TestTrimBehindALostCutDestroysItsKey(t *testing.T) {
	l := newLimbo(t)
	l.lose(l.groups[1].After)
	check.Must(t, l.trimBeside(l.groups[3].After))
	l.haveKeys(l.hosts, 1)
	l.holds(l.groups[3].After, l.groups[4:]...)
}

// A trim that has nothing to cut leaves the key of what a cut under way has encrypted anew.
func TestTrimBesideALostCutKeepsItsKey(t *testing.T) {
	l := newLimbo(t)
	off := errors.New("it is off")
	l.hosts.keys["b"].FailAt("Keep", off)
	l.held(l.groups[0].After, "it is off") // cut, and the key is left
	l.hosts.keys["b"].Inject(nil)
	l.lose(l.groups[2].After)
	check.Must(t, l.trimBeside(l.groups[0].After))
	found, err := read(t, l.hosts.open(t, "b"), l.groups[2].After)
	check.That(t, err == nil && len(found) == 3, "%d groups are read: %v", len(found), err)
}

// A cut under way that ends behind what is to be trimmed is that of nobody else.
func TestTrimBeforeALostCutIsNotFenced(t *testing.T) {
	l := newLimbo(t)
	l.lose(l.groups[3].After)
	check.Must(t, l.trimBeside(l.groups[1].After))
}
