package ledger

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluicedp/sluice/rrchain"
)

// Invariant 3: for an (object, question, ε) there is one response, for ever, for every buyer.

func TestARecordedAnswerIsTheSameForEverybodyForEver(t *testing.T) {
	path := votersFile(t, "3", "ann")
	l := open(t, path, Options{})
	recorded := map[string]Response{}
	for i, epsilon := range []string{"0.5", "1", "0.7", "2", "0.6", "0.1"} {
		recorded[epsilon] = release(t, l, releaseOf(t, fmt.Sprint("first ", i), "ann", epsilon))
	}
	spent := objectOf(t, l, "ann").Spent
	for i := range 1000 {
		if i%250 == 249 {
			closed(t, l)
			l = open(t, path, Options{})
		}
		for epsilon, want := range recorded { // in random order
			wantSame(t, l, i, epsilon, want)
			break
		}
	}
	if now := objectOf(t, l, "ann").Spent; now != spent || spent != eps(t, "2") {
		t.Errorf("spent %s at first and %s after 1,000 repetitions, want 2", spent, now)
	}
	if n := countKind(events(t, l), "released"); n != len(recorded) {
		t.Errorf("%d released events for %d levels", n, len(recorded))
	}
}

// wantSame asks for a recorded answer in one of several ways; none may need the truth.
func wantSame(t *testing.T, l *Ledger, i int, epsilon string, want Response) {
	t.Helper()
	got := want
	switch i % 4 {
	case 0:
		r := releaseOf(t, fmt.Sprint("again ", i), "ann", epsilon)
		r.Truth = never(t)
		got = release(t, l, r)
	case 1:
		r := releaseOf(t, fmt.Sprint("no truth at hand ", i), "ann", epsilon)
		r.Truth = nil
		got = release(t, l, r)
	case 2:
		r := order(t, fmt.Sprint("all ", i), epsilon)
		r.Truth = never(t)
		if result := carryOut(t, l, r); result.Reused != 1 || result.Drawn+result.Derived != 0 {
			t.Fatalf("%+v", result)
		}
		got = responses(t, l, "vote", eps(t, epsilon))["ann"]
	case 3:
		for _, at := range objectOf(t, l, "ann").Chains[0].Levels {
			if at.Epsilon == want.Epsilon {
				got.Value, got.Event = at.Response, at.Event
			}
		}
	}
	if got != want {
		t.Fatalf("at ε=%s the answer was %v and is now %v", epsilon, want, got)
	}
}

// Below the current level nobody needs the truth, at whatever ε.
func TestTheTruthIsNotAskedBelowTheCurrentLevel(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "3", "ann")
	release(t, l, releaseOf(t, "top", "ann", "2"))
	for i := range 100 {
		r := releaseOf(t, fmt.Sprint(i), "ann", "2")
		r.Epsilon = nano(t, rand.Int64N(2_000_000_000)+1)
		r.Truth = never(t)
		release(t, l, r)
	}
	if o := objectOf(t, l, "ann"); o.Spent != eps(t, "2") {
		t.Errorf("spent %s", o.Spent)
	}
	auditStore(t, l.engine.Store)
}

// Invariant 4: the ledger draws exactly what rrchain draws, from the same bits. What rrchain proves
// of its chains (the laws of pan2024, and that all responses together tell what the highest tells)
// then holds for the ledger's, in whatever order the levels were sold.

func TestTheLedgerDrawsWhatRRChainDraws(t *testing.T) {
	epsilons := []string{"0.5", "1", "0.7", "2", "0.6"}
	const seeds = 4
	orders := permutations(epsilons)
	names := crowd(len(orders))
	for seed := range uint64(seeds) {
		l := voters(t, inMemory(t, Options{}), "3", names...)
		l.engine.Chances.Sampler, _ = sampler(seed)
		reference, _ := sampler(seed)
		for i, order := range orders {
			wantReference(t, l, reference, names[i], rand.IntN(3), order)
		}
		auditStore(t, l.engine.Store)
	}
}

// wantReference sells the levels in order, here and on a chain of rrchain.
func wantReference(t *testing.T, l *Ledger, reference *rrchain.Sampler, name string, truth int, order []string) {
	t.Helper()
	chain, err := rrchain.NewChain(3)
	must(t, err)
	for i, epsilon := range order {
		at := eps(t, epsilon)
		var want rrchain.Level
		var how string
		switch levels := chain.Levels(); {
		case len(levels) == 0 || chain.Current().Epsilon.Less(at):
			want, err = chain.Raise(reference, at, truth)
			how = "raise"
		case at.Less(levels[0].Epsilon):
			want, err = chain.Degrade(reference, at)
			how = "degrade"
		default:
			want, err = chain.Insert(reference, at)
			how = "insert"
		}
		must(t, err)
		r := releaseOf(t, fmt.Sprint(name, i), name, epsilon)
		r.Truth = TruthOf(vote().Values[truth])
		got := release(t, l, r)
		if got.Value != vote().Values[want.Response] {
			t.Fatalf("levels %v: at ε=%s the ledger answers %q, rrchain %q", order, epsilon, got.Value, vote().Values[want.Response])
		}
		if method := methodOf(eventAt(t, l, got.Event)); method != how {
			t.Errorf("levels %v: ε=%s came about by %q, want %q", order, epsilon, method, how)
		}
	}
}

// permutations returns all orders of some items.
func permutations(items []string) (all [][]string) {
	if len(items) == 0 {
		return [][]string{nil}
	}
	for i, first := range items {
		rest := slices.Delete(slices.Clone(items), i, i+1)
		for _, order := range permutations(rest) {
			all = append(all, append([]string{first}, order...))
		}
	}
	return all
}

// How many random words a raise consumes tells nothing about the truth: after bulk raises of the
// same crowd with different truths the next word of the tape is the same.
func TestRandomWordsUsedDoNotDependOnTheTruth(t *testing.T) {
	const size = 500
	next := func(truth func(i int) string) uint64 {
		l := voters(t, inMemory(t, Options{}), "10", crowd(size)...)
		s, bits := sampler(11)
		l.engine.Chances.Sampler = s
		for i, epsilon := range []string{"0.001", "0.5", "3", "9"} {
			r := order(t, fmt.Sprint(i), epsilon)
			r.Truth = func(_ context.Context, _ string, objects []string) (values []string, err error) {
				for i := range objects {
					values = append(values, truth(i))
				}
				return values, nil
			}
			carryOut(t, l, r)
		}
		return bits.Uint64()
	}
	want := next(func(int) string { return "yes" })
	for name, truth := range map[string]func(i int) string{
		"all blank": func(int) string { return "blank" },
		"mixed":     func(i int) string { return vote().Values[i%3] },
	} {
		if got := next(truth); got != want {
			t.Errorf("%s: another number of random words than for all yes", name)
		}
	}
}
