package ledger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/ledger/history"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/mechanism"
)

// ballots is a source of truths: who is named votes yes, everybody else no.
func ballots(yes ...string) TruthFunc {
	return func(_ context.Context, _ string, objects []string) ([]string, error) {
		values := make([]string, len(objects))
		for i, object := range objects {
			values[i] = "no"
			for _, name := range yes {
				if name == object {
					values[i] = "yes"
				}
			}
		}
		return values, nil
	}
}

func inquire(t testing.TB, key, query, epsilon string, truth TruthFunc, objects ...string) AnswerRequest {
	t.Helper()
	return AnswerRequest{Key: key, Question: "vote", Query: query, Epsilon: eps(t, epsilon), Objects: objects, Truth: truth}
}

func answerTo(t testing.TB, l *Ledger, r AnswerRequest) AnswerResult {
	t.Helper()
	result, err := l.Answer(t.Context(), r)
	must(t, err)
	return result
}

// medians makes every draw come out just below the middle: a score is the position itself, and of two answers
// the true one is given.
func medians() *mechanism.Sampler {
	return mechanism.ReplaySampler(exact.ReplayBits(func(p []byte) {
		for i := range p {
			p[i] = 0x7f
		}
	}))
}

func TestAnAnswerChargesEverybodyOnce(t *testing.T) {
	names := []string{"ann", "bob", "cy"}
	l := voters(t, newLedger(t), "2", names...)
	l.queries = medians()
	got := answerTo(t, l, inquire(t, "1", "majority:yes", "0.5", ballots("ann", "cy"), names...))
	if got.Answer != "yes" || got.Objects != 3 || got.Charged != eps(t, "0.5") || got.Epsilon != eps(t, "0.5") || len(got.Refused) != 0 {
		t.Errorf("the answer came to %+v", got)
	}
	for _, name := range names {
		o := objectOf(t, l, name)
		if o.Spent != eps(t, "0.5") || o.Chains[0].Answered != eps(t, "0.5") || !o.Chains[0].Epsilon.IsZero() {
			t.Errorf("%s came to %+v", name, o)
		}
	}
	log := events(t, l)
	if d, is := log[got.Event-1].Says.(history.Answered); countKind(log, "charged") != 3 || countKind(log, "answered") != 1 || !is || d.Response != "yes" || d.Query != "majority:yes" {
		t.Errorf("the log has %+v", log)
	}
	auditStore(t, l.engine.Store)
}

func TestAnAnswerIsGivenOnce(t *testing.T) {
	path := votersFile(t, "2", "ann", "bob", "cy")
	l := open(t, path, Options{})
	first := answerTo(t, l, inquire(t, "1", "plurality", "1", ballots("ann"), "ann", "bob", "cy"))
	closed(t, l)
	l = open(t, path, Options{})
	again := answerTo(t, l, inquire(t, "1", "plurality", "1", never(t), "cy", "bob", "ann")) // the order does not matter
	if fmt.Sprint(again) != fmt.Sprint(first) {
		t.Errorf("the same key gives %+v, then %+v", first, again)
	}
	other := answerTo(t, l, inquire(t, "2", "plurality", "1", never(t), "ann", "bob", "cy"))
	if other.Answer != first.Answer || other.Event != first.Event || !other.Charged.IsZero() {
		t.Errorf("another buyer gets %+v after %+v", other, first)
	}
	if o := objectOf(t, l, "bob"); o.Spent != eps(t, "1") {
		t.Errorf("bob has spent %s", o.Spent)
	}
	_, err := l.Answer(t.Context(), inquire(t, "1", "plurality", "0.5", never(t), "ann", "bob", "cy"))
	wantErr(t, err, ErrKeyConflict)
	_, err = l.Answer(t.Context(), inquire(t, "1", "winner", "1", never(t), "ann", "bob", "cy"))
	wantErr(t, err, ErrKeyConflict)
	auditStore(t, l.engine.Store)
}

