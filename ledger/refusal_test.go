package ledger

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	tests "github.com/sluicedp/sluice/internal/testenv"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/request"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// pace is what an audit keeps to

// Invariant 7: a refusal says which objects, which ceiling, the ε spent, requested and remaining,
// and what helps. A refused call changes nothing, consumes nothing and leaves the ledger usable.

// refusedCase is a call that must be refused for exactly one object.
type refusedCase struct {
	call func(l *Ledger) error
	want api.Refusal
}

// refusedCases returns calls for the ledger of refusing.
func refusedCases(t *testing.T) map[string]refusedCase {
	e := func(text string) privacy.Epsilon { return eps(t, text) }
	none := e("0")
	raise := func(name, epsilon, truth string) func(*Ledger) error {
		return func(l *Ledger) error {
			r := releaseOf(t, "r", name, epsilon)
			r.Truth = sameTruth(truth)
			return check.Err(l.Release(t.Context(), r))
		}
	}
	enrol := func(r api.EnrollRequest) func(*Ledger) error {
		r.Key, r.Question = "e", "vote"
		return func(l *Ledger) error { _, err := l.Enroll(t.Context(), r); return err }
	}
	return map[string]refusedCase{
		"chain ceiling": {raise("limited", "2.5", "yes"), api.Refusal{Object: "limited", Reason: api.ChainCeiling, Ceiling: e("2"), Spent: e("1.5"), Asked: e("2.5"), Cost: e("1"), Remaining: e("0.5"), Remedy: "less", Largest: e("2")}},
		"object cap":    {raise("capped", "2.000000001", "yes"), api.Refusal{Object: "capped", Reason: api.ObjectCap, Ceiling: e("3"), Spent: e("2.25"), Asked: e("2.000000001"), Cost: e("1.000000001"), Remaining: e("0.75"), Remedy: "less", Largest: e("1.75")}},
		"first level":   {raise("fresh", "1.1", "yes"), api.Refusal{Object: "fresh", Reason: api.ObjectCap, Ceiling: e("1"), Spent: none, Asked: e("1.1"), Cost: e("1.1"), Remaining: e("1"), Remedy: "less", Largest: e("1")}},
		"not enrolled":  {raise("stranger", "0.5", "yes"), api.Refusal{Object: "stranger", Reason: api.NotEnrolled, Ceiling: none, Spent: none, Asked: e("0.5"), Cost: none, Remaining: none, Remedy: "enrolling", Largest: none}},
		"no truth":      {raise("fresh", "0.5", ""), api.Refusal{Object: "fresh", Reason: api.NoTruth, Ceiling: none, Spent: none, Asked: e("0.5"), Cost: none, Remaining: none, Remedy: "truth", Largest: none}},
		"cap differs":   {enrol(api.EnrollRequest{Objects: []string{"capped"}, Cap: e("4")}), api.Refusal{Object: "capped", Reason: api.CapDiffers, Ceiling: e("3"), Spent: e("2.25"), Asked: e("4"), Cost: none, Remaining: none, Remedy: "terms", Largest: none}},
		"policy given":  {enrol(api.EnrollRequest{Objects: []string{"capped"}, Policy: policy.Fixed(e("2"))}), api.Refusal{Object: "capped", Reason: api.PolicyDiffers, Ceiling: none, Spent: e("1"), Asked: none, Cost: none, Remaining: none, Remedy: "terms", Largest: none}},
		"no policy":     {enrol(api.EnrollRequest{Objects: []string{"limited"}}), api.Refusal{Object: "limited", Reason: api.PolicyDiffers, Ceiling: none, Spent: e("1.5"), Asked: none, Cost: none, Remaining: none, Remedy: "terms", Largest: none}},
		"other policy":  {enrol(api.EnrollRequest{Objects: []string{"limited"}, Policy: policy.Fixed(e("3"))}), api.Refusal{Object: "limited", Reason: api.PolicyDiffers, Ceiling: none, Spent: e("1.5"), Asked: none, Cost: none, Remaining: none, Remedy: "terms", Largest: none}},
		"one of many":   {enrol(api.EnrollRequest{Objects: []string{"new", "capped", "newer"}, Cap: e("5")}), api.Refusal{Object: "capped", Reason: api.CapDiffers, Ceiling: e("3"), Spent: e("2.25"), Asked: e("5"), Cost: none, Remaining: none, Remedy: "terms", Largest: none}},
	}
}

