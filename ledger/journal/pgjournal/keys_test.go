//go:build unix

package pgjournal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/pgtest"
	"github.com/sluicedp/sluice/ledger/journal"
	"github.com/sluicedp/sluice/ledger/journal/keyholder"
)

// Nothing is encrypted under a key before it is stored on this host and on Options.Copies of the
// others. If that fails, nothing is sent.
func TestAppend_NewKey_WaitsForItsCopies(t *testing.T) {
	s := shared(t)
	h := newHosts(t, s.Database(t, "journals"), "a", "b", "c", "d")
	h.change = func(o *Options) { o.Copies = 2 }
	a := newAuthor(t, h, "a")
	off := errors.New("it is off")
	refused := func(names ...string) {
		t.Helper()
		h.fail(off, names...)
		a.wantRejected(a.group("nothing is sent"), fmt.Sprint("without ", names), off)
		rows := s.Exec(t, "journals", "SELECT count(*) FROM sluice.frames")
		check.That(t, rows[0] == "0", "without %v something was sent", names)
		h.fail(nil, names...)
	}
	refused("a")
	refused("b", "c")
	refused("b", "d")
	h.keys["c"].Fail(off)
	first := a.add("b and d have it")
	for name, want := range map[string]int{"a": 1, "b": 1, "d": 1} {
		pgtest.Until(t, "the keys are where they should", func() error {
			if n := h.keys[name].Count(a.j.Name()); n != want {
				return errors.New(name)
			}
			return nil
		})
	}
	a.add("no other key is needed")
	// It waits for a slow holder whose copy is needed, and for no other.
	h.keys["c"].Fail(nil)
	over := make(chan struct{})
	h.keys["d"].Inject(func(keyCall) error { <-over; return nil })
	var asked atomic.Bool
	on := make(chan struct{})
	h.keys["b"].Inject(func(c keyCall) error {
		if c.method == "Put" {
			asked.Store(true)
			<-on
		}
		return nil
	})
	g := a.group("after a checkpoint")
	g.Cut = true
	outcome := make(chan error)
	go func() { outcome <- a.j.Append(context.Background(), g) }()
	until(t, "b is asked", asked.Load)
	select {
	case err := <-outcome:
		t.Errorf("it has not waited: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(on)
	check.Must(t, <-outcome)
	close(over)
	// If the context ends during the wait for a holder, nothing was sent.
	h.keys["b"].Fail(off)
	h.keys["c"].Inject(func(keyCall) error { time.Sleep(50 * time.Millisecond); return off })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	g = a.group("given up")
	g.Cut = true
	err := a.j.Append(ctx, g)
	check.That(t, isRejected(err) && errors.Is(err, context.DeadlineExceeded), "given up: %v", err)
	a.log.Undo(1)
	h.fail(nil)
	a.add("after the failure")
	if found, err := read(t, a.j, first.Before); err != nil || len(found) != 4 {
		t.Errorf("%d groups: %v", len(found), err)
	}
}

// A host that cannot get the key of a segment from any host cannot claim the journal. Its claim
// names the hosts, and fences no other host. A host that gets the key from another host can claim.
func TestClaim_KeyIsMissing_IsErrNoKey(t *testing.T) {
	_, h, a := newShared(t, "a", "b", "c")
	off := errors.New("it is off")
	h.keys["c"].Fail(off)
	first := a.add("c has no key of this")
	h.keys["c"].Fail(nil)
	h.keys["a"].Fail(off)
	h.keys["b"].Fail(off)
	c := h.open(t, "c")
	refused := func() {
		t.Helper()
		_, _, err := c.Claim(t.Context())
		check.That(t, errors.Is(err, keyholder.ErrNoKey) && errors.Is(err, off), "without a key: %v", err)
		for _, word := range []string{"segment 1.1", "this host, c:", "a: ", "b: "} {
			check.That(t, strings.Contains(err.Error(), word), "it does not say %q: %v", word, err)
		}
		check.WantErr(t, check.Err(read(t, c, first.Before)), keyholder.ErrNoKey, "without a key, it reads")
	}
	refused()
	h.keys["a"].Fail(nil) // so that a can record its marks
	h.keys["a"].FailAt("Get", off)
	second := a.add("a was not fenced")
	refused()
	h.keys["b"].Fail(nil)
	h.keys["a"].Fail(off)
	b := &author{TB: t, j: c, log: a.log.Clone()}
	b.claim() // b has the key
	b.wantGroups(first.Before, first, second)
	h.keys["b"].Fail(off) // now c has a copy
	check.Must(t, c.Close())
	b.reopen(h, "c")
	b.wantGroups(first.Before, first, second)
}

// A claim needs the key of a segment that was begun during the claim, too. Without it, the claim
// fails and fences no other host.
func TestClaim_SegmentBegunDuringIt_NeedsItsKey(t *testing.T) {
	_, h, a := newShared(t, "a", "b", "c")
	first := a.add("c has the key of this")
	pgtest.Until(t, "c has the key", func() error {
		_, err := h.keys["c"].Get(t.Context(), a.j.Name(), keyholder.Segment{Term: a.term, Number: 1})
		return err
	})
	off, begin := errors.New("it is off"), true
	var second journal.Group
	h.keys["c"].Inject(func(c keyCall) error {
		switch {
		case c.method == "Put":
			return off
		case c.method == "Get" && begin:
			begin = false
			second = a.group("but not of this")
			second.Cut = true
			check.Must(t, a.j.Append(context.Background(), second))
			h.keys["b"].Fail(off)
			h.keys["a"].FailAt("Get", off)
		}
		return nil
	})
	c := h.open(t, "c")
	_, _, err := c.Claim(t.Context())
	check.That(t, errors.Is(err, keyholder.ErrNoKey) && !begin, "without the key of the new segment: %v", err)
	third := a.add("a was not fenced")
	h.fail(nil)
	b := &author{TB: t, j: c, log: a.log.Clone()}
	b.claim()
	b.wantGroups(first.Before, first, second, third)
}

// A claim succeeds in the end, even if the writer begins many segments during it.
func TestClaim_WriterKeepsBeginningSegments_Succeeds(t *testing.T) {
	_, h, a := newShared(t, "a", "b")
	all := []journal.Group{a.add("first")}
	const often = 50
	left := often
	h.keys["b"].Inject(func(c keyCall) error { // each request for the key of the first segment begins another segment
		if c.method != "Get" || c.of.Number != 1 {
			return nil
		}
		if left--; left > 0 {
			all = append(all, a.cut("another"))
		}
		return nil
	})
	b := &author{TB: t, j: h.open(t, "b"), log: a.log.Clone()}
	_, end, err := b.j.Claim(t.Context())
	check.That(t, err == nil && end == a.log.End() && len(all) == often,
		"after %d segments the journal ends with %v, not %v: %v", len(all), end, a.log.End(), err)
}

// If another host already has a different key for a segment, the append is rejected. So two hosts
// never encrypt under different keys for one segment.
func TestAppend_AnotherKeyForTheSegment_IsRejected(t *testing.T) {
	_, h, a := newShared(t, "a", "b")
	check.Must(t, h.keys["b"].Put(t.Context(), a.j.Name(), keyholder.Segment{Term: a.term, Number: 1}, keyholder.Key{1}))
	a.wantRejected(a.group("under a key that is not b's"), "b has another key", "another key for this segment")
	a.reopen(h, "a") // no host has a key of the new term
	a.add("under a new term")
	a.claim()
	a.add("and another one")
	n := h.keys["a"].Count(a.j.Name())
	check.That(t, n >= 2, "%d keys", n)
}

// A new segment begins with a new term, with a group that sets Cut, and after 64 MiB.
func TestAppend_TermCutOrSize_BeginsASegment(t *testing.T) {
	s, h, a := newShared(t, "a", "b")
	segments := func(want int) {
		t.Helper()
		rows := s.Exec(t, "journals", "SELECT events FROM sluice.segments")
		n := h.keys["b"].Count(a.j.Name())
		check.That(t, n == want && len(rows) == want, "%d segments and %d keys, not %d", len(rows), n, want)
	}
	a.cut("the first group")
	segments(1)
	a.add("the second group")
	segments(1)
	a.cut("after a checkpoint")
	segments(2)
	a.cut("after another one")
	segments(3)
	a.claim()
	segments(3)
	a.add("under another term")
	segments(4)
	large := strings.Repeat("x", 33<<20)
	a.add(large)
	a.add(large)
	segments(4)
	a.add("after more than 64 MiB")
	segments(5)
}

// Claim, Append and Close wait only for a limited time for a key holder that hangs and is not
// needed.
func TestClaim_KeyHolderHangs_WaitsAtMostItsLimit(t *testing.T) {
	t.Parallel() // it mostly waits
	s := shared(t)
	h := newHosts(t, s.Database(t, "hanging"), "a", "b", "c")
	a := newAuthor(t, h, "a")
	a.add("before")
	hanging := newKeys(t, "hanging")
	hanging.Inject(func(c keyCall) error { <-c.Done(); return c.Err() })
	h.change = func(o *Options) { o.Others = append(o.Others, hanging) }
	a.j = h.open(t, "a")
	began := time.Now()
	a.claim()
	a.add("after")
	check.Must(t, a.j.Close())
	took := time.Since(began)
	check.That(t, took <= 15*time.Second, "it took %v", took)
}
