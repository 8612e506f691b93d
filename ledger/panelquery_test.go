package ledger

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/mechanism"
)

// ballots is a source of true values: the named objects vote yes, all others no.
func ballots(yes ...string) api.TruthFunc {
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

func answerRequest(t testing.TB, key, query, epsilon string, truth api.TruthFunc, objects ...string) api.AnswerRequest {
	t.Helper()
	return api.AnswerRequest{Key: key, Question: "vote", Query: query, Epsilon: eps(t, epsilon), Objects: objects, Truth: truth, AcceptLoss: true}
}

func answerTo(t testing.TB, l *Ledger, r api.AnswerRequest) api.AnswerResult {
	t.Helper()
	return check.Value(l.Answer(t.Context(), r))(t)
}

// medians makes every draw fall just below the middle: a score is the position itself, and of two
// answers the true one is given.
func medians() *mechanism.Sampler {
	return &mechanism.Sampler{Random: exact.ReplayBits(func(p []byte) {
		for i := range p {
			p[i] = 0x7f
		}
	})}
}

func TestAnswer_OtherTruthsSameAnswer_StoresTheSame(t *testing.T) {
	dump := func(query string, yes ...string) []pair {
		l := inMemory(t, Options{Now: epoch})
		l.engine.Salts, l.requests.Sampler = steadySalts(2), medians()
		voters(t, l, "2", "ann", "bob", "cy", "dan", "eve")
		answerTo(t, l, answerRequest(t, "1", query, "0.001", ballots(yes...), "ann", "bob", "cy", "dan", "eve"))
		return pairs(t, l.engine.Store)
	}
	// True values with the same answer, at different distances, give the same records, down to the
	// hashes of the log.
	wantSameRecords(t, "another lead", dump("winner"), dump("winner", "ann"))
	wantSameRecords(t, "another lead", dump("winner", "ann", "bob", "cy"), dump("winner", "ann", "bob", "cy", "eve"))
	// A score is the distance plus noise. Nothing else may depend on the distance.
	scored := func(yes ...string) []pair { return withoutScores(t, dump("threshold:yes:2", yes...)) }
	wantSameRecords(t, "another score", scored("ann"), scored())
	wantSameRecords(t, "another score", scored("ann"), scored("ann", "bob", "cy", "dan"))
}

// withoutScores returns records with 0 in the place of every score and of the hashes that depend on
// it.
func withoutScores(t *testing.T, stored []pair) []pair {
	t.Helper()
	found := 0
	for i, p := range stored {
		payload := check.Value(unsealed(p))(t)
		switch p.bucket {
		case state.BucketAnswers:
			a := check.Value(state.DecodeAnswers(payload))(t)
			for j := range a {
				found++
				a[j].Score = 0
			}
			stored[i].value = a.Encode()
		case state.BucketMeta:
			if string(p.key) != state.KeyCounters {
				continue
			}
			c := check.Value(state.DecodeCounters(payload))(t)
			c.Root = tlog.Hash{}
			stored[i].value = c.Encode()
		case state.BucketEvents:
			n := check.Value(event.DecodeEntry(binary.BigEndian.Uint64(p.key), payload))(t)
			if c, ok := n.Change.(*event.Answered); ok {
				c.Score = 0
			}
			clear(n.Hashes)
			stored[i].value = n.Encode()
		}
	}
	check.That(t, found != 0, "there is no score")
	return stored
}

func TestApply_ForgedChargeOrAnswer_IsCorrupt(t *testing.T) {
	l := voters(t, newLedger(t), "1", "ann")
	for _, c := range []event.Change{
		&event.Charged{Object: "eve", Question: 1, Epsilon: eps(t, "0.5")},
		&event.Charged{Object: "ann", Question: 1, Epsilon: eps(t, "1.5")},
		&event.Answered{Question: 1, Query: "winner", Epsilon: eps(t, "0"), Method: event.MethodFresh},
	} {
		_, _, err := l.engine.Submit(t.Context(), func(*state.State) ([]event.Change, error) { return []event.Change{c}, nil })
		wantErr(t, err, api.ErrCorrupt)
	}
}

// An answer that was recorded when a request for it began is erased before the decision. It is not
// drawn again from an empty panel.
func TestAnswer_PanelForgottenBeforeTheDecision_IsRefused(t *testing.T) {
	l, s := openShim(t, votersFile(t, "9", "ann", "bob"), Options{})
	ask := func(key, epsilon string) error {
		r := answerRequest(t, key, "majority:yes", epsilon, sameTruth("yes"), "ann")
		r.Partial = true
		return check.Err(l.Answer(t.Context(), r))
	}
	must(t, ask("first", "1"))
	// The commit of Forget is blocked until the next request has read the state before it, and
	// waits in the queue.
	commit := s.holdCommit(t)
	forgotten, answered := make(chan error, 1), make(chan error, 1)
	go func() { forgotten <- l.Forget(t.Context(), api.ObjectRequest{Key: "forget", Object: "ann"}) }()
	commit.wait(t)
	go func() { answered <- ask("second", "0.5") }()
	waitQueued(t, l, 1)
	commit.open()
	must(t, <-forgotten)
	refused := refusals(t, <-answered)
	check.That(t, len(refused) == 1, "refused %+v, want the object that is forgotten", refused)
	release(t, l, releaseOf(t, "after", "bob", "1")) // the ledger continues
}

// A forged raise of an answer is charged to other objects than the answer was. Their number is
// right.
func TestApply_RaiseChargedToOtherObjects_IsRefused(t *testing.T) {
	for name, who := range map[string][]string{
		"the panel":    {"ann", "bob", "cy"},
		"one other":    {"ann", "bob", "dan"},
		"none of them": {"dan", "eve", "fay"},
	} {
		l := voters(t, inMemory(t, Options{}), "9", "ann", "bob", "cy", "dan", "eve", "fay")
		r := answerRequest(t, "k", "majority:yes", "1", ballots("ann"), "ann", "bob", "cy")
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
			return request.AppendSettled(changes, 0, nil, end), nil
		})
		if sound := name == "the panel"; (err == nil) != sound {
			t.Errorf("charged to %s: %v", name, err)
		} else if sound {
			wantClean(t, l, api.VerifyRequest{})
		}
	}
}

