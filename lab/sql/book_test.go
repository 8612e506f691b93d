package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"go.etcd.io/bbolt"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/privacy"
)

// place opens the same database each time.
type place func() (database, error)

// TestBook_EachDatabase_KeepsTheRules checks that the ledgers by hand do what the comparison
// claims, on every database that is installed.
func TestBook_EachDatabase_KeepsTheRules(t *testing.T) {
	for name, fresh := range databases(t) {
		t.Run(name, func(t *testing.T) {
			for check, test := range map[string]func(*testing.T, place){
				"single orders":       testOrders,
				"refusals":            testRefusals,
				"bulk":                testBulk,
				"bulk over a cap":     testWhole("2", "3"),
				"bulk over a ceiling": testWhole("5", "2"),
				"interrupted bulk":    testInterrupted,
				"many callers":        testCallers,
				"opened again":        testReopened,
				"events are Sluice's": testEvents,
			} {
				t.Run(check, func(t *testing.T) { test(t, fresh(t)) })
			}
		})
	}
}

// databases returns what makes empty databases. PostgreSQL is left out where it is not installed.
func databases(t *testing.T) map[string]func(*testing.T) place {
	all := map[string]func(*testing.T) place{}
	for _, driver := range []string{"sqlite3", "sqlite"} {
		all[driver] = func(t *testing.T) place {
			path := filepath.Join(t.TempDir(), "sqlite.db")
			return func() (database, error) { return openSQLite(driver, path) }
		}
	}
	s, err := startServer(t.Context(), os.TempDir())
	if err != nil {
		t.Logf("not tested: PostgreSQL: %v", err)
		return all
	}
	t.Cleanup(func() { must(t, s.stop()) })
	made := 0
	all["postgres"] = func(t *testing.T) place {
		made++
		address, err := s.fresh(t.Context(), fmt.Sprint("test", made))
		must(t, err)
		return func() (database, error) { return openPostgres(context.Background(), address) }
	}
	return all
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// opened opens a book; its content is checked at the end.
func opened(t *testing.T, at place) *book {
	t.Helper()
	db, err := at()
	must(t, err)
	t.Cleanup(func() {
		verify(t, db)
		must(t, db.close())
	})
	b, err := openBook(db, valuesAsked)
	must(t, err)
	return b
}

func eps(t *testing.T, text string) privacy.Epsilon {
	t.Helper()
	e, err := privacy.ParseEpsilon(text)
	must(t, err)
	return e
}

func orderOf(t *testing.T, key, object, epsilon string) order {
	t.Helper()
	return order{key: key, object: object, epsilon: eps(t, epsilon), truth: 1}
}

func sold(t *testing.T, b *book, o order) level {
	t.Helper()
	l, err := b.release(o)
	must(t, err)
	return l
}

// wantObject compares what an object has spent, and the ε of its levels, with what is on disk.
func wantObject(t *testing.T, b *book, name, spent string, levels ...string) {
	t.Helper()
	o, err := b.db.read(name)
	must(t, err)
	if o == nil {
		t.Fatalf("%s is not there", name)
	}
	var found []string
	for _, l := range o.levels {
		found = append(found, l.Epsilon.String())
	}
	if o.spent.String() != spent || !slices.Equal(found, levels) {
		t.Errorf("%s spent %s and has levels %v, want %s and %v", name, o.spent, found, spent, levels)
	}
}

func testOrders(t *testing.T, at place) {
	b := opened(t, at)
	must(t, b.enroll("enroll", []string{"ann", "bob"}, eps(t, "5"), eps(t, "3")))
	first := sold(t, b, orderOf(t, "1", "ann", "1"))
	sold(t, b, orderOf(t, "2", "ann", "2"))
	wantObject(t, b, "ann", "2", "1", "2")
	sold(t, b, orderOf(t, "3", "ann", "0.5"))
	sold(t, b, orderOf(t, "4", "ann", "1.5"))
	wantObject(t, b, "ann", "2", "0.5", "1", "1.5", "2") // below the current level nothing is charged

	if l := sold(t, b, orderOf(t, "5", "ann", "1")); l != first {
		t.Errorf("sold %v again as %v", first, l)
	}
	events := b.log.size
	if l := sold(t, b, orderOf(t, "1", "ann", "1")); l != first {
		t.Errorf("the same key gave %v, and then %v", first, l)
	}
	if _, err := b.release(orderOf(t, "1", "ann", "2.5")); !errors.Is(err, errConflict) {
		t.Errorf("the same key for another request gave %v", err)
	}
	if b.log.size != events {
		t.Errorf("a repetition and a conflict left %d events", b.log.size-events)
	}
	wantObject(t, b, "ann", "2", "0.5", "1", "1.5", "2")
	wantObject(t, b, "bob", "0")
}

func testRefusals(t *testing.T, at place) {
	b := opened(t, at)
	must(t, b.enroll("enroll ann", []string{"ann"}, eps(t, "5"), eps(t, "3")))
	must(t, b.enroll("enroll bob", []string{"bob"}, eps(t, "2"), eps(t, "3")))
	events := b.log.size
	for _, one := range []struct {
		order order
		want  error
	}{
		{orderOf(t, "1", "ann", "3.000000001"), errBudget}, // the ceiling
		{orderOf(t, "2", "bob", "2.000000001"), errBudget}, // the cap
		{orderOf(t, "3", "eve", "1"), errUnknown},
	} {
		if _, err := b.release(one.order); !errors.Is(err, one.want) {
			t.Errorf("%s at ε=%s: %v, want %v", one.order.object, one.order.epsilon, err, one.want)
		}
	}
	if err := b.enroll("again", []string{"ann", "new"}, eps(t, "5"), eps(t, "3")); err == nil {
		t.Error("ann was enrolled twice")
	}
	if b.log.size != events {
		t.Errorf("refusals left %d events", b.log.size-events)
	}
	sold(t, b, orderOf(t, "1", "ann", "3")) // a refusal leaves the key free
	sold(t, b, orderOf(t, "2", "bob", "2"))
	if _, err := b.release(orderOf(t, "4", "bob", "2.5")); !errors.Is(err, errBudget) {
		t.Errorf("bob, who has spent all: %v", err)
	}
	wantObject(t, b, "ann", "3", "3")
	wantObject(t, b, "bob", "2", "2")
}

// known reports the same true value for all objects.
func known(names []string) ([]int, error) { return make([]int, len(names)), nil }

func testBulk(t *testing.T, at place) {
	b := opened(t, at)
	names := namesOf(partSize + 10)
	must(t, b.enroll("enroll", names, eps(t, "5"), eps(t, "3")))
	must(t, b.enroll("enroll", names, eps(t, "5"), eps(t, "3")))
	sold(t, b, orderOf(t, "1", names[7], "2"))
	for range 2 {
		if n, err := b.raise("raise", eps(t, "1"), known); err != nil || n != uint64(len(names)-1) {
			t.Errorf("drew for %d of %d (%v)", n, len(names), err)
		}
	}
	wantObject(t, b, names[7], "2", "1", "2")
	wantObject(t, b, names[8], "1", "1")
	// The enrolment and the raise have an event for each object and for each of two parts, and the
	// order has two.
	if want := uint64(len(names) + 2 + 2 + len(names) + 2); b.log.size != want {
		t.Errorf("%d events, want %d", b.log.size, want)
	}
}

// testWhole raises all objects, but the last one, in a part of its own, has a lower cap or ceiling:
// 2.
func testWhole(limit, ceiling string) func(*testing.T, place) {
	return func(t *testing.T, at place) {
		b := opened(t, at)
		names := namesOf(partSize + 10)
		last := names[len(names)-1]
		must(t, b.enroll("enroll", names[:len(names)-1], eps(t, "5"), eps(t, "3")))
		must(t, b.enroll("enroll the last", []string{last}, eps(t, limit), eps(t, ceiling)))
		sold(t, b, orderOf(t, "1", last, "1"))
		events := b.log.size
		if _, err := b.raise("too far", eps(t, "2.000000001"), known); !errors.Is(err, errBudget) {
			t.Errorf("a raise above the budget of one: %v", err)
		}
		if b.log.size != events {
			t.Errorf("a refused raise left %d events", b.log.size-events)
		}
		if n, err := b.raise("raise", eps(t, "2"), known); err != nil || n != uint64(len(names)) {
			t.Errorf("drew for %d of %d (%v)", n, len(names), err)
		}
		wantObject(t, b, last, "2", "1", "2")
	}
}

func testInterrupted(t *testing.T, at place) {
	b := opened(t, at)
	names := namesOf(partSize + 10)
	must(t, b.enroll("enroll", names, eps(t, "5"), eps(t, "3")))
	calls, cut := 0, errors.New("cut off")
	_, err := b.raise("raise", eps(t, "1"), func(names []string) ([]int, error) {
		if calls++; calls == 2 {
			return nil, cut
		}
		return known(names)
	})
	if !errors.Is(err, cut) {
		t.Fatalf("not cut off: %v", err)
	}
	wantObject(t, b, names[0], "1", "1")
	wantObject(t, b, names[partSize], "0")
	before := b.log.size
	if n, err := b.raise("raise", eps(t, "1"), known); err != nil || n != uint64(len(names)) {
		t.Errorf("drew for %d of %d (%v)", n, len(names), err)
	}
	if made := b.log.size - before; made != 10+1 {
		t.Errorf("the rest made %d events", made)
	}
	if _, err := b.raise("raise", eps(t, "2"), known); !errors.Is(err, errConflict) {
		t.Errorf("the same key for another raise gave %v", err)
	}
}

func testCallers(t *testing.T, at place) {
	b := opened(t, at)
	names := namesOf(20)
	must(t, b.enroll("enroll", names, eps(t, "1000"), eps(t, "1000")))
	const callers, each = 32, 10
	var got [callers][each]level
	var group sync.WaitGroup
	for c := range callers {
		group.Go(func() {
			for i := range each { // two callers make the same orders each
				at, err := tenths(1 + (c/2+i)%15)
				if err == nil {
					got[c][i], err = b.releaseGrouped(order{key: fmt.Sprint(c/2, " ", i), object: names[i], epsilon: at})
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	for c := 0; c < callers; c += 2 {
		if got[c] != got[c+1] {
			t.Errorf("the same orders were answered by %v and by %v", got[c], got[c+1])
		}
	}
	for i := range each {
		wantObject(t, b, names[i], "1.5", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9",
			"1", "1.1", "1.2", "1.3", "1.4", "1.5")
	}
	// Enrolments and the events that settle them; a response at each ε; an event that settles each
	// of the distinct orders.
	if want := uint64(len(names) + 1 + 15*each + callers/2*each); b.log.size != want {
		t.Errorf("%d events, want %d", b.log.size, want)
	}
}

func testReopened(t *testing.T, at place) {
	var first level
	for life := range 5 {
		func() {
			db, err := at()
			must(t, err)
			defer func() { must(t, db.close()) }()
			b, err := openBook(db, valuesAsked)
			must(t, err)
			must(t, b.enroll("enroll", []string{"ann", "bob", "cid"}, eps(t, "5"), eps(t, "3")))
			l := sold(t, b, orderOf(t, "1", "ann", "1"))
			if life == 0 {
				first = l
			}
			if l != first {
				t.Errorf("life %d: %v was sold as %v", life, first, l)
			}
			sold(t, b, orderOf(t, fmt.Sprint("life ", life), "bob", fmt.Sprint("0.", life+1)))
		}()
	}
	b := opened(t, at)
	wantObject(t, b, "bob", "0.5", "0.1", "0.2", "0.3", "0.4", "0.5")
	if want := uint64(3 + 1 + 2 + 5*2); b.log.size != want {
		t.Errorf("%d events, want %d", b.log.size, want)
	}
}

// testEvents does the same in Sluice and by hand, and compares the events' kinds and lengths.
func testEvents(t *testing.T, at place) {
	ctx, names := t.Context(), []string{"ann", "bob", "cid"}
	dir := t.TempDir()
	s, err := openSluice(ctx, dir)
	must(t, err)
	b := opened(t, at)
	for _, c := range []contestant{s, byHand{b}} {
		must(t, c.enroll(ctx, names, eps(t, "5"), eps(t, "3")))
		must(t, c.raise(ctx, "raise", eps(t, "1")))
		must(t, c.release(ctx, orderOf(t, "order 1", "bob", "2")))
		must(t, c.release(ctx, orderOf(t, "order 2", "bob", "1.5")))
		must(t, c.release(ctx, orderOf(t, "order 3", "bob", "0.5")))
		must(t, c.release(ctx, orderOf(t, "order 4", "bob", "1")))
	}
	must(t, s.close())
	ours, err := sluiceEvents(filepath.Join(dir, "ledger.db"))
	must(t, err)
	var theirs []shape
	for _, e := range eventsOf(t, b.db) {
		theirs = append(theirs, shape{e.public[1], len(e.public), len(e.hidden)})
	}
	if !slices.Equal(ours, theirs) {
		t.Errorf("events by hand\n%v, of Sluice\n%v", theirs, ours)
	}
}

// shape is what two events of the same sort have in common.
type shape struct {
	kind           byte
	public, hidden int
}

// sluiceEvents reads the events from the first enrolment on out of a ledger's file.
func sluiceEvents(path string) (all []shape, err error) {
	file, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer file.Close()
	err = file.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("events")).ForEach(func(_, record []byte) error {
			_, n := binary.Uvarint(record[1:]) // after the form, the previous event
			rest := record[1+n:]
			length, n := binary.Uvarint(rest)
			public := rest[n : n+int(length)]
			hidden, _ := binary.Uvarint(rest[n+int(length):])
			if kind := public[1]; kind == kindEnrolled || len(all) > 0 {
				all = append(all, shape{kind, len(public), int(hidden)})
			}
			return nil
		})
	})
	return all, err
}

// query returns the rows of a query on either database.
func query(t *testing.T, db database, text string) (rows cursor, done func()) {
	t.Helper()
	switch db := db.(type) {
	case *sqlite:
		rows, err := db.writer.Query(text)
		must(t, err)
		return rows, func() { _ = rows.Close() }
	case *postgres:
		rows, err := db.writer.Query(context.Background(), text)
		must(t, err)
		return rows, rows.Close
	}
	t.Fatalf("a database of type %T", db)
	return nil, nil
}

func eventsOf(t *testing.T, db database) (all []event) {
	t.Helper()
	rows, done := query(t, db, `SELECT number, previous, public, hidden, hashes FROM events ORDER BY number`)
	defer done()
	for rows.Next() {
		var e event
		must(t, rows.Scan(&e.number, &e.previous, &e.public, &e.hidden, &e.hashes))
		all = append(all, e)
	}
	must(t, rows.Err())
	return all
}

// verify checks that everything recorded follows from the rules, and that the log is a Merkle tree.
func verify(t *testing.T, db database) {
	t.Helper()
	for what, text := range map[string]string{
		"spent another ε than the highest": `SELECT count(*) FROM objects o
			WHERE spent <> coalesce((SELECT max(epsilon) FROM levels l WHERE l.question = 1 AND l.object = o.id), 0)`,
		"spent more than allowed": `SELECT count(*) FROM objects o JOIN chains c ON c.question = 1 AND c.object = o.id
			WHERE spent > cap OR spent > ceiling`,
		"tallies are wrong": `SELECT count(*) FROM tallies t
			WHERE recorded <> (SELECT count(*) FROM levels l WHERE l.epsilon = t.epsilon AND l.response = t.response)
			OR current <> (SELECT count(*) FROM levels l WHERE l.epsilon = t.epsilon AND l.response = t.response
				AND NOT EXISTS (SELECT 1 FROM levels h WHERE h.question = 1 AND h.object = l.object AND h.epsilon > l.epsilon))`,
		"responses are in no tally": `SELECT count(*) FROM levels l WHERE NOT EXISTS (
			SELECT 1 FROM tallies t WHERE t.epsilon = l.epsilon AND t.response = l.response)`,
		"values do not exist": fmt.Sprintf(`SELECT count(*) FROM levels WHERE response < 0 OR response >= %d`, valuesAsked),
		"requests are not settled by an event": `SELECT count(*) FROM requests r
			WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.number = r.settled)`,
	} {
		var n int
		rows, done := query(t, db, text)
		if !rows.Next() {
			t.Errorf("%s: no answer (%v)", what, rows.Err())
		} else if must(t, rows.Scan(&n)); n != 0 {
			t.Errorf("%s: %d", what, n)
		}
		done()
	}
	verifyLog(t, db, eventsOf(t, db))
}

// verifyLog compares the tree with another implementation, and follows the links between events of
// one object.
func verifyLog(t *testing.T, db database, events []event) {
	t.Helper()
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		var found []tlog.Hash
		for _, i := range indexes {
			found = append(found, stored[i])
		}
		return found, nil
	})
	for i, e := range events {
		commitment := sha256.Sum256(e.hidden)
		want, err := tlog.StoredHashes(int64(i), append(slices.Clone(e.public), commitment[:]...), reader)
		must(t, err)
		var got []byte
		for _, h := range want {
			got = append(got, h[:]...)
		}
		if e.number != uint64(i+1) || string(got) != string(e.hashes) {
			t.Fatalf("event %d is at position %d, or completes other hashes than it states", e.number, i+1)
		}
		stored = append(stored, want...)
	}
	rows, done := query(t, db, `SELECT latest, events, settled, settles FROM objects`)
	defer done()
	for rows.Next() {
		var latest, about, settled, settles uint64
		must(t, rows.Scan(&latest, &about, &settled, &settles))
		if a, b := linked(events, latest), linked(events, settled); a != about || b != settles {
			t.Errorf("an object has %d and %d events, and %d and %d are linked", about, settles, a, b)
		}
	}
	must(t, rows.Err())
}

// linked counts the events that are linked, beginning at one of them.
func linked(events []event, from uint64) (n uint64) {
	for ; from != 0; from = events[from-1].previous {
		n++
	}
	return n
}
