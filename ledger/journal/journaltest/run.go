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

// Kind is a kind of journal that is tested.
type Kind struct {
	// New makes a journal that begins at a position.
	New func(t *testing.T, at journal.Position) Medium
	// Shared says that a journal can be open twice, and that a claim fences the other handle. Of
	// any other kind, the second Open or its Claim returns [journal.ErrInUse].
	Shared bool
	// ReadsAhead says that Read may return groups that are trimmed after it has begun.
	ReadsAhead bool
	// Brief says that handles are opened slowly: less is tried of like cases.
	Brief bool
	// Large is how many bytes the largest group has that is tried; some tens of megabytes are good.
	Large int
}

// Medium is what keeps a journal when no handle is open.
type Medium struct {
	// Open returns a new handle.
	Open func() (journal.Journal, error)
	// Break makes the next Append fail, by whatever handle, so that it leaves open whether the
	// group is there, or must find that out. landed says which of both it should be, if that can be
	// chosen. If Break is nil, it is not tested.
	Break func(landed bool)
	// Tamper has ways in which others may change what a handle has left, by what they do: each puts
	// an older copy in its place, takes it away, cuts it off, and so on, while the handle is open,
	// and leaves it so. Append, Trim and Close must then return ErrReplaced.
	Tamper map[string]func()
	// Fold has as many other hosts say that they have all up to a position as Trim waits for. It is
	// nil if Trim waits for nobody.
	Fold func(through journal.Position)
}

// Run tests a kind of journal, each test with journals of its own.
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
		{"follow", testFollow}, {"meanwhile", testMeanwhile}, {"walk", testWalk},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, k) })
	}
}

// step returns how many of like cases are taken at a time.
func (k Kind) step(brief int) int {
	if k.Brief {
		return brief
	}
	return 1
}

// game is a journal, and what must be in it.
type game struct {
	*testing.T
	medium Medium
	j      journal.Journal
	log    Log
	term   uint64
	begin  journal.Position
	groups []journal.Group
}

// play makes a journal behind a few events, and claims it.
func play(t *testing.T, k Kind) *game {
	t.Helper()
	g := &game{T: t}
	g.log.Group(0, []byte("long"), []byte("ago"))
	g.begin = g.log.End()
	g.medium = k.New(t, g.begin)
	g.open()
	g.claim()
	return g
}

func (g *game) open() {
	g.Helper()
	var err error
	if g.j, err = g.medium.Open(); err != nil {
		g.Fatalf("Open: %v", err)
	}
	g.Cleanup(func() { g.j.Close() })
}

func (g *game) claim() {
	g.Helper()
	term, end, err := g.j.Claim(g.Context())
	if err != nil || term <= g.term || end != g.log.End() {
		g.Fatalf("Claim: term %d after %d, it ends with %v, not %v: %v", term, g.term, end, g.log.End(), err)
	}
	g.term = term
}

// again closes the journal, and opens it.
func (g *game) again() {
	g.Helper()
	if err := g.j.Close(); err != nil {
		g.Fatalf("Close: %v", err)
	}
	g.open()
	g.check()
	g.claim()
}

// add appends a group.
func (g *game) add(cut bool, records ...string) {
	g.Helper()
	var all [][]byte
	for _, r := range records {
		all = append(all, []byte(r))
	}
	g.append(cut, all...)
}

func (g *game) append(cut bool, records ...[]byte) {
	g.Helper()
	group := g.log.Group(g.term, records...)
	group.Cut = cut
	if err := g.j.Append(g.Context(), group); err != nil {
		g.Fatalf("Append: %v", err)
	}
	g.groups = append(g.groups, stored(group))
}

// fill appends so many groups.
func (g *game) fill(n int) {
	g.Helper()
	for i := range n {
		g.add(i%4 == 3, fmt.Sprintf("event %d", i), "and another")
	}
}

// errEndless says that Read returns a group that does not go on from the one before it, so that it
// may never end.
var errEndless = errors.New("Read does not advance")

