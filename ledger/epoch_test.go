package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
)

func beginEpoch(t testing.TB, l *Ledger, key, object string) {
	t.Helper()
	must(t, l.BeginEpoch(t.Context(), api.EpochRequest{Key: key, Question: "vote", Object: object}))
}

// enrollAgain enrolls an object without a policy again.
func enrollAgain(t testing.TB, l *Ledger, name string) {
	t.Helper()
	must(t, check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: "come back", Question: "vote", Objects: []string{name}})))
}

// If an earlier true value returns in a new epoch, its tag is another one. Otherwise a statement
// would reveal that the values are equal. The same holds for an object that was forgotten and is
// enrolled again.
func TestTruthTag_ValueReturnsInNewEpoch_Differs(t *testing.T) {
	l := voters(t, inMemory(t, Options{TruthKey: truthKey()}), "9", "ann")
	draw := func(key, truth string) {
		release(t, l, releaseBy(releaseOf(t, key, "ann", "0.5"), sameTruth(truth)))
	}
	tags := map[event.Tag]bool{}
	note := func() {
		for _, ev := range logOf(t, pairs(t, l.engine.Store)) {
			if c, is := ev.Change.(*event.TruthBound); is && ev.Erased == nil {
				tags[c.Tag] = true
			}
		}
	}
	for i, truth := range []string{"yes", "no", "yes"} {
		beginEpoch(t, l, fmt.Sprint("epoch ", i), "ann")
		draw(fmt.Sprint("draw ", i), truth)
	}
	note()
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "forget", Object: "ann"}))
	enrollAgain(t, l, "ann")
	draw("back", "yes")
	note()
	check.That(t, len(tags) == 4, "four chains have %d tags, want four", len(tags))
}

// An answer about a panel is not raised if an object of it has begun a new epoch since. It is drawn
// afresh and charged in full.
func TestAnswer_EpochBegan_IsChargedInFull(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "9", "ann", "bob")
	answerTo(t, l, answerRequest(t, "1", "majority:yes", "0.5", ballots("ann"), "ann", "bob"))
	beginEpoch(t, l, "2", "ann")
	r := answerRequest(t, "3", "majority:yes", "1", ballots("ann"), "ann", "bob")
	q := check.Value(l.QuoteAnswer(t.Context(), r))(t)
	check.That(t, q.Charge == eps(t, "1") && errors.Is(q.NotRaised, request.ErrNewEpoch), "%+v", q)
	got := answerTo(t, l, r)
	check.That(t, got.Charged == eps(t, "1"), "%+v", got)
	r.Key, r.Epsilon = "4", eps(t, "1.25")
	got = answerTo(t, l, r)
	check.That(t, got.Charged == eps(t, "0.25"), "got %+v, want the difference charged: no epoch has begun since", got)
	auditStore(t, l.engine.Store)
}