func TestALowerAnswerIsDerivedForFree(t *testing.T) {
	l := voters(t, newLedger(t), "2", "ann", "bob", "cy")
	answerTo(t, l, inquire(t, "1", "majority:yes", "1", ballots("ann"), "ann", "bob", "cy"))
	lower := answerTo(t, l, inquire(t, "2", "majority:yes", "0.25", never(t), "ann", "bob", "cy"))
	between := answerTo(t, l, inquire(t, "3", "majority:yes", "0.5", never(t), "ann", "bob", "cy"))
	again := answerTo(t, l, inquire(t, "4", "majority:yes", "0.25", never(t), "ann", "bob", "cy"))
	if !lower.Charged.IsZero() || !between.Charged.IsZero() || again.Answer != lower.Answer || again.Event != lower.Event {
		t.Errorf("lower answers came to %+v, %+v, %+v", lower, between, again)
	}
	if o := objectOf(t, l, "ann"); o.Spent != eps(t, "1") {
		t.Errorf("ann has spent %s", o.Spent)
	}
	if method := methodOf(events(t, l)[lower.Event-1]); method != "degrade" {
		t.Errorf("a lower answer was recorded as %q", method)
	}
	auditStore(t, l.engine.Store)
}

// Of three values, the plurality and the winner have no score that could be raised, and a threshold beyond all
// counts needs none: they are asked anew, and the quote says so beforehand.
func TestAHigherAnswerWithoutAScoreIsChargedInFull(t *testing.T) {
	for _, query := range []string{"plurality", "winner", "threshold:yes:0", "threshold:yes:4"} {
		t.Run(query, func(t *testing.T) { wantAskedAnew(t, query) })
	}
}

func wantAskedAnew(t *testing.T, query string) {
	t.Helper()
	l := voters(t, newLedger(t), "2", "ann", "bob", "cy")
	answerTo(t, l, inquire(t, "1", query, "0.5", ballots(), "ann", "bob", "cy"))
	higher := inquire(t, "2", query, "1", ballots(), "ann", "bob", "cy")
	quote, err := l.QuoteAnswer(t.Context(), higher)
	must(t, err)
	if quote.Charge != eps(t, "1") || quote.Anew != quote.Charge || quote.Held != eps(t, "0.5") || quote.Objects != 3 || quote.Refused != nil {
		t.Errorf("the quote is %+v", quote)
	}
	if got := answerTo(t, l, higher); got.Charged != quote.Charge {
		t.Errorf("quoted %s, charged %s", quote.Charge, got.Charged)
	}
	if o := objectOf(t, l, "ann"); o.Spent != eps(t, "1.5") {
		t.Errorf("ann has spent %s", o.Spent)
	}
	if quote, err = l.QuoteAnswer(t.Context(), higher); err != nil || !quote.Charge.IsZero() || quote.Held != eps(t, "1") {
		t.Errorf("what is recorded is quoted as %+v, %v", quote, err)
	}
	auditStore(t, l.engine.Store)
}

// Answers about a question and its chain bind the same ceilings and add up, in whichever order.
func TestAnswersAndChainsShareTheirCeilings(t *testing.T) {
	l := voters(t, newLedger(t), "1", "ann", "bob", "cy")
	release(t, l, releaseOf(t, "1", "ann", "0.75"))
	_, err := l.Answer(t.Context(), inquire(t, "2", "majority:yes", "0.5", never(t), "ann", "bob", "cy"))
	refused := refusals(t, err)
	want := Refusal{Object: "ann", Reason: ChainCeiling, Ceiling: eps(t, "1"), Spent: eps(t, "0.75"), Asked: eps(t, "0.5"), Cost: eps(t, "0.5"), Remaining: eps(t, "0.25"), Remedy: vocabulary.RemedyLess, Largest: eps(t, "0.25")}
	if len(refused) != 1 || refused[0] != want && refused[0].Reason != ObjectCap {
		t.Errorf("refused %+v", refused)
	}
	answerTo(t, l, inquire(t, "2", "majority:yes", "0.25", ballots("ann"), "ann", "bob", "cy"))
	_, err = l.Release(t.Context(), releaseOf(t, "3", "ann", "0.8"))
	if r := refusals(t, err); r[0].Spent != eps(t, "1") || !r[0].Remaining.IsZero() {
		t.Errorf("refused %+v", r)
	}
	release(t, l, releaseOf(t, "4", "bob", "0.75"))
	auditStore(t, l.engine.Store)
}