// advancing is Read of a journal, which must advance with each group: else the test fails, and the
// sequence ends.
func (g *game) advancing(ctx context.Context, j journal.Journal,
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

// read reads all groups behind a position.
func (g *game) read(after journal.Position) (all []journal.Group, err error) {
	for group, err := range g.advancing(g.Context(), g.j, after) {
		if err != nil {
			return all, err
		}
		all = append(all, group)
	}
	return all, nil
}

// trimmed forgets the groups up to a position.
func (g *game) trimmed(through journal.Position) {
	for len(g.groups) > 0 && g.groups[0].After.Events <= through.Events {
		g.groups = g.groups[1:]
	}
	g.begin = through
}

// trim trims the journal.
func (g *game) trim(through journal.Position) {
	g.Helper()
	g.fold(through)
	if err := g.j.Trim(g.Context(), through); err != nil {
		g.Fatalf("Trim(%v): %v", through, err)
	}
	g.trimmed(through)
}

// check reads the journal from every position at which a group ends.
func (g *game) check() {
	g.Helper()
	at := g.begin
	for i := 0; ; i++ {
		g.same(at, g.groups[i:])
		if i == len(g.groups) {
			return
		}
		at = g.groups[i].After
	}
}

// same holds what follows on a position against what should.
func (g *game) same(at journal.Position, want []journal.Group) {
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

// wants checks that a call returned a sort of error.
func (g *game) wants(want error, call string, err error) {
	g.Helper()
	if !errors.Is(err, want) {
		g.Errorf("%s: %v, not %v", call, err, want)
	}
}

// never returns a group that is never appended.
func (g *game) never(term uint64) journal.Group {
	group := g.log.Group(term, []byte("never"))
	g.log.Undo(1)
	return group
}

// fold has other hosts say that they have all up to a position, if Trim waits for that.
func (g *game) fold(through journal.Position) {
	if g.medium.Fold != nil {
		g.medium.Fold(through)
	}
}

// fails reads from a position that there is not.
func (g *game) fails(at journal.Position, want error) {
	g.Helper()
	found, err := g.read(at)
	if len(found) > 0 || !errors.Is(err, want) || !errors.Is(err, errs.ErrCorrupt) {
		g.Errorf("Read(%v) returns %d groups and %v, not %v", at, len(found), err, want)
	}
}

// otherRoot is a position with as many events as another, and another root.
func otherRoot(p journal.Position) journal.Position {
	p.Root[0] ^= 1
	return p
}

// mostName is how many bytes a name may have.
const mostName = 256

func testName(t *testing.T, k Kind) {
	a, b := play(t, k), play(t, k)
	name := a.j.Name()
	if a.again(); a.j.Name() != name || name == b.j.Name() {
		t.Errorf("one journal is %q and %q, another is %q", name, a.j.Name(), b.j.Name())
	}
	if bad := func(r rune) bool { return unicode.IsControl(r) }; name == "" || len(name) > mostName ||
		!utf8.ValidString(name) || strings.ContainsFunc(name, bad) {
		t.Errorf("the name %q is not 1 to %d bytes of UTF-8 without control characters", name, mostName)
	}
}

func testEmpty(t *testing.T, k Kind) {
	g := play(t, k)
	check := func() {
		g.check()
		g.fails(otherRoot(g.begin), journal.ErrForked)
		g.fails(journal.Position{Events: 1}, journal.ErrLost)
		g.fails(journal.Position{Events: 3}, journal.ErrLost)
	}
	check()
	g.again()
	check()
	g.add(true, "the first, in a segment that has begun")
	g.check()
}

func testOrder(t *testing.T, k Kind) {
	g := play(t, k)
	g.fill(11)
	for range 2 {
		g.check()
		g.fails(journal.Position{Events: g.begin.Events - 1}, journal.ErrLost)
		g.fails(journal.Position{Events: g.log.at + 1}, journal.ErrLost)
		for _, group := range g.groups {
			g.fails(otherRoot(group.After), journal.ErrForked)
			g.fails(journal.Position{Events: group.Before.Events + 1}, journal.ErrForked)
		}
		g.again()
	}
}

func testRecords(t *testing.T, k Kind) {
	g := play(t, k)
	g.add(false, "", "\x00", "", "\xff\xff", string(make([]byte, 1<<12)))
	g.add(false, "")
	mine := []byte("mine")
	g.append(false, mine)
	copy(mine, "gone")
	g.check()
	found, err := g.read(g.begin)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range found { // they are the reader's
		for i, r := range group.Records {
			clear(r)
			group.Records[i] = append(r, 1)
		}
	}
	g.check()
	g.again()
}

func testRejected(t *testing.T, k Kind) {
	g := play(t, k)
	g.fill(3)
	good := g.log.Group(g.term, []byte("a"), []byte("b"))
	g.log.Undo(2)
	for name, change := range map[string]func(*journal.Group){
		"before the end": func(x *journal.Group) { *x = g.groups[2] },
		"behind the end": func(x *journal.Group) {
			x.Before.Events++
			x.After.Events++
		},
		"another root":      func(x *journal.Group) { x.Before = otherRoot(x.Before) },
		"no record":         func(x *journal.Group) { x.Records, x.After = nil, x.Before },
		"a record too few":  func(x *journal.Group) { x.Records = x.Records[:1] },
		"a record too many": func(x *journal.Group) { x.Records = append(x.Records, nil) },
		"backwards":         func(x *journal.Group) { x.After.Events = x.Before.Events - 2 },
	} {
		bad := stored(good)
		change(&bad)
		g.wants(journal.ErrOrder, "Append: "+name, g.j.Append(t.Context(), bad))
	}
	for _, term := range []uint64{0, g.term - 1, g.term + 1} {
		bad := good
		bad.Term = term
		g.wants(journal.ErrFenced, "Append under another term", g.j.Append(t.Context(), bad))
	}
	g.check()
	g.fill(1)
	g.again()
}

func testLarge(t *testing.T, k Kind) {
	g := play(t, k)
	big := make([]byte, k.Large/2)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(big)
	many := make([][]byte, 1000)
	for i := range many {
		many[i] = big[i : i+len(big)/3/len(many)*(i%7)/3]
	}
	g.add(false, "small")
	g.append(false, append(many, big)...)
	g.add(false, "small")
	g.check()
	g.append(true, big)
	g.again()
	g.trim(g.groups[1].After)
	g.add(false, "small")
	g.again()
}

func testTrim(t *testing.T, k Kind) {
	const groups = 7
	for n := 0; n < groups; n += k.step(3) {
		g := play(t, k)
		g.fill(groups)
		g.fold(g.log.End())
		inside := journal.Position{Events: g.groups[n].Before.Events + 1}
		beyond := journal.Position{Events: g.log.at + 1}
		g.wants(journal.ErrForked, "Trim to another root", g.j.Trim(t.Context(), otherRoot(g.groups[n].After)))
		g.wants(journal.ErrForked, "Trim into a group", g.j.Trim(t.Context(), inside))
		g.wants(journal.ErrLost, "Trim beyond the end", g.j.Trim(t.Context(), beyond))
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
				g.fails(old, journal.ErrLost)
				g.wants(nil, "Trim to what was trimmed", g.j.Trim(t.Context(), old))
			}
		}
		g.add(false, "more")
		g.again()
		g.add(false, "still more")
		g.check()
	}
}

