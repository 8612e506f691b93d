package keyholder

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/journal"
)

// Names of journals in tests.
const (
	one   = "test:00112233445566778899aabbccddeeff"
	other = "test:ffeeddccbbaa99887766554433221100"
)

// testHolder tests a kind of holder. fresh creates one, and returns a function that opens it again,
// after closing it if it can be closed.
func testHolder(t *testing.T, fresh func(t *testing.T) (open func() Holder)) {
	for _, c := range []struct {
		name string
		test func(*fixture)
	}{
		{"keys", testKeys}, {"conflict", testConflict}, {"journals", testJournals}, {"keep", testKeep}, {"late", testLate}, {"marks", testMarks},
		{"seen", testSeen}, {"invalid", testInvalid}, {"context", testContext}, {"together", testTogether},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := &fixture{T: t, open: fresh(t)}
			g.h = g.open()
			c.test(g)
		})
	}
}

type fixture struct {
	*testing.T
	open func() Holder
	h    Holder
}

func (g *fixture) reopen() { g.h = g.open() }

// keyOf returns a key that depends only on the segment.
func keyOf(s Segment) (k Key) {
	source := rand.NewChaCha8([32]byte{byte(s.Term), byte(s.Number)})
	_, _ = source.Read(k[:])
	return k
}

func at(term, number uint64) Segment {
	return Segment{Term: term, Number: number}
}

func (g *fixture) put(all ...Segment) {
	g.Helper()
	for _, s := range all {
		err := g.h.Put(g.Context(), one, s, keyOf(s))
		check.Need(g, err == nil, "Put(%v): %v", s, err)
	}
}

// wantKeys checks that Get returns the keys of some segments, or the wanted error.
func (g *fixture) wantKeys(want error, all ...Segment) {
	g.Helper()
	for _, s := range all {
		k, err := g.h.Get(g.Context(), one, s)
		check.That(g, errors.Is(err, want) && (err != nil || k == keyOf(s)), "Get(%v): %v, not %v", s, err, want)
		check.That(g, want != ErrNoKey || !errors.Is(err, ErrDestroyed), "Get(%v) of a key that never was: %v", s, err)
	}
}

func (g *fixture) keep(below Segment, live ...Segment) {
	g.Helper()
	err := g.h.Keep(g.Context(), one, below, live)
	check.Need(g, err == nil, "Keep(%v, %v): %v", below, live, err)
}

func testKeys(g *fixture) {
	all := []Segment{at(1, 1), at(1, 2), at(2, 1), at(1<<63, 1<<40)}
	g.wantKeys(ErrNoKey, all...)
	g.put(all...)
	g.put(all...) // again
	g.wantKeys(nil, all...)
	g.wantKeys(ErrNoKey, at(1, 3), at(3, 1))
	g.reopen()
	g.wantKeys(nil, all...)
	g.put(all...)
	check.That(g, g.h.Name() != "", "it has no name")
}

func testConflict(g *fixture) {
	g.put(at(1, 1))
	for range 2 {
		check.WantErr(g, g.h.Put(g.Context(), one, at(1, 1), keyOf(at(9, 9))), errConflict, "another key for a segment")
		g.wantKeys(nil, at(1, 1))
		g.reopen()
	}
}

func testJournals(g *fixture) {
	g.put(at(1, 1))
	check.Must(g, g.h.Put(g.Context(), other, at(1, 1), keyOf(at(9, 9))))
	check.Must(g, g.h.Keep(g.Context(), other, at(1, 1), nil))
	g.keep(at(2, 1))
	g.wantKeys(ErrDestroyed, at(1, 1))
	k, err := g.h.Get(g.Context(), other, at(1, 1))
	check.That(g, err == nil && k == keyOf(at(9, 9)), "the key of another journal: %v", err)
}

func testKeep(g *fixture) {
	g.put(at(1, 1), at(1, 2), at(1, 3), at(2, 1), at(2, 2))
	g.keep(at(1, 1))
	g.wantKeys(nil, at(1, 1), at(1, 2), at(1, 3), at(2, 1), at(2, 2))
	g.keep(at(2, 1), at(1, 2))
	kept := func() {
		g.wantKeys(ErrDestroyed, at(1, 1), at(1, 3))
		g.wantKeys(nil, at(1, 2), at(2, 1), at(2, 2))
	}
	kept()
	g.keep(at(2, 1), at(1, 2))
	g.keep(at(1, 3)) // late
	kept()
	g.reopen()
	kept()
	g.keep(at(2, 1)) // the same again, with one live segment less
	g.wantKeys(ErrDestroyed, at(1, 1), at(1, 2), at(1, 3))
	g.wantKeys(nil, at(2, 1), at(2, 2))
	g.keep(at(2, 3))
	g.wantKeys(ErrDestroyed, at(1, 1), at(1, 2), at(1, 3), at(2, 1), at(2, 2))
	g.reopen()
	g.wantKeys(ErrDestroyed, at(1, 1), at(1, 2), at(1, 3), at(2, 1), at(2, 2))
	g.put(at(2, 3))
	g.wantKeys(nil, at(2, 3))
}

