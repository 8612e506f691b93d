//go:build unix

package hosts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/pace"
	"github.com/sluicedp/sluice/internal/pgtest"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/journal/keyholder"
	"github.com/sluicedp/sluice/ledger/journal/pgjournal"
	"github.com/sluicedp/sluice/privacy"
)

func enrollAll(t testing.TB, l *ledger.Ledger, names []string) {
	t.Helper()
	must(t, l.DefineQuestion(t.Context(), "define vote", api.Question{Name: "vote", Values: []string{"yes", "no", "blank"}}))
	_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: "enrol", Question: "vote", Objects: names, Cap: epsilon(t, "900")})
	must(t, err)
}

// directoryOfKeys is an empty directory of keys.
func directoryOfKeys(t testing.TB) keyholder.Holder {
	t.Helper()
	d, err := keyholder.OpenDirectory(filepath.Join(pace.Scratch(t), "keys"))
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	return d
}

func epsilon(t testing.TB, text string) privacy.Epsilon {
	t.Helper()
	e, err := privacy.ParseEpsilon(text)
	must(t, err)
	return e
}

// free returns an address where nobody listens.
func free(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

// hostPair are two hosts of one ledger, each with a directory of its own. The first has it open. There may be a third.
type hostPair struct {
	a, b, c *host
}

func newHostPair(t *testing.T, s *pgtest.Server, database string) *hostPair {
	t.Helper()
	return newHosts(t, s.Address(database), "a", "b")
}

// newHosts starts hosts that are named so, whose database has an address.
func newHosts(t *testing.T, database string, names ...string) *hostPair {
	t.Helper()
	authority := pgtest.NewAuthority(t)
	dir := pace.Scratch(t)
	at := map[string]string{}
	for _, name := range names {
		at[name] = free(t)
	}
	settings := map[string]setting{}
	for name := range at {
		x := setting{Dir: filepath.Join(dir, name), Name: name, Database: database, Listen: at[name], Peers: map[string]string{}, Timeout: 20 * time.Second}
		for other, where := range at {
			if other != name {
				x.Peers[other] = "https://" + where
			}
		}
		must(t, os.Mkdir(x.Dir, 0o700))
		authority.Files(x.Dir, name)
		settings[name] = x
	}
	newFile(t, settings["a"].file())
	p := &hostPair{a: start(t, settings["a"]), b: start(t, settings["b"])}
	p.a.do(command{Do: "open"})
	copyFile(t, settings["a"].file(), settings["b"].file()) // which names its journal now
	if c, is := settings["c"]; is {
		p.c = start(t, c)
		copyFile(t, settings["a"].file(), c.file())
	}
	return p
}

// follows has a host follow another one, until it has all there is.
func follows(t testing.TB, h, leader *host) {
	t.Helper()
	h.do(command{Do: "follow"})
	have := leader.do(command{Do: "events"}).Event
	await(t, h.Name+" has all", func() bool { return h.do(command{Do: "events"}).Event >= have })
}

// follow has b follow a, until it has all there is.
func (p *hostPair) follow(t testing.TB) {
	t.Helper()
	follows(t, p.b, p.a)
}

// With three hosts, the one that has the ledger is killed and comes back as a standby with its own file, whatever the others forget and trim
// before. What it lacks is destroyed when it has it.
func TestLeader_KilledOfThree_ComesBackAsStandby(t *testing.T) {
	s := pgtest.Start(t)
	s.Database(t, "journals")
	for range pace.Tries(1, 3, 30) {
		p := newHosts(t, s.Address("journals"), "a", "b", "c")
		follows(t, p.b, p.a)
		follows(t, p.c, p.a)
		var all toldByKey
		end := all.load(p.a, 0)
		time.Sleep(time.Duration(rand.IntN(1500)) * time.Millisecond)
		p.a.kill()
		end()
		p.b.do(command{Do: "take over"})
		forget := command{Do: "forget", Key: "forget", Object: "person 39", Limit: 3 * time.Second} // c has all within two
		p.b.do(release(1, "700"))
		if held := p.b.fails(forget, "held"); !strings.Contains(held.Text, "host a had the journal") {
			t.Errorf("it does not say that it waits for a: %s", held.Text)
		}
		p.a = start(t, p.a.setting)
		follows(t, p.a, p.b)
		forget.Limit = 0
		p.b.do(forget)
		for c := range all.all {
			if c.Object == "person 39" {
				delete(all.all, c)
			}
		}
		p.a.do(command{Do: "take over"})
		all.check(p.a)
		for _, h := range []*host{p.a, p.c} {
			h.do(command{Do: "verify"})
		}
		for _, h := range []*host{p.a, p.b, p.c} {
			h.kill()
		}
	}
}

// Both hosts say which one has the ledger. The one that was taken over from, and commits nothing, stops when it is asked for its health,
// and comes back as a standby.
func TestHealth_TakenOverFrom_StopsWithoutACommit(t *testing.T) {
	s := pgtest.Start(t)
	s.Database(t, "journals")
	p := newHostPair(t, s, "journals")
	p.follow(t)
	for _, h := range []*host{p.a, p.b} {
		if now := h.do(command{Do: "health"}); now.Value != "a" || now.Event != 0 {
			t.Errorf("host %s: %+v", h.Name, now)
		}
	}
	p.b.do(command{Do: "take over"})
	p.a.do(command{Do: "events"}) // it does not know yet
	if fenced := p.a.fails(command{Do: "health"}, "fenced"); !strings.Contains(fenced.Text, "host b") || !strings.Contains(fenced.Kind, "stopped") {
		t.Errorf("%+v", fenced)
	}
	p.a.fails(command{Do: "events"}, "stopped")
	p.a.do(command{Do: "close"})
	follows(t, p.a, p.b)
	if now := p.a.do(command{Do: "health"}); now.Value != "b" {
		t.Errorf("as a standby: %+v", now)
	}
}

// A database's connections are cut at any message of a commit while several clients write: nothing that was told is lost or told twice, and the
// ledger goes on.
func TestHost_ConnectionsBreakAtCommits_LedgerGoesOn(t *testing.T) {
	s := pgtest.Start(t)
	proxy := pgtest.NewProxy(t, s)
	s.Database(t, "journals")
	p := newHosts(t, proxy.Address("journals"), "a", "b")
	p.follow(t)
	var all toldByKey
	for n := range pace.Tries(6, 20, 200) {
		var left atomic.Int32
		left.Store(int32(1 + n%5))
		broke := make(chan struct{})
		proxy.Rule(func(m pgtest.Message) pgtest.Action {
			if m.SQL != "" && !strings.Contains(m.SQL, "UPDATE") && left.Load() > 0 {
				return pgtest.Pass
			}
			switch left.Add(-1) {
			case 0:
				close(broke)
				return []pgtest.Action{pgtest.Cut, pgtest.After, pgtest.Half}[n%3]
			}
			return pgtest.Pass
		})
		end := all.load(p.a, (1+5*n)*hostPeople)
		<-broke
		proxy.Rule(nil)
		for _, failed := range end() {
			if strings.Contains(failed.Kind, "stopped") {
				t.Fatalf("the ledger has stopped: %+v", failed)
			}
		}
		all.note(release(n, "899"), p.a.do(release(n, "899")))
	}
	all.check(p.a)
	p.b.do(command{Do: "take over"})
	all.check(p.b)
	p.b.do(command{Do: "verify"})
}

// A host is stopped in the midst of its work, and its standby takes over. When it is woken it appends nothing, says so, and nothing that
// either told is lost, or told twice.
func TestAHostIsStoppedTakenOverFromAndWoken(t *testing.T) {
	s := pgtest.Start(t)
	s.Database(t, "journals")
	for range pace.Tries(1, 4, 30) {
		p := newHostPair(t, s, "journals")
		p.follow(t)
		var all toldByKey
		end := all.load(p.a, 0)
		time.Sleep(time.Duration(50+rand.IntN(100)) * time.Millisecond)
		must(t, p.a.cmd.Process.Signal(syscall.SIGSTOP))
		began := time.Now()
		p.b.do(command{Do: "take over"})
		t.Logf("taken over after %v; %d calls were told by then", time.Since(began), len(all.all))
		endB := all.load(p.b, 10*hostPeople)
		time.Sleep(50 * time.Millisecond)
		must(t, p.a.cmd.Process.Signal(syscall.SIGCONT))
		woken := p.a.fails(release(0, "899"), "stopped")
		end()
		if !strings.Contains(woken.Text, "host b") {
			t.Errorf("it does not say by whom it was taken over from: %s", woken.Text)
		}
		if failed := endB(); len(failed) > 0 {
			t.Errorf("who has taken over: %+v", failed)
		}
		all.check(p.b)
		p.b.do(command{Do: "verify"})
		p.a.kill()
		p.b.kill()
	}
}

// A standby takes over under load: nothing that was told is lost or told twice, and it takes at most three seconds, as the median of twenty. Each takes over
// from the other, and whoever was taken over from follows then.
func TestTakeoversUnderLoad(t *testing.T) {
	s := pgtest.Start(t)
	s.Standby(t, "one")
	s.Waits(t, "one")
	s.Database(t, "journals")
	p := newHostPair(t, s, "journals")
	p.follow(t)
	var all toldByKey
	var took []time.Duration
	for n := range pace.Tries(3, 20, 100) {
		end := all.load(p.a, n*5*hostPeople)
		time.Sleep(time.Duration(100+rand.IntN(100)) * time.Millisecond)
		began := time.Now()
		p.b.do(command{Do: "take over"})
		took = append(took, time.Since(began))
		end()
		p.a.fails(release(0, "899"), "stopped")
		p.a.do(command{Do: "close"})
		p.a, p.b = p.b, p.a
		p.follow(t)
		if n%5 == 2 {
			all.check(p.a)
		}
	}
	all.check(p.a)
	p.a.do(command{Do: "verify"})
	p.b.do(command{Do: "verify"})
	slices.Sort(took)
	median := took[len(took)/2]
	t.Logf("%d calls told; taken over after %v, as the median of %d, at most %v", len(all.all), median, len(took), took[len(took)-1])
	if len(took) >= 20 && median > 3*time.Second {
		t.Errorf("a takeover takes %v", median)
	}
}

// The disk of the host that leads is destroyed at any instant: while it answers, while it forgets, while it has the journal trimmed. Its standby
// goes on with everything that was told.
func TestTheDiskOfAHostIsDestroyed(t *testing.T) {
	t.Parallel() // it waits, mostly
	s := pgtest.Start(t)
	s.Database(t, "journals")
	for range pace.Tries(3, 12, 200) {
		p := newHostPair(t, s, "journals")
		p.follow(t)
		var all toldByKey
		end := all.load(p.a, 0)
		time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
		forgotten := p.a.ask(command{Do: "forget", Key: "forget", Object: "person 39"}) // has the journal trimmed, as soon as b has a base
		time.Sleep(time.Duration(rand.IntN(1800)) * time.Millisecond)
		p.a.kill()
		must(t, os.RemoveAll(p.a.Dir))
		end()
		outcome := <-forgotten
		p.b.do(command{Do: "take over"})
		for c := range all.all {
			if c.Object == "person 39" {
				delete(all.all, c) // who is forgotten, or may be
			}
		}
		all.check(p.b)
		p.b.do(command{Do: "verify"})
		rows := s.Exec(t, "journals", "SELECT begin_events, erased_events FROM sluice.heads ORDER BY claimed DESC LIMIT 1")
		t.Logf("%d calls told; forgetting was %q; the journal begins behind event %s", len(all.all), outcome.Kind, rows[0])
		p.b.kill()
	}
}

func await(t testing.TB, what string, is func() bool) {
	t.Helper()
	pgtest.Until(t, what, func() error {
		if !is() {
			return fmt.Errorf("not yet")
		}
		return nil
	})
}

// found returns the files below directories that have bytes.
func found(t testing.TB, b string, dirs ...string) (files []string) {
	t.Helper()
	for _, dir := range dirs {
		must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return nil // it is gone
			}
			text, err := os.ReadFile(path)
			if err == nil && strings.Contains(string(text), b) {
				files = append(files, path)
			}
			return nil
		}))
	}
	return files
}

