package ledger

import (
	"errors"
	"testing"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/mechanism"
)

// TestARaiseIsChargedToItsPanel forges a raise of an answer that is charged to other people than the answer was. The
// number of them is right.
func TestARaiseIsChargedToItsPanel(t *testing.T) {
	for name, who := range map[string][]string{
		"the panel":      {"ann", "bob", "cy"},
		"one other":      {"ann", "bob", "dan"},
		"nobody of them": {"dan", "eve", "fay"},
	} {
		l := voters(t, inMemory(t, Options{}), "9", "ann", "bob", "cy", "dan", "eve", "fay")
		r := inquire(t, "k", "majority:yes", "1", ballots("ann"), "ann", "bob", "cy")
		answerTo(t, l, r)
		first := answeredEvent(t, l)
		r.Key, r.Epsilon = "k2", eps(t, "3")
		q, err := l.requests.Question(t.Context(), "vote")
		must(t, err)
		_, _, err = l.engine.Submit(t.Context(), func(s *state.State) ([]event.Change, error) {
			var changes []event.Change
			for _, name := range who {
				changes = append(changes, &event.Charged{Object: name, Question: q.Number, Epsilon: eps(t, "2")})
			}
			panel := event.PanelOf(r.Objects)
			id := event.PanelRequest{Question: r.Question, Query: r.Query, Epsilon: r.Epsilon, Panel: panel, Objects: 3}.Identity()
			end := &event.Settled{Key: "k2", Digest: id.Digest, Marks: id.Marks, Through: s.Counters.Events, First: s.Counters.Events + 1, Final: true}
			end.Counts[event.Drawn], end.Answer = 1, end.First+3
			changes = append(changes, &event.Answered{
				Question: q.Number, Query: r.Query, Panel: panel, Objects: 3, Epsilon: r.Epsilon,
				Result: event.Result{Scored: true, Score: 5}, Method: event.MethodRaise, Base: first,
			})
			return request.Settling(changes, 0, nil, end), nil
		})
		if sound := name == "the panel"; (err == nil) != sound {
			t.Errorf("charged to %s: %v", name, err)
		} else if sound {
			wantClean(t, l, api.VerifyRequest{})
		}
	}
}

// TestAnInsertedScoreKnowsTheOneBelow derives answers a billionth above others, whose scores are then nearly always equal:
// with these draws, always.
func TestAnInsertedScoreKnowsTheOneBelow(t *testing.T) {
	l := inMemory(t, Options{})
	l.requests.Sampler = queriesOf(5)
	voters(t, l, "1000", "ann", "bob", "cy")
	for _, query := range []string{
		"majority:yes", "majority:no", "majority:blank", "threshold:yes:1", "threshold:yes:2", "threshold:no:1", "threshold:no:2",
		"threshold:blank:1", "threshold:blank:2", "threshold:blank:3",
	} {
		var r api.AnswerRequest
		for _, epsilon := range []string{"0.2", "2", "0.200000001"} {
			r = inquire(t, query+epsilon, query, epsilon, ballots("ann"), "ann", "bob", "cy")
			answerTo(t, l, r)
		}
		if a := answersOf(t, l, r); a[1].Score != a[0].Score {
			t.Errorf("%s: the score is %d, and %d a billionth above", query, a[0].Score, a[1].Score)
		}
	}
}

// TestAQuoteSaysWhyAnAnswerIsNotRaised asks what answers at a higher ε would cost.
func TestAQuoteSaysWhyAnAnswerIsNotRaised(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "9", "ann", "bob", "cy")
	quote := func(query, epsilon string) api.AnswerQuote {
		t.Helper()
		return check.Value(l.QuoteAnswer(t.Context(), inquire(t, "", query, epsilon, nil, "ann", "bob", "cy")))(t)
	}
	for _, query := range []string{"majority:yes", "winner"} {
		q := quote(query, "1")
		check.That(t, q.NotRaised == nil, "%s: nothing is held, and not raised because %v", query, q.NotRaised)
		answerTo(t, l, inquire(t, query, query, "1", ballots("ann"), "ann", "bob", "cy"))
	}
	q := quote("majority:yes", "2")
	check.That(t, q.NotRaised == nil && q.Charge == eps(t, "1"), "%+v", q)
	var score *mechanism.ScoreError
	q = quote("winner", "2")
	check.That(t, errors.As(q.NotRaised, &score) && q.Charge == eps(t, "2"), "%+v", q)
	must(t, l.BeginEpoch(t.Context(), api.EpochRequest{Key: "another value", Question: "vote", Object: "ann"}))
	q = quote("majority:yes", "2")
	check.That(t, errors.Is(q.NotRaised, request.ErrNewEpoch) && q.Charge == eps(t, "2"), "%+v", q)
}

// TestAQuoteBlamesNobodyForgotten asks why answers are not raised that could not be from the beginning.
func TestAQuoteBlamesNobodyForgotten(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "9", "ann", "bob")
	for name, query := range map[string]string{"left out": "majority:yes", "no boundary": "threshold:yes:3"} {
		r := inquire(t, name, query, "0.5", ballots("ann"), "ann", "bob")
		if r.Partial = name == "left out"; r.Partial {
			r.Objects = append(r.Objects, "zoe")
		}
		answerTo(t, l, r)
		r.Epsilon = eps(t, "1")
		q := check.Value(l.QuoteAnswer(t.Context(), r))(t)
		var score *mechanism.ScoreError
		check.That(t, q.NotRaised != nil && !errors.Is(q.NotRaised, api.ErrForgotten) && errors.As(q.NotRaised, &score) != r.Partial,
			"%s: %v", name, q.NotRaised)
	}
}
