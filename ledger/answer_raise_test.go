package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/mechanism"
)

// Answers that are raised: each costs the difference to the one before, so that all together cost
// the largest ε.

// scoredQueries returns queries that have scores, with a question for each.
func scoredQueries() map[string]api.Question {
	return map[string]api.Question{
		"majority:yes":    vote(),
		"threshold:yes:1": vote(),
		"threshold:no:3":  vote(),
		"winner":          smoker(), // of two values, all queries have them
		"plurality":       smoker(),
	}
}

// panelFile returns a closed ledger file with three objects in a question.
func panelFile(t *testing.T, q api.Question, limit string) (path string) {
	t.Helper()
	path = create(t)
	l := open(t, path, Options{})
	define(t, l, q)
	enroll(t, l, q.Name, limit, "ann", "bob", "cy")
	closed(t, l)
	return path
}

func TestAnswer_RaisedInSteps_CostsTheLargestEpsilon(t *testing.T) {
	for query, q := range scoredQueries() {
		t.Run(query+" "+q.Name, func(t *testing.T) { wantRaised(t, query, q) })
	}
}

// wantRaised raises an answer step by step, and opens the ledger again before each step.
func wantRaised(t *testing.T, query string, q api.Question) {
	t.Helper()
	path, held := panelFile(t, q, "2"), eps(t, "0")
	var given []api.AnswerResult
	for i, epsilon := range []string{"0.000000001", "0.25", "0.250000001", "1", "2"} {
		l := open(t, path, Options{})
		r := answerRequest(t, epsilon, query, epsilon, ballots("ann"), "ann", "bob", "cy")
		r.Question = q.Name
		quote := check.Value(l.QuoteAnswer(t.Context(), r))(t)
		check.That(t, quote.Charge == state.Minus(r.Epsilon, held) && quote.NewDraw == r.Epsilon && quote.Held == held && quote.Objects == 3 && len(quote.Refused) == 0,
			"at ε=%s the quote is %+v", epsilon, quote)
		got := answerTo(t, l, r)
		check.That(t, got.Charged == quote.Charge && got.Epsilon == r.Epsilon && got.Objects == 3,
			"quoted %+v, got %+v", quote, got)
		wantAnswered(t, l, epsilon, "ann", "bob", "cy")
		check.Equal(t, methodOf(eventAt(t, l, got.Event)), []string{"fresh", "raise", "raise", "raise", "raise"}[i], "at ε=%s the method", epsilon)
		auditStore(t, l.engine.Store)
		closed(t, l)
		held, given = r.Epsilon, append(given, got)
	}
	l := open(t, path, Options{})
	for _, want := range given {
		epsilon := want.Epsilon.String()
		r := answerRequest(t, epsilon, query, epsilon, mustNotAsk(t), "cy", "ann", "bob")
		r.Question = q.Name
		got := answerTo(t, l, r)
		check.That(t, fmt.Sprint(got) == fmt.Sprint(want), "the same key gives %+v, then %+v", want, got)
		r.Key += " of another"
		if got := answerTo(t, l, r); got.Answer != want.Answer || got.Event != want.Event || !got.Charged.IsZero() {
			t.Errorf("another buyer gets %+v after %+v", got, want)
		}
	}
	wantClean(t, l, api.VerifyRequest{})
}

// wantAnswered checks what objects have spent, all of it on answers about one question.
func wantAnswered(t *testing.T, l *Ledger, epsilon string, names ...string) {
	t.Helper()
	for _, name := range names {
		if o := objectOf(t, l, name); o.Spent != eps(t, epsilon) || o.Chains[0].Answered != o.Spent {
			t.Errorf("%s has spent %s, %s of it for answers, want %s", name, o.Spent, o.Chains[0].Answered, epsilon)
		}
	}
}