// Forget waits until a standby has a base that has forgotten as well, and says how far the journal is destroyed. When it returns, no key of what
// was journaled before is left on either host; and neither the database nor its standby ever held a name in clear.
func TestForgetWaitsForAnotherBase(t *testing.T) {
	s := pgtest.Start(t)
	standby := s.Standby(t, "one")
	s.Waits(t, "one")
	s.Database(t, "journals")
	p := newHostPair(t, s, "journals")
	const name = "person 7"
	p.a.do(release(7, "1"))
	p.a.do(release(8, "1"))
	s.Exec(t, "journals", "CREATE TABLE clear (name text); INSERT INTO clear VALUES ('control of the search')")
	held := p.a.fails(command{Do: "forget", Key: "forget", Object: name, Limit: 300 * time.Millisecond}, "held")
	for _, words := range []string{"0 other hosts have a base", "up to event"} {
		if !strings.Contains(held.Text, words) {
			t.Errorf("it does not say %q: %s", words, held.Text)
		}
	}
	keys := p.keys(t)
	if len(keys) == 0 {
		t.Fatal("there are no keys")
	}
	forgotten := p.a.ask(command{Do: "forget", Key: "forget", Object: name})
	p.a.do(release(9, "1")) // work goes on meanwhile
	select {
	case s := <-forgotten:
		t.Fatalf("it has not waited: %+v", s)
	default:
	}
	p.follow(t)
	if s := <-forgotten; s.Kind != "" {
		t.Fatalf("forget: %+v", s)
	}
	s.Streaming(t, "one")
	s.Exec(t, "postgres", "CHECKPOINT")
	s.Streaming(t, "one") // a standby writes only up to a checkpoint that it knows of
	standby.Exec(t, "postgres", "CHECKPOINT")
	for _, dir := range []string{s.Data, standby.Data} {
		for _, part := range []string{"base", "pg_wal"} {
			if len(found(t, "control of the search", filepath.Join(dir, part))) == 0 {
				t.Fatalf("what is in clear is not found in %s of %s", part, dir)
			}
		}
	}
	if files := found(t, "person ", s.Data, standby.Data); len(files) > 0 {
		t.Errorf("names lie in clear in %v", files)
	}
	for file, key := range keys {
		if files := found(t, key, s.Data, standby.Data, p.a.Dir, p.b.Dir); len(files) > 0 {
			t.Errorf("the key that was in %s is left in %v", file, files)
		}
	}
	// What came after it has a key, and is there.
	p.a.kill()
	must(t, os.RemoveAll(p.a.Dir))
	p.b.do(command{Do: "take over"})
	p.b.do(release(9, "1"))
	p.b.do(command{Do: "verify"})
}