// refusing returns a ledger with an object for each reason.
func refusing(t *testing.T) *Ledger {
	l := inMemory(t, Options{Now: epoch})
	define(t, l, vote())
	define(t, l, api.Question{Name: "smoker", Values: []string{"yes", "no"}, Encoding: "direct"})
	_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: "limited", Question: "vote", Objects: []string{"limited"}, Policy: policy.Fixed(eps(t, "2")), Cap: boundless()})
	must(t, err)
	enroll(t, l, "vote", "3", "capped")
	enroll(t, l, "smoker", "3", "capped")
	enroll(t, l, "vote", "1", "fresh")
	release(t, l, releaseOf(t, "1", "limited", "1.5"))
	release(t, l, releaseOf(t, "2", "capped", "1"))
	other := releaseOf(t, "3", "capped", "1.25")
	other.Question = "smoker"
	release(t, l, other)
	return l
}

func TestRefusal_EveryReason_IsExplainedInFull(t *testing.T) {
	l := refusing(t)
	for name, c := range refusedCases(t) {
		t.Run(name, func(t *testing.T) {
			var err error
			unchanged(t, l.engine.Store, func() { err = c.call(l) })
			got := refusals(t, err)
			check.That(t, len(got) == 1 && got[0] == c.want, "refused for\n%+v\nwant\n%+v", got, c.want)
			for _, part := range []string{string(c.want.Reason), c.want.Object, "vote"} {
				check.That(t, strings.Contains(err.Error(), part), "the text %q does not say %q", err, part)
			}
		})
	}
	release(t, l, releaseOf(t, "usable", "fresh", "1"))
	auditStore(t, l.engine.Store)
}

// The numbers of the two budget reasons add up: what was requested is too much, and exactly what
// remains is not.
func TestRefusal_RemainingBudget_CanBeSpent(t *testing.T) {
	for name, c := range refusedCases(t) {
		if c.want.Reason != api.ObjectCap && c.want.Reason != api.ChainCeiling {
			continue
		}
		l := refusing(t)
		refused := refusals(t, c.call(l))[0]
		level, err := refused.Asked.Sub(refused.Cost) // the current level of the chain
		must(t, err)
		level = check.Value(level.Add(refused.Remaining))(t)
		r := releaseOf(t, "rest", refused.Object, "1")
		r.Epsilon = level
		if _, err := l.Release(t.Context(), r); err != nil {
			t.Errorf("%s: what remains is refused: %v", name, err)
		}
	}
}

func TestRefusal_SeveralObjects_AreListedInOrder(t *testing.T) {
	l := refusing(t)
	_, err := l.Raise(t.Context(), raiseOf(t, "k", "2.5", "zoe", "limited", "adam", "capped", "fresh", "mia"))
	var got []string
	for _, r := range refusals(t, err) {
		got = append(got, r.Object+" "+string(r.Reason))
	}
	want := []string{"adam not-enrolled", "capped object-cap", "fresh object-cap", "limited chain-ceiling", "mia not-enrolled", "zoe not-enrolled"}
	check.That(t, slices.Equal(got, want), "got %q, want %q", got, want)
	r := raiseOf(t, "k", "1", "fresh", "limited") // refused only for a missing true value
	r.Truth = sameTruth("")
	_, err = l.Raise(t.Context(), r)
	if refused := refusals(t, err); len(refused) != 1 || refused[0].Object != "fresh" {
		t.Errorf("refused for %+v; only fresh needs its truth", refused)
	}
}