// The budget that is needed equals the charge, to the nano-nat.
func TestAnswer_Raised_NeedsBudgetForTheDifference(t *testing.T) {
	l := voters(t, newLedger(t), "1", "ann", "bob", "cy")
	ask := func(epsilon string) api.AnswerRequest {
		return answerRequest(t, epsilon, "majority:yes", epsilon, ballots("ann"), "ann", "bob", "cy")
	}
	answerTo(t, l, ask("0.9"))
	unchanged(t, l.engine.Store, func() {
		for _, r := range refusals(t, check.Err(l.Answer(t.Context(), ask("1.000000001")))) {
			check.That(t, r.Cost == eps(t, "0.100000001") && r.Remaining == eps(t, "0.1") && r.Asked == eps(t, "1.000000001") && r.Spent == eps(t, "0.9"),
				"refused as %+v", r)
		}
	})
	check.Equal(t, answerTo(t, l, ask("1")).Charged, eps(t, "0.1"), "charged")
	wantAnswered(t, l, "1", "ann", "bob", "cy")
}

// Answers below the highest need no true values and no budget, in any order.
func TestAnswer_BelowTheHighest_IsFree(t *testing.T) {
	orders, step := permutations([]string{"0.2", "0.4", "0.6", "0.8"}), oneIn(5)
	for i := rand.IntN(step); i < len(orders); i += step {
		order := orders[i]
		path := votersFile(t, "1", "ann", "bob", "cy")
		l := open(t, path, Options{})
		answerTo(t, l, answerRequest(t, "first", "majority:yes", "0.5", ballots("ann"), "ann", "bob", "cy"))
		answerTo(t, l, answerRequest(t, "top", "majority:yes", "1", ballots("ann"), "ann", "bob", "cy"))
		lowest := "0.5"
		for _, epsilon := range order {
			must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "leave " + epsilon, Object: "bob"})) // answers do not need it any more
			r := answerRequest(t, epsilon, "majority:yes", epsilon, mustNotAsk(t), "ann", "bob", "cy")
			quote := check.Value(l.QuoteAnswer(t.Context(), r))(t)
			got := answerTo(t, l, r)
			check.That(t, got.Charged.IsZero() && quote.Charge.IsZero() && quote.NewDraw.IsZero() && quote.Held == eps(t, "1") && got.Objects == 3,
				"%v: at ε=%s quoted %+v, got %+v", order, epsilon, quote, got)
			how := "insert"
			if epsilon < lowest {
				how, lowest = "degrade", epsilon
			}
			check.Equal(t, methodOf(eventAt(t, l, got.Event)), how, "%v: at ε=%s by", order, epsilon)
		}
		wantAnswered(t, l, "1", "ann", "bob", "cy")
		auditStore(t, l.engine.Store)
		closed(t, l)
	}
}

// answersOf returns the recorded answers of a request.
func answersOf(t *testing.T, l *Ledger, r api.AnswerRequest) (a state.Answers) {
	t.Helper()
	q := check.Value(l.requests.Question(t.Context(), r.Question))(t)
	must(t, l.engine.View(t.Context(), func(s *state.State) error {
		p := request.Panel{Names: slices.Sorted(slices.Values(r.Objects)), All: r.All, Question: q.Number, Through: s.Counters.Events}
		names, err := p.Whole(s, q)
		must(t, err)
		a, _, err = s.Answers(state.AnswerKey(q.Number, r.Query, event.PanelOf(names)))
		return err
	}))
	return a
}