func TestAPartialPanelSaysWhomItLeavesOut(t *testing.T) {
	l := voters(t, newLedger(t), "1", "ann", "bob", "cy", "dan")
	release(t, l, releaseOf(t, "1", "bob", "1"))
	truth := func(_ context.Context, _ string, objects []string) ([]string, error) {
		values := make([]string, len(objects))
		for i, object := range objects {
			if values[i] = "no"; object == "dan" {
				values[i] = ""
			}
		}
		return values, nil
	}
	r := inquire(t, "2", "winner", "1", truth, "ann", "bob", "cy", "dan", "eve")
	unchanged(t, l.engine.Store, func() {
		_, err := l.Answer(t.Context(), r)
		if got := refusals(t, err); len(got) != 2 || got[0].Object != "bob" || got[1].Object != "eve" {
			t.Errorf("refused %+v", got)
		}
	})
	r.Partial = true
	got := answerTo(t, l, r)
	var left []string
	for _, refusal := range got.Refused {
		left = append(left, refusal.Object+" "+string(refusal.Reason))
	}
	if strings.Join(left, ", ") != "bob chain-ceiling, dan no-truth, eve not-enrolled" && strings.Join(left, ", ") != "bob object-cap, dan no-truth, eve not-enrolled" || got.Objects != 2 {
		t.Errorf("left out %q of a panel of %d", left, got.Objects)
	}
	if again := answerTo(t, l, r); fmt.Sprint(again) != fmt.Sprint(got) {
		t.Errorf("the same key gives %+v, then %+v", got, again)
	}
	// Ann and cy have nothing left now, but the answer is theirs already.
	r.Key, r.Truth = "3", never(t)
	if other := answerTo(t, l, r); other.Answer != got.Answer || !other.Charged.IsZero() {
		t.Errorf("asked again: %+v", other)
	}
	r = inquire(t, "4", "majority:no", "1", never(t), "ann", "bob")
	r.Partial = true
	if _, err := l.Answer(t.Context(), r); len(refusals(t, err)) != 2 {
		t.Errorf("a panel of nobody: %v", err)
	}
	auditStore(t, l.engine.Store)
}

func TestTheTruthDecidesNothingButTheAnswer(t *testing.T) {
	dump := func(query string, yes ...string) []pair {
		l := inMemory(t, Options{Now: epoch})
		l.engine.Salts, l.queries = steadySalts(2), medians()
		voters(t, l, "2", "ann", "bob", "cy", "dan", "eve")
		answerTo(t, l, inquire(t, "1", query, "0.001", ballots(yes...), "ann", "bob", "cy", "dan", "eve"))
		return pairs(t, l.engine.Store)
	}
	// For truths with the same answer at different distances everything is the same, down to the hashes of the log.
	same(t, "another lead", dump("winner"), dump("winner", "ann"))
	same(t, "another lead", dump("winner", "ann", "bob", "cy"), dump("winner", "ann", "bob", "cy", "eve"))
	// A score is the distance, but for noise. Nothing else may follow from it.
	scored := func(yes ...string) []pair { return withoutScores(t, dump("threshold:yes:2", yes...)) }
	same(t, "another score", scored("ann"), scored())
	same(t, "another score", scored("ann"), scored("ann", "bob", "cy", "dan"))
}

// withoutScores returns what is stored with 0 in the place of every score, and of the hashes that follow from it.
func withoutScores(t *testing.T, stored []pair) []pair {
	t.Helper()
	found := 0
	for i, p := range stored {
		payload, err := unsealed(p)
		must(t, err)
		switch p.bucket {
		case state.BucketAnswers:
			a, err := state.DecodeAnswers(payload)
			must(t, err)
			for j := range a {
				found++
				a[j].Score = 0
			}
			stored[i].value = a.Encode()
		case state.BucketMeta:
			if string(p.key) != state.KeyCounters {
				continue
			}
			c, err := state.DecodeCounters(payload)
			must(t, err)
			c.Root = tlog.Hash{}
			stored[i].value = c.Encode()
		case state.BucketEvents:
			n, err := event.DecodeEntry(binary.BigEndian.Uint64(p.key), payload)
			must(t, err)
			if c, ok := n.Change.(*event.Answered); ok {
				c.Score = 0
			}
			clear(n.Hashes)
			stored[i].value = n.Encode()
		}
	}
	if found == 0 {
		t.Error("there is no score")
	}
	return stored
}

