package model

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
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
	quote, err := l.QuoteAnswer(t.Context(), r)
	Must(t, err)
	if len(quote.Displaced)+len(want) > 0 && !reflect.DeepEqual(quote.Displaced, want) {
		t.Errorf("the quote at ε=%s displaces\n\t%+v, want\n\t%+v", r.Epsilon, quote.Displaced, want)
	}
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
	q, err := l.Quote(t.Context(), api.Order{Buyer: "a new buyer", Question: "vote", Epsilon: Eps(t, epsilon), All: true})
	Must(t, err)
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
	if n := quotable(t, l, "2"); n != 3 {
		t.Errorf("after quotes and refusals ε=2 can be sold of %d objects", n)
	}

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
	_, err := l.Sell(t.Context(), api.SellRequest{Key: "s", Order: api.Order{Buyer: "acme", Question: "smoker", Epsilon: Eps(t, "1"), Objects: []string{"bob"}}, Truth: SameTruth("yes")})
	Must(t, err)
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
		p, err := policy.Min(append(more, Market(t, "2", func(m *policy.Market) {
			m.Levels = []privacy.Epsilon{Eps(t, "1"), Eps(t, "2")}
			if change != nil {
				change(m)
			}
		}))...)
		Must(t, err)
		EnrollUnder(t, l, "vote", p, "10", name)
	}
	rising := func(above string) policy.Policy {
		p, err := policy.Steps(policy.Step{At: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), Ceiling: Eps(t, "1")}, policy.Step{At: later, Ceiling: Eps(t, above)})
		Must(t, err)
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
	Must(t, l.Cancel(t.Context(), "c", 1))
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
	if o := ObjectOf(t, l, "ann"); o.Spent != Eps(t, "0.05") {
		t.Errorf("ann has spent %s", o.Spent)
	}
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
	quote, err := l.QuoteAnswer(t.Context(), Inquire(t, "1", "winner", "999", nil, "ann"))
	Must(t, err)
	if n := len(quote.Displaced); n != 100 || quote.Displaced[0].Epsilon != Eps(t, "1000") || quote.Displaced[n-1].Epsilon != Eps(t, "999.999999901") {
		t.Errorf("%d levels are listed: %+v", n, quote.Displaced)
	}
}
