//go:build unix

package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/pgtest"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/journal/keyholder"
)

// After a crash of the primary during an append, a standby that commits waited for has everything
// that was acknowledged, and perhaps the last group.
func TestClaim_FailoverToSynchronousStandby_LosesNothing(t *testing.T) {
	t.Parallel() // its servers are its own
	for i := range testenv.Tries(1, 3, 10) {
		s := pgtest.Start(t)
		one, two := s.Standby(t, "one"), s.Standby(t, "two")
		s.SetSynchronous(t, "ANY 1 (one, two)")
		p := pgtest.NewProxy(t, s)
		s.Database(t, "journals")
		h := newHosts(t, p.Address("journals"), "a", "b")
		h.change = func(o *Options) { o.Synchronous = true }
		a := newAuthor(t, h, "a")
		begin := a.log.End()
		s.WaitStreaming(t, "one", "two")
		two.Stop(t) // it lags from now on
		var there []journal.Group
		var last journal.Group
		over := make(chan error)
		go func() {
			for n := 0; ; n++ {
				last = a.group(fmt.Sprint("acknowledged ", n))
				if err := a.j.Append(context.Background(), last); err != nil {
					over <- err
					return
				}
				there = append(there, last)
			}
		}()
		time.Sleep(time.Duration(50+30*i) * time.Millisecond)
		s.Crash()
		err := <-over
		check.That(t, err != nil, "the primary is gone: %v", err)
		one.Promote(t)
		p.RedirectTo(one)
		if a.reopenAfter(h, "b", last) {
			there = append(there, last)
		}
		a.wantGroups(begin, there...)
		check.That(t, len(there) != 0, "nothing was acknowledged")
		a.wantRejected(a.group("without a standby"), "the new primary has no standby")
		third := one.Standby(t, "three")
		one.SetSynchronous(t, "three")
		there = append(there, a.add("with one"))
		one.Crash()
		third.Promote(t)
		p.RedirectTo(third)
		a.reopen(h, "a")
		a.wantGroups(begin, there...)
	}
}

// lagging has hosts whose database has failed over to a standby that lagged. The journal ends with
// the groups there; the groups lost were acknowledged, too.
type lagging struct {
	*hosts
	*author
	begin       journal.Position
	there, lost []journal.Group
	was, is     *pgtest.Server
	proxy       *pgtest.Proxy
}

func newFailedOver(t *testing.T, names ...string) *lagging {
	t.Helper()
	l := &lagging{was: pgtest.Start(t)}
	l.is = l.was.Standby(t, "one")
	l.proxy = pgtest.NewProxy(t, l.was)
	l.was.Database(t, "journals")
	l.hosts = newHosts(t, l.proxy.Address("journals"), names...)
	l.author = newAuthor(t, l.hosts, "a")
	l.begin = l.log.End()
	for n := range 3 {
		l.there = append(l.there, l.add(fmt.Sprint("there ", n)))
	}
	l.was.WaitStreaming(t, "one")
	l.is.Stop(t)
	for n := range 4 {
		l.lost = append(l.lost, l.add(fmt.Sprint("lost ", n), "and with it"))
	}
	l.was.Crash()
	l.is.Begin(t)
	l.is.Promote(t)
	l.proxy.RedirectTo(l.is)
	return l
}

func (l *lagging) end() journal.Position          { return l.there[len(l.there)-1].After }
func (l *lagging) acknowledged() journal.Position { return l.lost[len(l.lost)-1].After }

// term returns the term in the database.
func (l *lagging) term(t *testing.T) string {
	t.Helper()
	return l.is.Exec(t, "journals", "SELECT term FROM sluice.heads")[0]
}

// wantLost claims the journal on a host. The claim must fail with a LostError by the mark of the
// host by, and must not raise the term.
func (l *lagging) wantLost(t *testing.T, host, by string, acknowledged journal.Position) {
	t.Helper()
	before := l.term(t)
	_, _, err := l.open(t, host).Claim(t.Context())
	lost, is := errors.AsType[*LostError](err)
	check.Need(t, is && errors.Is(err, journal.ErrLost) && lost.End == l.end() && lost.Acknowledged == acknowledged && lost.Host == by,
		"Claim by host %s: %v; want a LostError", host, err)
	if text := err.Error(); !strings.Contains(text, fmt.Sprintf("events %d to %d are lost", l.end().Events+1, acknowledged.Events)) {
		t.Errorf("it does not say what is lost: %s", text)
	}
	after := l.term(t)
	check.That(t, after == before, "the term was raised from %s to %s by a failed claim", before, after)
}