func TestAnswersToAllAreAboutThoseEnrolledThen(t *testing.T) {
	l := voters(t, newLedger(t), "2", "ann", "bob")
	r := inquire(t, "1", "majority:yes", "0.5", ballots("ann"))
	r.Objects, r.All = nil, true
	first := answerTo(t, l, r)
	enroll(t, l, "vote", "2", "cy")
	if again := answerTo(t, l, r); fmt.Sprint(again) != fmt.Sprint(first) {
		t.Errorf("the same key gives %+v, then %+v", first, again)
	}
	r.Key = "2"
	if other := answerTo(t, l, r); other.Objects != 3 || other.Charged != eps(t, "0.5") {
		t.Errorf("about everybody now: %+v", other)
	}
	auditStore(t, l.engine.Store)
}

func TestConcurrentAnswersChargeOnce(t *testing.T) {
	l := voters(t, newLedger(t), "1", "ann", "bob", "cy")
	var group sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]int{}
	for i := range 16 {
		group.Go(func() {
			got, err := l.Answer(t.Context(), inquire(t, fmt.Sprint("key ", i%4), "majority:yes", "1", ballots("ann"), "ann", "bob", "cy"))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			seen[got.Answer]++
		})
	}
	group.Wait()
	if len(seen) != 1 || countKind(events(t, l), "answered") != 1 {
		t.Errorf("answers %v, %d of them recorded", seen, countKind(events(t, l), "answered"))
	}
	auditStore(t, l.engine.Store)
}

func TestABoundTruthBindsAnswersToo(t *testing.T) {
	l := voters(t, open(t, create(t), Options{TruthKey: []byte("sixteen bytes or more")}), "2", "ann", "bob")
	release(t, l, releaseOf(t, "1", "ann", "0.5"))
	unchanged(t, l.engine.Store, func() {
		_, err := l.Answer(t.Context(), inquire(t, "2", "majority:yes", "0.5", TruthOf("blank"), "ann", "bob"))
		wantChanged(t, err, "ann")
	})
}

func TestAnswerRefusesWhatCannotBe(t *testing.T) {
	l := voters(t, newLedger(t), "2", "ann", "bob")
	valid := func() AnswerRequest { return inquire(t, "1", "majority:yes", "1", ballots(), "ann", "bob") }
	for name, spoil := range map[string]func(*AnswerRequest){
		"no key":          func(r *AnswerRequest) { r.Key = "" },
		"no ε":            func(r *AnswerRequest) { r.Epsilon = eps(t, "0") },
		"no query":        func(r *AnswerRequest) { r.Query = "" },
		"unknown value":   func(r *AnswerRequest) { r.Query = "majority:maybe" },
		"nobody":          func(r *AnswerRequest) { r.Objects = []string{} },
		"neither":         func(r *AnswerRequest) { r.Objects = nil },
		"both":            func(r *AnswerRequest) { r.All = true },
		"twice":           func(r *AnswerRequest) { r.Objects = []string{"ann", "ann"} },
		"a label unknown": func(r *AnswerRequest) { r.Truth = TruthOf("secret") },
		"no source":       func(r *AnswerRequest) { r.Truth = nil },
		"too few truths": func(r *AnswerRequest) {
			r.Truth = func(context.Context, string, []string) ([]string, error) { return nil, nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := valid()
			spoil(&r)
			unchanged(t, l.engine.Store, func() {
				_, err := l.Answer(t.Context(), r)
				wantErr(t, err, ErrInvalid)
				if err != nil && strings.Contains(err.Error(), "secret") {
					t.Errorf("the error tells a truth: %v", err)
				}
			})
		})
	}
	r := valid()
	r.Question = "none"
	_, err := l.Answer(t.Context(), r)
	wantErr(t, err, ErrUnknown)
	failing := errors.New("offline")
	r = valid()
	r.Truth = func(context.Context, string, []string) ([]string, error) { return nil, failing }
	_, err = l.Answer(t.Context(), r)
	wantErr(t, err, failing)
	answerTo(t, l, valid()) // the key is still free
}

func TestApplyRefusesBrokenAnswers(t *testing.T) {
	l := voters(t, newLedger(t), "1", "ann")
	for _, c := range []event.Change{
		&event.Charged{Object: "eve", Question: 1, Epsilon: eps(t, "0.5")},
		&event.Charged{Object: "ann", Question: 1, Epsilon: eps(t, "1.5")},
		&event.Answered{Question: 1, Query: "winner", Epsilon: eps(t, "0"), Method: event.MethodFresh},
	} {
		_, _, err := l.engine.Submit(t.Context(), func(*state.State) ([]event.Change, error) { return []event.Change{c}, nil })
		wantErr(t, err, ErrCorrupt)
	}
}
