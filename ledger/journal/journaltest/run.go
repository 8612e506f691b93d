package journaltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sluicedp/sluice/ledger/internal/errs"
	"github.com/sluicedp/sluice/ledger/journal"
)

// Kind describes a kind of journal to test.
type Kind struct {
	// New creates a journal that begins at a position.
	New func(t *testing.T, at journal.Position) Medium
	// Shared means that a journal can be opened twice, and that a claim fences the other handle.
	// For any other kind, the second Open or its Claim must return [journal.ErrInUse].
	Shared bool
	// ReadsAhead means that Read may return groups that were trimmed after it began.
	ReadsAhead bool
	// Brief means that opening a handle is slow: Run then tries fewer of similar cases.
	Brief bool
	// Large is the size in bytes of the largest group to try; some tens of megabytes are useful.
	Large int
}

// Medium is the storage of a journal, which stays when no handle is open.
type Medium struct {
	// Open returns a new handle.
	Open func() (journal.Journal, error)
	// Break makes the next Append of any handle fail, so that the outcome is uncertain, or the
	// handle must resolve it. landed is whether the group should be in the journal, if the medium
	// can choose that. If Break is nil, this is not tested.
	Break func(landed bool)
	// Tamper has ways in which other processes may change the journal while a handle has it open,
	// by name. Examples are a restored older copy, a removed file and a truncated one. The change
	// stays. Append, Trim and Close must then return ErrReplaced.
	Tamper map[string]func()
	// Fold reports Folded for as many other hosts as Trim waits for. It is nil if Trim waits for no
	// hosts.
	Fold func(through journal.Position)
}

// Run tests a kind of journal in subtests of t. Each subtest has journals of its own.
func Run(t *testing.T, k Kind) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Kind)
	}{
		{"name", testName}, {"empty", testEmpty}, {"order", testOrder}, {"records", testRecords},
		{"rejected", testRejected},
		{"large", testLarge}, {"trim", testTrim}, {"held", testHeld}, {"cut", testCut}, {"trim all", testTrimAll},
		{"reopen", testReopen},
		{"context", testContext}, {"closed", testClosed},
		{"uncertain", testUncertain}, {"terms", testTerms}, {"two handles", testTwo}, {"tampered with", testTampered},
		{"follow", testFollow}, {"concurrent", testConcurrent}, {"walk", testWalk},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, k) })
	}
}

// step returns the step of a loop over similar cases: the argument for a Brief kind, which then
// tries fewer of them, and 1 for any other.
func (k Kind) step(brief int) int {
	if k.Brief {
		return brief
	}
	return 1
}

// fixture is a journal under test, and the content that it must have.
type fixture struct {
	*testing.T
	medium Medium
	j      journal.Journal  // the present handle
	log    Log              // of all groups that were appended, also those that were trimmed
	term   uint64           // of the last claim
	begin  journal.Position // where the journal must begin
	groups []journal.Group  // that the journal must have
}

// newFixture creates a journal that begins after two events, and claims it.
func newFixture(t *testing.T, k Kind) *fixture {
	t.Helper()
	g := &fixture{T: t}
	g.log.Group(0, []byte("long"), []byte("ago"))
	g.begin = g.log.End()
	g.medium = k.New(t, g.begin)
	g.open()
	g.claim()
	return g
}

// open opens a handle, which becomes g.j and is closed when the test ends. It is not claimed yet.
func (g *fixture) open() {
	g.Helper()
	var err error
	if g.j, err = g.medium.Open(); err != nil {
		g.Fatalf("Open: %v", err)
	}
	g.Cleanup(func() { g.j.Close() })
}

// claim claims the journal. The term must be higher than before, and the end must be that of the
// log.
func (g *fixture) claim() {
	g.Helper()
	term, end, err := g.j.Claim(g.Context())
	if err != nil || term <= g.term || end != g.log.End() {
		g.Fatalf("Claim: term %d after %d, it ends with %v, not %v: %v", term, g.term, end, g.log.End(), err)
	}
	g.term = term
}

