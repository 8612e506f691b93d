package model

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/internal/fixture"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// levelled is a policy that sells some levels, for 100 minor units of ε=1.
func levelled(t testing.TB, most string, levels ...string) policy.Policy {
	t.Helper()
	return Market(t, most, func(m *policy.Market) {
		for _, level := range levels {
			m.Levels = append(m.Levels, Eps(t, level))
		}
	})
}

// lost is a row of what an answer displaces.
func lost(t testing.TB, question, epsilon string, objects uint64, revenue int64) api.Displaced {
	t.Helper()
	return api.Displaced{Question: question, Epsilon: Eps(t, epsilon), Objects: objects, Revenue: revenue}
}

// wantDisplaced checks what the quote of an answer reports as displaced, and that the answer is refused with the same list unless
// that is empty. Nothing is answered.
func wantDisplaced(t *T, l Book, r api.AnswerRequest, want ...api.Displaced) {
	t.Helper()
	quote := check.Value(l.QuoteAnswer(t.Context(), r))(t)
	check.That(t, len(quote.Displaced)+len(want) <= 0 || reflect.DeepEqual([]api.Displaced(quote.Displaced), want),
		"the quote at ε=%s displaces\n\t%+v, want\n\t%+v", r.Epsilon, quote.Displaced, want)
	if len(want) == 0 {
		return
	}
	r.Truth = Never(t)
	Unchanged(t, l, func() {
		var displaced *api.DisplacedError
		if _, err := l.Answer(t.Context(), r); !errors.As(err, &displaced) || displaced.Question != r.Question || !reflect.DeepEqual(displaced.Displaced, want) {
			t.Errorf("the answer at ε=%s gives %v, want it refused for\n\t%+v", r.Epsilon, err, want)
		}
	})
}

// quotable reports how many objects a new buyer could buy at a level.
func quotable(t testing.TB, l Book, epsilon string) uint64 {
	t.Helper()
	q := check.Value(l.Quote(t.Context(), api.Order{Buyer: "a new buyer", Question: "vote", Epsilon: Eps(t, epsilon), All: true}))(t)
	return q.Objects
}

// An answer that leaves too little for a level on offer is refused, unless the request accepts that.
func TestAnswer_DisplacesLevelOnOffer_NeedsAcceptLoss(t *testing.T) {
	Anywhere(t, testAnswerDisplacesLevelOnOffer)
}

func testAnswerDisplacesLevelOnOffer(t *T) {
	l := NewLedger(t)
	Define(t, l, Vote())
	EnrollUnder(t, l, "vote", levelled(t, "2", "0.5", "1", "2"), "10", "ann", "bob", "cy")
	r := Inquire(t, "1", "majority:yes", "0.01", Ballots("ann"), "ann", "bob", "cy")
	wantDisplaced(t, l, r, lost(t, "vote", "2", 3, 600))
	higher := Inquire(t, "1", "majority:yes", "1.2", nil, "ann", "bob", "cy")
	wantDisplaced(t, l, higher, lost(t, "vote", "2", 3, 600), lost(t, "vote", "1", 3, 300))
	n := quotable(t, l, "2")
	check.That(t, n == 3, "after quotes and refusals ε=2 can be sold of %d objects", n)

	r.AcceptLoss = true
	first := AnswerTo(t, l, r) // the key of a refused request is free
	if n := quotable(t, l, "2"); n != 0 || first.Charged != Eps(t, "0.01") {
		t.Errorf("ε=2 can be sold of %d objects, though %+v", n, first)
	}
	for _, r.AcceptLoss = range []bool{true, false} { // it is no part of what the key stands for
		r.Truth = Never(t)
		if again := AnswerTo(t, l, r); !reflect.DeepEqual(again, first) {
			t.Errorf("with AcceptLoss %t the same key gives %+v, then %+v", r.AcceptLoss, first, again)
		}
	}
	// What was lost is not lost again, and what is free displaces nothing.
	for _, epsilon := range []string{"0.005", "0.01", "0.5"} {
		again := Inquire(t, "at "+epsilon, "majority:yes", epsilon, Ballots("ann"), "ann", "bob", "cy")
		wantDisplaced(t, l, again)
		AnswerTo(t, l, again)
	}
	WantClean(t, l, api.VerifyRequest{})
}

