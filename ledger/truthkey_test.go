package ledger

import (
	"bytes"
	"os"
	"testing"
)

// The second half of invariant 6: a chain belongs to the truth it began with. With a truth key the
// ledger holds a keyed hash of it and refuses to go on for another value.

func truthKey() []byte { return []byte("the key of the host, 32 bytes ..") }

func bound(t *testing.T, path string) *Ledger {
	t.Helper()
	return open(t, path, Options{TruthKey: truthKey()})
}

func TestABoundChainRefusesAnotherTruth(t *testing.T) {
	path := votersFile(t, "3", "ann")
	l := bound(t, path)
	release(t, l, releaseOf(t, "1", "ann", "0.5"))
	liar := releaseOf(t, "2", "ann", "1")
	liar.Truth = TruthOf("no")
	for range 2 {
		unchanged(t, l.store, func() {
			_, err := l.Release(t.Context(), liar)
			wantErr(t, err, ErrTruthChanged)
		})
		closed(t, l)
		l = bound(t, path)
	}
	release(t, l, releaseOf(t, "2", "ann", "1")) // the key of the call is free, the chain usable
	liar.Key, liar.Epsilon = "3", eps(t, "0.75")
	release(t, l, liar) // at or below the current level nobody asks what the truth is
	audit(t, l.store)
}

// One changed truth in a large order is found before anything is drawn.
func TestAChangedTruthStopsTheWholeOrder(t *testing.T) {
	l := voters(t, inMemory(t, Options{TruthKey: truthKey()}), "3", "ann", "bob", "cid")
	carryOut(t, l, order(t, "1", "0.5"))
	r := order(t, "2", "1")
	r.Truth = listOf("yes", "no", "yes")
	for _, r.Partial = range []bool{false, true} {
		unchanged(t, l.store, func() {
			_, err := l.Raise(t.Context(), r)
			wantErr(t, err, ErrTruthChanged)
		})
	}
}

func TestOpenRefusesAnotherTruthKey(t *testing.T) {
	path := votersFile(t, "3", "ann")
	closed(t, bound(t, path))
	other := truthKey()
	other[0]++
	for name, options := range map[string]Options{
		"another":            {TruthKey: other},
		"another, read-only": {TruthKey: other, ReadOnly: true},
		"longer":             {TruthKey: append(truthKey(), 1)},
	} {
		if _, err := Open(path, options); err == nil {
			t.Errorf("%s: opened", name)
		} else {
			wantErr(t, err, ErrTruthKey)
		}
	}
	bound(t, path) // and the refused ones left no lock behind
}

func TestAShortTruthKeyIsRefused(t *testing.T) {
	path := votersFile(t, "3", "ann")
	for _, length := range []int{0, 1, 15} {
		_, err := Open(path, Options{TruthKey: truthKey()[:length]})
		wantErr(t, err, ErrInvalid)
	}
	l := open(t, path, Options{TruthKey: truthKey()[:16]})
	if n := countKind(events(t, l), "truth-key"); n != 1 {
		t.Errorf("%d truth-key events", n)
	}
}

func TestTheTruthKeyIsSetOnce(t *testing.T) {
	path := votersFile(t, "3", "ann")
	closed(t, bound(t, path))
	l := bound(t, path)
	if n := countKind(events(t, l), "truth-key"); n != 1 {
		t.Errorf("%d truth-key events", n)
	}
	audit(t, l.store)
}

// Without the key a bound chain gives away what it has given already, and nothing more.
func TestWithoutTheTruthKeyBoundChainsAreOnlyResold(t *testing.T) {
	path := votersFile(t, "3", "ann", "bob")
	l := bound(t, path)
	first := release(t, l, releaseOf(t, "1", "ann", "0.5"))
	closed(t, l)
	l = open(t, path, Options{})
	unchanged(t, l.store, func() {
		_, err := l.Release(t.Context(), releaseOf(t, "2", "ann", "1"))
		wantErr(t, err, ErrTruthKey)
	})
	again := release(t, l, releaseOf(t, "3", "ann", "0.5"))
	if again != first {
		t.Errorf("%v, then %v", first, again)
	}
	release(t, l, releaseOf(t, "4", "ann", "0.25"))
	release(t, l, releaseOf(t, "5", "bob", "0.5")) // begun without a key, and so not bound
	if c := chainOf(t, l, 1, "bob"); c.bound != nil {
		t.Errorf("bob's chain is bound without a key")
	}
}

