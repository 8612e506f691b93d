package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/stattest"
	"github.com/sluicedp/sluice/ledger/evidence"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv/kvtest"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
)

func beginEpoch(t testing.TB, l *Ledger, key, object string) {
	t.Helper()
	must(t, l.BeginEpoch(t.Context(), key, "vote", object))
}

// comeBack enrols somebody again, who has no policy.
func comeBack(t testing.TB, l *Ledger, name string) {
	t.Helper()
	_, err := l.Enroll(t.Context(), EnrollRequest{Key: "come back", Question: "vote", Objects: []string{name}})
	must(t, err)
}

// Somebody whose value has changed was stuck under a truth key for ever. In a new epoch the new value is drawn from, beside
// what the old one has cost; and the old one is out of reach.
func TestWhoseTruthHasChangedBeginsAnEpoch(t *testing.T) {
	s := &kvtest.Memory{}
	begin(t, s)
	l := voters(t, openMemory(t, s, Options{TruthKey: truthKey()}), "1.5", "ann", "bob")
	old := release(t, l, releaseOf(t, "1", "ann", "1"))
	moved := releaseOf(t, "2", "ann", "0.4")
	moved.Truth = TruthOf("no")
	beginEpoch(t, l, "3", "ann")
	again := release(t, l, moved)
	if again.Event <= old.Event {
		t.Errorf("%+v after %+v", again, old)
	}
	sound := moved
	sound.Key, sound.Epsilon = "4", eps(t, "0.45")
	release(t, l, sound)
	more := releaseOf(t, "5", "ann", "0.5")
	_, err := l.Release(t.Context(), more)
	wantChanged(t, err, "ann") // the new epoch is bound as well
	more.Truth = TruthOf("no")
	again = release(t, l, more)
	more.Key, more.Epsilon = "6", eps(t, "0.5001")
	_, err = l.Release(t.Context(), more)
	if r := refusals(t, err); r[0].Reason != ObjectCap || r[0].Spent != eps(t, "1.5") {
		t.Errorf("refused %+v: both epochs together have spent the cap", r)
	}
	o := objectOf(t, l, "ann")
	if c := o.Chains[0]; o.Spent != eps(t, "1.5") || c.Epoch != 2 || c.Epsilon != eps(t, "0.5") || len(c.Earlier) != 1 {
		t.Fatalf("%+v", o)
	}
	first := o.Chains[0].Earlier[0]
	if first.Epoch != 1 || first.Epsilon != eps(t, "1") || len(first.Levels) != 1 || first.Levels[0].Event != old.Event || first.Ended <= old.Event || first.Ended >= again.Event {
		t.Errorf("the first epoch is told as %+v", first)
	}
	if repeated := release(t, l, releaseOf(t, "1", "ann", "1")); repeated != old {
		t.Errorf("the old response is read again as %+v", repeated)
	}
	auditAll(t, l, s)
	wantClean(t, l, VerifyRequest{})
}

// The same request does nothing twice; an epoch in which nothing has happened is not ended; and whoever takes no part has none.
func TestEpochsBeginOnce(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "3", "ann", "bob")
	beginEpoch(t, l, "0", "ann")
	if o := objectOf(t, l, "ann"); o.Chains[0].Epoch != 1 {
		t.Errorf("%+v", o)
	}
	release(t, l, releaseOf(t, "1", "ann", "1"))
	for range 3 {
		beginEpoch(t, l, "2", "ann")
	}
	beginEpoch(t, l, "3", "ann")
	if o := objectOf(t, l, "ann"); o.Chains[0].Epoch != 2 || o.Spent != eps(t, "1") || countKind(events(t, l), "epoch") != 1 {
		t.Errorf("%+v", o)
	}
	wantErr(t, l.BeginEpoch(t.Context(), "2", "vote", "bob"), ErrKeyConflict)
	wantErr(t, l.BeginEpoch(t.Context(), "4", "void", "bob"), ErrUnknown)
	if r := refusals(t, l.BeginEpoch(t.Context(), "4", "vote", "zoe")); r[0].Reason != NotEnrolled {
		t.Errorf("%+v", r)
	}
	must(t, l.Withdraw(t.Context(), "5", "bob"))
	if r := refusals(t, l.BeginEpoch(t.Context(), "4", "vote", "bob")); r[0].Reason != Withdrawn {
		t.Errorf("%+v", r)
	}
	must(t, l.Forget(t.Context(), "6", "ann"))
	wantErr(t, l.BeginEpoch(t.Context(), "2", "vote", "ann"), ErrForgotten)
	if o := objectOf(t, l, "ann"); o.Spent != eps(t, "1") || o.Chains[0].Answered != eps(t, "1") || o.Chains[0].Epoch != 1 || o.Chains[0].Earlier != nil {
		t.Errorf("%+v", o)
	}
	auditStore(t, l.engine.Store)
}

