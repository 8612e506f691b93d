//go:build unix

package pgjournal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/pgtest"
	"github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/journal/keyholder"
)

// cut appends a group that begins a segment.
func (a *author) cut(records ...string) journal.Group {
	a.Helper()
	g := a.group(records...)
	g.Cut = true
	err := a.j.Append(a.Context(), g)
	check.Need(a, err == nil, "Append: %v", err)
	g.Cut = false
	return g
}

// held trims to a position, which is held back. It returns how far all is destroyed.
func (a *author) held(wanted journal.Position, words ...string) journal.Position {
	a.Helper()
	err := a.j.Trim(a.Context(), wanted)
	held, is := errors.AsType[*journal.HeldError](err)
	check.Need(a, is && held.Wanted == wanted, "Trim(%v): %v", wanted, err)
	for _, word := range words {
		check.That(a, strings.Contains(err.Error(), word), "it does not say %q: %v", word, err)
	}
	return held.Through
}

// Trim goes as far as every host that follows has folded, and says for whom it waits. One that is
// gone for good is dismissed.
func TestTrimWaitsForWhoFollows(t *testing.T) {
	s := shared(t)
	h := newHosts(t, s.Database(t, "journals"), "a", "b", "c")
	h.change = func(o *Options) { o.Bases = 2 }
	a := started(t, h, "a")
	begin := a.log.End()
	var groups []journal.Group
	for n := range 4 { // a segment has two groups
		groups = append(groups, a.cut(fmt.Sprint("first ", n)), a.add(fmt.Sprint("second ", n)))
	}
	at := func(n int) journal.Position { return groups[n-1].After } // behind so many groups
	nothing := func(through journal.Position) {
		t.Helper()
		check.That(t, through == begin, "up to %v all is destroyed", through)
		a.haveKeys(h, 4)
		a.holds(begin, groups...)
	}
	nothing(a.held(at(8), "0 other hosts", "of 2"))
	own, b, c := a.j.(*Journal), h.open(t, "b"), h.open(t, "c")
	check.Must(t, own.Folded(t.Context(), at(8))) // its own base is no other's
	nothing(a.held(at(8), "0 other hosts"))
	check.Must(t, b.Folded(t.Context(), at(8)))
	nothing(a.held(at(8), "1 other hosts"))
	check.Must(t, c.Folded(t.Context(), at(1)))
	nothing(a.held(at(8), "host c", "up to event 1 only", "ago"))
	check.Must(t, c.Folded(t.Context(), at(5))) // the first two segments, and a half of the third
	if through := a.held(at(8), "host c", "up to event 5 only"); through != at(4) {
		t.Errorf("up to %v all is destroyed, not %v", through, at(4))
	}
	a.haveKeys(h, 2)
	a.holds(at(4), groups[4:]...)
	check.Must(t, b.Folded(t.Context(), at(6))) // b has gone back to an older disk
	a.held(at(8), "host b has folded up to event 6 only", "host c")
	for _, bad := range []journal.Position{at(3), {Events: at(6).Events}} { // with which it has nothing to go on with
		check.WantErr(t, b.Folded(t.Context(), bad), errs.ErrCorrupt, "b has folded up to %v", bad)
		a.held(at(8), "1 other hosts", "host c")
		check.Must(t, b.Folded(t.Context(), at(8)))
	}
	check.Must(t, c.Folded(t.Context(), at(7))) // all but the last event
	if through := a.held(at(8), "host c has folded up to event 7 only"); through != at(6) {
		t.Errorf("up to %v all is destroyed, not %v", through, at(6))
	}
	check.Must(t, own.Dismiss(t.Context(), "c"))
	a.held(at(8), "1 other hosts")
	a.haveKeys(h, 1)
	h.change = nil
	a.reopen(h, "a")
	check.Must(t, a.j.Trim(t.Context(), at(8)))
	a.haveKeys(h, 0)
	a.holds(at(8))
	// Who claims is no other host any more. Who had the journal holds back what it lacks, and
	// counts for no other base, until it is dismissed.
	check.Must(t, a.j.Close())
	a.j = b
	a.claim()
	last := a.add("of b")
	a.held(last.After, "0 other hosts", "host a had the journal, and has up to event 8 only")
	check.Must(t, c.Folded(t.Context(), last.After))
	a.held(last.After, "host a had the journal")
	check.Must(t, b.Dismiss(t.Context(), "a"))
	a.held(last.After, "1 other hosts", "of 2")
	check.Must(t, h.open(t, "a").Folded(t.Context(), last.After)) // it follows again
	check.Must(t, a.j.Trim(t.Context(), last.After))
}