func chainOf(t *testing.T, l *Ledger, question uint32, name string) (c chain) {
	t.Helper()
	must(t, l.view(t.Context(), func(s *state) (err error) {
		c, _, err = s.chain(question, name)
		return err
	}))
	return c
}

func TestChainsBegunBeforeTheKeyAreBoundAtTheirNextRaise(t *testing.T) {
	path := votersFile(t, "3", "ann")
	l := open(t, path, Options{})
	release(t, l, releaseOf(t, "1", "ann", "0.5"))
	closed(t, l)

	l = bound(t, path)
	release(t, l, releaseOf(t, "2", "ann", "0.25")) // not by a resale, which does not know the truth
	if c := chainOf(t, l, 1, "ann"); c.bound != nil {
		t.Error("a resale bound the chain")
	}
	release(t, l, releaseOf(t, "3", "ann", "1"))
	if c := chainOf(t, l, 1, "ann"); c.bound == nil {
		t.Error("a raise did not bind the chain")
	}
	liar := releaseOf(t, "4", "ann", "2")
	liar.Truth = TruthOf("no")
	_, err := l.Release(t.Context(), liar)
	wantErr(t, err, ErrTruthChanged)
	audit(t, l.store)
}

func TestTheTruthKeyIsNotInTheFile(t *testing.T) {
	path := votersFile(t, "3", "ann")
	l := bound(t, path)
	release(t, l, releaseOf(t, "1", "ann", "0.5"))
	closed(t, l)
	file, err := os.ReadFile(path)
	must(t, err)
	if bytes.Contains(file, truthKey()[:12]) {
		t.Error("the truth key is in the file")
	}
}

// The host may wipe its copy of the key once the ledger is open.
func TestTheTruthKeyIsTheLedgersOwnCopy(t *testing.T) {
	path := votersFile(t, "3", "ann")
	key := truthKey()
	l := open(t, path, Options{TruthKey: key})
	clear(key)
	release(t, l, releaseOf(t, "1", "ann", "0.5"))
	closed(t, l)
	l = bound(t, path)
	release(t, l, releaseOf(t, "2", "ann", "1"))
}

// Equal tags would tell who has the same value, in one ledger or across two.
func TestTagsOfOneValueDiffer(t *testing.T) {
	seen := map[tag]string{}
	add := func(what string, h tag) {
		if twin, twice := seen[h]; twice {
			t.Errorf("%s has the tag of %s", what, twin)
		}
		seen[h] = what
	}
	b := &binder{key: truthKey(), ledger: [16]byte{1}}
	add("a value", b.truth("ann", 1, 0))
	add("another value", b.truth("ann", 1, 1))
	add("another object", b.truth("bob", 1, 0))
	add("another question", b.truth("ann", 2, 0))
	add("another question with the value's number", b.truth("ann", 0, 1))
	add("the check", b.check())
	add("another ledger", (&binder{key: truthKey(), ledger: [16]byte{2}}).truth("ann", 1, 0))
	add("another key", (&binder{key: append(truthKey(), 1), ledger: [16]byte{1}}).truth("ann", 1, 0))
	if first, again := b.truth("ann", 1, 0), b.truth("ann", 1, 0); first != again {
		t.Error("a value has two tags")
	}
}

// The tag that binds a chain is what doc.go promises: stored once, with the first bound raise.
func TestOnlyTheFirstBoundRaiseRecordsATag(t *testing.T) {
	l := voters(t, inMemory(t, Options{TruthKey: truthKey()}), "3", "ann")
	for i, epsilon := range []string{"0.5", "0.25", "1", "0.75", "2"} {
		release(t, l, releaseOf(t, string(rune('a'+i)), "ann", epsilon))
	}
	n := 0
	log := logOf(t, pairs(t, l.store))
	for _, ev := range log {
		if _, ok := ev.change.(*truthBound); ok {
			n++
			if next, ok := log[ev.number].change.(*released); !ok || next.epsilon != eps(t, "0.5") {
				t.Errorf("event %d binds the chain, and is not followed by the first raise", ev.number)
			}
		}
	}
	if n != 1 {
		t.Errorf("%d events bind the chain", n)
	}
}
