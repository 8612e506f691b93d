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

// counted yields the numbers below most, and then calls end. It sets ended when it has returned.
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

// readAhead yields the elements in their order, and ends the sequence when its caller stops early.
func TestReadAhead_ReaderStops_EndsTheSequence(t *testing.T) {
	for _, stop := range []int{1, 5, 10, 1000} {
		var got []int
		stopped, ended := false, false
		for n, err := range readAhead(func() { stopped = true }, counted(10, func() {}, &ended)) {
			if err != nil {
				t.Error(err)
			}
			if got = append(got, n); len(got) == stop {
				break
			}
		}
		if most := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(got, most[:min(stop, 10)]) || !stopped || !ended {
			t.Errorf("up to %d: %v; stop was called: %v, the sequence has ended: %v", stop, got, stopped, ended)
		}
	}
}

// The caller of readAhead learns how the sequence ended: by an error, a panic, or runtime.Goexit.
// Otherwise it would take a journal that was read in part for a whole one.
func TestReadAhead_SequenceFails_ReportsHow(t *testing.T) {
	fault := errors.New("a fault")
	read := func(elements iter.Seq2[int, error]) (n int, panicked any, last error) {
		defer func() { panicked = recover() }()
		for _, last = range readAhead(func() {}, elements) {
			n++
		}
		return n, nil, last
	}
	ended := false
	if n, panicked, last := read(counted(10, runtime.Goexit, &ended)); n != 11 || !errors.Is(last, errReaderStopped) || panicked != nil || !ended {
		t.Errorf("the goroutine ended after %d: %v, %v", n, last, panicked)
	}
	if n, panicked, last := read(counted(10, func() { panic(fault) }, &ended)); panicked != fault {
		t.Errorf("a panic after %d: %v, %v", n, last, panicked)
	}
	failing := func(yield func(int, error) bool) { _ = yield(0, nil) && yield(0, fault) }
	if n, panicked, last := read(failing); n != 2 || last != fault || panicked != nil {
		t.Errorf("an error after %d: %v, %v", n, last, panicked)
	}
}

// written returns groups of one event each, of about the given number of bytes, and the frontier of
// the Merkle tree before them.
func written(t *testing.T, groups, bytes int) (before *merkle.Frontier, all []journal.Group) {
	t.Helper()
	before = &merkle.Frontier{}
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

// The parts of a journal are limited in events and in bytes, and together they have all its events.
func TestReaderParts_LargeJournal_LimitsEachPart(t *testing.T) {
	for _, c := range []struct{ groups, bytes, parts int }{
		{0, 10, 0}, {1, 10, 1}, {foldedTogether, 10, 1}, {foldedTogether + 1, 10, 2}, {3 * foldedTogether, 10, 3}, {100, foldedBytes / 25, 4},
	} {
		t.Run(fmt.Sprint(c.groups, " of ", c.bytes, " bytes"), func(t *testing.T) {
			edge, all := written(t, c.groups, c.bytes)
			x := &reader{fold.Reader{Frontier: edge}}
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
			for i, p := range parts { // after all are read, because a later part must not change an earlier one
				events += len(p.events)
				if end := all[events-1].After; p.at != end || p.frontier.Size() != end.Events || p.frontier.Root() != end.Root || p.ends[len(p.ends)-1] != len(p.events) {
					t.Errorf("part %d ends at %v, its frontier at %d, want %v", i, p.at, p.frontier.Size(), end)
				}
			}
			if len(parts) != c.parts || events != c.groups {
				t.Errorf("%d events in %d parts", events, len(parts))
			}
		})
	}
}