// A file has what its database has lost. It is refused, until somebody has the journal made anew behind it: then nothing that was told is lost.
func TestAFileThatIsAheadOfItsDatabase(t *testing.T) {
	s := pgtest.Start(t)
	s.Database(t, "journals")
	path := filepath.Join(pace.Scratch(t), "panel.db")
	newFile(t, path)
	o := pgjournal.Options{
		Database: s.Address("journals"), Host: "a", Keys: directoryOfKeys(t), Others: []keyholder.Holder{directoryOfKeys(t)},
	}
	open := func(restore bool) (*ledger.Ledger, error) {
		o.Restore = restore
		return ledger.Open(t.Context(), path, ledger.Options{Journal: pgjournal.For(o)})
	}
	l, err := open(false)
	must(t, err)
	var all []api.Response
	call := func(n int) api.Response {
		response, err := l.Release(t.Context(), api.ReleaseRequest{
			Key: fmt.Sprint("call ", n), Question: "vote", Object: fmt.Sprint("person ", n), Epsilon: epsilon(t, "1"),
			Truth: func(_ context.Context, _ string, objects []string) ([]string, error) {
				return slices.Repeat([]string{"yes"}, len(objects)), nil
			},
		})
		must(t, err)
		return response
	}
	all = append(all, call(0), call(1))
	backup := s.Backup(t)
	all = append(all, call(2), call(3))
	must(t, l.Close()) // all is in the file
	s.Stop(t)
	backup.Begin(t)
	o.Database = backup.Address("journals")
	if _, err := open(false); !errors.Is(err, api.ErrJournal) && !errors.Is(err, journal.ErrLost) {
		t.Errorf("a database that has less: %v", err)
	}
	l, err = open(true)
	must(t, err)
	all = append(all, call(4))
	must(t, l.Close())
	l, err = open(false)
	must(t, err)
	for n, was := range all {
		if again := call(n); again != was {
			t.Errorf("%v was told, and now %v", was, again)
		}
	}
	_, err = l.Verify(t.Context(), api.VerifyRequest{Report: func(p api.Finding) { t.Errorf("found %+v", p) }})
	must(t, err)
	must(t, l.Close())
}