// An object's cap is shared by its questions: an answer about one takes levels of another off the market.
func TestAnswer_CapIsShared_DisplacesLevelsOfOtherQuestions(t *testing.T) {
	Anywhere(t, testAnswerDisplacesOtherQuestions)
}

func testAnswerDisplacesOtherQuestions(t *T) {
	l := NewLedger(t)
	Define(t, l, Vote())
	Define(t, l, Smoker())
	EnrollUnder(t, l, "vote", policy.Policy{}, "3", "ann", "bob", "cy", "dot")
	EnrollUnder(t, l, "smoker", levelled(t, "2", "1", "2"), "3", "ann", "bob", "cy")
	panel := []string{"ann", "bob", "cy", "dot"}
	ask := func(key, epsilon string) api.AnswerRequest {
		return Inquire(t, key, "winner", epsilon, Ballots("ann"), panel...)
	}
	wantDisplaced(t, l, ask("1", "1"))
	wantDisplaced(t, l, ask("1", "1.000000001"), lost(t, "smoker", "2", 3, 600))
	wantDisplaced(t, l, ask("1", "2.5"), lost(t, "smoker", "2", 3, 600), lost(t, "smoker", "1", 3, 300))

	// What is sold already stays for sale.
	check.Must(t, check.Err(l.Sell(t.Context(), api.SellRequest{Key: "s", Order: api.Order{Buyer: "acme", Question: "smoker", Epsilon: Eps(t, "1"), Objects: []string{"bob"}}, Truth: SameTruth("yes")})))
	wantDisplaced(t, l, Inquire(t, "1", "winner", "2", nil, "bob"), lost(t, "smoker", "2", 1, 200))
}

// Of terms that sell every ε, the highest that could be sold counts, and the points of the price curve.
func TestAnswer_EveryLevelOnOffer_DisplacesHighestAndPricePoints(t *testing.T) {
	Anywhere(t, testAnswerDisplacesOfACurve)
}

func testAnswerDisplacesOfACurve(t *T) {
	l := NewLedger(t)
	Define(t, l, Vote())
	EnrollUnder(t, l, "vote", Market(t, "2"), "10", "ann", "bob")
	EnrollUnder(t, l, "vote", Market(t, "2"), "1.5", "cy")
	panel := []string{"ann", "bob", "cy"}
	wantDisplaced(t, l, Inquire(t, "1", "winner", "0.1", nil, panel...), lost(t, "vote", "2", 2, 400), lost(t, "vote", "1.5", 1, 150))
	wantDisplaced(t, l, Inquire(t, "1", "winner", "1.2", nil, panel...), lost(t, "vote", "2", 2, 400), lost(t, "vote", "1.5", 1, 150), lost(t, "vote", "1", 3, 300))
}

// Ceilings that rise, sales that have yet to open, and reservations count as they do when orders are decided.
func TestAnswer_LevelIsNotSoldNow_DisplacesWhatCouldBeSoldLater(t *testing.T) {
	Anywhere(t, testAnswerDisplacesLater)
}