// After a failover to a standby that lagged, acknowledged events are lost. The host that had
// claimed the journal appends nothing more, and no host can claim it until AcceptLoss is set to
// exactly this loss.
func TestClaim_FailoverToLaggingStandby_IsLostError(t *testing.T) {
	l := newFailedOver(t, "a", "b", "c")
	err := l.j.Append(t.Context(), l.group("more"))
	check.That(t, err != nil, "the host that had claimed the journal appends")
	check.Must(t, l.j.Close()) // this sends the last mark to the other hosts
	l.wantLost(t, "a", "a", l.acknowledged())
	l.hosts.fail(errors.New("the network is gone"))
	l.keys["b"].Fail(nil)
	l.wantLost(t, "b", "b", l.acknowledged()) // b has never had the journal
	l.hosts.fail(nil)
	reader := l.open(t, "c")
	if found, err := read(t, reader, l.begin); err != nil || len(found) != 3 {
		t.Errorf("%d groups are left: %v", len(found), err)
	}
	for _, at := range []journal.Position{l.acknowledged(), l.lost[1].After} {
		check.WantErr(t, check.Err(read(t, reader, at)), journal.ErrLost, "a base that has more")
	}

	// AcceptLoss must be the position where the journal ends.
	accept := l.lost[0].After
	l.change = func(o *Options) { o.AcceptLoss = &accept }
	l.wantLost(t, "b", "b", l.acknowledged())
	accept = l.end()
	l.keys["c"].Fail(errors.New("c is off")) // so that it keeps its old mark
	b := &author{TB: t, j: l.open(t, "b")}
	for range l.there {
		b.log.Group(0, nil)
	}
	term, end, err := b.j.Claim(t.Context())
	check.Need(t, err == nil && end == l.end() && term >= 2,
		"the loss was accepted: term %d, it ends with %v: %v", term, end, err)
	l.change = nil
	l.log.Undo(int(l.log.End().Events - l.end().Events))
	b.log, b.term = l.log.Clone(), term
	there := append(l.there, b.add("after the loss"), b.add("much", "more", "than", "was", "lost", "with", "that", "failover"))
	b.wantGroups(l.begin, there...)

	// Marks from before the accepted loss do not count any more, on any host. Later marks do.
	l.keys["c"].Fail(nil)
	check.Must(t, b.j.Close())
	b.reopen(l.hosts, "c")
	b.add("by c")

	// The old primary starts again, and the hosts connect to it.
	l.is.Stop(t)
	l.was.Begin(t)
	l.proxy.RedirectTo(l.was)
	for _, host := range []string{"a", "b", "c"} {
		_, _, err := l.open(t, host).Claim(t.Context())
		if lost, is := errors.AsType[*LostError](err); !is || !(errors.Is(err, journal.ErrForked) || errors.Is(err, journal.ErrLost)) || lost.End != l.acknowledged() {
			t.Errorf("Claim by host %s on the old primary: %v", host, err)
		}
	}
}

// AcceptLoss counts only for exactly the end of the journal. Marks of the term that accepted the
// loss, and of later terms, count again.
func TestClaim_MarksAfterAcceptedLoss_CountAgain(t *testing.T) {
	_, h, a := newShared(t, "a", "b")
	end := a.add("there").After
	claim := func() (term uint64, err error) {
		term, _, err = h.open(t, "a").Claim(t.Context())
		return term, err
	}
	wantLost := func(term uint64) { // with a mark one event after the end
		t.Helper()
		check.Must(t, h.keys["b"].Mark(t.Context(), a.j.Name(), keyholder.Mark{Term: term, Position: journal.Position{Events: end.Events + 1}}))
		check.WantErr(t, check.Err(claim()), journal.ErrLost, "acknowledged under term %d", term)
	}
	wantLost(a.term)
	accept := end
	accept.Root[0] ^= 1
	h.change = func(o *Options) { o.AcceptLoss = &accept }
	check.WantErr(t, check.Err(claim()), journal.ErrLost, "a loss after other events was accepted")
	accept = end
	term := check.Value(claim())(t)
	h.change = nil
	wantLost(term)
}