// reopen closes the present handle and opens another one. It checks the content through the new
// handle, and claims the journal with it.
func (g *fixture) reopen() {
	g.Helper()
	if err := g.j.Close(); err != nil {
		g.Fatalf("Close: %v", err)
	}
	g.open()
	g.check()
	g.claim()
}

// add appends a group whose records are texts. cut is Cut of the group.
func (g *fixture) add(cut bool, records ...string) {
	g.Helper()
	var all [][]byte
	for _, r := range records {
		all = append(all, []byte(r))
	}
	g.append(cut, all...)
}

// append appends a group, and records in the fixture that the journal must have it. cut is Cut of
// the group. An error fails the test.
func (g *fixture) append(cut bool, records ...[]byte) {
	g.Helper()
	group := g.log.Group(g.term, records...)
	group.Cut = cut
	if err := g.j.Append(g.Context(), group); err != nil {
		g.Fatalf("Append: %v", err)
	}
	g.groups = append(g.groups, stored(group))
}

// fill appends n groups of two records each. Each fourth one has Cut.
func (g *fixture) fill(n int) {
	g.Helper()
	for i := range n {
		g.add(i%4 == 3, fmt.Sprintf("event %d", i), "and another")
	}
}

// errEndless is returned if Read returns a group that does not continue the one before it. Such a
// sequence may never end.
var errEndless = errors.New("Read does not advance")

// advancing is Read, with a check that each group continues the one before it. If one does not, the
// test fails and the sequence ends.
func (g *fixture) advancing(ctx context.Context, j journal.Journal,
	after journal.Position) iter.Seq2[journal.Group, error] {
	return func(yield func(journal.Group, error) bool) {
		at := after
		for group, err := range j.Read(ctx, after) {
			if err == nil && (group.Before != at || !group.Fits()) {
				err = fmt.Errorf("%w: after %v it returns a group of %d records from %v to %v",
					errEndless, at, len(group.Records), group.Before, group.After)
				g.Error(err)
			}
			if at = group.After; !yield(group, err) || err != nil {
				return
			}
		}
	}
}

// read returns all groups of the present handle after a position, and the error with which Read
// ended.
func (g *fixture) read(after journal.Position) (all []journal.Group, err error) {
	for group, err := range g.advancing(g.Context(), g.j, after) {
		if err != nil {
			return all, err
		}
		all = append(all, group)
	}
	return all, nil
}

// trimmed records in the fixture that the groups up to a position are no longer in the journal. It
// does not call the journal.
func (g *fixture) trimmed(through journal.Position) {
	for len(g.groups) > 0 && g.groups[0].After.Events <= through.Events {
		g.groups = g.groups[1:]
	}
	g.begin = through
}

// trim trims the journal up to a position. Before that, it makes other hosts report the position as
// folded, if the journal waits for hosts.
func (g *fixture) trim(through journal.Position) {
	g.Helper()
	g.fold(through)
	if err := g.j.Trim(g.Context(), through); err != nil {
		g.Fatalf("Trim(%v): %v", through, err)
	}
	g.trimmed(through)
}

// check reads the journal from where it begins, and from every position at which a group ends. The
// groups must be those of the fixture.
func (g *fixture) check() {
	g.Helper()
	at := g.begin
	for i := 0; ; i++ {
		g.wantGroups(at, g.groups[i:])
		if i == len(g.groups) {
			return
		}
		at = g.groups[i].After
	}
}

// wantGroups checks that Read after a position returns exactly the groups want, without Cut, and
// then ends without an error.
func (g *fixture) wantGroups(at journal.Position, want []journal.Group) {
	g.Helper()
	found, err := g.read(at)
	if err != nil || len(found) != len(want) {
		g.Fatalf("Read(%v) returns %d groups instead of %d: %v", at, len(found), len(want), err)
	}
	for i := range want {
		if !Equal(found[i], want[i]) || found[i].Cut {
			g.Fatalf("Read(%v) returns %v as group %d instead of %v", at, found[i], i, want[i])
		}
	}
}