// A value that comes back is bound by another tag: else a statement would show that it is the one of before. So it is for
// whoever was forgotten and is back.
func TestAValueThatComesBackHasAnotherTag(t *testing.T) {
	l := voters(t, inMemory(t, Options{TruthKey: truthKey()}), "9", "ann")
	draw := func(key, truth string) {
		r := releaseOf(t, key, "ann", "0.5")
		r.Truth = TruthOf(truth)
		release(t, l, r)
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
	must(t, l.Forget(t.Context(), "forget", "ann"))
	comeBack(t, l, "ann")
	draw("back", "yes")
	note()
	if len(tags) != 4 {
		t.Errorf("four chains about two values have %d tags", len(tags))
	}
}

// What is sold belongs to one epoch: its buyers can read it again, but nothing of it is sold any more, and they pay the full
// price for the next, of which as many may hold a level as before, and unlock what the policy says.
func TestEpochsAreSoldByThemselves(t *testing.T) {
	s := &kvtest.Memory{}
	begin(t, s)
	l := openMemory(t, s, Options{})
	define(t, l, vote())
	halves, err := policy.Unlock(eps(t, "1"), 2)
	must(t, err)
	p, err := policy.Min(market(t, "1", func(m *policy.Market) { m.Stride, m.Holders = eps(t, "0.5"), 1 }), halves)
	must(t, err)
	enrollUnder(t, l, "vote", p, "9", "ann")
	first := sell(t, l, purchase(t, "1", "acme", "0.5", "ann"))
	before := delivered(t, l, first.Number)["ann"]
	r := purchase(t, "2", "bolt", "0.5", "ann")
	_, err = l.Sell(t.Context(), r)
	if got := refusals(t, err); got[0].Reason != HoldersFull {
		t.Errorf("%+v", got)
	}
	beginEpoch(t, l, "3", "ann")
	second := sell(t, l, r)
	if second.Price != first.Price || second.Draws != 1 || second.Upgrades != 0 {
		t.Errorf("%+v, before %+v", second, first)
	}
	third := purchase(t, "4", "acme", "1", "ann")
	if q, err := l.Quote(t.Context(), third.Order); err != nil || q.Upgrades != 0 || q.Draws != 1 {
		t.Errorf("%+v, %v: what acme holds is of the old epoch", q, err)
	}
	sell(t, l, third)
	if now := delivered(t, l, first.Number)["ann"]; now != before {
		t.Errorf("delivered was %+v, now it is %+v", before, now)
	}
	if c := objectOf(t, l, "ann").Chains[0]; c.Buyers != 2 || !slices.Equal(c.Earlier[0].Levels[0].Buyers, []string{"acme"}) {
		t.Errorf("%+v", c)
	}
	auditAll(t, l, s)
	wantClean(t, l, VerifyRequest{})
}

// What was reserved of somebody ends with the epoch, and holds no budget any more.
func TestAReservationEndsWithTheEpoch(t *testing.T) {
	l := sellers(t, inMemory(t, Options{Now: epoch}), "2", "2", "ann", "bob")
	sell(t, l, purchase(t, "1", "acme", "0.5", "ann", "bob"))
	held := reserve(t, l, ReserveRequest{Key: "2", Order: purchase(t, "", "acme", "1.5", "ann", "bob").Order, For: time.Hour})
	beginEpoch(t, l, "3", "ann")
	if o := objectOf(t, l, "ann"); !o.Held.IsZero() || o.Remaining != eps(t, "1.5") {
		t.Errorf("%+v", o)
	}
	release(t, l, releaseOf(t, "4", "ann", "1.5"))
	capture := CaptureRequest{Key: "5", Reservation: held.Number, Truth: TruthOf("yes")}
	unchanged(t, l.engine.Store, func() {
		_, err := l.Capture(t.Context(), capture)
		if got := refusals(t, err); len(got) != 1 || got[0].Object != "ann" || got[0].Reason != EpochBegun {
			t.Errorf("%+v", got)
		}
	})
	capture.Partial = true
	sale, err := l.Capture(t.Context(), capture)
	must(t, err)
	if sale.Objects != 1 || sale.Refund == 0 || sale.Refused[0].Reason != EpochBegun {
		t.Errorf("%+v", sale)
	}
	auditAll(t, l, l.engine.Store)
}

// Estimates are about the values of now.
func TestEstimatesCountTheCurrentEpoch(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "9", "ann", "bob")
	carryOut(t, l, order(t, "1", "1"))
	beginEpoch(t, l, "2", "ann")
	for _, epsilon := range []string{"0", "1"} {
		got, err := l.Estimate(t.Context(), EstimateRequest{Question: "vote", Epsilon: eps(t, epsilon)})
		must(t, err)
		if got.N != 1 {
			t.Errorf("ε=%s: %+v", epsilon, got)
		}
	}
	if got := responses(t, l, "vote", eps(t, "1")); len(got) != 1 || got["bob"].Event == 0 {
		t.Errorf("%+v", got)
	}
}

