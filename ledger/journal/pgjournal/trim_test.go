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

// wantHeld trims to a position, which must return a HeldError with some words. It returns the
// position up to which everything is destroyed.
func (a *author) wantHeld(wanted journal.Position, words ...string) journal.Position {
	a.Helper()
	err := a.j.Trim(a.Context(), wanted)
	held, is := errors.AsType[*journal.HeldError](err)
	check.Need(a, is && held.Wanted == wanted, "Trim(%v): %v", wanted, err)
	for _, word := range words {
		check.That(a, strings.Contains(err.Error(), word), "it does not say %q: %v", word, err)
	}
	return held.Through
}

// Trim goes only as far as every other host that follows has folded, and names the hosts that it
// waits for. A dismissed host does not count.
func TestTrim_FollowerLags_IsHeld(t *testing.T) {
	s := shared(t)
	h := newHosts(t, s.Database(t, "journals"), "a", "b", "c")
	h.change = func(o *Options) { o.Bases = 2 }
	a := newAuthor(t, h, "a")
	begin := a.log.End()
	var groups []journal.Group
	for n := range 4 { // a segment has two groups
		groups = append(groups, a.cut(fmt.Sprint("first ", n)), a.add(fmt.Sprint("second ", n)))
	}
	at := func(n int) journal.Position { return groups[n-1].After } // after n groups
	nothing := func(through journal.Position) {
		t.Helper()
		check.That(t, through == begin, "everything up to %v is destroyed", through)
		a.wantKeyCounts(h, 4)
		a.wantGroups(begin, groups...)
	}
	nothing(a.wantHeld(at(8), "0 other hosts", "2 are needed"))
	own, b, c := a.j.(*Journal), h.open(t, "b"), h.open(t, "c")
	check.Must(t, own.Folded(t.Context(), at(8))) // its own base does not count
	nothing(a.wantHeld(at(8), "0 other hosts"))
	check.Must(t, b.Folded(t.Context(), at(8)))
	nothing(a.wantHeld(at(8), "1 other hosts"))
	check.Must(t, c.Folded(t.Context(), at(1)))
	nothing(a.wantHeld(at(8), "host c", "only up to event 1", "ago"))
	check.Must(t, c.Folded(t.Context(), at(5))) // the first two segments, and a half of the third
	if through := a.wantHeld(at(8), "host c", "only up to event 5"); through != at(4) {
		t.Errorf("everything up to %v is destroyed, not up to %v", through, at(4))
	}
	a.wantKeyCounts(h, 2)
	a.wantGroups(at(4), groups[4:]...)
	check.Must(t, b.Folded(t.Context(), at(6))) // b has gone back to an older disk
	a.wantHeld(at(8), "host b has folded only up to event 6", "host c")
	for _, bad := range []journal.Position{at(3), {Events: at(6).Events}} { // from which b cannot continue
		check.WantErr(t, b.Folded(t.Context(), bad), errs.ErrCorrupt, "b has folded up to %v", bad)
		a.wantHeld(at(8), "1 other hosts", "host c")
		check.Must(t, b.Folded(t.Context(), at(8)))
	}
	check.Must(t, c.Folded(t.Context(), at(7))) // all but the last event
	if through := a.wantHeld(at(8), "host c has folded only up to event 7"); through != at(6) {
		t.Errorf("everything up to %v is destroyed, not up to %v", through, at(6))
	}
	check.Must(t, own.Dismiss(t.Context(), "c"))
	a.wantHeld(at(8), "1 other hosts")
	a.wantKeyCounts(h, 1)
	h.change = nil
	a.reopen(h, "a")
	check.Must(t, a.j.Trim(t.Context(), at(8)))
	a.wantKeyCounts(h, 0)
	a.wantGroups(at(8))
	// The host that claims does not count as another host. The host that had the journal holds back
	// what its base lacks, and its base does not count, until it follows or is dismissed.
	check.Must(t, a.j.Close())
	a.j = b
	a.claim()
	last := a.add("of b")
	a.wantHeld(last.After, "0 other hosts", "host a had the journal, and its base has only up to event 8")
	check.Must(t, c.Folded(t.Context(), last.After))
	a.wantHeld(last.After, "host a had the journal")
	check.Must(t, b.Dismiss(t.Context(), "a"))
	a.wantHeld(last.After, "1 other hosts", "2 are needed")
	check.Must(t, h.open(t, "a").Folded(t.Context(), last.After)) // it follows again
	check.Must(t, a.j.Trim(t.Context(), last.After))
}