// wantErr checks that an error of a call wraps the wanted one.
func (g *fixture) wantErr(want error, call string, err error) {
	g.Helper()
	if !errors.Is(err, want) {
		g.Errorf("%s: %v, not %v", call, err, want)
	}
}

// unappended returns a group that continues the log, for a call that must not append it. The log
// does not change.
func (g *fixture) unappended(term uint64) journal.Group {
	group := g.log.Group(term, []byte("never"))
	g.log.Undo(1)
	return group
}

// fold makes other hosts report Folded, if Trim waits for that.
func (g *fixture) fold(through journal.Position) {
	if g.medium.Fold != nil {
		g.medium.Fold(through)
	}
}

// wantReadErr checks that Read after a position that is not in the journal returns no group, and an
// error that wraps both want and ErrCorrupt.
func (g *fixture) wantReadErr(at journal.Position, want error) {
	g.Helper()
	found, err := g.read(at)
	if len(found) > 0 || !errors.Is(err, want) || !errors.Is(err, errs.ErrCorrupt) {
		g.Errorf("Read(%v) returns %d groups and %v, not %v", at, len(found), err, want)
	}
}

// otherRoot returns a position with the same number of events and another root.
func otherRoot(p journal.Position) journal.Position {
	p.Root[0] ^= 1
	return p
}

// mostName is the largest length of a name in bytes.
const mostName = 256

// testName checks that names are valid, do not change, and differ between journals.
func testName(t *testing.T, k Kind) {
	a, b := newFixture(t, k), newFixture(t, k)
	name := a.j.Name()
	if a.reopen(); a.j.Name() != name || name == b.j.Name() {
		t.Errorf("one journal is %q and %q, another is %q", name, a.j.Name(), b.j.Name())
	}
	if bad := func(r rune) bool { return unicode.IsControl(r) }; name == "" || len(name) > mostName ||
		!utf8.ValidString(name) || strings.ContainsFunc(name, bad) {
		t.Errorf("the name %q is not 1 to %d bytes of UTF-8 without control characters", name, mostName)
	}
}

// testEmpty checks Read on a journal without groups, before and after it is opened again, and then
// the first append to it.
func testEmpty(t *testing.T, k Kind) {
	g := newFixture(t, k)
	check := func() { // the journal begins after event 2, and ends there
		g.check()
		g.wantReadErr(otherRoot(g.begin), journal.ErrForked)
		g.wantReadErr(journal.Position{Events: 1}, journal.ErrLost)
		g.wantReadErr(journal.Position{Events: 3}, journal.ErrLost)
	}
	check()
	g.reopen()
	check()
	g.add(true, "the first, in a segment that has begun")
	g.check()
}

// testOrder checks that Read starts at every position at which a group ends, and at no other.
func testOrder(t *testing.T, k Kind) {
	g := newFixture(t, k)
	g.fill(11)
	for range 2 { // before and after the journal is opened again
		g.check()
		g.wantReadErr(journal.Position{Events: g.begin.Events - 1}, journal.ErrLost)
		g.wantReadErr(journal.Position{Events: g.log.at + 1}, journal.ErrLost)
		for _, group := range g.groups {
			g.wantReadErr(otherRoot(group.After), journal.ErrForked)
			g.wantReadErr(journal.Position{Events: group.Before.Events + 1}, journal.ErrForked)
		}
		g.reopen()
	}
}