// testHeld trims what nobody else has.
func testHeld(t *testing.T, k Kind) {
	g := play(t, k)
	if g.medium.Fold == nil {
		t.Log("Trim waits for nobody")
		return
	}
	g.fill(6)
	g.held(g.log.End(), g.begin)
	g.medium.Fold(g.groups[2].After)
	if through := g.held(g.log.End(), g.groups[2].After); through.Events > g.begin.Events {
		g.trimmed(through)
	}
	g.trim(g.begin) // again
	g.check()
	g.again()
	g.trim(g.groups[0].After)
	g.fill(1)
	g.check()
	g.trim(g.log.End())
	g.again()
}

// held trims to a position, which is held back behind another one, at the most. It returns how far
// all is destroyed, and nothing else has changed.
func (g *game) held(wanted, most journal.Position) journal.Position {
	g.Helper()
	var held *journal.HeldError
	if err := g.j.Trim(g.Context(), wanted); !errors.As(err, &held) || !errors.Is(err, journal.ErrHeld) ||
		held.Wanted != wanted || held.Through.Events > most.Events {
		g.Fatalf("Trim(%v) of which nobody else has more than %v: %v", wanted, most, err)
	}
	return held.Through
}

func testTrimAll(t *testing.T, k Kind) {
	g := play(t, k)
	for range 3 {
		g.fill(2)
		g.trim(g.log.End())
		g.check()
		g.trim(g.log.End())
		g.again()
	}
}