// A score between two others is drawn by its law given the scores next to it. Only scores since the
// last epoch began count as such.
func TestAnswer_AfterNewEpoch_IgnoresScoresOfTheOldEpoch(t *testing.T) {
	names := crowd(9)
	mixed := false
	for seed := range uint64(40) {
		l := voters(t, inMemory(t, Options{}), "9", names...)
		ask := func(epsilon string, truth api.TruthFunc) api.AnswerRequest {
			return answerRequest(t, epsilon, "majority:yes", epsilon, truth, names...)
		}
		answerTo(t, l, ask("0.5", sameTruth("no")))
		must(t, l.BeginEpoch(t.Context(), api.EpochRequest{Key: "another value", Question: "vote", Object: names[4]}))
		if got := answerTo(t, l, ask("1", sameTruth("yes"))); got.Charged != eps(t, "1") {
			t.Fatalf("charged %s", got.Charged)
		}
		before := answersOf(t, l, ask("0.7", nil))
		l.requests.Sampler = queriesOf(seed)
		got := answerTo(t, l, ask("0.7", mustNotAsk(t)))
		check.Equal(t, methodOf(eventAt(t, l, got.Event)), "degrade", "the method")
		want := check.Value(queriesOf(seed).Between(mechanism.Score{}, before[1].AsScore(), eps(t, "0.7")))(t)
		wrong := check.Value(queriesOf(seed).Between(before[0].AsScore(), before[1].AsScore(), eps(t, "0.7")))(t)
		made := answersOf(t, l, ask("0.7", nil))[1]
		check.That(t, made.Score == want.Value && made.Began == before[1].Began && before[0].Began != before[1].Began,
			"seed %d: it is %+v, want a score of %d, among %+v", seed, made, want.Value, before)
		mixed = mixed || want != wrong
	}
	check.That(t, mixed, "the score of the old epoch would have changed nothing")
}

// queriesOf returns a sampler for queries, on repeatable random bits.
func queriesOf(seed uint64) *mechanism.Sampler {
	_, bits := sampler(seed)
	return &mechanism.Sampler{Random: bits}
}

// A forgotten object may return with another true value. Answers about it start again and cost all
// of ε. The panel of the earlier answers is destroyed, so that only their keys return them.
func TestAnswer_ObjectForgottenAndBack_StartsAgainAtFullCost(t *testing.T) {
	path := votersFile(t, "5", "ann", "bob", "cy")
	l := open(t, path, Options{})
	ask := func(key, epsilon string, truth api.TruthFunc) (api.AnswerResult, api.AnswerQuote) {
		r := answerRequest(t, key, "majority:yes", epsilon, truth, "ann", "bob", "cy")
		quote := check.Value(l.QuoteAnswer(t.Context(), r))(t)
		got := answerTo(t, l, r)
		check.That(t, got.Charged == quote.Charge, "at ε=%s quoted %s, charged %s", epsilon, quote.Charge, got.Charged)
		return got, quote
	}
	_, _ = ask("1", "0.5", ballots("ann"))
	second, _ := ask("2", "1", ballots("ann"))
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "forget", Object: "bob"}))
	_, err := l.Answer(t.Context(), answerRequest(t, "3", "majority:yes", "1.5", mustNotAsk(t), "ann", "bob", "cy"))
	r := refusals(t, err)
	check.That(t, len(r) == 1 && r[0].Object == "bob" && r[0].Cost == eps(t, "0"), "refused %+v", r)
	must(t, check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: "back", Question: "vote", Objects: []string{"bob"}})))
	closed(t, l)
	l = open(t, path, Options{})
	third, quote := ask("5", "1.5", ballots("bob"))
	check.That(t, quote.Charge == eps(t, "1.5") && quote.Held.IsZero() && quote.NewDraw == eps(t, "1.5") && quote.NotRaised == nil,
		"after an object was forgotten the quote is %+v", quote)
	between, _ := ask("6", "1.25", mustNotAsk(t))
	fourth, quote := ask("7", "2", ballots("bob"))
	check.That(t, quote.Charge == eps(t, "0.5"), "the new answers are not raised: %+v", quote)
	top, _ := ask("8", "1.75", mustNotAsk(t))
	for _, name := range []string{"ann", "cy", "bob"} {
		if o := objectOf(t, l, name); o.Spent != eps(t, "3") { // 1 before and 2 after, for the forgotten object too
			t.Errorf("%s has spent %s", name, o.Spent)
		}
	}
	var got []string
	for _, a := range answersOf(t, l, answerRequest(t, "", "majority:yes", "1", nil, "ann", "bob", "cy")) {
		got = append(got, fmt.Sprintf("%s %d %s %d", a.Epsilon, a.Event, methodOf(eventAt(t, l, a.Event)), a.Began))
	}
	var want []string
	for _, one := range []struct {
		api.AnswerResult
		how   string
		began api.AnswerResult
	}{{between, "degrade", third}, {third, "fresh", third}, {top, "insert", third}, {fourth, "raise", third}} {
		want = append(want, fmt.Sprintf("%s %d %s %d", one.Epsilon, one.Event, one.how, one.began.Event))
	}
	check.That(t, slices.Equal(got, want), "the answers are %q, want %q", got, want)
	again := answerTo(t, l, answerRequest(t, "2", "majority:yes", "1", mustNotAsk(t), "ann", "bob", "cy"))
	check.That(t, fmt.Sprint(again) == fmt.Sprint(second), "the same key gives %+v, then %+v", second, again)
	auditLedger(t, l)
}