// testRecords checks that records may be empty and have any bytes, and that journal and caller
// share no memory.
func testRecords(t *testing.T, k Kind) {
	g := newFixture(t, k)
	g.add(false, "", "\x00", "", "\xff\xff", string(make([]byte, 1<<12)))
	g.add(false, "")
	mine := []byte("mine")
	g.append(false, mine)
	copy(mine, "gone") // Append must not keep the memory of its caller
	g.check()
	found, err := g.read(g.begin)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range found { // Read must not return shared memory
		for i, r := range group.Records {
			clear(r)
			group.Records[i] = append(r, 1)
		}
	}
	g.check()
	g.reopen()
}

// testRejected checks that groups that do not continue the journal are rejected with ErrOrder, and
// groups of another term with ErrFenced. Then the handle must continue.
func testRejected(t *testing.T, k Kind) {
	g := newFixture(t, k)
	g.fill(3)
	good := g.log.Group(g.term, []byte("a"), []byte("b"))
	g.log.Undo(2)
	for name, change := range map[string]func(*journal.Group){
		"before the end": func(group *journal.Group) { *group = g.groups[2] },
		"after the end": func(group *journal.Group) {
			group.Before.Events++
			group.After.Events++
		},
		"another root":      func(group *journal.Group) { group.Before = otherRoot(group.Before) },
		"no record":         func(group *journal.Group) { group.Records, group.After = nil, group.Before },
		"a record too few":  func(group *journal.Group) { group.Records = group.Records[:1] },
		"a record too many": func(group *journal.Group) { group.Records = append(group.Records, nil) },
		"backwards":         func(group *journal.Group) { group.After.Events = group.Before.Events - 2 },
	} {
		bad := stored(good)
		change(&bad)
		g.wantErr(journal.ErrOrder, "Append: "+name, g.j.Append(t.Context(), bad))
	}
	for _, term := range []uint64{0, g.term - 1, g.term + 1} {
		bad := good
		bad.Term = term
		g.wantErr(journal.ErrFenced, "Append under another term", g.j.Append(t.Context(), bad))
	}
	g.check()
	g.fill(1)
	g.reopen()
}

// testLarge checks groups of up to Kind.Large bytes. The first has many small records and a large
// one, the second only a large one. A trim then removes the first and keeps the second.
func testLarge(t *testing.T, k Kind) {
	g := newFixture(t, k)
	big := make([]byte, k.Large/2)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(big)
	many := make([][]byte, 1000)
	for i := range many { // of seven different lengths, one of which is 0
		many[i] = big[i : i+len(big)/3/len(many)*(i%7)/3]
	}
	g.add(false, "small")
	g.append(false, append(many, big)...)
	g.add(false, "small")
	g.check()
	g.append(true, big)
	g.reopen()
	g.trim(g.groups[1].After)
	g.add(false, "small")
	g.reopen()
}

// testTrim checks Trim to each position at which a group ends, in one or two steps. It also checks
// Trim to invalid positions, which must change nothing, and to positions that were trimmed before.
func testTrim(t *testing.T, k Kind) {
	const groups = 7
	for n := 0; n < groups; n += k.step(3) {
		g := newFixture(t, k)
		g.fill(groups)
		g.fold(g.log.End())
		inside := journal.Position{Events: g.groups[n].Before.Events + 1}
		beyond := journal.Position{Events: g.log.at + 1}
		g.wantErr(journal.ErrForked, "Trim to another root", g.j.Trim(t.Context(), otherRoot(g.groups[n].After)))
		g.wantErr(journal.ErrForked, "Trim into a group", g.j.Trim(t.Context(), inside))
		g.wantErr(journal.ErrLost, "Trim beyond the end", g.j.Trim(t.Context(), beyond))
		g.check()
		before, first := g.begin, g.groups[n/2].After
		g.trim(first)
		g.check()
		last := g.groups[0]
		g.trim(g.groups[n-n/2-min(n, 1)].After)
		g.check()
		g.trim(g.begin) // again
		g.fold(g.log.End())
		for _, old := range []journal.Position{before, first, last.Before} {
			if old.Events < g.begin.Events {
				g.wantReadErr(old, journal.ErrLost)
				g.wantErr(nil, "Trim to what was trimmed", g.j.Trim(t.Context(), old))
			}
		}
		g.add(false, "more")
		g.reopen()
		g.add(false, "still more")
		g.check()
	}
}