// A host that appends sends its mark to the other hosts about every second. If its machine is lost
// together with the end of the journal, the others still detect nearly the whole loss.
func TestAppend_Marks_ReachTheOtherHosts(t *testing.T) {
	t.Parallel() // it mostly waits
	s := shared(t)
	h := newHosts(t, s.Database(t, "others"), "a", "b", "c")
	a := newAuthor(t, h, "a")
	h.keys["c"].Fail(errors.New("c is off"))
	g := a.add("first")
	knows := func(host string, at journal.Position) func() error {
		return func() error {
			mark, _, err := h.keys[host].Seen(t.Context(), a.j.Name())
			if err == nil && mark != (keyholder.Mark{Term: a.term, Position: at}) {
				err = fmt.Errorf("host %s knows of %v", host, mark)
			}
			return err
		}
	}
	check.Must(t, knows("a", g.After)()) // at once
	pgtest.Until(t, "b knows", knows("b", g.After))
	g = a.add("second")
	check.Must(t, knows("a", g.After)())
	pgtest.Until(t, "b knows more", knows("b", g.After))
	h.keys["c"].Fail(nil)
	g = a.add("third")
	check.Must(t, a.j.Close()) // this sends the last mark to all hosts that can be reached
	for host := range h.keys {
		check.Must(t, knows(host, g.After)())
	}
}

// If the mark of an append cannot be written, the next append is rejected. Otherwise its loss could
// not be detected.
func TestAppend_MarkCannotBeWritten_NextIsRejected(t *testing.T) {
	_, h, a := newShared(t, "a", "b")
	full := errors.New("the disk is full")
	h.keys["a"].FailAt("Mark", full)
	first := a.add("acknowledged")
	a.wantRejected(a.group("not acknowledged"), "without a mark", full)
	h.keys["a"].Fail(nil)
	a.wantGroups(first.Before, first, a.add("acknowledged again"))
}

// A database that was restored from an older backup is refused. That is also so if its groups were
// trimmed after the backup, so that their keys are destroyed.
func TestClaim_RestoredBackup_IsLostError(t *testing.T) {
	s := pgtest.Start(t)
	h := newHosts(t, s.Database(t, "journals"), "a", "b")
	a := newAuthor(t, h, "a")
	begin := a.log.End()
	old := a.add("old")
	backup := s.Backup(t)
	g := a.add("new")
	check.Must(t, a.j.Close())
	backup.Begin(t)
	h.database = backup.Address("journals")
	_, _, err := h.open(t, "b").Claim(t.Context())
	lost, is := errors.AsType[*LostError](err)
	check.That(t, is && lost.End == old.After && lost.Acknowledged == g.After, "a backup that was restored: %v", err)
	h.database = s.Address("journals")
	a.reopen(h, "a")
	check.Must(t, h.open(t, "b").Folded(t.Context(), a.log.End()))
	check.Must(t, a.j.Trim(t.Context(), a.log.End()))
	check.Must(t, a.j.Close())
	h.database = backup.Address("journals")
	h.change = func(o *Options) { o.AcceptLoss = &old.After }
	for _, host := range []string{"a", "b"} {
		j := h.open(t, host)
		if _, _, err := j.Claim(t.Context()); !errors.Is(err, journal.ErrLost) || !errors.Is(err, keyholder.ErrDestroyed) || strings.Contains(err.Error(), "concurrently") {
			t.Errorf("Claim without the destroyed keys: %v", err)
		}
		if _, err := read(t, j, begin); !errors.Is(err, journal.ErrLost) || !errors.Is(err, keyholder.ErrDestroyed) {
			t.Errorf("Read without the destroyed keys: %v", err)
		}
	}
}

// A claim on a restored database gets a higher term than all earlier claims, also than those that
// the restored database does not have.
func TestClaim_RestoredDatabase_GetsAHigherTerm(t *testing.T) {
	s := pgtest.Start(t)
	h := newHosts(t, s.Database(t, "journals"), "a", "b")
	a := newAuthor(t, h, "a")
	backup := s.Backup(t)
	for range 5 {
		a.claim()
	}
	a.add("under a high term")
	end := journal.Position{Root: emptyRoot()}
	h.change = func(o *Options) { o.AcceptLoss = &end }
	backup.Begin(t)
	h.database = backup.Address("journals")
	term := claim(t, h.open(t, "b"), end)
	check.That(t, term > a.term, "term %d after %d", term, a.term)
}

// restored opens the journal with Restore for a file that ends at a position.
func (h *hosts) restored(t testing.TB, host, name string, at journal.Position) (*Journal, error) {
	t.Helper()
	o := h.options(host)
	o.Restore = true
	j, err := For(o)(t.Context(), journal.Wanted{Ledger: h.ledger, Name: name, At: at})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { j.Close() })
	return j.(*Journal), nil
}