// A partial request that leaves no object out shares the answers of a whole one. In any order, all
// of them together cost the highest ε.
func TestAnswer_PartialButComplete_SharesTheWholePanelsAnswers(t *testing.T) {
	l := voters(t, newLedger(t), "5", "ann", "bob", "cy")
	var last api.AnswerResult
	for i, one := range []struct{ epsilon, charged, spent, how string }{
		{"0.5", "0.5", "0.5", "fresh"}, {"0.5", "0", "0.5", "fresh"}, {"1", "0.5", "1", "raise"}, {"2", "1", "2", "raise"}, {"1.5", "0", "2", "insert"}, {"1.5", "0", "2", "insert"},
	} {
		r := answerRequest(t, fmt.Sprint(i), "majority:yes", one.epsilon, ballots("ann"), "ann", "bob", "cy")
		r.Partial = i%2 == 0
		quote := check.Value(l.QuoteAnswer(t.Context(), r))(t)
		got := answerTo(t, l, r)
		if charged := eps(t, one.charged); got.Charged != charged || quote.Charge != charged || quote.NotRaised != nil || len(got.Refused) > 0 || methodOf(eventAt(t, l, got.Event)) != one.how {
			t.Errorf("%s: quoted %+v, got %+v", one.epsilon, quote, got)
		}
		check.That(t, one.epsilon != last.Epsilon.String() || got.Event == last.Event && got.Answer == last.Answer,
			"%s: got %+v after %+v", one.epsilon, got, last)
		last = got
		wantAnswered(t, l, one.spent, "ann", "bob", "cy")
	}
	auditLedger(t, l)
}

// A partial request that leaves an object out starts a new answer, since its panel may differ. It
// still returns recorded answers of the whole panel, and also works if an object turns out to have
// no true value.
func TestAnswer_PartialWithObjectsLeftOut_IsNotRaised(t *testing.T) {
	l := voters(t, newLedger(t), "5", "ann", "bob", "cy")
	ask := func(key, epsilon string, truth api.TruthFunc, names ...string) (api.AnswerQuote, api.AnswerResult) {
		t.Helper()
		r := answerRequest(t, key, "majority:yes", epsilon, truth, names...)
		r.Partial = true
		quote := check.Value(l.QuoteAnswer(t.Context(), r))(t)
		return quote, answerTo(t, l, r)
	}
	three := []string{"ann", "bob", "cy"}
	whole := answerTo(t, l, answerRequest(t, "whole", "majority:yes", "0.5", ballots("ann"), three...))
	noTruths := func(_ context.Context, _ string, names []string) ([]string, error) {
		values := make([]string, len(names))
		for i, name := range names {
			if name != "cy" {
				values[i] = "yes"
			}
		}
		return values, nil
	}
	quote, got := ask("no truth", "1", noTruths, three...)
	check.That(t, quote.Charge == eps(t, "0.5") && got.Charged == eps(t, "1") && got.Objects == 2 && len(got.Refused) == 1 && got.Refused[0].Reason == api.NoTruth,
		"quoted %+v, got %+v", quote, got)
	wantAnswered(t, l, "1.5", "ann", "bob")
	wantAnswered(t, l, "0.5", "cy")
	_, again := ask("recorded", "0.5", mustNotAsk(t), three...)
	check.That(t, again.Event == whole.Event, "got %+v, where the whole panel has %+v", again, whole)
	must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "w", Object: "cy"}))
	if quote, got := ask("withdrawn", "2", ballots("ann"), three...); !errors.Is(quote.NotRaised, request.ErrPartialPanel) || quote.Charge != eps(t, "2") || got.Charged != quote.Charge || got.Objects != 2 {
		t.Errorf("quoted %+v, got %+v", quote, got)
	}
	enroll(t, l, "vote", "5", "cy")
	if quote, got := ask("back", "0.75", mustNotAsk(t), three...); quote.Charge != eps(t, "0") || got.Charged != quote.Charge || got.Objects != 2 || methodOf(eventAt(t, l, got.Event)) != "degrade" {
		t.Errorf("quoted %+v, got %+v", quote, got)
	}
	auditLedger(t, l)
}