// Trim returns nil only when all holders have destroyed the keys. Otherwise the next Trim, of any
// host, finishes it. Keys that nothing was encrypted under are destroyed as well.
func TestTrim_KeyLeftOnAHost_IsHeld(t *testing.T) {
	_, h, a := newShared(t, "a", "b", "c")
	begin := a.log.End()
	a.add("old")
	young := a.cut("young")
	check.Must(t, h.open(t, "b").Folded(t.Context(), a.log.End()))
	off := errors.New("it is off")
	for _, name := range []string{"a", "b", "c"} {
		h.keys[name].FailAt("Keep", off)
		through := a.wantHeld(young.Before, "keys may be left on host "+name, "it is off")
		check.That(t, through == begin, "while %s has keys, everything up to %v is destroyed", name, through)
		if n := h.keys[name].Count(a.j.Name()); name == "a" && n != 2 { // the other hosts have destroyed theirs
			t.Errorf("host %s has %d keys", name, n)
		}
		a.wantGroups(young.Before, young)
		h.keys[name].Inject(nil)
	}
	check.Must(t, a.j.Close())
	a.reopen(h, "c")
	check.Must(t, h.open(t, "b").Folded(t.Context(), a.log.End()))
	check.Must(t, h.open(t, "a").Folded(t.Context(), a.log.End())) // a had the journal
	check.Must(t, a.j.Trim(t.Context(), young.Before))
	a.wantKeyCounts(h, 1)
	a.wantGroups(young.Before, young, a.add("after the trim"))
	reject := func() { // a group that would begin a segment; its key stays for the next group
		h.fail(off, "a", "b")
		g := a.group("rejected")
		g.Cut = true
		a.wantRejected(g, "no holder can be reached", off)
		h.fail(nil, "a", "b")
	}
	// After another claim, a key that nothing was encrypted under is destroyed as well.
	reject()
	a.claim()
	check.Must(t, h.open(t, "b").Folded(t.Context(), a.log.End()))
	check.Must(t, h.open(t, "a").Folded(t.Context(), a.log.End()))
	check.Must(t, a.j.Trim(t.Context(), a.log.End()))
	a.wantKeyCounts(h, 0)
	// Without another claim, the key that is still to be used is kept.
	old := a.add("under another")
	check.Must(t, h.open(t, "b").Folded(t.Context(), old.After))
	check.Must(t, h.open(t, "a").Folded(t.Context(), old.After))
	reject()
	check.Must(t, a.j.Trim(t.Context(), old.After))
	a.wantGroups(old.After, a.add("under the key that was kept"))
}

// Groups that are appended during a trim stay in the journal with their keys, for trims to any
// position.
func TestTrim_ConcurrentAppends_KeepsTheirGroups(t *testing.T) {
	_, h, a := newShared(t, "a", "b")
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
		"%d groups are left after %v: %v", len(left), last, err)
	n = h.keys["b"].Count(a.j.Name())
	check.That(t, n <= 3, "%d keys are left", n)
}