// Trim is done when all holders have destroyed the keys. If it is cut short, the next one ends it,
// whoever makes it; and what nobody can use any more is destroyed as well.
func TestKeysAreDestroyedEverywhereOrTrimIsHeld(t *testing.T) {
	_, h, a := sharing(t, "a", "b", "c")
	begin := a.log.End()
	a.add("old")
	young := a.cut("young")
	check.Must(t, h.open(t, "b").Folded(t.Context(), a.log.End()))
	off := errors.New("it is off")
	for _, name := range []string{"a", "b", "c"} {
		h.keys[name].FailAt("Keep", off)
		through := a.held(young.Before, "keys may be left with "+name, "it is off")
		check.That(t, through == begin, "while %s has keys, up to %v all is destroyed", name, through)
		if n := h.keys[name].Count(a.j.Name()); name == "a" && n != 2 { // the others have destroyed theirs then
			t.Errorf("host %s has %d keys", name, n)
		}
		a.holds(young.Before, young)
		h.keys[name].Inject(nil)
	}
	check.Must(t, a.j.Close())
	a.reopen(h, "c")
	check.Must(t, h.open(t, "b").Folded(t.Context(), a.log.End()))
	check.Must(t, h.open(t, "a").Folded(t.Context(), a.log.End())) // which had the journal
	check.Must(t, a.j.Trim(t.Context(), young.Before))
	a.haveKeys(h, 1)
	a.holds(young.Before, young, a.add("goes on"))
	reject := func() { // what would have begun a segment: its key waits to be used
		h.fail(off, "a", "b")
		g := a.group("rejected")
		g.Cut = true
		a.rejected(g, "no holder can be reached", off)
		h.fail(nil, "a", "b")
	}
	// A key that nothing was encrypted under is destroyed as well.
	reject()
	a.claim()
	check.Must(t, h.open(t, "b").Folded(t.Context(), a.log.End()))
	check.Must(t, h.open(t, "a").Folded(t.Context(), a.log.End()))
	check.Must(t, a.j.Trim(t.Context(), a.log.End()))
	a.haveKeys(h, 0)
	// One that waits to be used is not, by a Trim of what was before.
	old := a.add("under another")
	check.Must(t, h.open(t, "b").Folded(t.Context(), old.After))
	check.Must(t, h.open(t, "a").Folded(t.Context(), old.After))
	reject()
	check.Must(t, a.j.Trim(t.Context(), old.After))
	a.holds(old.After, a.add("under the one that waited"))
}

// Groups that are appended while others are trimmed stay, with their keys, wherever it is trimmed
// to.
func TestTrimBesideAppends(t *testing.T) {
	_, h, a := sharing(t, "a", "b")
	b := h.open(t, "b")
	var all sync.WaitGroup
	at := make(chan journal.Position, 1000)
	rounds := testenv.Tries(60, 400, 4000)
	all.Go(func() {
		defer close(at)
		for n := range rounds {
			g := a.group(fmt.Sprint("group ", n))
			g.Cut = n%7 == 0
			if err := a.j.Append(context.Background(), g); err != nil {
				t.Error(err)
				return
			}
			at <- g.After
		}
	})
	n := 0
	var last journal.Position
	for p := range at {
		if n++; n%5 != 0 {
			continue
		}
		check.Must(t, b.Folded(t.Context(), p))
		check.Must(t, a.j.Trim(t.Context(), p))
		last = p
		for g, err := range b.Read(t.Context(), p) {
			check.Must(t, err)
			p = g.After
		}
	}
	all.Wait()
	left, err := read(t, a.j, last)
	check.That(t, err == nil && len(left) == int(a.log.End().Events-last.Events),
		"%d groups are left behind %v: %v", len(left), last, err)
	n = h.keys["b"].Count(a.j.Name())
	check.That(t, n <= 3, "%d keys are left", n)
}

// A group whose segment nobody knows of, in a database that somebody has mended by hand, keeps Trim
// from destroying keys.
func TestNoKeyIsDestroyedThatAGroupNeeds(t *testing.T) {
	s, h, a := sharing(t, "a", "b")
	a.add("old")
	young := a.cut("young")
	check.Must(t, h.open(t, "b").Folded(t.Context(), a.log.End()))
	s.Exec(t, "journals", "UPDATE sluice.segments SET number = 9 WHERE events = 1")
	check.WantErr(t, a.j.Trim(t.Context(), young.Before), errs.ErrCorrupt, "Trim")
	a.holds(young.Before, young)
}

