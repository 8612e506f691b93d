package model

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
)

func TestAnAnswerIsGivenOnce(t *testing.T) { Anywhere(t, testAnAnswerIsGivenOnce) }

func testAnAnswerIsGivenOnce(t *T) {
	house := VotersHouse(t, "2", "ann", "bob", "cy")
	l := house.Open(t, ledger.Options{})
	first := AnswerTo(t, l, Inquire(t, "1", "plurality", "1", Ballots("ann"), "ann", "bob", "cy"))
	Must(t, l.Close())
	l = house.Open(t, ledger.Options{})
	again := AnswerTo(t, l, Inquire(t, "1", "plurality", "1", Never(t), "cy", "bob", "ann")) // the order does not matter
	if fmt.Sprint(again) != fmt.Sprint(first) {
		t.Errorf("the same key gives %+v, then %+v", first, again)
	}
	other := AnswerTo(t, l, Inquire(t, "2", "plurality", "1", Never(t), "ann", "bob", "cy"))
	if other.Answer != first.Answer || other.Event != first.Event || !other.Charged.IsZero() {
		t.Errorf("another buyer gets %+v after %+v", other, first)
	}
	if o := ObjectOf(t, l, "bob"); o.Spent != Eps(t, "1") {
		t.Errorf("bob has spent %s", o.Spent)
	}
	_, err := l.Answer(t.Context(), Inquire(t, "1", "plurality", "0.5", Never(t), "ann", "bob", "cy"))
	WantErr(t, err, api.ErrKeyConflict)
	_, err = l.Answer(t.Context(), Inquire(t, "1", "winner", "1", Never(t), "ann", "bob", "cy"))
	WantErr(t, err, api.ErrKeyConflict)
	WantClean(t, l, api.VerifyRequest{})
}

func TestALowerAnswerIsDerivedForFree(t *testing.T) {
	Anywhere(t, testALowerAnswerIsDerivedForFree)
}

func testALowerAnswerIsDerivedForFree(t *T) {
	l := Voters(t, NewLedger(t), "2", "ann", "bob", "cy")
	AnswerTo(t, l, Inquire(t, "1", "majority:yes", "1", Ballots("ann"), "ann", "bob", "cy"))
	lower := AnswerTo(t, l, Inquire(t, "2", "majority:yes", "0.25", Never(t), "ann", "bob", "cy"))
	between := AnswerTo(t, l, Inquire(t, "3", "majority:yes", "0.5", Never(t), "ann", "bob", "cy"))
	again := AnswerTo(t, l, Inquire(t, "4", "majority:yes", "0.25", Never(t), "ann", "bob", "cy"))
	if !lower.Charged.IsZero() || !between.Charged.IsZero() || again.Answer != lower.Answer || again.Event != lower.Event {
		t.Errorf("lower answers came to %+v, %+v, %+v", lower, between, again)
	}
	if o := ObjectOf(t, l, "ann"); o.Spent != Eps(t, "1") {
		t.Errorf("ann has spent %s", o.Spent)
	}
	if method := MethodOf(Events(t, l)[lower.Event-1]); method != "degrade" {
		t.Errorf("a lower answer was recorded as %q", method)
	}
	WantClean(t, l, api.VerifyRequest{})
}

// Of three values, the plurality and the winner have no score that could be raised, and a threshold beyond all
// counts needs none: they are asked anew, and the quote says so beforehand.
func TestAHigherAnswerWithoutAScoreIsChargedInFull(t *testing.T) {
	Anywhere(t, testAHigherAnswerWithoutAScoreIsChargedInFull)
}

func testAHigherAnswerWithoutAScoreIsChargedInFull(t *T) {
	for _, query := range []string{"plurality", "winner", "threshold:yes:0", "threshold:yes:4"} {
		t.Run(query, func(t *T) { wantAskedAnew(t, query) })
	}
}