// If the database has a group of an unknown segment, for example after a repair by hand, Trim
// returns ErrCorrupt and destroys no key.
func TestTrim_GroupOfUnknownSegment_DestroysNoKey(t *testing.T) {
	s, h, a := newShared(t, "a", "b")
	a.add("old")
	young := a.cut("young")
	check.Must(t, h.open(t, "b").Folded(t.Context(), a.log.End()))
	s.Exec(t, "journals", "UPDATE sluice.segments SET number = 9 WHERE events = 1")
	check.WantErr(t, a.j.Trim(t.Context(), young.Before), errs.ErrCorrupt, "Trim")
	a.wantGroups(young.Before, young)
}

// filesWith returns the files below some directories that contain b.
func filesWith(t testing.TB, b []byte, dirs ...string) (files []string) {
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

// The tables, the log of the database and the files of its standby never contain a record in clear.
// After Trim, no key is left for the sealed bytes that they still contain.
func TestTrim_RecordsOnDisk_CannotBeDecrypted(t *testing.T) {
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
	a := newAuthor(t, h, "a")
	begin := a.log.End()
	const planted, control = "planted: Ann Example", "control: Bob Example"
	s.Exec(t, "journals", "CREATE TABLE clear (name text); INSERT INTO clear VALUES ('"+control+"')")
	a.add("before", planted)
	a.add(strings.Repeat(planted+" ", 300_000), planted) // several frames
	young := a.cut("young")
	s.WaitStreaming(t, "one")
	s.Exec(t, "postgres", "CHECKPOINT")
	// A standby makes a checkpoint only after it has replayed one of the primary.
	for begun := time.Now(); len(filesWith(t, []byte(control), filepath.Join(standby.Data, "base"))) == 0 && time.Since(begun) < time.Minute; {
		standby.Exec(t, "postgres", "CHECKPOINT")
	}

	everywhere := []string{s.Data, standby.Data, dir}
	wal := []string{filepath.Join(s.Data, "pg_wal"), filepath.Join(standby.Data, "pg_wal")}
	tables := []string{filepath.Join(s.Data, "base"), filepath.Join(standby.Data, "base")}
	for _, place := range append(wal, tables...) {
		check.Need(t, len(filesWith(t, []byte(control), place)) != 0, "the control text is not found in %s", place)
	}
	files := filesWith(t, []byte(planted), everywhere...)
	check.That(t, len(files) == 0, "a record is in clear in %v", files)
	sealed := sealedOf(t, s, 0)
	for _, place := range append(wal, tables...) {
		check.Need(t, len(filesWith(t, sealed, place)) != 0, "the sealed bytes are not found in %s", place)
	}
	segment := keyholder.Segment{Term: a.term, Number: 1}
	key := check.Value(holders["a"].Get(t.Context(), a.j.Name(), segment))(t)
	n := len(filesWith(t, key[:], everywhere...))
	check.Need(t, n == 2, "the key is in %d files, not in one for each host", n)

	check.Must(t, h.open(t, "b").Folded(t.Context(), young.Before))
	check.Must(t, a.j.Trim(t.Context(), young.Before))
	if len(filesWith(t, sealed, wal...)) == 0 {
		t.Log("the log of the database does not have the sealed bytes any more") // then this test proves less
	}
	files = filesWith(t, key[:], everywhere...)
	check.That(t, len(files) == 0, "the key is left in %v", files)
	for name, d := range holders {
		check.WantErr(t, check.Err(d.Get(t.Context(), a.j.Name(), segment)), keyholder.ErrDestroyed, "host %s", name)
	}
	rows := s.Exec(t, "journals", "SELECT count(*) FROM sluice.frames")
	check.That(t, rows[0] == "1", "%s rows are left", rows[0])
	a.wantGroups(young.Before, young)
	check.WantErr(t, check.Err(read(t, a.j, begin)), journal.ErrLost, "what was trimmed")
}

// sealedOf returns the first sealed bytes of a group.
func sealedOf(t *testing.T, s *pgtest.Server, events int) []byte {
	t.Helper()
	text := s.Exec(t, "journals", fmt.Sprintf("SELECT encode(substr(body, 1, 64), 'hex') FROM sluice.frames WHERE events = %d AND frame = 0", events))[0]
	var b []byte
	_, err := fmt.Sscanf(text, "%x", &b)
	check.Need(t, err == nil && len(b) == 64, "%v %v", len(b), err)
	return b
}

// After a trim to the end, or into the current segment, the next group begins a new segment,
// because the old key is destroyed, or will be.
func TestAppend_AfterATrim_UsesAnotherKey(t *testing.T) {
	_, h, a := newShared(t, "a", "b")
	b := h.open(t, "b")
	trim := func(through journal.Position, keys int) {
		t.Helper()
		check.Must(t, b.Folded(t.Context(), a.log.End()))
		check.Must(t, a.j.Trim(t.Context(), through))
		n := h.keys["b"].Count(a.j.Name())
		check.That(t, n == keys, "after a trim to %v, of %v, there are %d keys, not %d", through, a.log.End(), n, keys)
	}
	a.add("old")
	trim(a.log.End(), 0)
	first, second := a.add("first"), a.add("second")
	trim(first.After, 1)
	third := a.add("third")
	trim(first.After, 2)
	trim(second.After, 1)
	a.wantGroups(second.After, third)
	trim(a.log.End(), 0)
	a.add("more")
	trim(a.log.End(), 0)
}

// Leader returns, on each host, the name of the host that has claimed the journal last.
func TestLeader_AfterEachClaim_IsThatHost(t *testing.T) {
	s := shared(t)
	h := newHosts(t, s.Database(t, "leaders"), "a", "b")
	a := newAuthor(t, h, "a")
	b := h.open(t, "b")
	want := func(who string) {
		t.Helper()
		for _, j := range []*Journal{a.j.(*Journal), b} {
			host, err := j.Leader(t.Context())
			check.That(t, err == nil && host == who, "Leader: %q, %v; want %q", host, err, who)
		}
	}
	want("a")
	claim(t, b, a.log.End())
	want("b")
	check.Must(t, b.Close())
	check.WantErr(t, check.Err(b.Leader(t.Context())), journal.ErrStopped, "a handle that is closed")
}

// Another host trims a segment, and encrypts its rest again, after a reader or a claim has read the
// segment and before it gets its key. The reader continues, and the claim succeeds.
func TestReadAndClaim_ConcurrentTrim_Succeed(t *testing.T) {
	for name, act := range map[string]func(b *Journal, groups []journal.Group){
		"reads": func(b *Journal, groups []journal.Group) {
			found, err := read(t, b, groups[2].After)
			check.That(t, err == nil && len(found) == 3 && reflect.DeepEqual(found[2].Records, groups[5].Records),
				"%d groups are read: %v", len(found), err)
		},
		"claims": func(b *Journal, groups []journal.Group) { claim(t, b, groups[5].After) },
	} {
		h := newHosts(t, shared(t).Database(t, "journals"), "a", "b")
		h.change = func(o *Options) { o.Bases = 1 }
		a := newAuthor(t, h, "a")
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
		act(b, groups)
		check.That(t, trimmed, "%s: nothing was trimmed", name)
	}
}

// With three hosts, a host that had the journal and was killed can return with its file. What its
// file lacks is not trimmed before it follows, although another host has everything.
func TestTrim_HostThatHadTheJournalIsGone_LeavesWhatItsBaseLacks(t *testing.T) {
	h := newHosts(t, shared(t).Database(t, "journals"), "a", "b", "c")
	a := newAuthor(t, h, "a")
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
	a.wantHeld(a.log.End(), "host a had the journal, and its base has only up to event 0")
	back := h.open(t, "a")
	if found, err := read(t, back, begin); err != nil || len(found) != len(all) {
		t.Fatalf("host a finds %d groups: %v", len(found), err)
	}
	check.Must(t, back.Folded(t.Context(), a.log.End()))
	check.Must(t, a.j.Trim(t.Context(), a.log.End()))
}