func testAnswerDisplacesLater(t *T) {
	l := NewLedger(t)
	Define(t, l, Vote())
	sooner, later := time.Date(2150, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2160, 1, 1, 0, 0, 0, 0, time.UTC)
	under := func(name string, change func(m *policy.Market), more ...policy.Policy) {
		p := check.Value(policy.Min(append(more, Market(t, "2", func(m *policy.Market) {
			m.Levels = []privacy.Epsilon{Eps(t, "1"), Eps(t, "2")}
			if change != nil {
				change(m)
			}
		}))...))(t)
		EnrollUnder(t, l, "vote", p, "10", name)
	}
	rising := func(above string) policy.Policy {
		p := check.Value(policy.Steps(policy.Step{At: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), Ceiling: Eps(t, "1")}, policy.Step{At: later, Ceiling: Eps(t, above)}))(t)
		return p
	}
	under("not open", func(m *policy.Market) { m.From = later })
	under("over", func(m *policy.Market) { m.Until = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) })
	under("rising", nil, rising("2"))
	under("closing", func(m *policy.Market) { m.Until = sooner }, rising("2"))
	under("chosen", func(m *policy.Market) { m.Buyers = []string{"acme"} })
	for name, want := range map[string][]api.Displaced{
		"not open": {lost(t, "vote", "2", 1, 200)},
		"over":     nil,
		"rising":   {lost(t, "vote", "2", 1, 200), lost(t, "vote", "1", 1, 100)}, // for ever, and for now
		"closing":  {lost(t, "vote", "1", 1, 100)},                               // before it reaches 2
		"chosen":   {lost(t, "vote", "2", 1, 200)},                               // somebody may buy
	} {
		t.Run(name, func(t *T) { wantDisplaced(t, l, Inquire(t, "1", "winner", "0.1", nil, name), want...) })
	}
}

// What is reserved is not lost; what could be sold beside it is.
func TestAnswer_Reservation_DisplacesOnlyWhatIsNotReserved(t *testing.T) {
	Anywhere(t, testAnswerBesideAReservation)
}

func testAnswerBesideAReservation(t *T) {
	l := NewLedger(t)
	Define(t, l, Vote())
	Define(t, l, Smoker())
	EnrollUnder(t, l, "vote", levelled(t, "3", "1", "2"), "3", "ann")
	EnrollUnder(t, l, "smoker", levelled(t, "2", "0.5", "1", "2"), "3", "ann")
	Reserve(t, l, api.ReserveRequest{Key: "r", Order: Purchase(t, "", "acme", "2", "ann").Order, For: time.Hour})
	// 1 is left beside the reservation, and 3 without it.
	wantDisplaced(t, l, Inquire(t, "1", "winner", "0.2", nil, "ann"), lost(t, "smoker", "1", 1, 100))
	wantDisplaced(t, l, Inquire(t, "1", "winner", "1", nil, "ann"), lost(t, "smoker", "1", 1, 100), lost(t, "smoker", "0.5", 1, 50))
	// Beside a reservation of 1 both of 2 can be sold, and not after.
	check.Must(t, l.Cancel(t.Context(), "c", 1))
	wantDisplaced(t, l, Inquire(t, "1", "winner", "1", nil, "ann"))
	wantDisplaced(t, l, Inquire(t, "1", "winner", "1.1", nil, "ann"), lost(t, "smoker", "2", 1, 200), lost(t, "vote", "2", 1, 200))
}

// Whether levels are displaced is decided in the transaction that charges the panel: while true values are fetched, somebody else may
// use up what was left.
func TestAnswer_HeadroomIsUsedUpMeanwhile_IsRefusedInTheTransaction(t *testing.T) {
	Anywhere(t, testAnswerHeadroomIsUsedUp)
}

func testAnswerHeadroomIsUsedUp(t *T) {
	l := NewLedger(t)
	Define(t, l, Vote())
	EnrollUnder(t, l, "vote", levelled(t, "2.1", "1", "2"), "10", "ann", "bob")
	ballots := Ballots("ann")
	r := Inquire(t, "1", "majority:yes", "0.1", nil, "ann", "bob")
	wantDisplaced(t, l, r)
	r.Truth = func(ctx context.Context, question string, objects []string) ([]string, error) {
		other := Inquire(t, "2", "majority:no", "0.05", ballots, "ann")
		if _, err := l.Answer(ctx, other); err != nil {
			return nil, err
		}
		return ballots(ctx, question, objects)
	}
	_, err := l.Answer(t.Context(), r)
	var displaced *api.DisplacedError
	if !errors.As(err, &displaced) || fmt.Sprint(displaced.Displaced) != fmt.Sprint([]api.Displaced{lost(t, "vote", "2", 1, 200)}) {
		t.Errorf("the answer gives %v", err)
	}
	o := ObjectOf(t, l, "ann")
	check.That(t, o.Spent == Eps(t, "0.05"), "ann has spent %s", o.Spent)
	WantClean(t, l, api.VerifyRequest{})
}

