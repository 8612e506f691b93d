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

// A primary dies while somebody appends. With a standby that commits have waited for, everything
// that was told is there, and nothing else but the last group.
func TestAFailoverLosesNothingThatWasTold(t *testing.T) {
	t.Parallel() // its servers are its own
	for i := range testenv.Tries(1, 3, 10) {
		s := pgtest.Start(t)
		one, two := s.Standby(t, "one"), s.Standby(t, "two")
		s.SetSynchronous(t, "ANY 1 (one, two)")
		p := pgtest.NewProxy(t, s)
		s.Database(t, "journals")
		h := newHosts(t, p.Address("journals"), "a", "b")
		h.change = func(o *Options) { o.Synchronous = true }
		a := started(t, h, "a")
		begin := a.log.End()
		s.WaitStreaming(t, "one", "two")
		two.Stop(t) // it lags from now on
		var there []journal.Group
		var last journal.Group
		over := make(chan error)
		go func() {
			for n := 0; ; n++ {
				last = a.group(fmt.Sprint("told ", n))
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
		if a.next(h, "b", last) {
			there = append(there, last)
		}
		a.holds(begin, there...)
		check.That(t, len(there) != 0, "nothing was told")
		a.rejected(a.group("without a standby"), "the new primary has no standby")
		third := one.Standby(t, "three")
		one.SetSynchronous(t, "three")
		there = append(there, a.add("with one"))
		one.Crash()
		third.Promote(t)
		p.RedirectTo(third)
		a.reopen(h, "a")
		a.holds(begin, there...)
	}
}

// lagging are hosts whose database has failed over to a standby that lagged. The journal ends where
// a group ended then; more was told.
type lagging struct {
	*hosts
	*author
	begin       journal.Position
	there, lost []journal.Group
	was, is     *pgtest.Server
	proxy       *pgtest.Proxy
}

func failedOver(t *testing.T, names ...string) *lagging {
	t.Helper()
	l := &lagging{was: pgtest.Start(t)}
	l.is = l.was.Standby(t, "one")
	l.proxy = pgtest.NewProxy(t, l.was)
	l.was.Database(t, "journals")
	l.hosts = newHosts(t, l.proxy.Address("journals"), names...)
	l.author = started(t, l.hosts, "a")
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

func (l *lagging) end() journal.Position  { return l.there[len(l.there)-1].After }
func (l *lagging) told() journal.Position { return l.lost[len(l.lost)-1].After }

// terms returns the term in the database.
func (l *lagging) term(t *testing.T) string {
	t.Helper()
	return l.is.Exec(t, "journals", "SELECT term FROM sluice.heads")[0]
}

// refuses has a host claim a journal that has lost something.
func (l *lagging) refuses(t *testing.T, host, by string, told journal.Position) {
	t.Helper()
	before := l.term(t)
	_, _, err := l.open(t, host).Claim(t.Context())
	lost, is := errors.AsType[*LostError](err)
	check.Need(t, is && errors.Is(err, journal.ErrLost) && lost.End == l.end() && lost.Told == told && lost.Host == by,
		"host %s claims what has lost something: %v", host, err)
	if text := err.Error(); !strings.Contains(text, fmt.Sprintf("events %d to %d are lost", l.end().Events+1, told.Events)) {
		t.Errorf("it does not say what is lost: %s", text)
	}
	after := l.term(t)
	check.That(t, after == before, "the term was %s, and is %s: somebody was fenced for nothing", before, after)
}

// A database that failed over to a standby that lagged has lost what was told. Whoever had claimed
// it appends nothing more; nobody claims it before a person has accepted just this loss.
func TestAStandbyThatLaggedIsNoticed(t *testing.T) {
	l := failedOver(t, "a", "b", "c")
	err := l.j.Append(t.Context(), l.group("more"))
	check.That(t, err != nil, "who had claimed it goes on")
	check.Must(t, l.j.Close()) // which tells the others what was told last
	l.refuses(t, "a", "a", l.told())
	l.hosts.fail(errors.New("the network is gone"))
	l.keys["b"].Fail(nil)
	l.refuses(t, "b", "b", l.told()) // who was never here
	l.hosts.fail(nil)
	reader := l.open(t, "c")
	if found, err := read(t, reader, l.begin); err != nil || len(found) != 3 {
		t.Errorf("what is left: %d groups, %v", len(found), err)
	}
	for _, at := range []journal.Position{l.told(), l.lost[1].After} {
		check.WantErr(t, check.Err(read(t, reader, at)), journal.ErrLost, "a base that has more")
	}

	// A person accepts the loss. It must be this one.
	accept := l.lost[0].After
	l.change = func(o *Options) { o.AcceptLoss = &accept }
	l.refuses(t, "b", "b", l.told())
	accept = l.end()
	l.keys["c"].Fail(errors.New("c is off")) // it will know of the marks of old
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
	b.holds(l.begin, there...)

	// What was told before counts no more, whoever knows of it. What was told since does.
	l.keys["c"].Fail(nil)
	check.Must(t, b.j.Close())
	b.reopen(l.hosts, "c")
	b.add("by c")

	// The old primary comes back, and somebody takes it for the primary.
	l.is.Stop(t)
	l.was.Begin(t)
	l.proxy.RedirectTo(l.was)
	for _, host := range []string{"a", "b", "c"} {
		_, _, err := l.open(t, host).Claim(t.Context())
		if lost, is := errors.AsType[*LostError](err); !is || !(errors.Is(err, journal.ErrForked) || errors.Is(err, journal.ErrLost)) || lost.End != l.told() {
			t.Errorf("host %s claims the old primary: %v", host, err)
		}
	}
}

// A loss is accepted behind just these events. Once it was, what is told from then on counts again:
// also under the term by which it was accepted.
func TestWhatIsToldSinceALossCounts(t *testing.T) {
	_, h, a := sharing(t, "a", "b")
	end := a.add("there").After
	claim := func() (term uint64, err error) {
		term, _, err = h.open(t, "a").Claim(t.Context())
		return term, err
	}
	told := func(term uint64) { // one event more than there is
		t.Helper()
		check.Must(t, h.keys["b"].Mark(t.Context(), a.j.Name(), keyholder.Mark{Term: term, Position: journal.Position{Events: end.Events + 1}}))
		check.WantErr(t, check.Err(claim()), journal.ErrLost, "told under term %d", term)
	}
	told(a.term)
	accept := end
	accept.Root[0] ^= 1
	h.change = func(o *Options) { o.AcceptLoss = &accept }
	check.WantErr(t, check.Err(claim()), journal.ErrLost, "the loss of what is behind other events was accepted")
	accept = end
	term := check.Value(claim())(t)
	h.change = nil
	told(term)
}

// Who appends tells the others about every second: if its machine is lost with what the database
// has lost, they know nearly as much.
func TestOthersAreToldHowFarItWent(t *testing.T) {
	t.Parallel() // it waits, mostly
	s := shared(t)
	h := newHosts(t, s.Database(t, "others"), "a", "b", "c")
	a := started(t, h, "a")
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
	check.Must(t, a.j.Close()) // says it to all that can hear it
	for host := range h.keys {
		check.Must(t, knows(host, g.After)())
	}
}

// A mark that cannot be written keeps the next append from being sent: else somebody would be told
// what nobody could miss.
func TestWhoCannotNoteWhatWasToldTellsNoMore(t *testing.T) {
	_, h, a := sharing(t, "a", "b")
	full := errors.New("the disk is full")
	h.keys["a"].FailAt("Mark", full)
	first := a.add("told")
	a.rejected(a.group("not told"), "without a mark", full)
	h.keys["a"].Fail(nil)
	a.holds(first.Before, first, a.add("told again"))
}

// A database that was restored from an older backup is noticed, also when what it holds was trimmed
// since, whose keys are destroyed.
func TestARestoredBackupIsNoticed(t *testing.T) {
	s := pgtest.Start(t)
	h := newHosts(t, s.Database(t, "journals"), "a", "b")
	a := started(t, h, "a")
	begin := a.log.End()
	old := a.add("old")
	backup := s.Backup(t)
	g := a.add("new")
	check.Must(t, a.j.Close())
	backup.Begin(t)
	h.database = backup.Address("journals")
	_, _, err := h.open(t, "b").Claim(t.Context())
	lost, is := errors.AsType[*LostError](err)
	check.That(t, is && lost.End == old.After && lost.Told == g.After, "a backup that was restored: %v", err)
	h.database = s.Address("journals")
	a.reopen(h, "a")
	check.Must(t, h.open(t, "b").Folded(t.Context(), a.log.End()))
	check.Must(t, a.j.Trim(t.Context(), a.log.End()))
	check.Must(t, a.j.Close())
	h.database = backup.Address("journals")
	h.change = func(o *Options) { o.AcceptLoss = &old.After }
	for _, host := range []string{"a", "b"} {
		j := h.open(t, host)
		if _, _, err := j.Claim(t.Context()); !errors.Is(err, journal.ErrLost) || !errors.Is(err, keyholder.ErrDestroyed) || strings.Contains(err.Error(), "meanwhile") {
			t.Errorf("whose keys are destroyed: %v", err)
		}
		if _, err := read(t, j, begin); !errors.Is(err, journal.ErrLost) || !errors.Is(err, keyholder.ErrDestroyed) {
			t.Errorf("whose keys are destroyed: %v", err)
		}
	}
}

// Two claims after a restored database do not have one term, though the database does not know of
// the first.
func TestNoTermComesTwice(t *testing.T) {
	s := pgtest.Start(t)
	h := newHosts(t, s.Database(t, "journals"), "a", "b")
	a := started(t, h, "a")
	backup := s.Backup(t)
	for range 5 {
		a.claim()
	}
	a.add("under a high term")
	end := journal.Position{Root: emptyRoot()}
	h.change = func(o *Options) { o.AcceptLoss = &end }
	backup.Begin(t)
	h.database = backup.Address("journals")
	term := claimed(t, h.open(t, "b"), end)
	check.That(t, term > a.term, "term %d after %d", term, a.term)
}

// restored opens what Restore makes of a database for a file that ends somewhere.
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

// Where a file has what the database has lost, the journal begins anew behind it, under its name:
// but not without what somebody was told, nor in the place of a journal that has more.
func TestAJournalIsRestoredBehindAFile(t *testing.T) {
	l := failedOver(t, "a", "b", "c")
	name := l.j.Name()
	check.Must(t, l.j.Close())
	for _, at := range []journal.Position{l.end(), l.lost[1].After, {Events: l.told().Events}} {
		_, err := l.restored(t, "b", name, at)
		if lost, is := errors.AsType[*LostError](err); at != l.end() && (!is || lost.Told != l.told() || lost.End != at) {
			t.Errorf("a file that has less than was told: %v", err)
		}
		if found, err := read(t, l.open(t, "b"), l.begin); err != nil || len(found) != 3 {
			t.Errorf("then the database has %d groups: %v", len(found), err)
		}
	}
	j := check.Value(l.restored(t, "b", name, l.told()))(t)
	b := &author{TB: t, j: j, log: l.log.Clone()}
	b.claim()
	check.That(t, b.term > l.author.term && j.Name() == name, "%s, term %d after %d", j.Name(), b.term, l.author.term)
	there := []journal.Group{b.add("goes on")}
	b.holds(l.told(), there...)
	check.Must(t, l.open(t, "a").Folded(t.Context(), b.log.End()))
	check.Must(t, b.j.Trim(t.Context(), l.told()))
	b.haveKeys(l.hosts, 1)
	// A file that is not ahead opens what is there, as ever.
	j = check.Value(l.restored(t, "c", name, l.told()))(t)
	b.j = j
	b.claim()
	b.holds(l.told(), there...)

	// The database is gone altogether.
	l.is.Exec(t, "journals", "DROP SCHEMA sluice CASCADE")
	_, err := l.restored(t, "c", name, l.told())
	check.That(t, err != nil, "a file that has less than was told")
	j = check.Value(l.restored(t, "c", name, b.log.End()))(t)
	b.j = j
	b.claim()
	b.add("in a new database")

	// Less is there, for good, and a person accepts that.
	l.is.Exec(t, "journals", "DROP SCHEMA sluice CASCADE")
	told := l.told()
	l.change = func(o *Options) { o.AcceptLoss = &told }
	j = check.Value(l.restored(t, "a", name, told))(t)
	l.change = nil
	claimed(t, j, told)
	check.Must(t, j.Close())
	claimed(t, l.open(t, "b"), told) // whose mark says more
	for _, bad := range []string{"postgres:", "file:00112233445566778899aabbccddeeff", "postgres:0011", "postgres:" + strings.Repeat("x", 32)} {
		check.WantErr(t, check.Err(l.restored(t, "a", bad, told)), journal.ErrForked, "%s", bad)
	}
	check.WantErr(t, check.Err(l.restored(t, "a", "postgres:00112233445566778899aabbccddeeff", told)), journal.ErrForked, "another journal's name")
	j, err = l.restored(t, "a", "", told)
	check.That(t, err == nil && j.Name() == name, "a file that names none: %v", err)
}

// A host that had the ledger, and has not noticed that the database was lost and the journal made
// anew, writes nothing to that one.
func TestWhoeverHadTheJournalIsFencedByRestore(t *testing.T) {
	s, h, a := sharing(t, "a", "b")
	a.add("told")
	name, end := a.j.Name(), a.log.End()
	s.Exec(t, "journals", "DROP SCHEMA sluice CASCADE")
	_, err := h.restored(t, "b", name, end) // its file has all
	check.Must(t, err)
	check.WantErr(t, a.j.Append(t.Context(), a.group("behind the restored end")), journal.ErrFenced, "whoever had it appends")
}

// A host that holds what was lost notices that as much else has come in its place.
func TestAwaitNoticesAForkOfTheSameLength(t *testing.T) {
	l := failedOver(t, "a", "b", "c")
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