// testHeld checks that Trim returns a HeldError for positions that no other host has folded, and
// destroys nothing after the position that they have folded.
func testHeld(t *testing.T, k Kind) {
	g := newFixture(t, k)
	if g.medium.Fold == nil {
		t.Log("Trim waits for no host")
		return
	}
	g.fill(6)
	g.wantHeld(g.log.End(), g.begin)
	g.medium.Fold(g.groups[2].After)
	if through := g.wantHeld(g.log.End(), g.groups[2].After); through.Events > g.begin.Events {
		g.trimmed(through)
	}
	g.trim(g.begin) // again
	g.check()
	g.reopen()
	g.trim(g.groups[0].After)
	g.fill(1)
	g.check()
	g.trim(g.log.End())
	g.reopen()
}

// wantHeld calls Trim up to the position wanted. Trim must return a HeldError, and must not have
// destroyed anything after the position most. wantHeld returns up to where everything is destroyed,
// as the HeldError says.
func (g *fixture) wantHeld(wanted, most journal.Position) journal.Position {
	g.Helper()
	var held *journal.HeldError
	if err := g.j.Trim(g.Context(), wanted); !errors.As(err, &held) ||
		held.Wanted != wanted || held.Through.Events > most.Events {
		g.Fatalf("Trim(%v), of which other hosts have only %v: %v", wanted, most, err)
	}
	return held.Through
}

// testTrimAll checks that a journal from which everything was trimmed can be used further.
func testTrimAll(t *testing.T, k Kind) {
	g := newFixture(t, k)
	for range 3 {
		g.fill(2)
		g.trim(g.log.End())
		g.check()
		g.trim(g.log.End())
		g.reopen()
	}
}

// testCut appends two groups with Cut directly after each other, and trims up to the first of them.
func testCut(t *testing.T, k Kind) {
	g := newFixture(t, k)
	for range 3 {
		g.fill(2)
		from := g.log.End()
		g.add(true, "the first after a checkpoint")
		g.add(true, "another one so soon")
		g.trim(from)
		g.check()
	}
	g.reopen()
}

// testReopen closes and opens the journal between appends. It also checks a handle without a claim,
// which can read and settle, but neither append nor trim.
func testReopen(t *testing.T, k Kind) {
	g := newFixture(t, k)
	for i := range 6 {
		g.reopen()
		g.fill(i)
		g.check()
		if err := g.j.Close(); err != nil {
			t.Fatal(err)
		}
		g.open() // for reading only
		g.wantErr(nil, "Settle", g.j.Settle(t.Context()))
		g.check()
		g.wantErr(journal.ErrFenced, "Append without a claim", g.j.Append(t.Context(), g.unappended(0)))
		g.wantErr(journal.ErrFenced, "Trim without a claim", g.j.Trim(t.Context(), g.begin))
	}
}

// testContext checks that calls with an ended context return its error and change nothing. A Read
// whose context ends must end after the group that it is returning.
func testContext(t *testing.T, k Kind) {
	g := newFixture(t, k)
	g.fill(3)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	var err error
	for _, err = range g.advancing(ctx, g.j, g.begin) {
		if err == nil {
			n++
			cancel()
		}
	}
	if n != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("Read returns %d groups, then %v", n, err)
	}
	appended := g.j.Append(ctx, g.unappended(g.term))
	_, _, claimed := g.j.Claim(ctx)
	g.wantErr(journal.ErrRejected, "Append with a context that is done", appended)
	g.wantErr(context.Canceled, "Append with a context that is done", appended)
	g.wantErr(context.Canceled, "Trim with a context that is done", g.j.Trim(ctx, g.log.End()))
	g.wantErr(context.Canceled, "Claim with a context that is done", claimed)
	g.check()
	g.fill(1)
	g.reopen()
}