// keys returns the bytes of all keys of both hosts, by file.
func (p *hostPair) keys(t testing.TB) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, h := range []*host{p.a, p.b} {
		files, err := filepath.Glob(filepath.Join(h.Dir, "keys", "*", "*.key"))
		must(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			must(t, err)
			all[file] = string(text[len(text)-36 : len(text)-4])
		}
	}
	return all
}

// A host hangs, as when its machine swaps: it answers no call, and its connections stay. Of three hosts another one takes over within two
// seconds, and writes; the one that hung appends nothing when it goes on.
func TestTakeOver_LeaderOfThreeHangs_TakesTwoSecondsAtMost(t *testing.T) {
	s := pgtest.Start(t)
	s.Database(t, "journals")
	var took []time.Duration
	for n := range pace.Tries(2, 5, 30) {
		p := newHosts(t, s.Address("journals"), "a", "b", "c")
		follows(t, p.b, p.a)
		follows(t, p.c, p.a)
		var all toldByKey
		end := all.load(p.a, 0)
		time.Sleep(time.Duration(50+rand.IntN(1500)) * time.Millisecond)
		must(t, p.a.cmd.Process.Signal(syscall.SIGSTOP))
		began := time.Now()
		p.b.do(command{Do: "take over"})
		took = append(took, time.Since(began))
		c := release(n, "898")
		all.note(c, p.b.do(c))
		must(t, p.a.cmd.Process.Signal(syscall.SIGCONT))
		p.a.fails(release(0, "899"), "stopped")
		end()
		all.check(p.b)
		for _, h := range []*host{p.a, p.b, p.c} {
			h.kill()
		}
	}
	slices.Sort(took)
	t.Logf("taken over after %v", took)
	if fastest := took[0]; fastest > 2*time.Second { // of several: the machine may do something else
		t.Errorf("a takeover takes %v at least", fastest)
	}
}
