package ledger

import (
	"context"
	"encoding/binary"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/exact"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/mechanism"
)

// ballots is a source of truths: who is named votes yes, everybody else no.
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

func inquire(t testing.TB, key, query, epsilon string, truth api.TruthFunc, objects ...string) api.AnswerRequest {
	t.Helper()
	return api.AnswerRequest{Key: key, Question: "vote", Query: query, Epsilon: eps(t, epsilon), Objects: objects, Truth: truth, AcceptLoss: true}
}

func answerTo(t testing.TB, l *Ledger, r api.AnswerRequest) api.AnswerResult {
	t.Helper()
	return check.Value(l.Answer(t.Context(), r))(t)
}

// medians makes every draw come out just below the middle: a score is the position itself, and of two answers
// the true one is given.
func medians() *mechanism.Sampler {
	return &mechanism.Sampler{Random: exact.ReplayBits(func(p []byte) {
		for i := range p {
			p[i] = 0x7f
		}
	})}
}

func TestAnAnswerChargesEverybodyOnce(t *testing.T) {
	names := []string{"ann", "bob", "cy"}
	l := voters(t, newLedger(t), "2", names...)
	l.requests.Sampler = medians()
	got := answerTo(t, l, inquire(t, "1", "majority:yes", "0.5", ballots("ann", "cy"), names...))
	check.That(t, got.Answer == "yes" && got.Objects == 3 && got.Charged == eps(t, "0.5") && got.Epsilon == eps(t, "0.5") && len(got.Refused) == 0,
		"the answer came to %+v", got)
	for _, name := range names {
		o := objectOf(t, l, name)
		check.That(t, o.Spent == eps(t, "0.5") && o.Chains[0].Answered == eps(t, "0.5") && o.Chains[0].Epsilon.IsZero(),
			"%s came to %+v", name, o)
	}
	log := events(t, l)
	if d, is := log[got.Event-1].Says.(says.Answered); countKind(log, "charged") != 3 || countKind(log, "answered") != 1 || !is || d.Response != "yes" || d.Query != "majority:yes" {
		t.Errorf("the log has %+v", log)
	}
	auditStore(t, l.engine.Store)
}

func TestTheTruthDecidesNothingButTheAnswer(t *testing.T) {
	dump := func(query string, yes ...string) []pair {
		l := inMemory(t, Options{Now: epoch})
		l.engine.Salts, l.requests.Sampler = steadySalts(2), medians()
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

func TestApplyRefusesBrokenAnswers(t *testing.T) {
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