// The text of a refusal is bounded, for any number of objects with names of any length.
func TestRefusal_ManyObjects_TextIsBounded(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "1", "ann")
	strangers := make([]string, 10_000)
	for i := range strangers {
		strangers[i] = fmt.Sprintf("%05d", i) + strings.Repeat("\U0001F600", 62)
	}
	_, err := l.Raise(t.Context(), raiseOf(t, "k", "0.5", strangers...))
	n := len(refusals(t, err))
	check.That(t, n == request.MaxListed, "%d refusals listed, want %d", n, request.MaxListed)
	n = len(err.Error())
	check.That(t, n <= 4096, "the text has %d bytes", n)
	check.That(t, strings.Contains(err.Error(), "10000 object") && strings.Contains(err.Error(), "9997 more"),
		"the text does not say how many: %.100s", err)
}

// A request that cannot be right is distinguished from one that the state refuses.
func TestError_UnknownOrInvalid_IsNoRefusal(t *testing.T) {
	l := refusing(t)
	unknown := releaseOf(t, "k", "fresh", "0.5")
	unknown.Question = "who knows"
	for name, call := range map[string]struct {
		err  func() error
		want error
	}{
		"unknown question": {func() error { _, err := l.Release(t.Context(), unknown); return err }, api.ErrUnknown},
		"enroll unknown": {func() error {
			_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: "k", Question: "who knows", Objects: []string{"fresh"}, Cap: boundless()})
			return err
		}, api.ErrUnknown},
		"unknown object":    {func() error { _, err := l.Object(t.Context(), "stranger"); return err }, api.ErrUnknown},
		"estimate unknown":  {func() error { _, err := l.Estimate(t.Context(), api.EstimateRequest{Question: "?"}); return err }, api.ErrUnknown},
		"responses unknown": {func() error { return firstError(l.Responses(t.Context(), "?", eps(t, "1"))) }, api.ErrUnknown},
		"ε of 0":            {func() error { _, err := l.Release(t.Context(), releaseOf(t, "k", "fresh", "0")); return err }, api.ErrInvalid},
		"no truth source": {func() error {
			r := releaseOf(t, "k", "fresh", "0.5")
			r.Truth = nil
			return check.Err(l.Release(t.Context(), r))
		}, api.ErrInvalid},
		"redefined": {func() error {
			return l.DefineQuestion(t.Context(), "k", api.Question{Name: "vote", Values: []string{"no", "yes", "blank"}, Encoding: "direct"})
		}, api.ErrInvalid},
	} {
		unchanged(t, l.engine.Store, func() {
			err := call.err()
			var refused *api.RefusedError
			check.That(t, errors.Is(err, call.want) && !errors.As(err, &refused),
				"%s: got the error %v, want %v", name, err, call.want)
		})
	}
}

// leftOut returns the refusals of the request with a key, as the log has them, from an event on.
func leftOut(t testing.TB, l *Ledger, key string, from uint64) (all []says.Event) {
	t.Helper()
	for ev, err := range l.Refusals(t.Context(), key, from) {
		must(t, err)
		all = append(all, ev)
	}
	return all
}

// refusalIn returns the refusal in an event, which must be one.
func refusalIn(t testing.TB, ev says.Event) says.ObjectRefused {
	t.Helper()
	d, is := ev.Says.(says.ObjectRefused)
	check.Need(t, is && !ev.Erased, "it is no refusal: %+v", ev)
	return d
}

// A request for millions of objects, most of which are refused, returns a bounded list. The others
// are in the log.
func TestRefusals_LongList_IsCutOffAndInTheLog(t *testing.T) {
	const more = 5
	l := voters(t, inMemory(t, Options{}), "1", "ann")
	strangers := make([]string, api.MaxPanel+more)
	for i := range strangers {
		strangers[i] = fmt.Sprintf("s%07d", i)
	}
	r := raiseOf(t, "k", "0.5", append(strangers, "ann")...)
	_, err := l.Raise(t.Context(), r)
	var refused *api.RefusedError
	if !errors.As(err, &refused) || len(refused.Refused) != request.MaxListed || refused.Unlisted != len(strangers)-request.MaxListed {
		t.Fatalf("%.300v; want %d refusals listed of %d", err, request.MaxListed, len(strangers))
	}
	want := fmt.Sprintf("refused for %d objects: object", api.MaxPanel+more)
	check.That(t, strings.Contains(err.Error(), want), "%.300q does not say %q", err, want)
	if tests.Short() || !tests.Deep() {
		return
	}

	r.Partial = true
	for range 2 { // executed, and read from the log
		got := raise(t, l, r)
		check.Need(t, got.Drawn == 1 && len(got.Refused) == api.MaxPanel && got.Unlisted == more,
			"drawn %d, refused %d and %d more", got.Drawn, len(got.Refused), got.Unlisted)
		for i, one := range got.Refused {
			check.Need(t, one.Object == strangers[i], "refusal %d is about %s", i, one.Object)
		}
	}
	all := leftOut(t, l, "k", 0)
	check.Need(t, len(all) == len(strangers), "the log has %d refusals, want %d", len(all), len(strangers))
	for i, ev := range all {
		check.Need(t, ev.Object() == strangers[i] && refusalIn(t, ev).Refusal.Reason == api.NotEnrolled,
			"refusal %d in the log is %+v", i, ev)
	}
}