func wantAskedAnew(t *T, query string) {
	t.Helper()
	l := Voters(t, NewLedger(t), "2", "ann", "bob", "cy")
	AnswerTo(t, l, Inquire(t, "1", query, "0.5", Ballots(), "ann", "bob", "cy"))
	higher := Inquire(t, "2", query, "1", Ballots(), "ann", "bob", "cy")
	quote, err := l.QuoteAnswer(t.Context(), higher)
	Must(t, err)
	if quote.Charge != Eps(t, "1") || quote.Anew != quote.Charge || quote.Held != Eps(t, "0.5") || quote.Objects != 3 || quote.Refused != nil {
		t.Errorf("the quote is %+v", quote)
	}
	if got := AnswerTo(t, l, higher); got.Charged != quote.Charge {
		t.Errorf("quoted %s, charged %s", quote.Charge, got.Charged)
	}
	if o := ObjectOf(t, l, "ann"); o.Spent != Eps(t, "1.5") {
		t.Errorf("ann has spent %s", o.Spent)
	}
	if quote, err = l.QuoteAnswer(t.Context(), higher); err != nil || !quote.Charge.IsZero() || quote.Held != Eps(t, "1") {
		t.Errorf("what is recorded is quoted as %+v, %v", quote, err)
	}
	WantClean(t, l, api.VerifyRequest{})
}

// Answers about a question and its chain bind the same ceilings and add up, in whichever order.
func TestAnswersAndChainsShareTheirCeilings(t *testing.T) {
	Anywhere(t, testAnswersAndChainsShareTheirCeilings)
}

func testAnswersAndChainsShareTheirCeilings(t *T) {
	l := Voters(t, NewLedger(t), "1", "ann", "bob", "cy")
	Release(t, l, ReleaseOf(t, "1", "ann", "0.75"))
	_, err := l.Answer(t.Context(), Inquire(t, "2", "majority:yes", "0.5", Never(t), "ann", "bob", "cy"))
	refused := Refusals(t, err)
	want := api.Refusal{Object: "ann", Reason: api.ChainCeiling, Ceiling: Eps(t, "1"), Spent: Eps(t, "0.75"), Asked: Eps(t, "0.5"), Cost: Eps(t, "0.5"), Remaining: Eps(t, "0.25"), Remedy: api.RemedyLess, Largest: Eps(t, "0.25")}
	if len(refused) != 1 || refused[0] != want && refused[0].Reason != api.ObjectCap {
		t.Errorf("refused %+v", refused)
	}
	AnswerTo(t, l, Inquire(t, "2", "majority:yes", "0.25", Ballots("ann"), "ann", "bob", "cy"))
	_, err = l.Release(t.Context(), ReleaseOf(t, "3", "ann", "0.8"))
	if r := Refusals(t, err); r[0].Spent != Eps(t, "1") || !r[0].Remaining.IsZero() {
		t.Errorf("refused %+v", r)
	}
	Release(t, l, ReleaseOf(t, "4", "bob", "0.75"))
	WantClean(t, l, api.VerifyRequest{})
}

func TestAPartialPanelSaysWhomItLeavesOut(t *testing.T) {
	Anywhere(t, testAPartialPanelSaysWhomItLeavesOut)
}