// Answers are derived a billionth above others. Their scores are nearly always equal, and with
// these draws always.
func TestAnswer_EpsilonJustAboveAnother_HasTheSameScore(t *testing.T) {
	l := inMemory(t, Options{})
	l.requests.Sampler = queriesOf(5)
	voters(t, l, "1000", "ann", "bob", "cy")
	for _, query := range []string{
		"majority:yes", "majority:no", "majority:blank", "threshold:yes:1", "threshold:yes:2", "threshold:no:1", "threshold:no:2",
		"threshold:blank:1", "threshold:blank:2", "threshold:blank:3",
	} {
		var r api.AnswerRequest
		for _, epsilon := range []string{"0.2", "2", "0.200000001"} {
			r = answerRequest(t, query+epsilon, query, epsilon, ballots("ann"), "ann", "bob", "cy")
			answerTo(t, l, r)
		}
		if a := answersOf(t, l, r); a[1].Score != a[0].Score {
			t.Errorf("%s: the score is %d, and %d a billionth above", query, a[0].Score, a[1].Score)
		}
	}
}

// A quote for an answer at a higher ε says why no recorded answer is raised.
func TestQuoteAnswer_NotRaised_SaysWhy(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "9", "ann", "bob", "cy")
	quote := func(query, epsilon string) api.AnswerQuote {
		t.Helper()
		return check.Value(l.QuoteAnswer(t.Context(), answerRequest(t, "", query, epsilon, nil, "ann", "bob", "cy")))(t)
	}
	for _, query := range []string{"majority:yes", "winner"} {
		q := quote(query, "1")
		check.That(t, q.NotRaised == nil, "%s: nothing is held, and not raised because %v", query, q.NotRaised)
		answerTo(t, l, answerRequest(t, query, query, "1", ballots("ann"), "ann", "bob", "cy"))
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

// The reason for an answer that could never be raised is not that an object was forgotten.
func TestQuoteAnswer_NeverRaisable_DoesNotBlameForgetting(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "9", "ann", "bob")
	for name, query := range map[string]string{"left out": "majority:yes", "no boundary": "threshold:yes:3"} {
		r := answerRequest(t, name, query, "0.5", ballots("ann"), "ann", "bob")
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