// Where an object loses millions of levels, the work and the list are bounded.
func TestAnswer_FineStride_ListsTheHighestLevelsOnly(t *testing.T) {
	Anywhere(t, testAnswerOfAFineStride)
}

func testAnswerOfAFineStride(t *T) {
	l := NewLedger(t)
	Define(t, l, Vote())
	EnrollUnder(t, l, "vote", Market(t, "1000", func(m *policy.Market) { m.Stride = Nano(t, 1) }), "1000", "ann")
	quote := check.Value(l.QuoteAnswer(t.Context(), Inquire(t, "1", "winner", "999", nil, "ann")))(t)
	if n := len(quote.Displaced); n != 100 || quote.Displaced[0].Epsilon != Eps(t, "1000") || quote.Displaced[n-1].Epsilon != Eps(t, "999.999999901") {
		t.Errorf("%d levels are listed: %+v", n, quote.Displaced)
	}
}

// quoteOf returns the only refusal of an order for ann.
func quoteOf(t testing.TB, l Book, buyer, question, epsilon string) api.Refusal {
	t.Helper()
	q := check.Value(l.Quote(t.Context(), api.Order{Buyer: buyer, Question: question, Epsilon: Eps(t, epsilon), Objects: []string{"ann"}}))(t)
	check.Need(t, len(q.Refused) == 1, "%s at ε=%s: %+v, want a refusal", buyer, epsilon, q)
	return q.Refused[0]
}

// What a refusal calls the largest ε that would do, does; and no level on offer between it and the one asked for.
func TestTheLargestOnOffer(t *testing.T) { Anywhere(t, testTheLargestOnOffer) }

func testTheLargestOnOffer(t *T) {
	levels := func(m *policy.Market) {
		m.Levels = []privacy.Epsilon{Eps(t, "0.1"), Eps(t, "0.4"), Eps(t, "0.6")}
	}
	stride := func(m *policy.Market) { m.Stride = Eps(t, "0.25") }
	few := func(m *policy.Market) { m.Holders = 1 }
	for _, test := range []struct {
		name, question, limit string
		terms                 []func(*policy.Market)
		before                func(l Book)
		asked                 string
		reason                api.Reason
		helps                 string
		largest               string
		refused               string // another level on offer, or ""
	}{
		{"any level up to the highest", "vote", "9", nil, nil, "1.5", api.NotOnOffer, "less", "1", ""},
		{"any level up to the cap", "vote", "0.7", nil, nil, "0.9", api.ObjectCap, "less", "0.7", "0.700000001"},
		{"a level below the cap", "vote", "0.5", []func(*policy.Market){levels}, nil, "0.6", api.ObjectCap, "less", "0.4", ""},
		{"a multiple below the cap", "vote", "0.7", []func(*policy.Market){stride}, nil, "1", api.ObjectCap, "less", "0.5", "0.75"},
		{"between multiples", "vote", "9", []func(*policy.Market){stride}, nil, "0.7", api.NotOnOffer, "less", "0.5", ""},
		{"below the lowest level", "vote", "9", []func(*policy.Market){levels}, nil, "0.05", api.NotOnOffer, "nothing", "0", ""},
		{"a level of a mechanism", "party", "0.7", nil, nil, "1", api.ObjectCap, "less", "0.5", ""},
		{"a level that others hold", "vote", "9", []func(*policy.Market){levels, few}, func(l Book) {
			Sell(t, l, Purchase(t, "1", "other", "0.6", "ann"))
			Sell(t, l, Purchase(t, "2", "other", "0.4", "ann"))
		}, "0.6", api.HoldersFull, "less", "0.1", "0.4"},
		{"a level that is reserved", "vote", "9", []func(*policy.Market){levels, few}, func(l Book) {
			Reserve(t, l, api.ReserveRequest{Key: "1", Order: Purchase(t, "", "other", "0.6", "ann").Order, For: time.Hour})
		}, "0.6", api.HoldersFull, "waiting", "0.4", ""},
		{"what a reservation leaves", "vote", "0.7", nil, func(l Book) {
			Reserve(t, l, api.ReserveRequest{Key: "1", Order: Purchase(t, "", "other", "0.6", "ann").Order, For: time.Hour})
		}, "0.9", api.ObjectCap, "less", "0.7", "0.700000001"},
		{"what is recorded", "vote", "0.5", []func(*policy.Market){stride}, func(l Book) {
			Sell(t, l, Purchase(t, "1", "other", "0.5", "ann"))
		}, "0.75", api.ObjectCap, "less", "0.5", ""},
	} {
		t.Run(test.name, func(t *T) {
			l := Open(t, ledger.Options{Now: ledgertest.Begin})
			Define(t, l, Vote())
			Define(t, l, fixture.Party(t))
			EnrollUnder(t, l, test.question, Market(t, "1", test.terms...), test.limit, "ann")
			if test.before != nil {
				test.before(l)
			}
			r := quoteOf(t, l, "buyer", test.question, test.asked)
			check.That(t, r.Reason == test.reason && r.Remedy == test.helps && r.Largest == Eps(t, test.largest),
				"%v, want %s, %s helps, %s would do", r, test.reason, test.helps, test.largest)
			if test.refused != "" {
				quoteOf(t, l, "buyer", test.question, test.refused)
			}
			if !r.Largest.IsZero() {
				s := api.SellRequest{Key: "largest", Order: api.Order{Buyer: "buyer", Question: test.question, Epsilon: r.Largest, Objects: []string{"ann"}}, Truth: SameTruth(valueOf(t, l, test.question))}
				Sell(t, l, s)
			}
			AuditAll(t, l)
		})
	}
}