func testAPartialPanelSaysWhomItLeavesOut(t *T) {
	l := Voters(t, NewLedger(t), "1", "ann", "bob", "cy", "dan")
	Release(t, l, ReleaseOf(t, "1", "bob", "1"))
	truth := func(_ context.Context, _ string, objects []string) ([]string, error) {
		values := make([]string, len(objects))
		for i, object := range objects {
			if values[i] = "no"; object == "dan" {
				values[i] = ""
			}
		}
		return values, nil
	}
	r := Inquire(t, "2", "winner", "1", truth, "ann", "bob", "cy", "dan", "eve")
	Unchanged(t, l, func() {
		_, err := l.Answer(t.Context(), r)
		if got := Refusals(t, err); len(got) != 2 || got[0].Object != "bob" || got[1].Object != "eve" {
			t.Errorf("refused %+v", got)
		}
	})
	r.Partial = true
	got := AnswerTo(t, l, r)
	var left []string
	for _, refusal := range got.Refused {
		left = append(left, refusal.Object+" "+string(refusal.Reason))
	}
	if strings.Join(left, ", ") != "bob chain-ceiling, dan no-truth, eve not-enrolled" && strings.Join(left, ", ") != "bob object-cap, dan no-truth, eve not-enrolled" || got.Objects != 2 {
		t.Errorf("left out %q of a panel of %d", left, got.Objects)
	}
	if again := AnswerTo(t, l, r); fmt.Sprint(again) != fmt.Sprint(got) {
		t.Errorf("the same key gives %+v, then %+v", got, again)
	}
	// Ann and cy have nothing left now, but the answer is theirs already.
	r.Key, r.Truth = "3", Never(t)
	if other := AnswerTo(t, l, r); other.Answer != got.Answer || !other.Charged.IsZero() {
		t.Errorf("asked again: %+v", other)
	}
	r = Inquire(t, "4", "majority:no", "1", Never(t), "ann", "bob")
	r.Partial = true
	if _, err := l.Answer(t.Context(), r); len(Refusals(t, err)) != 2 {
		t.Errorf("a panel of nobody: %v", err)
	}
	WantClean(t, l, api.VerifyRequest{})
}

func TestAnswersToAllAreAboutThoseEnrolledThen(t *testing.T) {
	Anywhere(t, testAnswersToAllAreAboutThoseEnrolledThen)
}

func testAnswersToAllAreAboutThoseEnrolledThen(t *T) {
	l := Voters(t, NewLedger(t), "2", "ann", "bob")
	r := Inquire(t, "1", "majority:yes", "0.5", Ballots("ann"))
	r.Objects, r.All = nil, true
	first := AnswerTo(t, l, r)
	Enroll(t, l, "vote", "2", "cy")
	if again := AnswerTo(t, l, r); fmt.Sprint(again) != fmt.Sprint(first) {
		t.Errorf("the same key gives %+v, then %+v", first, again)
	}
	r.Key = "2"
	if other := AnswerTo(t, l, r); other.Objects != 3 || other.Charged != Eps(t, "0.5") {
		t.Errorf("about everybody now: %+v", other)
	}
	WantClean(t, l, api.VerifyRequest{})
}

func TestConcurrentAnswersChargeOnce(t *testing.T) {
	Anywhere(t, testConcurrentAnswersChargeOnce)
}

func testConcurrentAnswersChargeOnce(t *T) {
	l := Voters(t, NewLedger(t), "1", "ann", "bob", "cy")
	var group sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]int{}
	for i := range 16 {
		group.Go(func() {
			got, err := l.Answer(t.Context(), Inquire(t, fmt.Sprint("key ", i%4), "majority:yes", "1", Ballots("ann"), "ann", "bob", "cy"))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			seen[got.Answer]++
		})
	}
	group.Wait()
	if len(seen) != 1 || CountKind(Events(t, l), "answered") != 1 {
		t.Errorf("answers %v, %d of them recorded", seen, CountKind(Events(t, l), "answered"))
	}
	WantClean(t, l, api.VerifyRequest{})
}

func TestABoundTruthBindsAnswersToo(t *testing.T) {
	Anywhere(t, testABoundTruthBindsAnswersToo)
}

func testABoundTruthBindsAnswersToo(t *T) {
	l := Voters(t, Open(t, ledger.Options{TruthKey: []byte("sixteen bytes or more")}), "2", "ann", "bob")
	Release(t, l, ReleaseOf(t, "1", "ann", "0.5"))
	Unchanged(t, l, func() {
		_, err := l.Answer(t.Context(), Inquire(t, "2", "majority:yes", "0.5", SameTruth("blank"), "ann", "bob"))
		WantChanged(t, err, "ann")
	})
}

func TestAnswerRefusesWhatCannotBe(t *testing.T) {
	Anywhere(t, testAnswerRefusesWhatCannotBe)
}