// found returns the files below directories that have bytes.
func found(t testing.TB, b []byte, dirs ...string) (files []string) {
	t.Helper()
	for _, dir := range dirs {
		check.Must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				err = nil // a temporary file
			}
			if bytes.Contains(text, b) {
				files = append(files, path)
			}
			return err
		}))
	}
	return files
}

// Tables, the database's log and the standby's files never hold a record in clear; what they keep
// of it after Trim has no key any more.
func TestNothingIsLeftBehindTheHorizon(t *testing.T) {
	s := pgtest.Start(t)
	standby := s.Standby(t, "one")
	s.SetSynchronous(t, "one")
	dir := testenv.TempDir(t)
	holders := map[string]keyholder.Holder{}
	h := newHosts(t, s.Database(t, "journals"), "a", "b")
	for name := range h.keys {
		d := check.Value(keyholder.OpenDirectory(filepath.Join(dir, name)))(t)
		defer d.Close()
		holders[name] = d
	}
	h.change = func(o *Options) {
		o.Keys, o.Others = holders[o.Host], nil
		for name, d := range holders {
			if name != o.Host {
				o.Others = append(o.Others, d)
			}
		}
	}
	a := started(t, h, "a")
	begin := a.log.End()
	const planted, control = "planted: Ann Example", "control: Bob Example"
	s.Exec(t, "journals", "CREATE TABLE clear (name text); INSERT INTO clear VALUES ('"+control+"')")
	a.add("before", planted)
	a.add(strings.Repeat(planted+" ", 300_000), planted) // several frames
	young := a.cut("young")
	s.WaitStreaming(t, "one")
	s.Exec(t, "postgres", "CHECKPOINT")
	// A standby makes a checkpoint only when it has replayed one of the primary's.
	for begun := time.Now(); len(found(t, []byte(control), filepath.Join(standby.Data, "base"))) == 0 && time.Since(begun) < time.Minute; {
		standby.Exec(t, "postgres", "CHECKPOINT")
	}

	everywhere := []string{s.Data, standby.Data, dir}
	wal := []string{filepath.Join(s.Data, "pg_wal"), filepath.Join(standby.Data, "pg_wal")}
	tables := []string{filepath.Join(s.Data, "base"), filepath.Join(standby.Data, "base")}
	for _, place := range append(wal, tables...) {
		check.Need(t, len(found(t, []byte(control), place)) != 0, "what is in clear is not found in %s", place)
	}
	files := found(t, []byte(planted), everywhere...)
	check.That(t, len(files) == 0, "a record lies in clear in %v", files)
	sealed := sealedOf(t, s, 0)
	for _, place := range append(wal, tables...) {
		check.Need(t, len(found(t, sealed, place)) != 0, "the sealed bytes are not found in %s", place)
	}
	segment := keyholder.Segment{Term: a.term, Number: 1}
	key := check.Value(holders["a"].Get(t.Context(), a.j.Name(), segment))(t)
	n := len(found(t, key[:], everywhere...))
	check.Need(t, n == 2, "the key lies in %d files, not with both hosts", n)

	check.Must(t, h.open(t, "b").Folded(t.Context(), young.Before))
	check.Must(t, a.j.Trim(t.Context(), young.Before))
	if len(found(t, sealed, wal...)) == 0 {
		t.Log("the sealed bytes are gone by themselves") // then this proves less
	}
	files = found(t, key[:], everywhere...)
	check.That(t, len(files) == 0, "the key is left in %v", files)
	for name, d := range holders {
		check.WantErr(t, check.Err(d.Get(t.Context(), a.j.Name(), segment)), keyholder.ErrDestroyed, "host %s", name)
	}
	rows := s.Exec(t, "journals", "SELECT count(*) FROM sluice.frames")
	check.That(t, rows[0] == "1", "%s rows are left", rows[0])
	a.holds(young.Before, young)
	check.WantErr(t, check.Err(read(t, a.j, begin)), journal.ErrLost, "what was trimmed")
}

// sealedOf returns some of the sealed bytes of a group.
func sealedOf(t *testing.T, s *pgtest.Server, events int) []byte {
	t.Helper()
	text := s.Exec(t, "journals", fmt.Sprintf("SELECT encode(substr(body, 1, 64), 'hex') FROM sluice.frames WHERE events = %d AND frame = 0", events))[0]
	var b []byte
	_, err := fmt.Sscanf(text, "%x", &b)
	check.Need(t, err == nil && len(b) == 64, "%v %v", len(b), err)
	return b
}

