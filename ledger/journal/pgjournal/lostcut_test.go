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

// lostCut has a journal of six groups that host a writes to and host b has folded. A cut of this
// journal can be left in progress in the database.
type lostCut struct {
	*author
	server *pgtest.Server
	proxy  *pgtest.Proxy
	hosts  *hosts
	groups []journal.Group
}

func newLostCut(t *testing.T) *lostCut {
	l := &lostCut{server: pgtest.Start(t)}
	l.proxy = pgtest.NewProxy(t, l.server)
	l.server.Database(t, "journals")
	l.hosts = newHosts(t, l.proxy.Address("journals"), "a", "b")
	l.author = newAuthor(t, l.hosts, "a")
	for n := range 6 {
		l.groups = append(l.groups, l.add(fmt.Sprint("group ", n)))
	}
	check.Must(t, l.hosts.open(t, "b").Folded(t.Context(), l.log.End()))
	return l
}

// loseCut trims while no standby confirms. The connection breaks during the commit of the cut, and
// the server does not notice that. So the cut stays in progress, and is not visible yet.
func (l *lostCut) loseCut(through journal.Position) {
	l.Helper()
	l.server.SetSynchronous(l, "none")
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

// waitFor waits until n sessions of the server wait for an event, or a type of event.
func (l *lostCut) waitFor(what string, n int) {
	pgtest.Until(l, what, func() error {
		rows, err := l.server.Try("postgres", "SELECT count(*)::text FROM pg_stat_activity WHERE wait_event_type = '"+what+"' OR wait_event = '"+what+"'")
		if err == nil && rows[0] != fmt.Sprint(n) {
			err = fmt.Errorf("%s wait", rows[0])
		}
		return err
	})
}

// trimConcurrently trims while a lost cut is in progress. The cut ends during the trim.
func (l *lostCut) trimConcurrently(through journal.Position) error {
	done := make(chan error, 1)
	go func() { done <- l.j.Trim(l.Context(), through) }()
	l.waitFor("Lock", 1)
	l.server.SetSynchronous(l, "")
	return <-done
}

// A trim beyond a cut that is still in progress destroys the key under which that cut encrypts the
// rest of its segment.
func TestTrim_BeyondALostCut_DestroysItsKey(t *testing.T) {
	l := newLostCut(t)
	l.loseCut(l.groups[1].After)
	check.Must(t, l.trimConcurrently(l.groups[3].After))
	l.wantKeyCounts(l.hosts, 1)
	l.wantGroups(l.groups[3].After, l.groups[4:]...)
}

// A trim up to an earlier position keeps the key under which a cut in progress encrypts the rest of
// its segment.
func TestTrim_EarlierThanALostCut_KeepsItsKey(t *testing.T) {
	l := newLostCut(t)
	off := errors.New("it is off")
	l.hosts.keys["b"].FailAt("Keep", off)
	l.wantHeld(l.groups[0].After, "it is off") // the journal is cut, but the key is not destroyed
	l.hosts.keys["b"].Inject(nil)
	l.loseCut(l.groups[2].After)
	check.Must(t, l.trimConcurrently(l.groups[0].After))
	found, err := read(t, l.hosts.open(t, "b"), l.groups[2].After)
	check.That(t, err == nil && len(found) == 3, "%d groups are read: %v", len(found), err)
}

// A trim up to a position before that of a lost cut is not taken for a fenced one: no other host
// has cut the journal.
func TestTrim_EarlierThanALostCut_IsNotFenced(t *testing.T) {
	l := newLostCut(t)
	l.loseCut(l.groups[3].After)
	check.Must(t, l.trimConcurrently(l.groups[1].After))
}