func testCut(t *testing.T, k Kind) {
	g := play(t, k)
	for range 3 {
		g.fill(2)
		from := g.log.End()
		g.add(true, "the first behind a checkpoint")
		g.add(true, "another one so soon")
		g.trim(from)
		g.check()
	}
	g.again()
}

func testReopen(t *testing.T, k Kind) {
	g := play(t, k)
	for i := range 6 {
		g.again()
		g.fill(i)
		g.check()
		if err := g.j.Close(); err != nil {
			t.Fatal(err)
		}
		g.open() // for reading only
		g.wants(nil, "Settle", g.j.Settle(t.Context()))
		g.check()
		g.wants(journal.ErrFenced, "Append without a claim", g.j.Append(t.Context(), g.never(0)))
		g.wants(journal.ErrFenced, "Trim without a claim", g.j.Trim(t.Context(), g.begin))
	}
}

func testContext(t *testing.T, k Kind) {
	g := play(t, k)
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
	appended := g.j.Append(ctx, g.never(g.term))
	_, _, claimed := g.j.Claim(ctx)
	g.wants(journal.ErrRejected, "Append with a context that is done", appended)
	g.wants(context.Canceled, "Append with a context that is done", appended)
	g.wants(context.Canceled, "Trim with a context that is done", g.j.Trim(ctx, g.log.End()))
	g.wants(context.Canceled, "Claim with a context that is done", claimed)
	g.check()
	g.fill(1)
	g.again()
}

// refused checks that every call returns an error.
func (g *game) refused(want error) {
	g.Helper()
	_, _, claimed := g.j.Claim(g.Context())
	_, read := g.read(g.begin)
	g.wants(want, "Claim", claimed)
	g.wants(want, "Read", read)
	g.wants(want, "Append", g.j.Append(g.Context(), g.never(g.term)))
	g.wants(want, "Trim", g.j.Trim(g.Context(), g.begin))
	g.wants(want, "Settle", g.j.Settle(g.Context()))
}

func testClosed(t *testing.T, k Kind) {
	g := play(t, k)
	g.fill(2)
	for group, err := range g.advancing(t.Context(), g.j, g.begin) {
		if group.Before != g.begin {
			g.wants(journal.ErrStopped, "Read after Close", err)
		}
		g.wants(nil, "Close", g.j.Close())
	}
	g.refused(journal.ErrStopped)
	g.open()
	g.check()
}

func testUncertain(t *testing.T, k Kind) {
	g := play(t, k)
	if g.medium.Break == nil {
		t.Log("nobody says how to make an append fail")
		return
	}
	for i := 0; i < 16; i += k.step(3) { // each way and size
		g.fill(i % 3)
		g.uncertain(i%2 == 0, i%4 < 2, i%8 < 4)
	}
}

// uncertain lets an append fail, and sees what became of it. A journal that finds that out by
// itself must be right.
func (g *game) uncertain(landed, cut, large bool) {
	g.Helper()
	records := [][]byte{[]byte("perhaps")}
	if large {
		records = append(records, bytes.Repeat([]byte("so large "), 1<<15))
	}
	group := g.log.Group(g.term, records...)
	group.Cut = cut
	g.medium.Break(landed)
	appended := g.j.Append(g.Context(), group)
	if known := appended == nil || isRejected(appended); !known {
		g.refused(journal.ErrStopped)
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
		g.Fatalf("a group is there in part: the journal ends with %v, not %v or %v", end, group.Before, group.After)
	}
	g.check()
	g.again()
}

func testTerms(t *testing.T, k Kind) {
	g := play(t, k)
	for range 3 {
		old := g.term
		g.add(false, "under one term")
		g.claim()
		g.wants(journal.ErrFenced, "Append under an earlier term", g.j.Append(t.Context(), g.never(old)))
		g.check()
	}
	g.again()
}