func testAnswerRefusesWhatCannotBe(t *T) {
	l := Voters(t, NewLedger(t), "2", "ann", "bob")
	valid := func() api.AnswerRequest {
		return Inquire(t, "1", "majority:yes", "1", Ballots(), "ann", "bob")
	}
	for name, spoil := range map[string]func(*api.AnswerRequest){
		"no key":        func(r *api.AnswerRequest) { r.Key = "" },
		"no ε":          func(r *api.AnswerRequest) { r.Epsilon = Eps(t, "0") },
		"no query":      func(r *api.AnswerRequest) { r.Query = "" },
		"unknown value": func(r *api.AnswerRequest) { r.Query = "majority:maybe" },
		"nobody":        func(r *api.AnswerRequest) { r.Objects = []string{} },
		"neither":       func(r *api.AnswerRequest) { r.Objects = nil },
		"both":          func(r *api.AnswerRequest) { r.All = true },
		"twice":         func(r *api.AnswerRequest) { r.Objects = []string{"ann", "ann"} },
		"no source":     func(r *api.AnswerRequest) { r.Truth = nil },
		"too few truths": func(r *api.AnswerRequest) {
			r.Truth = func(context.Context, string, []string) ([]string, error) { return nil, nil }
		},
	} {
		t.Run(name, func(t *T) {
			r := valid()
			spoil(&r)
			Unchanged(t, l, func() {
				_, err := l.Answer(t.Context(), r)
				WantErr(t, err, api.ErrInvalid)
				if err != nil && strings.Contains(err.Error(), "secret") {
					t.Errorf("the error tells a truth: %v", err)
				}
			})
		})
	}
	r := valid()
	r.Question = "none"
	_, err := l.Answer(t.Context(), r)
	WantErr(t, err, api.ErrUnknown)
	failing := errors.New("offline")
	r = valid()
	r.Truth = func(context.Context, string, []string) ([]string, error) { return nil, failing }
	_, err = l.Answer(t.Context(), r)
	WantErr(t, err, failing)
	AnswerTo(t, l, valid()) // the key is still free
}

// Whoever gets a recorded answer learns whom it leaves out, like the first to ask (invariant 8).
func TestARecordedAnswerSaysWhomItLeavesOut(t *testing.T) {
	Anywhere(t, testARecordedAnswerSaysWhomItLeavesOut)
}

func testARecordedAnswerSaysWhomItLeavesOut(t *T) {
	l := Voters(t, NewLedger(t), "1", "ann", "bob", "cy")
	Release(t, l, ReleaseOf(t, "s", "bob", "1"))
	r := Inquire(t, "1", "majority:yes", "0.5", Ballots("ann"), "ann", "bob", "cy")
	r.Partial = true
	AnswerTo(t, l, r)
	for key, epsilon := range map[string]string{"same": "0.5", "lower": "0.25"} {
		r.Key, r.Epsilon, r.Truth = key, Eps(t, epsilon), Never(t)
		quote, err := l.QuoteAnswer(t.Context(), r)
		Must(t, err)
		got := AnswerTo(t, l, r)
		if len(got.Refused) != 1 || got.Refused[0].Object != "bob" || len(quote.Refused) != 1 || got.Objects != 2 || quote.Objects != 2 {
			t.Errorf("%s ε: quoted %+v, answered %+v", key, quote, got)
		}
	}
}

// The first draw from the truth binds a chain, also that of an answer (invariant 6).
func TestAnswersBindTheTruth(t *testing.T) { Anywhere(t, testAnswersBindTheTruth) }

func testAnswersBindTheTruth(t *T) {
	l := Voters(t, Open(t, ledger.Options{TruthKey: []byte("sixteen bytes or more")}), "9", "ann", "bob")
	AnswerTo(t, l, Inquire(t, "1", "majority:yes", "0.5", SameTruth("blank"), "ann", "bob"))
	_, err := l.Answer(t.Context(), Inquire(t, "2", "majority:yes", "1", SameTruth("yes"), "ann", "bob"))
	WantChanged(t, err, "ann", "bob")
	r := ReleaseOf(t, "3", "ann", "0.5")
	r.Truth = SameTruth("yes")
	_, err = l.Release(t.Context(), r)
	WantChanged(t, err, "ann")
	WantClean(t, l, api.VerifyRequest{})
}
