package engine

import (
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/fold"
	"github.com/sluicedp/sluice/ledger/internal/merkle"
	"github.com/sluicedp/sluice/ledger/journal"
)

// counted makes numbers, and ends in some way. It tells when it has ended.
func counted(most int, end func(), ended *bool) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		defer func() { *ended = true }()
		for i := range most {
			if !yield(i, nil) {
				return
			}
		}
		end()
	}
}

// What is made ahead comes in its order, and nothing goes on when nobody reads any more.
func TestWhatIsMadeAheadComesInOrder(t *testing.T) {
	for _, stop := range []int{1, 5, 10, 1000} {
		var got []int
		stopped, ended := false, false
		for n, err := range ahead(func() { stopped = true }, counted(10, func() {}, &ended)) {
			if err != nil {
				t.Error(err)
			}
			if got = append(got, n); len(got) == stop {
				break
			}
		}
		if most := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(got, most[:min(stop, 10)]) || !stopped || !ended {
			t.Errorf("up to %d there is %v; it was stopped: %v, and has ended: %v", stop, got, stopped, ended)
		}
	}
}

// However it ends, whoever reads is told: a journal that is cut short passes for a whole one else.
func TestHowWhatIsMadeAheadEnds(t *testing.T) {
	fault := errors.New("a fault")
	read := func(elements iter.Seq2[int, error]) (n int, panicked any, last error) {
		defer func() { panicked = recover() }()
		for _, last = range ahead(func() {}, elements) {
			n++
		}
		return n, nil, last
	}
	ended := false
	if n, panicked, last := read(counted(10, runtime.Goexit, &ended)); n != 11 || !errors.Is(last, errGivenUp) || panicked != nil || !ended {
		t.Errorf("given up behind %d: %v, %v", n, last, panicked)
	}
	if n, panicked, last := read(counted(10, func() { panic(fault) }, &ended)); panicked != fault {
		t.Errorf("a panic behind %d: %v, %v", n, last, panicked)
	}
	failing := func(yield func(int, error) bool) { _ = yield(0, nil) && yield(0, fault) }
	if n, panicked, last := read(failing); n != 2 || last != fault || panicked != nil {
		t.Errorf("an error behind %d: %v, %v", n, last, panicked)
	}
}

// written returns groups of one event each, which takes so many bytes, and the edge before them.
func written(t *testing.T, groups, bytes int) (before *merkle.Edge, all []journal.Group) {
	t.Helper()
	before = &merkle.Edge{}
	edge := before.Clone()
	for i := range uint64(groups) {
		w := new(event.Written).Write(&event.Event{Number: i + 1, Time: time.Unix(int64(i), 0), Change: &event.BuyerNamed{Number: 1, Name: strings.Repeat("b", bytes)}})
		g := journal.Group{Before: journal.Position{Events: i, Root: edge.Root()}, Records: [][]byte{slices.Clone(w.Bare())}}
		if _, err := edge.Append(w.Leaf()); err != nil {
			t.Fatal(err)
		}
		g.After = journal.Position{Events: i + 1, Root: edge.Root()}
		all = append(all, g)
	}
	return before, all
}

// A journal is folded in parts that are large neither in number nor in bytes, with all that is in
// it.
func TestAJournalIsFoldedInParts(t *testing.T) {
	for _, c := range []struct{ groups, bytes, parts int }{
		{0, 10, 0}, {1, 10, 1}, {foldedTogether, 10, 1}, {foldedTogether + 1, 10, 2}, {3 * foldedTogether, 10, 3}, {100, foldedBytes / 25, 4},
	} {
		t.Run(fmt.Sprint(c.groups, " of ", c.bytes, " bytes"), func(t *testing.T) {
			edge, all := written(t, c.groups, c.bytes)
			x := &reader{fold.Reader{Edge: edge}}
			var parts []*part
			for p, err := range x.parts(func(yield func(journal.Group, error) bool) {
				for _, g := range all {
					if !yield(g, nil) {
						return
					}
				}
			}) {
				if err != nil {
					t.Fatal(err)
				}
				parts = append(parts, p)
			}
			events := 0
			for i, p := range parts { // when all are there: none changes with the next
				events += len(p.events)
				if end := all[events-1].After; p.at != end || p.edge.Size() != end.Events || p.edge.Root() != end.Root || p.ends[len(p.ends)-1] != len(p.events) {
					t.Errorf("part %d ends at %v, its edge at %d, want %v", i, p.at, p.edge.Size(), end)
				}
			}
			if len(parts) != c.parts || events != c.groups {
				t.Errorf("%d events in %d parts", events, len(parts))
			}
		})
	}
}
