package model

import (
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/fixture"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// quoteOf returns the only refusal of an order for ann.
func quoteOf(t testing.TB, l Book, buyer, question, epsilon string) api.Refusal {
	t.Helper()
	q, err := l.Quote(t.Context(), api.Order{Buyer: buyer, Question: question, Epsilon: Eps(t, epsilon), Objects: []string{"ann"}})
	Must(t, err)
	if len(q.Refused) != 1 {
		t.Fatalf("%s at ε=%s: %+v, want a refusal", buyer, epsilon, q)
	}
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
		helps                 api.Remedy
		largest               string
		refused               string // another level on offer, or ""
	}{
		{"any level up to the highest", "vote", "9", nil, nil, "1.5", api.NotOnOffer, api.RemedyLess, "1", ""},
		{"any level up to the cap", "vote", "0.7", nil, nil, "0.9", api.ObjectCap, api.RemedyLess, "0.7", "0.700000001"},
		{"a level below the cap", "vote", "0.5", []func(*policy.Market){levels}, nil, "0.6", api.ObjectCap, api.RemedyLess, "0.4", ""},
		{"a multiple below the cap", "vote", "0.7", []func(*policy.Market){stride}, nil, "1", api.ObjectCap, api.RemedyLess, "0.5", "0.75"},
		{"between multiples", "vote", "9", []func(*policy.Market){stride}, nil, "0.7", api.NotOnOffer, api.RemedyLess, "0.5", ""},
		{"below the lowest level", "vote", "9", []func(*policy.Market){levels}, nil, "0.05", api.NotOnOffer, api.RemedyNothing, "0", ""},
		{"a level of a mechanism", "party", "0.7", nil, nil, "1", api.ObjectCap, api.RemedyLess, "0.5", ""},
		{"a level that others hold", "vote", "9", []func(*policy.Market){levels, few}, func(l Book) {
			Sell(t, l, Purchase(t, "1", "other", "0.6", "ann"))
			Sell(t, l, Purchase(t, "2", "other", "0.4", "ann"))
		}, "0.6", api.HoldersFull, api.RemedyLess, "0.1", "0.4"},
		{"a level that is reserved", "vote", "9", []func(*policy.Market){levels, few}, func(l Book) {
			Reserve(t, l, api.ReserveRequest{Key: "1", Order: Purchase(t, "", "other", "0.6", "ann").Order, For: time.Hour})
		}, "0.6", api.HoldersFull, api.RemedyWaiting, "0.4", ""},
		{"what a reservation leaves", "vote", "0.7", nil, func(l Book) {
			Reserve(t, l, api.ReserveRequest{Key: "1", Order: Purchase(t, "", "other", "0.6", "ann").Order, For: time.Hour})
		}, "0.9", api.ObjectCap, api.RemedyLess, "0.7", "0.700000001"},
		{"what is recorded", "vote", "0.5", []func(*policy.Market){stride}, func(l Book) {
			Sell(t, l, Purchase(t, "1", "other", "0.5", "ann"))
		}, "0.75", api.ObjectCap, api.RemedyLess, "0.5", ""},
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
			if r.Reason != test.reason || r.Remedy != test.helps || r.Largest != Eps(t, test.largest) {
				t.Errorf("%v, want %s, %s helps, %s would do", r, test.reason, test.helps, test.largest)
			}
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
	all, err := l.Questions(t.Context())
	Must(t, err)
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
		if len(got) != 2 || got[0].Largest != Eps(t, "1") || got[1].Largest != Eps(t, "1") || got[0].Remedy != api.RemedyLess {
			t.Errorf("%+v", got)
		}
	}
	r = Order(t, "untold", "0.75", "ann")
	r.Truth = SameTruth("")
	_, err := l.Raise(t.Context(), r)
	if got := Refusals(t, err); len(got) != 1 || got[0].Largest != Eps(t, "0.5") || got[0].Remedy != api.RemedyTruth {
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
	Must(t, ask("0.75"))
	Release(t, l, ReleaseOf(t, "bob", "bob", "0.125"))
	got := Refusals(t, ask("1.5"))
	if len(got) != 2 || got[0].Largest != Eps(t, "1") || got[1].Largest != Eps(t, "0.875") {
		t.Errorf("%+v", got)
	}
	Must(t, ask("0.875"))
}