// An answer about another panel or to another query is not raised from a recorded one.
func TestAnswer_OtherPanelOrQuery_IsDrawnAfresh(t *testing.T) {
	l := voters(t, newLedger(t), "9", "ann", "bob", "cy", "dan")
	answerTo(t, l, answerRequest(t, "first", "majority:yes", "0.5", ballots(), "ann", "bob", "cy"))
	for key, r := range map[string]api.AnswerRequest{
		"one more":      answerRequest(t, "", "majority:yes", "1", ballots(), "ann", "bob", "cy", "dan"),
		"one fewer":     answerRequest(t, "", "majority:yes", "1", ballots(), "ann", "bob"),
		"another":       answerRequest(t, "", "majority:yes", "1", ballots(), "ann", "bob", "dan"),
		"another value": answerRequest(t, "", "majority:no", "1", ballots(), "ann", "bob", "cy"),
		"same in words": answerRequest(t, "", "threshold:yes:2", "1", ballots(), "ann", "bob", "cy"),
	} {
		r.Key = key
		check.Equal(t, answerTo(t, l, r).Charged, eps(t, "1"), "%s: charged", key)
	}
	// All objects are the same panel as a list of their names, until another object is enrolled.
	all := answerRequest(t, "all", "majority:yes", "2", ballots())
	all.Objects, all.All = nil, true
	check.Equal(t, answerTo(t, l, all).Charged, eps(t, "1"), "charge for all, after an answer by name")
	again := answerTo(t, l, all)
	enroll(t, l, "vote", "9", "eve")
	if later := answerTo(t, l, all); again.Charged != eps(t, "1") || fmt.Sprint(later) != fmt.Sprint(again) {
		t.Errorf("the same key gives %+v, then %+v", again, later)
	}
	all.Key = "all and eve"
	check.Equal(t, answerTo(t, l, all).Charged, eps(t, "2"), "charge with one more object")
	auditStore(t, l.engine.Store)
}

// In any order of concurrent requests, all answers together cost the largest ε, and each is drawn
// once.
func TestAnswer_Concurrent_IsDrawnOncePerEpsilon(t *testing.T) {
	l := voters(t, newLedger(t), "1", "ann", "bob", "cy")
	var group sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]map[string]bool{}
	for i := range 32 {
		group.Go(func() {
			epsilon := fmt.Sprintf("%.3f", 0.125*float64(1+i%8))
			got, err := l.Answer(t.Context(), answerRequest(t, fmt.Sprint("key ", i/2), "majority:yes", epsilon, ballots("ann"), "ann", "bob", "cy"))
			if errors.Is(err, &api.KeyConflictError{}) {
				return // each key is used for two requests
			}
			mu.Lock()
			defer mu.Unlock()
			check.OK(t, err)
			if seen[epsilon] == nil {
				seen[epsilon] = map[string]bool{}
			}
			seen[epsilon][fmt.Sprint(got.Answer, got.Event)] = true
		})
	}
	group.Wait()
	answerTo(t, l, answerRequest(t, "last", "majority:yes", "1", ballots("ann"), "ann", "bob", "cy"))
	wantAnswered(t, l, "1", "ann", "bob", "cy")
	for epsilon, results := range seen {
		check.That(t, len(results) == 1, "at ε=%s there are the answers %v", epsilon, results)
	}
	methods := map[string]int{}
	for _, ev := range events(t, l) {
		if d, is := ev.Says.(says.Answered); is {
			methods[d.Method]++
		}
	}
	check.That(t, methods["fresh"] == 1, "the methods are %v", methods)
	auditLedger(t, l)
}