// An answer about a panel is not raised where somebody's value is another one since: it is drawn anew, and charged in full.
func TestAnswersAreNotRaisedAcrossEpochs(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "9", "ann", "bob")
	answerTo(t, l, inquire(t, "1", "majority:yes", "0.5", ballots("ann"), "ann", "bob"))
	beginEpoch(t, l, "2", "ann")
	r := inquire(t, "3", "majority:yes", "1", ballots("ann"), "ann", "bob")
	q, err := l.QuoteAnswer(t.Context(), r)
	must(t, err)
	if q.Charge != eps(t, "1") || !errors.Is(q.NotRaised, errNewEpoch) {
		t.Errorf("%+v", q)
	}
	if got := answerTo(t, l, r); got.Charged != eps(t, "1") {
		t.Errorf("%+v", got)
	}
	r.Key, r.Epsilon = "4", eps(t, "1.25")
	if got := answerTo(t, l, r); got.Charged != eps(t, "0.25") {
		t.Errorf("%+v: nobody began an epoch since", got)
	}
	auditStore(t, l.engine.Store)
}

// The calendar goes on, for the new value as for the old one; and whoever withdraws and is back goes on with the epoch.
func TestTheCalendarReleasesInTheNewEpoch(t *testing.T) {
	clock := newClock(epoch())
	l := inMemory(t, Options{Now: clock.read})
	define(t, l, vote())
	timed, err := policy.Steps(policy.Step{At: epoch(), Ceiling: eps(t, "0.25")}, policy.Step{At: epoch().Add(time.Hour), Ceiling: eps(t, "1")})
	must(t, err)
	enrollUnder(t, l, "vote", timed, "9", "ann")
	clock.set(epoch().Add(2 * time.Hour))
	advance := func(key string) {
		_, err := l.Advance(t.Context(), AdvanceRequest{Key: key, Truth: TruthOf("yes")})
		must(t, err)
	}
	advance("1")
	beginEpoch(t, l, "2", "ann")
	must(t, l.Withdraw(t.Context(), "3", "ann"))
	_, err = l.Enroll(t.Context(), EnrollRequest{Key: "back", Question: "vote", Objects: []string{"ann"}, Policy: timed})
	must(t, err)
	advance("4")
	o := objectOf(t, l, "ann")
	if c := o.Chains[0]; o.Spent != eps(t, "2") || c.Epoch != 2 || len(c.Levels) != 2 || len(c.Earlier[0].Levels) != 2 {
		t.Errorf("%+v", o)
	}
	auditStore(t, l.engine.Store)
}

// A truth that was told before an epoch began is not drawn from in it, by no request.
func TestATruthOfTheOldEpochIsNotDrawnFrom(t *testing.T) {
	for name, request := range map[string]func(*Ledger, TruthFunc) error{
		"release": func(l *Ledger, truth TruthFunc) error {
			r := releaseOf(t, "r", "ann", "1")
			r.Truth = truth
			_, err := l.Release(t.Context(), r)
			return err
		},
		"sell": func(l *Ledger, truth TruthFunc) error {
			r := purchase(t, "r", "acme", "1", "ann")
			r.Truth = truth
			_, err := l.Sell(t.Context(), r)
			return err
		},
		"advance": func(l *Ledger, truth TruthFunc) error {
			_, err := l.Advance(t.Context(), AdvanceRequest{Key: "r", Truth: truth})
			return err
		},
		"answer": func(l *Ledger, truth TruthFunc) error {
			_, err := l.Answer(t.Context(), inquire(t, "r", "majority:yes", "1", truth, "ann"))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := inMemory(t, Options{Now: func() time.Time { return epoch().Add(2 * time.Hour) }, TruthKey: truthKey()})
			define(t, l, vote())
			under, err := policy.Steps(policy.Step{At: epoch(), Ceiling: eps(t, "2")})
			must(t, err)
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
				beginEpoch(t, l, "2", "ann") // while the host looks the old value up
				return []string{"yes"}, nil
			}))
			c, _, err := readChainOf(t, l, "ann")
			must(t, err)
			if calls < 2 || c.Bound == nil || *c.Bound != l.rules.Binder.Truth("ann", 1, c.Since, 1) {
				t.Errorf("asked %d times: the new epoch is about another value than the new one", calls)
			}
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