// If an epoch begins while the true value is requested, no request draws from that value. The true
// value is requested again.
func TestDraw_EpochBeginsDuringTruthCall_AsksAgain(t *testing.T) {
	for name, request := range map[string]func(*Ledger, api.TruthFunc) error{
		"release": func(l *Ledger, truth api.TruthFunc) error {
			r := releaseBy(releaseOf(t, "r", "ann", "1"), truth)
			return check.Err(l.Release(t.Context(), r))
		},
		"sell": func(l *Ledger, truth api.TruthFunc) error {
			r := purchase(t, "r", "acme", "1", "ann")
			r.Truth = truth
			return check.Err(l.Sell(t.Context(), r))
		},
		"advance": func(l *Ledger, truth api.TruthFunc) error {
			return check.Err(l.Advance(t.Context(), api.AdvanceRequest{Key: "r", Truth: truth}))
		},
		"answer": func(l *Ledger, truth api.TruthFunc) error {
			return check.Err(l.Answer(t.Context(), answerRequest(t, "r", "majority:yes", "1", truth, "ann")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := inMemory(t, Options{Now: func() time.Time { return epoch().Add(2 * time.Hour) }, TruthKey: truthKey()})
			define(t, l, vote())
			under := check.Value(policy.Steps(policy.Step{At: epoch(), Ceiling: eps(t, "2")}))(t)
			if name == "sell" {
				under = market(t, "2")
			}
			enrollUnder(t, l, "vote", under, "9", "ann")
			release(t, l, releaseOf(t, "1", "ann", "0.5"))
			calls := 0
			must(t, request(l, func(context.Context, string, []string) ([]string, error) {
				if calls++; calls > 1 {
					return []string{"no"}, nil
				}
				beginEpoch(t, l, "2", "ann") // while the host reads the old value
				return []string{"yes"}, nil
			}))
			c, _, err := readChainOf(t, l, "ann")
			must(t, err)
			check.That(t, calls >= 2 && c.Bound != nil && *c.Bound == l.rules.Binder.Truth("ann", 1, c.Since, 1),
				"the true value was requested %d times; want twice, and the chain bound to the new value", calls)
			auditStore(t, l.engine.Store)
		})
	}
}

func readChainOf(t testing.TB, l *Ledger, name string) (c state.Chain, found bool, err error) {
	err = l.engine.View(t.Context(), func(s *state.State) (err error) {
		c, found, err = s.Chain(1, name)
		return err
	})
	return c, found, err
}

// A noise key gives the same noise for the same ε, which would reveal two true values of one
// object. So a new epoch does not use it.
func TestNoiseKey_LaterEpoch_IsNotUsed(t *testing.T) {
	l := voters(t, inMemory(t, Options{NoiseKey: noiseKeys("2026")}), "9", "ann")
	release(t, l, releaseOf(t, "1", "ann", "1"))
	beginEpoch(t, l, "2", "ann")
	release(t, l, releaseOf(t, "3", "ann", "1"))
	must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "4", Object: "ann"}))
	enrollAgain(t, l, "ann")
	c, _, err := readChainOf(t, l, "ann")
	check.That(t, err == nil && c.Noise == 0, "%+v, %v", c, err)
	auditStore(t, l.engine.Store)
}

// A statement lists the chain of each epoch, and what they cost together. Both are checked against
// its events.
func TestStatement_SeveralEpochs_ListsEachChain(t *testing.T) {
	o := issuerWithFullHistory(t)
	enroll(t, o.Ledger, "vote", "9", "kim")
	release(t, o.Ledger, releaseOf(t, "kim 1", "kim", "0.5"))
	beginEpoch(t, o.Ledger, "kim 2", "kim")
	release(t, o.Ledger, releaseOf(t, "kim 3", "kim", "0.25"))
	st := statementOf(t, o.Ledger, "kim 4", "kim")
	check.Need(t, len(st.Chains) == 2 && st.Spent == eps(t, "0.75"), "%+v", st.Chains)
	first, second := st.Chains[0], st.Chains[1]
	check.That(t, first.Epoch == 1 && first.Ended != 0 && first.Spent == eps(t, "0.5") && second.Epoch == 2 && second.Ended == 0 && second.Spent == eps(t, "0.25"),
		"%+v", st.Chains)
	if i := slices.IndexFunc(st.Events, func(f evidence.Fact) bool { return f.Kind() == "epoch" }); i < 0 || st.Events[i].Event != first.Ended || st.Events[i].Says.(*says.EpochBegun).Question != "vote" {
		t.Errorf("%+v", st.Events)
	}
	if c := st.Verify(nil); len(c.Faults) > 0 {
		t.Errorf("%q", faults(c))
	}
	st.Chains[0].Ended++
	if c := st.Verify(nil); len(c.Faults) == 0 || !strings.Contains(fmt.Sprint(faults(c)), "chains") {
		t.Errorf("an epoch that ended at another event: the faults are %q", faults(c))
	}
}
