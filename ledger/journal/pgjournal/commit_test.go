//go:build unix

package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
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
	"github.com/sluicedp/sluice/ledger/journal/journaltest"
)

// newAuthor creates a journal on a host, claims it, and returns its author.
func newAuthor(t testing.TB, h *hosts, host string) *author {
	t.Helper()
	a := &author{TB: t}
	a.j = h.create(t, host, a.log.End())
	a.claim()
	return a
}

// reopenAfter opens the journal in a new handle of a host, and claims it. It reports whether the
// journal has the group g, which was appended last with an uncertain outcome.
func (a *author) reopenAfter(h *hosts, host string, g journal.Group) (landed bool) {
	a.Helper()
	a.j = h.open(a, host)
	term, end, err := a.j.Claim(a.Context())
	check.Need(a, err == nil, "Claim: %v", err)
	a.term = term
	if end == g.Before && end != g.After {
		a.log.Undo(len(g.Records))
		return false
	}
	check.Need(a, end == g.After, "the journal ends with %v, neither with %v nor %v", end, g.Before, g.After)
	return true
}

// wantGroups checks that the journal has exactly these groups after a position.
func (a *author) wantGroups(after journal.Position, want ...journal.Group) {
	a.Helper()
	found, err := read(a, a.j, after)
	check.Need(a, err == nil && len(found) == len(want),
		"the journal has %d groups, not %d: %v", len(found), len(want), err)
	for i, g := range want {
		check.Need(a, journaltest.Equal(found[i], g),
			"group %d is from %v to %v, not from %v to %v", i, found[i].Before, found[i].After, g.Before, g.After)
	}
}

// An append that the server refuses changes nothing, and the handle can be used. That is also true
// if the server refuses at the commit, after it has answered the statement.
func TestAppend_ServerRefuses_ChangesNothing(t *testing.T) {
	s, h, a := newShared(t, "a", "b")
	begin := a.log.End()
	there := []journal.Group{a.add("the first")}
	s.Exec(t, "journals", `
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;
		CREATE CONSTRAINT TRIGGER late AFTER INSERT ON sluice.frames DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse();
		CREATE TRIGGER early BEFORE INSERT ON sluice.frames FOR EACH ROW EXECUTE FUNCTION refuse();`)
	for _, trigger := range []string{"early", "late"} {
		s.Exec(t, "journals", `ALTER TABLE sluice.frames DISABLE TRIGGER ALL; ALTER TABLE sluice.frames ENABLE TRIGGER `+trigger)
		for _, records := range [][]string{{"small"}, {"large", strings.Repeat("x", 9<<20)}} {
			g := a.group(records...)
			err := a.j.Append(t.Context(), g)
			check.Need(t, isRejected(err) && strings.Contains(err.Error(), "no") && !errors.Is(err, journal.ErrOrder),
				"%s: %v", trigger, err)
			a.log.Undo(len(records))
			a.wantGroups(begin, there...)
		}
	}
	if term := s.Exec(t, "journals", `SELECT term FROM sluice.heads`)[0]; term != fmt.Sprint(a.term) {
		t.Errorf("the term was raised to %s, although the server has reported that nothing was appended", term)
	}
	s.Exec(t, "journals", `DROP FUNCTION refuse CASCADE`)
	there = append(there, a.add("after the refusals"), a.add("large", strings.Repeat("x", 9<<20)))
	a.wantGroups(begin, there...)
	a.reopen(h, "b")
	a.wantGroups(begin, there...)
}

// A pool that shares sessions, or another program, may change what a commit waits for. Then nothing
// is appended, and the next append uses a new session.
func TestAppend_SessionSettingsChanged_IsRejected(t *testing.T) {
	s := shared(t)
	for _, setting := range []string{"'synchronous_commit', 'off'", "'synchronous_commit', 'local'", "'client_min_messages', 'error'"} {
		h := newHosts(t, s.Database(t, "journals"), "a", "b")
		a := newAuthor(t, h, "a")
		begin := a.log.End()
		s.Exec(t, "journals", `
			CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config(`+setting+`, false); RETURN NULL; END $$;
			CREATE TRIGGER change AFTER INSERT ON sluice.frames FOR EACH ROW EXECUTE FUNCTION change();`)
		first := a.add("changes the session")
		a.wantRejected(a.group("is not appended"), setting, "settings")
		a.wantGroups(begin, first)
		s.Exec(t, "journals", `DROP FUNCTION change CASCADE`)
		a.wantGroups(begin, first, a.add("by another session"))
	}
}

