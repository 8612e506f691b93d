package ledger

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// duringTruthCall is a source of yes that calls then during its first call: between the snapshot in
// which a request is read and its transaction.
func duringTruthCall(then func()) api.TruthFunc {
	done := false
	return func(ctx context.Context, question string, objects []string) ([]string, error) {
		if !done {
			done = true
			then()
		}
		return sameTruth("yes")(ctx, question, objects)
	}
}

// change is what other callers do, and what ann has spent in the end.
type change = struct {
	change func()
	spent  string
}

// concurrentChanges returns changes of what a request about ann at ε=2 has read, under a cap of 4.
func concurrentChanges(t *testing.T, l *Ledger) map[string]change {
	t.Helper()
	elsewhere := func(epsilon string) func() {
		return func() {
			release(t, l, api.ReleaseRequest{Key: "other", Question: "other", Object: "ann", Epsilon: eps(t, epsilon), Truth: sameTruth("no")})
		}
	}
	return map[string]change{
		"nothing":          {func() {}, "2"},
		"another object":   {func() { release(t, l, releaseOf(t, "other", "bob", "1")) }, "2"},
		"a lower level":    {func() { release(t, l, releaseOf(t, "other", "ann", "1")) }, "2"},
		"a higher level":   {func() { release(t, l, releaseOf(t, "other", "ann", "3")) }, "3"},
		"the same level":   {func() { release(t, l, releaseOf(t, "other", "ann", "2")) }, "2"},
		"another question": {elsewhere("1.5"), "3.5"}, "too much of the cap": {elsewhere("3"), "3"},
		"withdrawn": {func() { must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "other", Object: "ann"})) }, "0"},
		"sold":      {func() { sell(t, l, purchase(t, "other", "cy", "1", "ann")) }, "2"},
		"the buyer": {func() { sell(t, l, purchase(t, "other", "acme", "1", "ann")) }, "2"},
		"a refusal": {func() { _, _ = l.Release(t.Context(), releaseOf(t, "other", "ann", "5")) }, "2"},
	}
}

// What a request has read before its transaction is read again if it has changed. Otherwise a
// released level would be lost, or budget spent twice.
func TestRequest_ObjectChangedSinceRead_IsReadAgain(t *testing.T) {
	for what, objects := range map[string][]string{"Release": {"ann"}, "Raise": {"ann", "bob"}, "Sell": {"ann"}} {
		for name := range concurrentChanges(t, nil) {
			t.Run(what+"/"+name, func(t *testing.T) {
				l := sellers(t, inMemory(t, Options{}), "10", "4", "ann", "bob")
				other := vote()
				other.Name = "other"
				define(t, l, other)
				enroll(t, l, "other", "4", "ann")
				between := concurrentChanges(t, l)[name]
				d := drawing{key: "mine", epsilon: "2", objects: objects, truth: duringTruthCall(between.change)}
				got, err := d.by(t, l, what)
				check.Need(t, err == nil || len(got.refused) != 0, "%v", err)
				spent := objectOf(t, l, "ann").Spent
				check.That(t, spent == eps(t, between.spent), "ann has spent %s, not %s: %v", spent, between.spent, err)
				wantClean(t, l, api.VerifyRequest{})
			})
		}
	}
}

// A request that is repeated while its true value is requested is done once.
func TestRelease_RepeatedDuringTruthCall_IsDoneOnce(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "10", "ann")
	r := releaseOf(t, "key", "ann", "1")
	var inner api.Response
	r.Truth = duringTruthCall(func() { inner = release(t, l, releaseOf(t, "key", "ann", "1")) })
	outer := release(t, l, r)
	check.That(t, outer == inner, "%+v, and then %+v", inner, outer)
	wantClean(t, l, api.VerifyRequest{})
}

// Requests for the same few objects share transactions, and all have read their objects before the
// first of them is decided.
func TestRelease_SharedTransaction_SeesEarlierRequests(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "10", "ann", "bob")
	const callers = 40
	var ready, group sync.WaitGroup
	ready.Add(callers)
	for i := range callers {
		group.Go(func() {
			r := releaseOf(t, fmt.Sprint(i), []string{"ann", "bob"}[i%2], fmt.Sprint(1+i/4))
			first := true
			r.Truth = func(ctx context.Context, question string, objects []string) ([]string, error) {
				if first {
					first = false
					ready.Done()
					ready.Wait()
				}
				return sameTruth("yes")(ctx, question, objects)
			}
			check.OK(t, check.Err(l.Release(t.Context(), r)))
		})
	}
	group.Wait()
	for _, name := range []string{"ann", "bob"} {
		state := objectOf(t, l, name)
		if state.Spent != eps(t, "10") || len(state.Chains[0].Levels) != callers/4 {
			t.Errorf("%s has spent %s on %d levels", name, state.Spent, len(state.Chains[0].Levels))
		}
	}
	wantClean(t, l, api.VerifyRequest{})
}

// A part of a large raise changes its objects like any other request: a request that has read one
// of them before reads it again.
func TestRelease_OvertakenByLargeRaise_ReadsAgain(t *testing.T) {
	const objects = 3 * state.PartSize
	names := crowd(objects)
	l := voters(t, inMemory(t, Options{}), "10", names...)
	r := releaseOf(t, "mine", names[objects-1], "2") // in the last part
	r.Truth = duringTruthCall(func() {
		raise(t, l, raiseOf(t, "all", "1"))
	})
	release(t, l, r)
	if state := objectOf(t, l, r.Object); len(state.Chains[0].Levels) != 2 || state.Spent != eps(t, "2") {
		t.Errorf("%s has %d levels and has spent %s", r.Object, len(state.Chains[0].Levels), state.Spent)
	}
	wantClean(t, l, api.VerifyRequest{})
}