// Events of other requests, and responses of the same one, are between the refusals.
func TestRefusals_SeveralRequests_ListsOneRequestOnly(t *testing.T) {
	l := voters(t, inMemory(t, Options{}), "1", crowd(2*state.PartSize)...)
	names := crowd(2*state.PartSize + 3*scanSize)
	first, second := raiseOf(t, "first", "0.5", names...), raiseOf(t, "second", "0.5", "person-00001", "zoe")
	first.Partial, second.Partial = true, true
	ctx, stop := context.WithCancel(t.Context())
	first.Progress = func(done, _ int) {
		if done > 2*state.PartSize {
			stop()
		}
	}
	wantErr(t, check.Err(l.Raise(ctx, first)), context.Canceled)
	all := leftOut(t, l, "first", 0)
	check.That(t, len(all) == state.PartSize, "%d refusals of what is done so far", len(all))
	raise(t, l, second)
	first.Progress = nil
	raise(t, l, first)

	all = leftOut(t, l, "first", 0)
	check.Need(t, len(all) == 3*scanSize, "%d refusals", len(all))
	for i, ev := range all {
		check.Need(t, ev.Object() == names[2*state.PartSize+i], "refusal %d is %+v", i, ev)
	}
	for _, at := range []int{0, 1, scanSize - 1, scanSize, len(all) - 1} {
		if rest := leftOut(t, l, "first", all[at].Number); !reflect.DeepEqual(rest, all[at:]) {
			t.Errorf("from refusal %d on there are %d, want %d", at, len(rest), len(all)-at)
		}
	}
	rest := leftOut(t, l, "first", all[len(all)-1].Number+1)
	check.That(t, len(rest) <= 0, "after the last: %+v", rest)
	got := leftOut(t, l, "second", 0)
	check.That(t, len(got) == 1 && got[0].Object() == "zoe", "the second request left out %+v", got)
	for range l.Refusals(t.Context(), "first", 0) {
		break // needs no more
	}
	for _, err := range l.Refusals(t.Context(), "unheard of", 0) {
		wantErr(t, err, api.ErrUnknown)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range l.Refusals(done, "first", 0) {
		wantErr(t, err, context.Canceled)
	}
}

// The refusals of a sale are all in one part, and more than are read at a time.
func TestRefusals_Sale_ListsAll(t *testing.T) {
	l := sellers(t, inMemory(t, Options{}), "2", "3", "ann")
	names := append(crowd(scanSize+5), "ann")
	r := purchase(t, "k", "acme", "1", names...)
	r.Partial = true
	s := sell(t, l, r)
	var listed []api.Refusal
	for _, ev := range leftOut(t, l, "k", 0) {
		listed = append(listed, refusalIn(t, ev).Refusal)
	}
	check.That(t, len(listed) == scanSize+5 && slices.Equal(listed, s.Refused),
		"the log refuses %d, the sale %d", len(listed), len(s.Refused))
}

// What a buyer holds under terms that sold more can be had again, but it is no longer on offer: no
// refusal suggests it.
func TestRefusal_LevelNoLongerOnOffer_IsNotSuggested(t *testing.T) {
	l := sellers(t, inMemory(t, Options{}), "2", "3", "ann")
	sell(t, l, purchase(t, "before", "acme", "1.5", "ann"))
	less := market(t, "1.4")
	_, err := l.ChangeTerms(t.Context(), api.ChangeTermsRequest{Key: "terms", Question: "vote", Objects: []string{"ann"}, Policy: &less})
	must(t, err)
	_, err = l.Sell(t.Context(), purchase(t, "more", "acme", "2", "ann"))
	if r := refusals(t, err)[0]; r.Reason != api.NotOnOffer || r.Remedy != "less" || r.Largest != eps(t, "1.4") {
		t.Errorf("it is refused with %+v", r)
	}
	b, err := l.Budget(t.Context(), api.BudgetRequest{Question: "vote", Buyer: "acme", Objects: []string{"ann"}})
	must(t, err)
	check.That(t, b.Largest == eps(t, "1.4"), "the budget says %v", b.Largest)
	s := sell(t, l, purchase(t, "again", "acme", "1.5", "ann"))
	check.That(t, s.Price == 0, "what acme holds costs %d", s.Price)
}

// The refusals of a sweep name the question.
func TestRefusals_Sweep_NamesTheQuestion(t *testing.T) {
	l := inMemory(t, Options{Now: epoch})
	other := vote()
	other.Name = "second vote"
	past, err := policy.Linear(eps(t, "0"), eps(t, "2"), epoch().Add(-48*time.Hour), epoch().Add(-time.Hour), eps(t, "1"))
	must(t, err)
	for _, q := range []api.Question{vote(), other} {
		define(t, l, q)
		_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: q.Name, Question: q.Name, Objects: []string{"ann", "bob"}, Policy: past, Cap: eps(t, "3")})
		must(t, err)
	}
	done := check.Value(l.Advance(t.Context(), api.AdvanceRequest{Key: "day", Truth: sameTruth("yes")}))(t)
	var want, got []string
	for _, q := range done.Questions {
		check.That(t, q.Raised+q.Unchanged+len(q.Refused) == 2 && q.Unlisted == 0, "%+v", q)
		for _, r := range q.Refused {
			want = append(want, q.Question+": "+r.Object)
		}
	}
	for _, ev := range leftOut(t, l, "day", 0) {
		got = append(got, refusalIn(t, ev).Question+": "+ev.Object())
	}
	check.That(t, len(want) != 0 && slices.Equal(got, want), "the log refuses %q, the result %q", got, want)
}