// A noise key draws the same for the same ε: on two values it would betray both. The new epoch is drawn from chance.
func TestEpochsAreDrawnFromChance(t *testing.T) {
	l := voters(t, inMemory(t, Options{NoiseKey: noiseKeys("2026")}), "9", "ann")
	release(t, l, releaseOf(t, "1", "ann", "1"))
	beginEpoch(t, l, "2", "ann")
	release(t, l, releaseOf(t, "3", "ann", "1"))
	must(t, l.Withdraw(t.Context(), "4", "ann"))
	comeBack(t, l, "ann")
	if c, _, err := readChainOf(t, l, "ann"); err != nil || c.Noise != 0 {
		t.Errorf("%+v, %v", c, err)
	}
	auditStore(t, l.engine.Store)
}

// What an attacker sees of two epochs are independent chains: the law of both responses is the product of the laws of each,
// so that both together say at most the sum of their ε, and at the full sum if the value is known to be the same. The test
// counts the pairs of 1,000 people.
func TestEpochsAreIndependent(t *testing.T) {
	const people = 1000
	l := inMemory(t, Options{})
	define(t, l, Question{Name: "vote", Values: []string{"yes", "no"}})
	names := crowd(people)
	enroll(t, l, "vote", "9", names...)
	carryOut(t, l, order(t, "1", "0.5", names...))
	first := responses(t, l, "vote", eps(t, "0.5"))
	for _, name := range names {
		beginEpoch(t, l, "epoch of "+name, name)
	}
	carryOut(t, l, order(t, "2", "0.5", names...))
	second := responses(t, l, "vote", eps(t, "0.5"))
	counts, law := map[[2]bool]int{}, map[[2]bool]float64{}
	for _, name := range names {
		counts[[2]bool{first[name].Value == "yes", second[name].Value == "yes"}]++
	}
	const yes = 0.6224593312018546 // e^0.5/(1+e^0.5)
	of := map[bool]float64{true: yes, false: 1 - yes}
	for a, p := range of {
		for b, q := range of {
			law[[2]bool{a, b}] = p * q
		}
	}
	stattest.Fit(counts, law).Holds(t, "the pairs of responses")
}

// A statement tells the epochs apart, and what they cost together. What it says of them follows from its events.
func TestStatementsTellEpochs(t *testing.T) {
	o := life(t)
	enroll(t, o.Ledger, "vote", "9", "kim")
	release(t, o.Ledger, releaseOf(t, "kim 1", "kim", "0.5"))
	beginEpoch(t, o.Ledger, "kim 2", "kim")
	release(t, o.Ledger, releaseOf(t, "kim 3", "kim", "0.25"))
	st := statementOf(t, o.Ledger, "kim 4", "kim")
	if len(st.Chains) != 2 || st.Spent != eps(t, "0.75") {
		t.Fatalf("%+v", st.Chains)
	}
	first, second := st.Chains[0], st.Chains[1]
	if first.Epoch != 1 || first.Ended == 0 || first.Spent != eps(t, "0.5") || second.Epoch != 2 || second.Ended != 0 || second.Spent != eps(t, "0.25") {
		t.Errorf("%+v", st.Chains)
	}
	if i := slices.IndexFunc(st.Events, func(f evidence.Fact) bool { return f.Kind() == "epoch" }); i < 0 || st.Events[i].Event != first.Ended || st.Events[i].Says.(*evidence.EpochBegun).Question != "vote" {
		t.Errorf("%+v", st.Events)
	}
	if c := st.Verify(nil); len(c.Faults) > 0 {
		t.Errorf("%q", faults(c))
	}
	st.Chains[0].Ended++
	if c := st.Verify(nil); len(c.Faults) == 0 || !strings.Contains(fmt.Sprint(faults(c)), "chains") {
		t.Errorf("a statement of another epoch is found to have %q", faults(c))
	}
}