// Behind a trim to the end, or into the segment that groups go to, the next group begins a segment
// of its own: the old key is gone, or will be.
func TestAGroupBehindATrimHasAnotherKey(t *testing.T) {
	_, h, a := sharing(t, "a", "b")
	b := h.open(t, "b")
	trim := func(through journal.Position, keys int) {
		t.Helper()
		check.Must(t, b.Folded(t.Context(), a.log.End()))
		check.Must(t, a.j.Trim(t.Context(), through))
		n := h.keys["b"].Count(a.j.Name())
		check.That(t, n == keys, "behind a trim to %v, of %v, there are %d keys, not %d", through, a.log.End(), n, keys)
	}
	a.add("old")
	trim(a.log.End(), 0)
	first, second := a.add("first"), a.add("second")
	trim(first.After, 1)
	third := a.add("third")
	trim(first.After, 2)
	trim(second.After, 1)
	a.holds(second.After, third)
	trim(a.log.End(), 0)
	a.add("more")
	trim(a.log.End(), 0)
}

// Each host can tell which one has claimed the journal last.
func TestLeader(t *testing.T) {
	s := shared(t)
	h := newHosts(t, s.Database(t, "leaders"), "a", "b")
	a := started(t, h, "a")
	b := h.open(t, "b")
	want := func(who string) {
		t.Helper()
		for _, j := range []*Journal{a.j.(*Journal), b} {
			host, err := j.Leader(t.Context())
			check.That(t, err == nil && host == who, "%q has the journal, %v; it is %q", host, err, who)
		}
	}
	want("a")
	claimed(t, b, a.log.End())
	want("b")
	check.Must(t, b.Close())
	check.WantErr(t, check.Err(b.Leader(t.Context())), journal.ErrStopped, "a handle that is closed")
}

// A segment is trimmed, and what is left of it encrypted anew, between the moments at which another
// host sees it and looks for its key: that is no loss. Whoever reads behind it reads on, and
// whoever claims the journal has it.
func TestATrimWhileAnotherHostLooks(t *testing.T) {
	for name, look := range map[string]func(b *Journal, groups []journal.Group){
		"reads": func(b *Journal, groups []journal.Group) {
			found, err := read(t, b, groups[2].After)
			check.That(t, err == nil && len(found) == 3 && reflect.DeepEqual(found[2].Records, groups[5].Records),
				"%d groups are read: %v", len(found), err)
		},
		"claims": func(b *Journal, groups []journal.Group) { claimed(t, b, groups[5].After) },
	} {
		h := newHosts(t, shared(t).Database(t, "journals"), "a", "b")
		h.change = func(o *Options) { o.Bases = 1 }
		a := started(t, h, "a")
		var groups []journal.Group
		for n := range 3 { // a segment has two groups
			groups = append(groups, a.cut(fmt.Sprint("first ", n)), a.add(fmt.Sprint("second ", n)))
		}
		b := h.open(t, "b")
		check.Must(t, b.Folded(t.Context(), groups[5].After))
		trimmed := false
		h.keys["b"].Inject(func(c keyCall) error {
			if c.method == "Get" && !trimmed {
				trimmed = true
				return a.j.Trim(t.Context(), groups[2].After)
			}
			return nil
		})
		look(b, groups)
		check.That(t, trimmed, "%s: nothing was trimmed", name)
	}
}

// With three hosts, a host that had the journal and was killed can come back with its file: what
// that lacks is not trimmed before it follows, although another host has a base with everything.
func TestTrim_HostThatHadTheJournalIsGone_LeavesWhatItsBaseLacks(t *testing.T) {
	h := newHosts(t, shared(t).Database(t, "journals"), "a", "b", "c")
	a := started(t, h, "a")
	begin := a.log.End()
	all := []journal.Group{a.add("in no base of a"), a.cut("nor this")}
	b := h.open(t, "b")
	check.Must(t, b.Folded(t.Context(), a.log.End()))
	check.Must(t, a.j.Close()) // before its first trim
	a.j = b
	a.claim()
	all = append(all, a.cut("of b"))
	c := h.open(t, "c")
	check.Must(t, c.Folded(t.Context(), a.log.End()))
	a.held(a.log.End(), "host a had the journal, and has up to event 0 only")
	back := h.open(t, "a")
	if found, err := read(t, back, begin); err != nil || len(found) != len(all) {
		t.Fatalf("host a finds %d groups: %v", len(found), err)
	}
	check.Must(t, back.Folded(t.Context(), a.log.End()))
	check.Must(t, a.j.Trim(t.Context(), a.log.End()))
}