// valueOf is the first value of a question.
func valueOf(t testing.TB, l Book, question string) string {
	t.Helper()
	all := check.Value(api.Collect(l.Questions(t.Context())))(t)
	for _, q := range all {
		if q.Name == question {
			return q.Values[0]
		}
	}
	t.Fatalf("there is no question %q", question)
	return ""
}

// A refusal that is recorded, and the statement that repeats it, say the same as the result.
func TestARecordedRefusalSaysTheLargest(t *testing.T) {
	Anywhere(t, testARecordedRefusalSaysTheLargest)
}

func testARecordedRefusalSaysTheLargest(t *T) {
	l := Voters(t, Open(t, ledger.Options{Now: ledgertest.Begin}), "1", "ann", "bob")
	Release(t, l, ReleaseOf(t, "first", "ann", "0.5"))
	r := Order(t, "k", "2", "ann", "bob")
	r.Partial = true
	for range 2 { // the second time, as it is recorded
		got := CarryOut(t, l, r).Refused
		if len(got) != 2 || got[0].Largest != Eps(t, "1") || got[1].Largest != Eps(t, "1") || got[0].Remedy != "less" {
			t.Errorf("%+v", got)
		}
	}
	r = Order(t, "untold", "0.75", "ann")
	r.Truth = SameTruth("")
	_, err := l.Raise(t.Context(), r)
	if got := Refusals(t, err); len(got) != 1 || got[0].Largest != Eps(t, "0.5") || got[0].Remedy != "truth" {
		t.Errorf("%+v, want what is recorded, for which no truth is needed", got)
	}
	WantClean(t, l, api.VerifyRequest{})
}

// An answer in part costs what an answer costs, and what is known of all is there for all.
func TestTheLargestOfAnAnswer(t *testing.T) { Anywhere(t, testTheLargestOfAnAnswer) }