func testTwo(t *testing.T, k Kind) {
	g := play(t, k)
	g.add(false, "of the first")
	other, err := g.medium.Open()
	if !k.Shared {
		if err == nil {
			_, _, err = other.Claim(t.Context())
			other.Close()
		}
		g.wants(journal.ErrInUse, "Claim of a journal that is claimed", err)
		g.add(false, "the first goes on")
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
		g.wants(journal.ErrFenced, "Append after another claim", first.Append(t.Context(), g.never(term)))
	}
	g.fold(g.log.End())
	g.wants(journal.ErrFenced, "Trim after another claim", first.Trim(t.Context(), g.log.End()))
	g.fill(2)
	g.j = first
	g.check()
	g.claim()
	g.fill(1)
	g.check()
}

// testTampered has others change what a handle has left.
func testTampered(t *testing.T, k Kind) {
	if play(t, k).medium.Tamper == nil {
		t.Log("nobody says how to tamper with the journal")
		return
	}
	for how := range play(t, k).medium.Tamper {
		t.Run(how, func(t *testing.T) {
			for _, call := range []string{"Append", "Trim", "Close"} {
				testTamper(t, k, how, call)
			}
		})
	}
}

// testTamper tampers with a journal before a call.
func testTamper(t *testing.T, k Kind, how, call string) {
	g := play(t, k)
	g.fill(3)
	g.medium.Tamper[how]()
	switch call {
	case "Append":
		g.wants(errs.ErrReplaced, call, g.j.Append(t.Context(), g.never(g.term)))
	case "Trim":
		g.wants(errs.ErrReplaced, call, g.j.Trim(t.Context(), g.groups[0].After))
	}
	g.wants(errs.ErrReplaced, "Close after "+call, g.j.Close())
	g.wants(nil, "a second Close", g.j.Close())
}

// testMeanwhile appends, trims and claims while somebody reads.
func testMeanwhile(t *testing.T, k Kind) {
	for n := 0; n < 8; n += k.step(3) {
		g := play(t, k)
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
		g.lost(k.ReadsAhead)
	}
}

// lost trims what a reader would come to, or has read ahead.
func (g *game) lost(ahead bool) {
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
			g.Errorf("Read goes on to what was trimmed")
		}
	}
	if all := ahead && n == len(want) && last == nil; !all && !errors.Is(last, journal.ErrLost) {
		g.Errorf("Read ends after %d groups of %d: %v", n, len(want), last)
	}
}

// testFollow reads what another handle appends.
func testFollow(t *testing.T, k Kind) {
	g := play(t, k)
	if _, can := g.j.(journal.Follower); !can {
		t.Log("nobody follows")
		return
	}
	other, err := g.medium.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	f := other.(journal.Follower)
	g.awaited(f)
	ctx := t.Context()
	for _, at := range []journal.Position{otherRoot(g.log.End()), {Events: g.log.End().Events - 1}} {
		g.wants(journal.ErrForked, "Folded of a position that is none", f.Folded(ctx, at))
	}
	early, late := journal.Position{Events: 1}, journal.Position{Events: g.log.End().Events + 1}
	g.wants(journal.ErrLost, "Folded before the journal begins", f.Folded(ctx, early))
	g.wants(journal.ErrLost, "Folded beyond its end", f.Folded(ctx, late))
	g.wants(nil, "Await before the journal begins", f.Await(ctx, early))
	g.wants(journal.ErrLost, "Await beyond its end", f.Await(ctx, late))
	g.wants(nil, "Folded", f.Folded(ctx, g.log.End()))
	ended, cancel := context.WithCancel(ctx)
	cancel()
	g.wants(context.Canceled, "Await with a context that is done", f.Await(ended, g.log.End()))
	g.wants(nil, "Close", f.Close())
	g.wants(journal.ErrStopped, "Await after Close", f.Await(ctx, g.begin))
	g.wants(journal.ErrStopped, "Folded after Close", f.Folded(ctx, g.log.End()))
	_, err = f.Head(ctx)
	g.wants(journal.ErrStopped, "Head after Close", err)
}

// awaited has a follower wait for groups, and read them.
func (g *game) awaited(f journal.Follower) {
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
			g.Fatalf("the follower has come to %v, not %v", at, g.log.End())
		}
	}
}

// testWalk does this and that.
func testWalk(t *testing.T, k Kind) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	g := play(t, k)
	for range 60 / k.step(3) {
		switch n := random.IntN(12); {
		case n == 0:
			g.again()
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