// waiting returns the processes of a server that wait for a standby.
func waiting(s *pgtest.Server) (pids []string, err error) {
	return s.Try("postgres", "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
}

// PostgreSQL reports success with a warning when the wait for standbys is cancelled. Append does
// not return nil for that: it returns when a standby has the group.
func TestAppend_StandbyWaitCancelled_WaitsForTheStandby(t *testing.T) {
	s := pgtest.Start(t)
	standby := s.Standby(t, "one")
	h := newHosts(t, s.Database(t, "journals"), "a", "b")
	a := newAuthor(t, h, "a")
	begin := a.log.End()
	there := []journal.Group{a.add("without a standby")}
	s.SetSynchronous(t, "one")
	there = append(there, a.add("the standby has it"))
	for _, how := range []string{"pg_cancel_backend", "pg_terminate_backend"} {
		s.WaitStreaming(t, "one")
		standby.Stop(t)
		g := a.group("perhaps")
		outcome := make(chan error)
		go func() { outcome <- a.j.Append(t.Context(), g) }()
		pgtest.Until(t, "the append waits for the standby", func() error {
			pids, err := waiting(s)
			if err == nil && len(pids) != 1 {
				err = fmt.Errorf("%v wait", pids)
			}
			return err
		})
		select {
		case err := <-outcome:
			t.Fatalf("%s: it has not waited: %v", how, err)
		default:
		}
		pids := check.Value(waiting(s))(t)
		s.Exec(t, "postgres", "SELECT "+how+"("+pids[0]+")")
		pgtest.Until(t, "the raise of the term waits for the standby", func() error {
			others, err := waiting(s)
			if err == nil && (len(others) != 1 || others[0] == pids[0]) {
				err = fmt.Errorf("%v wait", others)
			}
			return err
		})
		select {
		case err := <-outcome:
			t.Fatalf("%s: no standby has it, and Append returns %v", how, err)
		default:
		}
		standby.Begin(t)
		check.WantErr(t, <-outcome, nil, "%s", how)
		there = append(there, g, a.add("after that"))
		a.wantGroups(begin, there...)
	}
	// A claim that no standby has confirmed fails.
	standby.Stop(t)
	other := h.open(t, "a")
	outcome := make(chan error)
	go func() {
		_, _, err := other.Claim(t.Context())
		outcome <- err
	}()
	pgtest.Until(t, "the claim waits for the standby", func() error {
		pids, err := waiting(s)
		if err == nil && len(pids) == 1 {
			_, err = s.Try("postgres", "SELECT pg_cancel_backend("+pids[0]+")")
			return err
		}
		return errors.Join(err, errors.New("it does not"))
	})
	err := <-outcome
	check.That(t, err != nil, "a claim that no standby has confirmed succeeds")
	check.WantErr(t, other.Append(t.Context(), a.group("without a claim")), journal.ErrFenced, "then it appends")
}

// With Synchronous, an append is rejected while the database waits for no standby.
func TestAppend_SynchronousWithoutStandby_IsRejected(t *testing.T) {
	s := pgtest.Start(t)
	s.Standby(t, "one")
	h := newHosts(t, s.Database(t, "journals"), "a", "b")
	h.change = func(o *Options) { o.Synchronous = true }
	a := newAuthor(t, h, "a")
	a.wantRejected(a.group("no standby"), "no standby is waited for", "synchronous_standby_names")
	s.SetSynchronous(t, "one")
	a.add("a standby has it")
}

// A standby, a read-only server and a server without flushes are refused, by Open and by create.
func TestOpen_UnsuitableServer_IsRefused(t *testing.T) {
	s := pgtest.Start(t)
	standby := s.Standby(t, "one")
	h := newHosts(t, s.Database(t, "journals"), "a", "b")
	a := newAuthor(t, h, "a")
	s.WaitStreaming(t, "one")
	refused := func(what, address string, words ...string) {
		t.Helper()
		o := h.options("b")
		o.Database = address
		_, opened := Open(t.Context(), o, h.ledger)
		o.Schema = "other"
		_, created := createJournal(t.Context(), o, h.ledger, a.log.End())
		for _, err := range []error{opened, created} {
			check.That(t, errors.Is(err, errServer) && strings.Contains(err.Error(), words[0]), "%s: %v", what, err)
		}
	}
	refused("a standby", standby.Address("journals"), "standby")
	refused("read-only", s.Address("journals")+" default_transaction_read_only=on", "read-only")
	s.Exec(t, "postgres", "ALTER SYSTEM SET fsync = off; ")
	s.Exec(t, "postgres", "SELECT pg_reload_conf()")
	pgtest.Until(t, "the server knows", func() error {
		rows, err := s.Try("postgres", "SELECT current_setting('fsync')")
		if err == nil && rows[0] != "off" {
			err = errors.New("it does not")
		}
		return err
	})
	refused("without flushes", s.Address("journals"), "fsync")
}

// Invalid options are refused before a connection is made, without the password in the error.
func TestOpen_InvalidOptions_AreErrOptions(t *testing.T) {
	one, two := newKeys(t, "one"), newKeys(t, "two")
	h := &hosts{database: "host=/nonexistent", keys: map[string]*faultyKeys{"a": one, "b": two}}
	for what, change := range map[string]func(*Options){
		"no host":          func(o *Options) { o.Host = "" },
		"a long host":      func(o *Options) { o.Host = strings.Repeat("x", 101) },
		"a host of bytes":  func(o *Options) { o.Host = "\xff" },
		"a host of zeros":  func(o *Options) { o.Host = "a\x00" },
		"a long schema":    func(o *Options) { o.Schema = strings.Repeat("x", 64) },
		"no keys":          func(o *Options) { o.Keys = nil },
		"no others":        func(o *Options) { o.Others = nil },
		"too many copies":  func(o *Options) { o.Copies = 2 },
		"no copies":        func(o *Options) { o.Copies = -1 },
		"no bases":         func(o *Options) { o.Bases = -1 },
		"a negative time":  func(o *Options) { o.Timeout = -1 },
		"no address":       func(o *Options) { o.Database = "postgres://%zz" },
		"a wrong password": func(o *Options) { o.Database = "host=/x password=hunter2 port=x" },
	} {
		o := h.options("a")
		change(&o)
		_, err := Open(t.Context(), o, h.ledger)
		check.That(t, errors.Is(err, ErrOptions) && !strings.Contains(err.Error(), "hunter2"), "%s: %v", what, err)
	}
	_, err := Open(t.Context(), h.options("a"), h.ledger)
	check.That(t, err != nil && !errors.Is(err, ErrOptions), "where no server is: %v", err)
	s := shared(t)
	h.database = s.Address("postgres")
	check.WantErr(t, check.Err(createJournal(t.Context(), h.options("a"), h.ledger, journal.Position{Events: 1 << 63})), ErrOptions, "after the last number")
}

// Several hosts may create the tables concurrently, in a schema of any name: one succeeds, and the
// others get ErrExist. Tables of a newer version are refused.
func TestCreateJournal_Concurrently_CreatesOneJournal(t *testing.T) {
	s := pgtest.Start(t)
	h := newHosts(t, s.Address("postgres"), "a", "b")
	check.WantErr(t, check.Err(Open(t.Context(), h.options("a"), h.ledger)), fs.ErrNotExist, "without tables")
	schema := `odd "name" of é; --`
	h.change = func(o *Options) { o.Schema = schema }
	var made, there atomic.Int32
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			j, err := createJournal(t.Context(), h.options("a"), h.ledger, journal.Position{})
			switch {
			case err == nil:
				made.Add(1)
				check.Must(t, j.Close())
			case errors.Is(err, fs.ErrExist):
				there.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	check.That(t, made.Load() == 1 && there.Load() == 5,
		"it was made %d times, and was there %d times", made.Load(), there.Load())
	schema = strings.Repeat("s", 63)
	a := newAuthor(t, h, "a") // the schemas know nothing of each other
	a.add("in another schema")
	schema = "made before"
	s.Exec(t, "postgres", `CREATE ROLE host LOGIN; CREATE SCHEMA "made before" AUTHORIZATION host; REVOKE CREATE ON DATABASE postgres FROM PUBLIC`)
	h.database = "host=" + s.Dir + " port=5432 user=host dbname=postgres" // this user may not create schemas
	a = newAuthor(t, h, "a")
	a.add("in a schema that was there")
	s.Exec(t, "postgres", `UPDATE "made before".version SET version = 2`)
	check.WantErr(t, check.Err(Open(t.Context(), h.options("a"), h.ledger)), errs.ErrVersion, "a newer version")
	check.WantErr(t, check.Err(createJournal(t.Context(), h.options("a"), [16]byte{1}, journal.Position{})), errs.ErrVersion, "a newer version")
}

// For creates a journal only if there is none, the file names none, and the ledger is no standby.
func TestFor_NamedJournalOrStandby_CreatesNothing(t *testing.T) {
	s := shared(t)
	h := newHosts(t, s.Database(t, "journals"), "a", "b")
	open := For(h.options("a"))
	w := journal.Wanted{Ledger: h.ledger, Name: "postgres:00112233445566778899aabbccddeeff"}
	check.WantErr(t, check.Err(open(t.Context(), w)), fs.ErrNotExist, "one that is named, and that there is not")
	rows := s.Exec(t, "journals", "SELECT count(*) FROM pg_namespace WHERE nspname = 'sluice'")
	check.That(t, rows[0] == "0", "something was made")
	w.Name, w.Standby = "", true
	check.WantErr(t, check.Err(open(t.Context(), w)), fs.ErrNotExist, "a standby, where there is none")
	w.Standby = false
	first := check.Value(open(t.Context(), w))(t)
	w.Name = first.Name()
	second := check.Value(open(t.Context(), w))(t)
	check.That(t, first.Name() == second.Name(), "%s, then %s", first.Name(), second.Name())
	check.Must(t, errors.Join(first.Close(), second.Close()))
	// A database that was created again has another journal, which is refused.
	j := h.open(t, "a")
	s.Exec(t, "journals", "UPDATE sluice.heads SET journal = gen_random_uuid()")
	_, _, err := j.Claim(t.Context())
	_, got := read(t, j, journal.Position{})
	for _, err := range []error{err, got, j.Folded(t.Context(), journal.Position{}), j.Await(t.Context(), journal.Position{})} {
		check.WantErr(t, err, journal.ErrForked, "another journal in its place")
	}
}

// A restart of the server between appends does not disturb the handle. After a restart during an
// append, Append has the right outcome.
func TestAppend_ServerRestarts_HasTheRightOutcome(t *testing.T) {
	s := pgtest.Start(t)
	h := newHosts(t, s.Database(t, "journals"), "a", "b")
	a := newAuthor(t, h, "a")
	begin := a.log.End()
	there := []journal.Group{a.add("before")}
	s.Stop(t)
	s.Begin(t)
	time.Sleep(1100 * time.Millisecond) // a session that was used within a second is not tested before use
	there = append(there, a.add("after"))
	a.wantGroups(begin, there...)
	for i := range testenv.Tries(2, 6, 30) {
		var g journal.Group
		over, back := make(chan error), make(chan struct{})
		go func() {
			for {
				g = a.group("acknowledged, or not")
				if err := a.j.Append(context.Background(), g); err != nil {
					over <- err
					return
				}
				select {
				case <-back: // the append whose connection broke was resolved
					over <- nil
					return
				default:
					there = append(there, g)
				}
			}
		}()
		time.Sleep(time.Duration(20+7*i) * time.Millisecond)
		if i%2 == 0 {
			s.Crash()
		} else {
			s.Stop(t)
		}
		s.Begin(t)
		close(back)
		err := <-over
		check.That(t, err == nil || isRejected(err), "the server was gone for a moment: %v", err)
		if a.reopenAfter(h, []string{"a", "b"}[i%2], g) {
			there = append(there, g)
		}
		a.wantGroups(begin, there...)
	}
}

// A frame is bound to its place in the journal: a row that is changed, moved, copied from another
// place, or missing, is an error.
func TestRead_ChangedRows_AreErrors(t *testing.T) {
	s, _, a := newShared(t, "a", "b")
	begin := a.log.End()
	a.add("one")
	a.add("two", strings.Repeat("x", 5<<20), "three")
	a.add("two", strings.Repeat("x", 5<<20), "four")
	a.add("five")
	s.Exec(t, "journals", `CREATE TABLE kept AS SELECT * FROM sluice.frames; CREATE TABLE heads AS SELECT * FROM sluice.heads`)
	good := check.Value(read(t, a.j, begin))(t)
	n := int(time.Now().UnixNano()) // over many runs all are tried
	for i, change := range []string{
		`UPDATE sluice.frames SET body = set_byte(body, 40, get_byte(body, 40) # 1) WHERE events = 1 AND frame = 1`,
		`UPDATE sluice.frames SET body = substr(body, 1, 20) WHERE events = 0`,
		`UPDATE sluice.frames SET body = '' WHERE events = 0`,
		`UPDATE sluice.frames f SET body = (SELECT body FROM kept WHERE events = 4 AND frame = 1) WHERE events = 1 AND frame = 1`,
		`UPDATE sluice.frames f SET body = (SELECT body FROM kept WHERE events = 1 AND frame = 1) WHERE events = 1 AND frame = 0`,
		`UPDATE sluice.frames SET term = term + 1 WHERE events = 0`,
		`UPDATE sluice.frames SET segment_number = 7 WHERE events = 0`,
		`UPDATE sluice.frames SET after_events = 2 WHERE events = 0`,
		`UPDATE sluice.frames SET after_events = 0 WHERE events = 0`,
		`UPDATE sluice.frames SET after_events = -5 WHERE events = 0`,
		`UPDATE sluice.frames SET after_root = root WHERE events = 0`,
		`UPDATE sluice.frames SET root = after_root WHERE events = 0`,
		`UPDATE sluice.frames SET root = '' WHERE events = 4`,
		`UPDATE sluice.frames SET frames = 1 WHERE events = 1 AND frame = 0`,
		`UPDATE sluice.frames SET frames = 5 WHERE events = 1`,
		`UPDATE sluice.frames SET frames = 0 WHERE events = 7`,
		`INSERT INTO sluice.frames SELECT ledger, after_events, 0, 0, term, after_root, after_events + 1, root, segment_term, segment_number, body FROM kept WHERE events = 7`,
		`UPDATE sluice.frames SET frame = 7 WHERE events = 1 AND frame = 1`,
		`UPDATE sluice.frames SET events = 100 WHERE events = 0`,
		`DELETE FROM sluice.frames WHERE events = 0`,
		`DELETE FROM sluice.frames WHERE events = 1`,
		`DELETE FROM sluice.frames WHERE events = 1 AND frame = 0`,
		`DELETE FROM sluice.frames WHERE events = 1 AND frame = 1`,
		`DELETE FROM sluice.frames WHERE events = 7`,
		`DELETE FROM sluice.frames`,
		`DELETE FROM sluice.heads`,
		`UPDATE sluice.heads SET begin_events = 1, begin_root = (SELECT root FROM kept WHERE events = 1 AND frame = 0)`,
		`UPDATE sluice.heads SET root = begin_root`,
		`UPDATE sluice.heads SET events = events + 1`,
	} {
		if (n+i)%testenv.Tries(4, 1, 1) != 0 && !strings.Contains(change, "SET term") && !strings.Contains(change, "INSERT") { // only the seal shows these two
			continue
		}
		s.Exec(t, "journals", change)
		found, err := read(t, a.j, begin)
		check.That(t, errors.Is(err, errs.ErrCorrupt) || strings.Contains(change, "segment_number") && err != nil,
			"%s: %d groups, %v", change, len(found), err)
		for i, g := range found {
			check.That(t, journaltest.Equal(g, good[i]), "%s: group %d is another one", change, i)
		}
		s.Exec(t, "journals", `DELETE FROM sluice.frames; INSERT INTO sluice.frames SELECT * FROM kept; DELETE FROM sluice.heads; INSERT INTO sluice.heads SELECT * FROM heads`)
		a.wantGroups(begin, good...)
	}
}

// Groups of similar size have rows of the same length, so that the lengths reveal little of them.
func TestAppend_SimilarGroups_HaveRowsOfOneLength(t *testing.T) {
	s, _, a := newShared(t, "a", "b")
	for n := range 40 {
		a.add(strings.Repeat("x", 5*n))
	}
	rows := s.Exec(t, "journals", `SELECT DISTINCT octet_length(body) FROM sluice.frames`)
	check.That(t, slices.Equal(rows, []string{"284"}), "the lengths are %v", rows)
	rows = s.Exec(t, "journals", `SELECT count(DISTINCT substr(body, 1, 12)) FROM sluice.frames`)
	check.That(t, rows[0] == "40", "%s nonces of 40", rows[0])
}