// wantRefused checks that every call of the present handle but Close returns an error that wraps
// want.
func (g *fixture) wantRefused(want error) {
	g.Helper()
	_, _, claimed := g.j.Claim(g.Context())
	_, read := g.read(g.begin)
	g.wantErr(want, "Claim", claimed)
	g.wantErr(want, "Read", read)
	g.wantErr(want, "Append", g.j.Append(g.Context(), g.unappended(g.term)))
	g.wantErr(want, "Trim", g.j.Trim(g.Context(), g.begin))
	g.wantErr(want, "Settle", g.j.Settle(g.Context()))
}

// testClosed closes the handle during a Read, and checks that all calls then return ErrStopped.
func testClosed(t *testing.T, k Kind) {
	g := newFixture(t, k)
	g.fill(2)
	for group, err := range g.advancing(t.Context(), g.j, g.begin) {
		if group.Before != g.begin {
			g.wantErr(journal.ErrStopped, "Read after Close", err)
		}
		g.wantErr(nil, "Close", g.j.Close())
	}
	g.wantRefused(journal.ErrStopped)
	g.open()
	g.check()
}

// testUncertain calls [fixture.uncertain] with both outcomes, with and without Cut, and for small
// and large groups.
func testUncertain(t *testing.T, k Kind) {
	g := newFixture(t, k)
	if g.medium.Break == nil {
		t.Log("Medium.Break is nil: appends with an uncertain outcome are not tested")
		return
	}
	for i := 0; i < 16; i += k.step(3) { // each way and size
		g.fill(i % 3)
		g.uncertain(i%2 == 0, i%4 < 2, i%8 < 4)
	}
}

// uncertain makes an append fail, opens the journal again, and checks that it has the group whole
// or not at all. If Append has returned nil or ErrRejected, the journal must be as that says.
// landed is the argument of Medium.Break, cut is Cut of the group, large means a group of some 300
// KB.
func (g *fixture) uncertain(landed, cut, large bool) {
	g.Helper()
	records := [][]byte{[]byte("perhaps")}
	if large {
		records = append(records, bytes.Repeat([]byte("so large "), 1<<15))
	}
	group := g.log.Group(g.term, records...)
	group.Cut = cut
	g.medium.Break(landed)
	appended := g.j.Append(g.Context(), group)
	if known := appended == nil || isRejected(appended); !known { // the handle must have stopped
		g.wantRefused(journal.ErrStopped)
	}
	if err := g.j.Close(); err != nil {
		g.Logf("Close: %v", err)
	}
	g.open()
	_, end, err := g.j.Claim(g.Context())
	switch {
	case appended == nil && end != group.After:
		g.Fatalf("Append returned nil, and the journal ends with %v, not %v: %v", end, group.After, err)
	case isRejected(appended) && end != group.Before:
		g.Fatalf("Append returned %v, and the journal ends with %v, not %v: %v", appended, end, group.Before, err)
	case err != nil:
		g.Fatalf("Claim: %v", err)
	case end == group.Before:
		g.log.Undo(len(records))
	case end == group.After:
		g.groups = append(g.groups, stored(group))
	default:
		g.Fatalf("the journal has a part of a group: it ends with %v, not %v or %v", end, group.Before, group.After)
	}
	g.check()
	g.reopen()
}

// testTerms checks that a claim fences the earlier terms of the same handle, too.
func testTerms(t *testing.T, k Kind) {
	g := newFixture(t, k)
	for range 3 {
		old := g.term
		g.add(false, "under one term")
		g.claim()
		g.wantErr(journal.ErrFenced, "Append under an earlier term", g.j.Append(t.Context(), g.unappended(old)))
		g.check()
	}
	g.reopen()
}