func testTheLargestOfAnAnswer(t *T) {
	l := Voters(t, Open(t, ledger.Options{Now: ledgertest.Begin}), "1", "ann", "bob")
	ask := func(epsilon string) error {
		_, err := l.Answer(t.Context(), api.AnswerRequest{Key: epsilon, Question: "vote", Query: "majority:yes", Epsilon: Eps(t, epsilon), Objects: []string{"ann", "bob"}, Truth: SameTruth("yes")})
		return err
	}
	check.Must(t, ask("0.75"))
	Release(t, l, ReleaseOf(t, "bob", "bob", "0.125"))
	got := Refusals(t, ask("1.5"))
	check.That(t, len(got) == 2 && got[0].Largest == Eps(t, "1") && got[1].Largest == Eps(t, "0.875"), "%+v", got)
	check.Must(t, ask("0.875"))
}

func TestAnAnswerIsGivenOnce(t *testing.T) { Anywhere(t, testAnAnswerIsGivenOnce) }

func testAnAnswerIsGivenOnce(t *T) {
	house := VotersHouse(t, "2", "ann", "bob", "cy")
	l := house.Open(t, ledger.Options{})
	first := AnswerTo(t, l, Inquire(t, "1", "plurality", "1", Ballots("ann"), "ann", "bob", "cy"))
	check.Must(t, l.Close())
	l = house.Open(t, ledger.Options{})
	again := AnswerTo(t, l, Inquire(t, "1", "plurality", "1", Never(t), "cy", "bob", "ann")) // the order does not matter
	check.That(t, fmt.Sprint(again) == fmt.Sprint(first), "the same key gives %+v, then %+v", first, again)
	other := AnswerTo(t, l, Inquire(t, "2", "plurality", "1", Never(t), "ann", "bob", "cy"))
	check.That(t, other.Answer == first.Answer && other.Event == first.Event && other.Charged.IsZero(),
		"another buyer gets %+v after %+v", other, first)
	o := ObjectOf(t, l, "bob")
	check.That(t, o.Spent == Eps(t, "1"), "bob has spent %s", o.Spent)
	_, err := l.Answer(t.Context(), Inquire(t, "1", "plurality", "0.5", Never(t), "ann", "bob", "cy"))
	check.Is(t, err, api.ErrKeyConflict)
	_, err = l.Answer(t.Context(), Inquire(t, "1", "winner", "1", Never(t), "ann", "bob", "cy"))
	check.Is(t, err, api.ErrKeyConflict)
	WantClean(t, l, api.VerifyRequest{})
}

func TestALowerAnswerIsDerivedForFree(t *testing.T) { Anywhere(t, testALowerAnswerIsDerivedForFree) }