// If the process crashes or the commit fails while an answer is raised, it is raised once or not at
// all.
func TestAnswer_CrashDuringRaise_IsRaisedOnceOnRetry(t *testing.T) {
	for name, hooks := range map[string]struct {
		before, after func() error
		recorded      bool
	}{
		"before the commit":           {uncertain, nil, false},
		"after the commit":            {nil, uncertain, true},
		"the disk, before the commit": {failing, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := votersFile(t, "1", "ann", "bob", "cy")
			l, s := openShim(t, path, Options{})
			answerTo(t, l, answerRequest(t, "1", "majority:yes", "0.25", ballots("ann"), "ann", "bob", "cy"))
			raise := answerRequest(t, "2", "majority:yes", "1", ballots("ann"), "ann", "bob", "cy")
			s.set(hooks.before, hooks.after)
			_, err := l.Answer(t.Context(), raise)
			check.Need(t, errors.Is(err, errDisk), "got the error %v", err)
			_ = l.Close()
			l = open(t, path, Options{})
			spent := "0.25"
			if hooks.recorded {
				spent, raise.Truth = "1", mustNotAsk(t)
			}
			wantAnswered(t, l, spent, "ann", "bob", "cy")
			first := answerTo(t, l, raise)
			raise.Truth = mustNotAsk(t)
			if again := answerTo(t, l, raise); fmt.Sprint(again) != fmt.Sprint(first) || first.Charged != eps(t, "0.75") {
				t.Errorf("the same key gives %+v, then %+v", first, again)
			}
			wantAnswered(t, l, "1", "ann", "bob", "cy")
			auditStore(t, l.engine.Store)
		})
	}
}

// A raise that another one overtakes, between its request for true values and its decision, is
// decided again.
func TestAnswer_OvertakenByHigherAnswer_IsDerivedFree(t *testing.T) {
	l := voters(t, newLedger(t), "2", "ann", "bob", "cy")
	answerTo(t, l, answerRequest(t, "1", "majority:yes", "0.5", ballots("ann"), "ann", "bob", "cy"))
	overtaking := []string{"0.75", "1.5"}
	truth := func(ctx context.Context, question string, objects []string) ([]string, error) {
		if len(overtaking) > 0 {
			epsilon := overtaking[0]
			overtaking = overtaking[1:]
			answerTo(t, l, answerRequest(t, epsilon, "majority:yes", epsilon, ballots("ann"), "ann", "bob", "cy"))
		}
		return ballots("ann")(ctx, question, objects)
	}
	got := answerTo(t, l, answerRequest(t, "2", "majority:yes", "1", truth, "ann", "bob", "cy"))
	check.That(t, got.Charged.IsZero() && methodOf(eventAt(t, l, got.Event)) == "insert",
		"overtaken twice, the result is %+v", got)
	wantAnswered(t, l, "1.5", "ann", "bob", "cy")
	auditStore(t, l.engine.Store)
}