// The questions of a sweep share one limit of listed refusals.
func TestOutcome_SweepRefusals_ShareOneLimit(t *testing.T) {
	var o request.Outcome
	part := make([]*event.ObjectRefused, api.MaxPanel/2+1)
	for i := range part {
		part[i] = &event.ObjectRefused{Question: 1, Refusal: api.Refusal{Object: "ann"}}
	}
	for question := range uint32(3) {
		for i := range part {
			part[i].Question = question + 1
		}
		n := uint64(len(part))
		o.Add(&event.Settled{Refused: n, Swept: []event.SweptCount{{Question: question + 1, Refused: n}}}, part)
	}
	for question, want := range map[uint32]int{1: api.MaxPanel/2 + 1, 2: api.MaxPanel/2 - 1, 3: 0} {
		if got := o.SweptOf(question); len(got.Refusals) != want || got.Refused != uint64(len(part)) {
			t.Errorf("question %d: %d listed of %d, want %d of %d", question, len(got.Refusals), got.Refused, want, len(part))
		}
	}
	check.That(t, o.RefusedCount == 3*len(part), "%d left out", o.RefusedCount)
}

// A forged log may claim that other events are refusals.
func TestRefusals_ForgedSettledEvent_IsCorrupt(t *testing.T) {
	for name, c := range map[string]struct {
		first, refused uint64
		want           string
	}{
		"others":     {1, 2, "is not a refusal"},
		"before all": {1, 1 << 40, "settles"},
	} {
		l := voters(t, inMemory(t, Options{}), "1", "ann")
		release(t, l, releaseOf(t, "k", "ann", "0.5"))
		alterEvent(t, l.engine.Store, stats(t, l).Events, func(n *event.Entry) { n.Change.(*event.Settled).Refused = c.refused })
		err := firstError(l.Refusals(t.Context(), "k", c.first))
		check.That(t, errors.Is(err, api.ErrCorrupt) && strings.Contains(err.Error(), c.want), "%s: %v", name, err)
	}
}