func testALowerAnswerIsDerivedForFree(t *T) {
	l := Voters(t, NewLedger(t), "2", "ann", "bob", "cy")
	AnswerTo(t, l, Inquire(t, "1", "majority:yes", "1", Ballots("ann"), "ann", "bob", "cy"))
	lower := AnswerTo(t, l, Inquire(t, "2", "majority:yes", "0.25", Never(t), "ann", "bob", "cy"))
	between := AnswerTo(t, l, Inquire(t, "3", "majority:yes", "0.5", Never(t), "ann", "bob", "cy"))
	again := AnswerTo(t, l, Inquire(t, "4", "majority:yes", "0.25", Never(t), "ann", "bob", "cy"))
	if !lower.Charged.IsZero() || !between.Charged.IsZero() || again.Answer != lower.Answer || again.Event != lower.Event {
		t.Errorf("lower answers came to %+v, %+v, %+v", lower, between, again)
	}
	o := ObjectOf(t, l, "ann")
	check.That(t, o.Spent == Eps(t, "1"), "ann has spent %s", o.Spent)
	method := MethodOf(Events(t, l)[lower.Event-1])
	check.That(t, method == "degrade", "a lower answer was recorded as %q", method)
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
	check.Must(t, err)
	if quote.Charge != Eps(t, "1") || quote.Anew != quote.Charge || quote.Held != Eps(t, "0.5") || quote.Objects != 3 || quote.Refused != nil {
		t.Errorf("the quote is %+v", quote)
	}
	got := AnswerTo(t, l, higher)
	check.That(t, got.Charged == quote.Charge, "quoted %s, charged %s", quote.Charge, got.Charged)
	o := ObjectOf(t, l, "ann")
	check.That(t, o.Spent == Eps(t, "1.5"), "ann has spent %s", o.Spent)
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
	want := api.Refusal{Object: "ann", Reason: api.ChainCeiling, Ceiling: Eps(t, "1"), Spent: Eps(t, "0.75"), Asked: Eps(t, "0.5"), Cost: Eps(t, "0.5"), Remaining: Eps(t, "0.25"), Remedy: "less", Largest: Eps(t, "0.25")}
	check.That(t, len(refused) == 1 && (refused[0] == want || refused[0].Reason == api.ObjectCap),
		"refused %+v", refused)
	AnswerTo(t, l, Inquire(t, "2", "majority:yes", "0.25", Ballots("ann"), "ann", "bob", "cy"))
	_, err = l.Release(t.Context(), ReleaseOf(t, "3", "ann", "0.8"))
	r := Refusals(t, err)
	check.That(t, r[0].Spent == Eps(t, "1") && r[0].Remaining.IsZero(), "refused %+v", r)
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
	again := AnswerTo(t, l, r)
	check.That(t, fmt.Sprint(again) == fmt.Sprint(got), "the same key gives %+v, then %+v", got, again)
	// Ann and cy have nothing left now, but the answer is theirs already.
	r.Key, r.Truth = "3", Never(t)
	other := AnswerTo(t, l, r)
	check.That(t, other.Answer == got.Answer && other.Charged.IsZero(), "asked again: %+v", other)
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
	again := AnswerTo(t, l, r)
	check.That(t, fmt.Sprint(again) == fmt.Sprint(first), "the same key gives %+v, then %+v", first, again)
	r.Key = "2"
	other := AnswerTo(t, l, r)
	check.That(t, other.Objects == 3 && other.Charged == Eps(t, "0.5"), "about everybody now: %+v", other)
	WantClean(t, l, api.VerifyRequest{})
}

func TestConcurrentAnswersChargeOnce(t *testing.T) { Anywhere(t, testConcurrentAnswersChargeOnce) }

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
			check.That(t, err == nil, "%v", err)
			seen[got.Answer]++
		})
	}
	group.Wait()
	if len(seen) != 1 || CountKind(Events(t, l), "answered") != 1 {
		t.Errorf("answers %v, %d of them recorded", seen, CountKind(Events(t, l), "answered"))
	}
	WantClean(t, l, api.VerifyRequest{})
}

func TestABoundTruthBindsAnswersToo(t *testing.T) { Anywhere(t, testABoundTruthBindsAnswersToo) }

func testABoundTruthBindsAnswersToo(t *T) {
	l := Voters(t, Open(t, ledger.Options{TruthKey: []byte("sixteen bytes or more")}), "2", "ann", "bob")
	Release(t, l, ReleaseOf(t, "1", "ann", "0.5"))
	Unchanged(t, l, func() {
		_, err := l.Answer(t.Context(), Inquire(t, "2", "majority:yes", "0.5", SameTruth("blank"), "ann", "bob"))
		WantChanged(t, err, "ann")
	})
}

func TestAnswerRefusesWhatCannotBe(t *testing.T) { Anywhere(t, testAnswerRefusesWhatCannotBe) }

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
				check.Is(t, err, api.ErrInvalid)
				check.That(t, err == nil || !strings.Contains(err.Error(), "secret"),
					"the error tells a truth: %v", err)
			})
		})
	}
	r := valid()
	r.Question = "none"
	check.Is(t, check.Err(l.Answer(t.Context(), r)), api.ErrUnknown)
	failing := errors.New("offline")
	r = valid()
	r.Truth = func(context.Context, string, []string) ([]string, error) { return nil, failing }
	check.Is(t, check.Err(l.Answer(t.Context(), r)), failing)
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
		quote := check.Value(l.QuoteAnswer(t.Context(), r))(t)
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