// If a file has what the database has lost, Restore creates the journal again after the end of the
// file, under the same name. It does not do so if the file lacks acknowledged events, or if the
// journal has more than the file.
func TestRestore_FileAheadOfTheDatabase_CreatesTheJournalAgain(t *testing.T) {
	l := newFailedOver(t, "a", "b", "c")
	name := l.j.Name()
	check.Must(t, l.j.Close())
	for _, at := range []journal.Position{l.end(), l.lost[1].After, {Events: l.acknowledged().Events}} {
		_, err := l.restored(t, "b", name, at)
		if lost, is := errors.AsType[*LostError](err); at != l.end() && (!is || lost.Acknowledged != l.acknowledged() || lost.End != at) {
			t.Errorf("a file that lacks acknowledged events: %v", err)
		}
		if found, err := read(t, l.open(t, "b"), l.begin); err != nil || len(found) != 3 {
			t.Errorf("then the database has %d groups: %v", len(found), err)
		}
	}
	j := check.Value(l.restored(t, "b", name, l.acknowledged()))(t)
	b := &author{TB: t, j: j, log: l.log.Clone()}
	b.claim()
	check.That(t, b.term > l.author.term && j.Name() == name, "%s, term %d after %d", j.Name(), b.term, l.author.term)
	there := []journal.Group{b.add("after the restore")}
	b.wantGroups(l.acknowledged(), there...)
	check.Must(t, l.open(t, "a").Folded(t.Context(), b.log.End()))
	check.Must(t, b.j.Trim(t.Context(), l.acknowledged()))
	b.wantKeyCounts(l.hosts, 1)
	// For a file that is not ahead, the existing journal is opened.
	j = check.Value(l.restored(t, "c", name, l.acknowledged()))(t)
	b.j = j
	b.claim()
	b.wantGroups(l.acknowledged(), there...)

	// The database is lost completely.
	l.is.Exec(t, "journals", "DROP SCHEMA sluice CASCADE")
	_, err := l.restored(t, "c", name, l.acknowledged())
	check.That(t, err != nil, "a file that lacks acknowledged events is accepted")
	j = check.Value(l.restored(t, "c", name, b.log.End()))(t)
	b.j = j
	b.claim()
	b.add("in a new database")

	// The loss is final, and is accepted.
	l.is.Exec(t, "journals", "DROP SCHEMA sluice CASCADE")
	accepted := l.acknowledged()
	l.change = func(o *Options) { o.AcceptLoss = &accepted }
	j = check.Value(l.restored(t, "a", name, accepted))(t)
	l.change = nil
	claim(t, j, accepted)
	check.Must(t, j.Close())
	claim(t, l.open(t, "b"), accepted) // b has a higher mark
	for _, bad := range []string{"postgres:", "file:00112233445566778899aabbccddeeff", "postgres:0011", "postgres:" + strings.Repeat("x", 32)} {
		check.WantErr(t, check.Err(l.restored(t, "a", bad, accepted)), journal.ErrForked, "%s", bad)
	}
	check.WantErr(t, check.Err(l.restored(t, "a", "postgres:00112233445566778899aabbccddeeff", accepted)), journal.ErrForked, "another journal's name")
	j, err = l.restored(t, "a", "", accepted)
	check.That(t, err == nil && j.Name() == name, "a file that names none: %v", err)
}

// A host that had claimed a journal before it was restored appends nothing to the restored one.
func TestAppend_JournalWasRestored_IsFenced(t *testing.T) {
	s, h, a := newShared(t, "a", "b")
	a.add("acknowledged")
	name, end := a.j.Name(), a.log.End()
	s.Exec(t, "journals", "DROP SCHEMA sluice CASCADE")
	_, err := h.restored(t, "b", name, end) // its file has all events
	check.Must(t, err)
	check.WantErr(t, a.j.Append(t.Context(), a.group("after the restored end")), journal.ErrFenced, "the earlier handle appends")
}

// Await reports a fork on a host that has folded lost events, if as many other events are now in
// their place.
func TestAwait_ForkOfTheSameLength_IsErrForked(t *testing.T) {
	l := newFailedOver(t, "a", "b", "c")
	mine := l.lost[0].After
	check.Must(t, l.j.Close())
	end := l.end()
	l.change = func(o *Options) { o.AcceptLoss = &end }
	b := &author{TB: t, j: l.open(t, "b"), log: l.log.Clone()}
	for b.log.End() != end {
		b.log.Undo(1)
	}
	b.claim()
	g := b.add("other", "events")
	check.Need(t, g.After.Events == mine.Events && g.After != mine, "%v %v", g.After, mine)
	l.change = nil
	check.WantErr(t, l.open(t, "c").Await(t.Context(), mine), journal.ErrForked, "Await")
}
