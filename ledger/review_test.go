package ledger

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Faults that a review found. Each of these failed before it was mended.

// What a reader has seen of a commit that then fails must not come beside an error either (invariant 1).
func TestNothingComesBesideAnErrorBeforeItIsDurable(t *testing.T) {
	for name, cancelled := range map[string]bool{"the commit fails": false, "the reader gives up": true} {
		t.Run(name, func(t *testing.T) {
			l, s := openShim(t, votersFile(t, "1", "ann"), Options{})
			flush := newGate(t)
			s.set(nil, func() error { _ = flush.pass(); return uncertain() })
			writer := async(func() (Response, error) { return l.Release(t.Context(), releaseOf(t, "1", "ann", "0.5")) })
			flush.wait(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			log := async(func() (string, error) {
				for ev, err := range l.Events(ctx, 1) {
					if r, is := recordedBy(ev); err != nil || is {
						return r.Response, err
					}
				}
				return "", nil
			})
			object := async(func() (ObjectState, error) { return l.Object(ctx, "ann") })
			time.Sleep(soon)
			if cancelled {
				cancel()
			} else {
				flush.open()
			}
			if r := await(t, log); r.value != "" {
				t.Errorf("the log tells the response %q", r.value)
			}
			if o := await(t, object); len(o.value.Chains) > 0 && len(o.value.Chains[0].Levels) > 0 {
				t.Errorf("the object shows %+v beside the error %v", o.value.Chains, o.err)
			}
			flush.open()
			wantErr(t, await(t, writer).err, ErrStopped)
		})
	}
}

// Whoever gets a recorded answer learns whom it leaves out, like the first to ask (invariant 8).
func TestARecordedAnswerSaysWhomItLeavesOut(t *testing.T) {
	l := voters(t, newLedger(t), "1", "ann", "bob", "cy")
	release(t, l, releaseOf(t, "s", "bob", "1"))
	r := inquire(t, "1", "majority:yes", "0.5", ballots("ann"), "ann", "bob", "cy")
	r.Partial = true
	answerTo(t, l, r)
	for key, epsilon := range map[string]string{"same": "0.5", "lower": "0.25"} {
		r.Key, r.Epsilon, r.Truth = key, eps(t, epsilon), never(t)
		quote, err := l.QuoteAnswer(t.Context(), r)
		must(t, err)
		got := answerTo(t, l, r)
		if len(got.Refused) != 1 || got.Refused[0].Object != "bob" || len(quote.Refused) != 1 || got.Objects != 2 || quote.Objects != 2 {
			t.Errorf("%s ε: quoted %+v, answered %+v", key, quote, got)
		}
	}
}

// A refusal after the first part of a request must not claim that nothing has happened (invariant 7).
func TestARefusalOfTheRestSaysSo(t *testing.T) {
	names := crowd(state.PartSize + 1)
	last := names[state.PartSize]
	t.Run("enrolment", func(t *testing.T) {
		l, once := newLedger(t), false
		define(t, l, vote())
		_, err := l.Enroll(t.Context(), EnrollRequest{Key: "big", Question: "vote", Objects: names, Cap: eps(t, "1"), Progress: func(int, int) {
			if !once {
				once = true
				enroll(t, l, "vote", "2", last)
			}
		}})
		wantErr(t, err, ErrPartlyDone)
		if got := refusals(t, err); len(got) != 1 || got[0].Object != last {
			t.Errorf("refused %+v", got)
		}
	})
	t.Run("raise", func(t *testing.T) {
		l := voters(t, newLedger(t), "1", names...)
		r := order(t, "big", "1", names...)
		ctx, cancel := context.WithCancel(t.Context())
		r.Progress = func(int, int) { cancel() }
		_, err := l.Raise(ctx, r)
		wantErr(t, err, context.Canceled)
		answerTo(t, l, inquire(t, "a", "majority:yes", "0.5", ballots(), last))
		r.Progress = nil
		_, err = l.Raise(t.Context(), r)
		wantErr(t, err, ErrPartlyDone)
		if got := refusals(t, err); len(got) != 1 || got[0].Object != last {
			t.Errorf("refused %+v", got)
		}
	})
	t.Run("not of the whole", func(t *testing.T) {
		l := voters(t, newLedger(t), "1", "ann")
		_, err := l.Raise(t.Context(), order(t, "1", "2", "ann"))
		if refusals(t, err); errors.Is(err, ErrPartlyDone) {
			t.Errorf("a refusal of the whole says that a part was done: %v", err)
		}
	})
}

// The first draw from the truth binds a chain, also that of an answer (invariant 6).
func TestAnswersBindTheTruth(t *testing.T) {
	l := voters(t, open(t, create(t), Options{TruthKey: []byte("sixteen bytes or more")}), "9", "ann", "bob")
	answerTo(t, l, inquire(t, "1", "majority:yes", "0.5", TruthOf("blank"), "ann", "bob"))
	_, err := l.Answer(t.Context(), inquire(t, "2", "majority:yes", "1", TruthOf("yes"), "ann", "bob"))
	wantChanged(t, err, "ann", "bob")
	r := releaseOf(t, "3", "ann", "0.5")
	r.Truth = TruthOf("yes")
	_, err = l.Release(t.Context(), r)
	wantChanged(t, err, "ann")
	auditStore(t, l.engine.Store)
}