// testTwo checks two handles of one journal. For a Shared kind, the claim of one handle fences the
// other one, in both directions. For any other kind, the second handle or its claim must fail with
// ErrInUse, and the first handle continues.
func testTwo(t *testing.T, k Kind) {
	g := newFixture(t, k)
	g.add(false, "of the first")
	other, err := g.medium.Open()
	if !k.Shared {
		if err == nil {
			_, _, err = other.Claim(t.Context())
			other.Close()
		}
		g.wantErr(journal.ErrInUse, "Claim of a journal that is claimed", err)
		g.add(false, "of the first again")
		g.check()
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	first, old := g.j, g.term
	g.j = other
	g.check()
	g.claim()
	for _, term := range []uint64{old, g.term} {
		g.wantErr(journal.ErrFenced, "Append after another claim", first.Append(t.Context(), g.unappended(term)))
	}
	g.fold(g.log.End())
	g.wantErr(journal.ErrFenced, "Trim after another claim", first.Trim(t.Context(), g.log.End()))
	g.fill(2)
	g.j = first
	g.check()
	g.claim()
	g.fill(1)
	g.check()
}

// testTampered runs testTamper for each way that Medium.Tamper has, and each call that must notice
// it.
func testTampered(t *testing.T, k Kind) {
	if newFixture(t, k).medium.Tamper == nil {
		t.Log("Medium.Tamper is nil: changes by other processes are not tested")
		return
	}
	for how := range newFixture(t, k).medium.Tamper {
		t.Run(how, func(t *testing.T) {
			for _, call := range []string{"Append", "Trim", "Close"} {
				testTamper(t, k, how, call)
			}
		})
	}
}

// testTamper changes a journal in the way how of Medium.Tamper. Then the call ("Append", "Trim" or
// "Close") must return ErrReplaced, and so must Close after it. A second Close must return nil.
func testTamper(t *testing.T, k Kind, how, call string) {
	g := newFixture(t, k)
	g.fill(3)
	g.medium.Tamper[how]()
	switch call {
	case "Append":
		g.wantErr(errs.ErrReplaced, call, g.j.Append(t.Context(), g.unappended(g.term)))
	case "Trim":
		g.wantErr(errs.ErrReplaced, call, g.j.Trim(t.Context(), g.groups[0].After))
	}
	g.wantErr(errs.ErrReplaced, "Close after "+call, g.j.Close())
	g.wantErr(nil, "a second Close", g.j.Close())
}

// testConcurrent appends, trims and claims while Read is in progress. Read must still return all
// groups that the journal had when it began. n chooses the group after which that happens, and the
// calls.
func testConcurrent(t *testing.T, k Kind) {
	for n := 0; n < 8; n += k.step(3) {
		g := newFixture(t, k)
		g.fill(6)
		at, i := g.begin, 0
		for group, err := range g.advancing(t.Context(), g.j, at) {
			if err != nil || group.Before != at {
				t.Fatalf("after %d groups: from %v, not %v: %v", i, group.Before, at, err)
			}
			if at = group.After; i == n%6 {
				switch n % 4 {
				case 0:
					g.trim(g.groups[n%6].After)
				case 1:
					g.trim(g.begin)
					g.claim()
				case 2:
					g.trim(g.groups[0].After)
					g.add(true, "more")
				case 3:
					g.claim()
					g.add(false, "more")
				}
			}
			i++
		}
		if i < 6 {
			t.Errorf("Read returns %d groups of 6", i)
		}
		g.check()
		g.trimDuringRead(k.ReadsAhead)
	}
}

// trimDuringRead trims everything after a Read has returned its first group. The Read must end with
// ErrLost. If ahead is true, it may first return the groups that it has read ahead: some of them,
// or all and then end without an error.
func (g *fixture) trimDuringRead(ahead bool) {
	g.Helper()
	g.fill(3)
	want := g.groups
	n := 0
	var last error
	for group, err := range g.advancing(g.Context(), g.j, g.begin) {
		switch n++; {
		case n == 1:
			g.trim(g.log.End())
		case err != nil:
			last = err
		case !ahead || n > len(want) || !Equal(group, want[n-1]):
			g.Errorf("Read returns what was trimmed")
		}
	}
	if all := ahead && n == len(want) && last == nil; !all && !errors.Is(last, journal.ErrLost) {
		g.Errorf("Read ends after %d groups of %d: %v", n, len(want), last)
	}
}

// testFollow checks the methods of a follower: that it reads what another handle appends, and which
// errors Await, Folded and Head return.
func testFollow(t *testing.T, k Kind) {
	g := newFixture(t, k)
	if _, can := g.j.(journal.Follower); !can {
		t.Log("the journal is no Follower: following is not tested")
		return
	}
	other, err := g.medium.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	f := other.(journal.Follower)
	g.wantAwaited(f)
	ctx := t.Context()
	for _, at := range []journal.Position{otherRoot(g.log.End()), {Events: g.log.End().Events - 1}} {
		g.wantErr(journal.ErrForked, "Folded of a position where no group ends", f.Folded(ctx, at))
	}
	early, late := journal.Position{Events: 1}, journal.Position{Events: g.log.End().Events + 1}
	g.wantErr(journal.ErrLost, "Folded before the journal begins", f.Folded(ctx, early))
	g.wantErr(journal.ErrLost, "Folded beyond its end", f.Folded(ctx, late))
	g.wantErr(nil, "Await before the journal begins", f.Await(ctx, early))
	g.wantErr(journal.ErrLost, "Await beyond its end", f.Await(ctx, late))
	g.wantErr(nil, "Folded", f.Folded(ctx, g.log.End()))
	ended, cancel := context.WithCancel(ctx)
	cancel()
	g.wantErr(context.Canceled, "Await with a context that is done", f.Await(ended, g.log.End()))
	g.wantErr(nil, "Close", f.Close())
	g.wantErr(journal.ErrStopped, "Await after Close", f.Await(ctx, g.begin))
	g.wantErr(journal.ErrStopped, "Folded after Close", f.Folded(ctx, g.log.End()))
	_, err = f.Head(ctx)
	g.wantErr(journal.ErrStopped, "Head after Close", err)
}

// wantAwaited checks that Await returns only when a group is appended, and that the follower then
// reads that group.
func (g *fixture) wantAwaited(f journal.Follower) {
	g.Helper()
	at := g.log.End()
	for range 3 {
		read := make(chan error)
		go func() { read <- f.Await(g.Context(), at) }()
		select {
		case err := <-read:
			g.Fatalf("Await does not wait: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
		g.add(false, "news")
		if err := <-read; err != nil {
			g.Fatalf("Await: %v", err)
		}
		for group, err := range g.advancing(g.Context(), f, at) {
			if err != nil || !Equal(group, g.groups[len(g.groups)-1]) {
				g.Fatalf("the follower reads %v: %v", group, err)
			}
			at = group.After
		}
		if at != g.log.End() {
			g.Fatalf("the follower has read up to %v, not %v", at, g.log.End())
		}
	}
}

// testWalk runs random calls in random order, and checks the journal at the end. The log of the
// test has the seed.
func testWalk(t *testing.T, k Kind) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	g := newFixture(t, k)
	for range 60 / k.step(3) {
		switch n := random.IntN(12); {
		case n == 0:
			g.reopen()
		case n == 1:
			g.claim()
		case n == 2 && len(g.groups) > 0:
			g.trim(g.groups[random.IntN(len(g.groups))].After)
		case n == 3 && g.medium.Break != nil:
			g.uncertain(random.IntN(2) == 0, random.IntN(2) == 0, random.IntN(4) == 0)
			g.claim()
		default:
			g.append(random.IntN(6) == 0, make([]byte, random.IntN(100)), make([]byte, random.IntN(3000)))
		}
	}
	g.check()
}
