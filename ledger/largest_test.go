package ledger

import (
	"testing"
	"time"

	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// quoteOf returns the only refusal of an order for ann.
func quoteOf(t *testing.T, l *Ledger, buyer, question, epsilon string) Refusal {
	t.Helper()
	q, err := l.Quote(t.Context(), Order{Buyer: buyer, Question: question, Epsilon: eps(t, epsilon), Objects: []string{"ann"}})
	must(t, err)
	if len(q.Refused) != 1 {
		t.Fatalf("%s at ε=%s: %+v, want a refusal", buyer, epsilon, q)
	}
	return q.Refused[0]
}

// What a refusal calls the largest ε that would do, does; and no level on offer between it and the one asked for.
func TestTheLargestOnOffer(t *testing.T) {
	levels := func(m *policy.Market) { m.Levels = []privacy.Epsilon{eps(t, "0.1"), eps(t, "0.4"), eps(t, "0.6")} }
	stride := func(m *policy.Market) { m.Stride = eps(t, "0.25") }
	few := func(m *policy.Market) { m.Holders = 1 }
	for _, test := range []struct {
		name, question, limit string
		terms                 []func(*policy.Market)
		before                func(l *Ledger)
		asked                 string
		reason                Reason
		helps                 Remedy
		largest               string
		refused               string // another level on offer, or ""
	}{
		{"any level up to the highest", "vote", "9", nil, nil, "1.5", NotOnOffer, RemedyLess, "1", ""},
		{"any level up to the cap", "vote", "0.7", nil, nil, "0.9", ObjectCap, RemedyLess, "0.7", "0.700000001"},
		{"a level below the cap", "vote", "0.5", []func(*policy.Market){levels}, nil, "0.6", ObjectCap, RemedyLess, "0.4", ""},
		{"a multiple below the cap", "vote", "0.7", []func(*policy.Market){stride}, nil, "1", ObjectCap, RemedyLess, "0.5", "0.75"},
		{"between multiples", "vote", "9", []func(*policy.Market){stride}, nil, "0.7", NotOnOffer, RemedyLess, "0.5", ""},
		{"below the lowest level", "vote", "9", []func(*policy.Market){levels}, nil, "0.05", NotOnOffer, RemedyNothing, "0", ""},
		{"a level of a mechanism", "party", "0.7", nil, nil, "1", ObjectCap, RemedyLess, "0.5", ""},
		{"a level that others hold", "vote", "9", []func(*policy.Market){levels, few}, func(l *Ledger) {
			sell(t, l, purchase(t, "1", "other", "0.6", "ann"))
			sell(t, l, purchase(t, "2", "other", "0.4", "ann"))
		}, "0.6", HoldersFull, RemedyLess, "0.1", "0.4"},
		{"a level that is reserved", "vote", "9", []func(*policy.Market){levels, few}, func(l *Ledger) {
			reserve(t, l, ReserveRequest{Key: "1", Order: purchase(t, "", "other", "0.6", "ann").Order, For: time.Hour})
		}, "0.6", HoldersFull, RemedyWaiting, "0.4", ""},
		{"what a reservation leaves", "vote", "0.7", nil, func(l *Ledger) {
			reserve(t, l, ReserveRequest{Key: "1", Order: purchase(t, "", "other", "0.6", "ann").Order, For: time.Hour})
		}, "0.9", ObjectCap, RemedyLess, "0.7", "0.700000001"},
		{"what is recorded", "vote", "0.5", []func(*policy.Market){stride}, func(l *Ledger) {
			sell(t, l, purchase(t, "1", "other", "0.5", "ann"))
		}, "0.75", ObjectCap, RemedyLess, "0.5", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := inMemory(t, Options{Now: epoch})
			define(t, l, vote())
			define(t, l, party(t))
			enrollUnder(t, l, test.question, market(t, "1", test.terms...), test.limit, "ann")
			if test.before != nil {
				test.before(l)
			}
			r := quoteOf(t, l, "buyer", test.question, test.asked)
			if r.Reason != test.reason || r.Remedy != test.helps || r.Largest != eps(t, test.largest) {
				t.Errorf("%v, want %s, %s helps, %s would do", r, test.reason, test.helps, test.largest)
			}
			if test.refused != "" {
				quoteOf(t, l, "buyer", test.question, test.refused)
			}
			if !r.Largest.IsZero() {
				s := SellRequest{Key: "largest", Order: Order{Buyer: "buyer", Question: test.question, Epsilon: r.Largest, Objects: []string{"ann"}}, Truth: TruthOf(l.valueOf(t, test.question))}
				sell(t, l, s)
			}
			auditAll(t, l, l.engine.Store)
		})
	}
}

func (l *Ledger) valueOf(t *testing.T, question string) string {
	q, err := l.findQuestion(t.Context(), question)
	must(t, err)
	return q.Values[0]
}

// A refusal that is recorded, and the statement that repeats it, say the same as the result.
func TestARecordedRefusalSaysTheLargest(t *testing.T) {
	l := voters(t, inMemory(t, Options{Now: epoch}), "1", "ann", "bob")
	release(t, l, releaseOf(t, "first", "ann", "0.5"))
	r := order(t, "k", "2", "ann", "bob")
	r.Partial = true
	for range 2 { // the second time, as it is recorded
		got := carryOut(t, l, r).Refused
		if len(got) != 2 || got[0].Largest != eps(t, "1") || got[1].Largest != eps(t, "1") || got[0].Remedy != RemedyLess {
			t.Errorf("%+v", got)
		}
	}
	r = order(t, "untold", "0.75", "ann")
	r.Truth = TruthOf("")
	_, err := l.Raise(t.Context(), r)
	if got := refusals(t, err); len(got) != 1 || got[0].Largest != eps(t, "0.5") || got[0].Remedy != RemedyTruth {
		t.Errorf("%+v, want what is recorded, for which no truth is needed", got)
	}
	auditStore(t, l.engine.Store)
}

// An answer in part costs what an answer costs, and what is known of all is there for all.
func TestTheLargestOfAnAnswer(t *testing.T) {
	l := voters(t, inMemory(t, Options{Now: epoch}), "1", "ann", "bob")
	ask := func(epsilon string) error {
		_, err := l.Answer(t.Context(), AnswerRequest{Key: epsilon, Question: "vote", Query: "majority:yes", Epsilon: eps(t, epsilon), Objects: []string{"ann", "bob"}, Truth: TruthOf("yes")})
		return err
	}
	must(t, ask("0.75"))
	release(t, l, releaseOf(t, "bob", "bob", "0.125"))
	got := refusals(t, ask("1.5"))
	if len(got) != 2 || got[0].Largest != eps(t, "1") || got[1].Largest != eps(t, "0.875") {
		t.Errorf("%+v", got)
	}
	must(t, ask("0.875"))
}