// Sales that refused many objects are returned a few at a time.
func TestOrdersPage_ManyRefusals_EndsThePageEarly(t *testing.T) {
	l := sellers(t, inMemory(t, Options{}), "2", "3", "ann")
	for number := range uint64(4) {
		sell(t, l, purchase(t, fmt.Sprint(number), "acme", "1", "ann"))
	}
	var got [][]uint64
	p := api.Page{Limit: 9}
	for more := true; more; more = p.After != 0 {
		found, next, err := request.OrdersPage(t.Context(), &l.engine, p, func(_ *state.State, number uint64, _ state.Sale) (uint64, int, error) {
			return number, int(number%2) * api.MaxPanel, nil // those with even numbers are not listed
		})
		must(t, err)
		got, p.After = append(got, found), next
	}
	want := [][]uint64{{1, 3}, nil}
	check.That(t, reflect.DeepEqual(got, want), "got %v, want %v", got, want)
}

// A new object needs a cap: without one no object is enrolled. Known objects keep their caps.
func TestEnroll_NewObjectWithoutCap_IsErrNoCap(t *testing.T) {
	l := inMemory(t, Options{})
	define(t, l, vote())
	define(t, l, smoker())
	enroll(t, l, "vote", "2", "bob")
	r := api.EnrollRequest{Key: "e", Question: "smoker", Objects: []string{"ann", "bob"}}
	_, err := l.Enroll(t.Context(), r)
	if !errors.Is(err, api.ErrNoCap) || !errors.Is(err, api.ErrInvalid) || !strings.Contains(err.Error(), `"ann"`) {
		t.Errorf("ann is new, and the error is %v", err)
	}
	if _, err := l.Object(t.Context(), "ann"); !errors.Is(err, api.ErrUnknown) {
		t.Errorf("ann was enrolled: %v", err)
	}
	r.Objects = []string{"bob"} // the key is still free
	done := check.Value(l.Enroll(t.Context(), r))(t)
	bob := objectOf(t, l, "bob")
	check.That(t, done.Enrolled == 1 && bob.Cap == eps(t, "2"), "%+v, with a cap of %s", done, bob.Cap)
}

// A refusal after the first part of a request must not claim that nothing has happened (invariant
// 7).
func TestRefusal_AfterTheFirstPart_IsErrPartlyDone(t *testing.T) {
	names := crowd(state.PartSize + 1)
	last := names[state.PartSize]
	t.Run("enrolment", func(t *testing.T) {
		l, once := newLedger(t), false
		define(t, l, vote())
		_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: "big", Question: "vote", Objects: names, Cap: eps(t, "1"), Progress: func(int, int) {
			if !once {
				once = true
				enroll(t, l, "vote", "2", last)
			}
		}})
		wantErr(t, err, api.ErrPartlyDone)
		got := refusals(t, err)
		check.That(t, len(got) == 1 && got[0].Object == last, "refused %+v", got)
	})
	t.Run("raise", func(t *testing.T) {
		l := voters(t, newLedger(t), "1", names...)
		r := raiseOf(t, "big", "1", names...)
		ctx, cancel := context.WithCancel(t.Context())
		r.Progress = func(int, int) { cancel() }
		_, err := l.Raise(ctx, r)
		wantErr(t, err, context.Canceled)
		answerTo(t, l, answerRequest(t, "a", "majority:yes", "0.5", ballots(), last))
		r.Progress = nil
		_, err = l.Raise(t.Context(), r)
		wantErr(t, err, api.ErrPartlyDone)
		got := refusals(t, err)
		check.That(t, len(got) == 1 && got[0].Object == last, "refused %+v", got)
	})
	t.Run("not of the whole", func(t *testing.T) {
		l := voters(t, newLedger(t), "1", "ann")
		_, err := l.Raise(t.Context(), raiseOf(t, "1", "2", "ann"))
		if refusals(t, err); errors.Is(err, api.ErrPartlyDone) {
			t.Errorf("a refusal of the whole says that a part was done: %v", err)
		}
	})
}