// testLate checks that Put refuses keys that were destroyed.
func testLate(g *fixture) {
	g.put(at(1, 1))
	g.keep(at(2, 2), at(1, 7))
	for range 2 {
		for _, s := range []Segment{at(1, 1), at(1, 2), at(2, 1)} {
			check.WantErr(g, g.h.Put(g.Context(), one, s, keyOf(s)), ErrDestroyed, "a key that was destroyed, or would have been, is taken")
			g.wantKeys(ErrDestroyed, s)
		}
		g.reopen()
	}
	g.put(at(1, 7), at(2, 2)) // a live one that the holder did not have, and a new one
	g.wantKeys(nil, at(1, 7), at(2, 2))
}

func markAt(term, events uint64) Mark {
	p := journal.Position{Events: events}
	p.Root[3] = byte(events)
	return Mark{Term: term, Position: p}
}

func (g *fixture) wantMark(want Mark) {
	g.Helper()
	mark, _, err := g.h.Seen(g.Context(), one)
	check.That(g, err == nil && mark == want, "the mark is %v, not %v: %v", mark, want, err)
}

func testMarks(g *fixture) {
	g.wantMark(Mark{})
	highest := Mark{}
	for _, m := range []Mark{
		markAt(1, 5), markAt(1, 7), markAt(1, 7), markAt(1, 6), markAt(2, 3), markAt(1, 100), markAt(2, 4), markAt(2, 0), markAt(5, 4), markAt(5, 5),
	} {
		check.Must(g, g.h.Mark(g.Context(), one, m))
		if m.Compare(highest) > 0 {
			highest = m
		}
		g.wantMark(highest)
		if m.Position.Events%2 == 0 {
			g.reopen()
			g.wantMark(highest)
		}
	}
}

func testSeen(g *fixture) {
	term := func(want uint64) {
		g.Helper()
		for range 2 {
			_, term, err := g.h.Seen(g.Context(), one)
			check.That(g, err == nil && term == want, "the highest term is %d, not %d: %v", term, want, err)
			g.reopen()
		}
	}
	term(0)
	g.put(at(3, 1))
	term(3)
	g.keep(at(5, 2))
	term(5)
	check.Must(g, g.h.Mark(g.Context(), one, markAt(6, 1)))
	term(6)
	g.put(at(7, 1), at(6, 1))
	term(7)
	g.keep(at(8, 1))
	term(8)
	g.wantMark(markAt(6, 1))
}

// calls calls each method of a holder, and returns their errors.
func calls(ctx context.Context, h Holder, journal string) map[string]error {
	_, _, seen := h.Seen(ctx, journal)
	return map[string]error{
		"Put": h.Put(ctx, journal, at(1, 1), keyOf(at(1, 1))), "Get": check.Err(h.Get(ctx, journal, at(1, 1))), "Seen": seen,
		"Keep": h.Keep(ctx, journal, at(1, 1), nil), "Mark": h.Mark(ctx, journal, markAt(1, 1)),
	}
}

func testInvalid(g *fixture) {
	for _, name := range []string{
		"", "test", "test:", one + "0", one[:len(one)-1], strings.ToUpper(one), "../test:00112233445566778899aabbccddeeff", "te/st" + one[4:],
		"test:0011223344556677889/aabbccddeeff", one + "\n", "te st" + one[4:], "..:" + one[5:], "test-" + one[5:],
	} {
		for call, err := range calls(g.Context(), g.h, name) {
			check.WantErr(g, err, errInvalid, "%s of the journal %q", call, name)
		}
	}
	check.WantErr(g, g.h.Put(g.Context(), one, at(1, 0), keyOf(at(1, 1))), errInvalid, "a segment without a number")
}

func testContext(g *fixture) {
	ctx, cancel := context.WithCancel(g.Context())
	cancel()
	for call, err := range calls(ctx, g.h, one) {
		check.WantErr(g, err, context.Canceled, "%s with a context that is done", call)
	}
}

// testTogether makes calls in several goroutines at once.
func testTogether(g *fixture) {
	var all sync.WaitGroup
	for i := range uint64(8) {
		all.Go(func() {
			for n := range uint64(8) {
				s := at(1+n, 1+i)
				err := errors.Join(g.h.Put(g.Context(), one, s, keyOf(s)), g.h.Mark(g.Context(), one, markAt(1+n, i)))
				k, got := g.h.Get(g.Context(), one, s)
				check.That(g, err == nil && got == nil && k == keyOf(s), "%v %v %v", s, err, got)
			}
		})
	}
	all.Wait()
	g.wantMark(markAt(8, 7))
}