// Verify compares every field of a stored answer with the events.
func TestVerify_StoredAnswerAltered_NamesTheField(t *testing.T) {
	for name, one := range map[string]struct {
		alter func(a state.Answers)
		text  string
	}{
		"a score":    {func(a state.Answers) { a[1].Score += 2 }, "the score at ε=0.75 is "},
		"a top":      {func(a state.Answers) { a[2].Score = -a[2].Score - 1 }, "the score at ε=1 is "},
		"a began":    {func(a state.Answers) { a[1].Began++ }, "the first event of the answers at ε=0.75 is "},
		"an output":  {func(a state.Answers) { a[0].Result = event.Result{Output: 1} }, "whether there is a score at ε=0.5 is "},
		"the number": {func(a state.Answers) { a[0].Objects++ }, "the number of objects at ε=0.5 is "},
	} {
		t.Run(name, func(t *testing.T) {
			l := voters(t, inMemory(t, Options{}), "2", "ann", "bob", "cy")
			r := answerRequest(t, "1", "majority:yes", "0.5", ballots("ann"), "ann", "bob", "cy")
			for _, epsilon := range []string{"0.5", "1", "0.75"} {
				r.Key, r.Epsilon = epsilon, eps(t, epsilon)
				answerTo(t, l, r)
			}
			wantClean(t, l, api.VerifyRequest{})
			a, key := answersOf(t, l, r), firstKey(t, l.engine.Store, state.BucketAnswers, nil)
			one.alter(a)
			putRecord(t, l.engine.Store, state.BucketAnswers, key, a.Encode())
			found := findings(t, l, api.VerifyRequest{})
			check.That(t, len(found) != 0 && found[0].Kind == "answers" && strings.Contains(found[0].Text, one.text),
				"found %+v, want %q first", found, one.text)
		})
	}
}

// A stored score outside its range is corrupt, and nothing is drawn from it.
func TestAnswer_StoredScoreOutOfRange_IsCorrupt(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "2", "ann", "bob", "cy")
	r := answerRequest(t, "1", "majority:yes", "0.5", ballots("ann"), "ann", "bob", "cy")
	answerTo(t, l, r)
	a, key := answersOf(t, l, r), firstKey(t, l.engine.Store, state.BucketAnswers, nil)
	a[0].Score = 1<<61 + 1
	putRecord(t, l.engine.Store, state.BucketAnswers, key, a.Encode())
	for _, epsilon := range []string{"0.25", "1"} {
		unchanged(t, l.engine.Store, func() {
			wantErr(t, check.Err(l.Answer(t.Context(), answerRequest(t, "at "+epsilon, "majority:yes", epsilon, ballots("ann"), "ann", "bob", "cy"))), api.ErrCorrupt)
		})
	}
}

// farBits makes every draw fall in the far tail, with a probability of about 2⁻⁶⁰ each.
func farBits(fill byte) *mechanism.Sampler {
	return &mechanism.Sampler{Random: exact.ReplayBits(func(p []byte) {
		for i := range p {
			if p[i] = fill; i%8 == 7 {
				p[i] ^= 0x10
			}
		}
	})}
}

// Even with extreme noise the answer follows from its score, and later raises continue from that
// score.
func TestAnswer_ExtremeNoise_MatchesItsScore(t *testing.T) {
	for _, fill := range []byte{0x00, 0xff} {
		l := voters(t, inMemory(t, Options{}), "2", "ann", "bob", "cy")
		l.requests.Sampler = farBits(fill)
		r := answerRequest(t, "", "majority:yes", "1", ballots("ann"), "ann", "bob", "cy")
		var given []string
		for _, epsilon := range []string{"0.000000001", "0.000000002", "1"} {
			r.Key, r.Epsilon = epsilon, eps(t, epsilon)
			given = append(given, answerTo(t, l, r).Answer)
		}
		for i, a := range answersOf(t, l, r) {
			check.That(t, (a.Score >= 0) == (given[i] == "yes"), "a score of %d answers %q", a.Score, given[i])
		}
		auditStore(t, l.engine.Store)
	}
}

// A threshold above the size of a panel has only one answer, which stays certain at a lower ε.
func TestAnswer_ThresholdAbovePanelSize_IsAlwaysNo(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "9", "ann", "bob")
	for i, epsilon := range []string{"1", "0.04", "0.03", "0.02", "0.01", "0.009", "0.008", "0.007", "0.006", "0.005", "0.004", "0.003", "0.002", "0.001"} {
		result := answerTo(t, l, answerRequest(t, "at "+epsilon, "threshold:yes:3", epsilon, ballots("ann", "bob"), "ann", "bob"))
		check.That(t, result.Answer == "no" && result.Charged.IsZero() == (i > 0), "at ε=%s: %+v", epsilon, result)
	}
}
