package model

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
)

// Invariant 3: for an (object, question, ε) there is one response, for ever, for every buyer.

func TestARecordedAnswerIsTheSameForEverybodyForEver(t *testing.T) {
	Anywhere(t, testARecordedAnswerIsTheSameForEverybodyForEver)
}

func testARecordedAnswerIsTheSameForEverybodyForEver(t *T) {
	house := VotersHouse(t, "3", "ann")
	l := house.Open(t, ledger.Options{})
	recorded := map[string]api.Response{}
	for i, epsilon := range []string{"0.5", "1", "0.7", "2", "0.6", "0.1"} {
		recorded[epsilon] = Release(t, l, ReleaseOf(t, fmt.Sprint("first ", i), "ann", epsilon))
	}
	spent := ObjectOf(t, l, "ann").Spent
	for i := range 1000 {
		if i%250 == 249 {
			Must(t, l.Close())
			l = house.Open(t, ledger.Options{})
		}
		for epsilon, want := range recorded { // in random order
			wantSame(t, l, i, epsilon, want)
			break
		}
	}
	if now := ObjectOf(t, l, "ann").Spent; now != spent || spent != Eps(t, "2") {
		t.Errorf("spent %s at first and %s after 1,000 repetitions, want 2", spent, now)
	}
	if n := CountKind(Events(t, l), "released"); n != len(recorded) {
		t.Errorf("%d released events for %d levels", n, len(recorded))
	}
}

// wantSame asks for a recorded answer in one of several ways; none may need the truth.
func wantSame(t *T, l Book, i int, epsilon string, want api.Response) {
	t.Helper()
	got := want
	switch i % 4 {
	case 0:
		r := ReleaseOf(t, fmt.Sprint("again ", i), "ann", epsilon)
		r.Truth = Never(t)
		got = Release(t, l, r)
	case 1:
		r := ReleaseOf(t, fmt.Sprint("no truth at hand ", i), "ann", epsilon)
		r.Truth = nil
		got = Release(t, l, r)
	case 2:
		r := Order(t, fmt.Sprint("all ", i), epsilon)
		r.Truth = Never(t)
		if result := CarryOut(t, l, r); result.Reused != 1 || result.Drawn+result.Derived != 0 {
			t.Fatalf("%+v", result)
		}
		got = Responses(t, l, "vote", Eps(t, epsilon))["ann"]
	case 3:
		for _, at := range ObjectOf(t, l, "ann").Chains[0].Levels {
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
	Anywhere(t, testTheTruthIsNotAskedBelowTheCurrentLevel)
}

func testTheTruthIsNotAskedBelowTheCurrentLevel(t *T) {
	l := Voters(t, Open(t, ledger.Options{}), "3", "ann")
	Release(t, l, ReleaseOf(t, "top", "ann", "2"))
	for i := range 100 {
		r := ReleaseOf(t, fmt.Sprint(i), "ann", "2")
		r.Epsilon = Nano(t, rand.Int64N(2_000_000_000)+1)
		r.Truth = Never(t)
		Release(t, l, r)
	}
	if o := ObjectOf(t, l, "ann"); o.Spent != Eps(t, "2") {
		t.Errorf("spent %s", o.Spent)
	}
	WantClean(t, l, api.VerifyRequest{})
}
