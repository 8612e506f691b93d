package model

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger"
	"github.com/sluicedp/sluice/ledger/api"
	says "github.com/sluicedp/sluice/ledger/event"
	"github.com/sluicedp/sluice/ledger/ledgertest"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// tradeTest is a market in which many buyers trade concurrently.
type tradeTest struct {
	*T
	ledger    LedgerAPI
	clock     *ledgertest.Clock
	objects   []string
	responses sync.Map       // (question, object, ε) to the response that was returned
	truths    CountingTruths // by question and object
	sales     sync.Map       // number to Sale, as its buyer got it
	refused   atomic.Int64
}

// tradeCap limits spending, because the three questions together would take 6. A sweep that comes
// first and takes 4 leaves something to trade.
const tradeCap = "5"

func newTradeTest(t *T) *tradeTest {
	f := &tradeTest{T: t, clock: ledgertest.NewClock(ledgertest.Begin()), objects: Crowd(40)}
	f.ledger = Open(t, ledger.Options{Now: f.clock.Now})
	timed := check.Value(policy.Steps(
		policy.Step{At: ledgertest.Begin(), Ceiling: Eps(t, "0.25")}, policy.Step{At: ledgertest.Begin().Add(30 * time.Minute), Ceiling: Eps(t, "0.5")}, policy.Step{At: ledgertest.Begin().Add(time.Hour), Ceiling: Eps(t, "1")},
		policy.Step{At: ledgertest.Begin().Add(3 * time.Hour), Ceiling: Eps(t, "1.3")}, policy.Step{At: ledgertest.Begin().Add(5 * time.Hour), Ceiling: Eps(t, "2")}))(t)
	growing := check.Value(policy.Min(timed, Market(t, "2", func(m *policy.Market) { m.Stride, m.Holders = Eps(t, "0.1"), 4 })))(t)
	Define(t, f.ledger, Vote())
	Define(t, f.ledger, Smoker())
	EnrollUnder(t, f.ledger, "vote", growing, tradeCap, f.objects...)
	EnrollUnder(t, f.ledger, "smoker", Market(t, "2"), tradeCap, f.objects...)
	Define(t, f.ledger, api.Question{Name: "diary", Values: []string{"yes", "no"}, Encoding: "direct"})
	EnrollUnder(t, f.ledger, "diary", timed, tradeCap, f.objects...) // not for sale: released by the calendar
	return f
}

// truth returns true values. They are constant for an object and a question.
func (f *tradeTest) truth(ctx context.Context, question string, objects []string) ([]string, error) {
	values := make([]string, len(objects))
	names := make([]string, len(objects))
	for i, name := range objects {
		names[i] = question + "/" + name
		values[i] = []string{"yes", "no"}[int(name[len(name)-1])%2]
	}
	if _, err := f.truths.Truth("")(ctx, question, names); err != nil {
		return nil, err
	}
	return values, nil
}

// visit makes the requests of one visitor.
func (f *tradeTest) visit(i int) error {
	random := rand.New(rand.NewPCG(uint64(i), 7))
	f.clock.Set(ledgertest.Begin().Add(time.Duration(i/5+random.IntN(120)) * time.Minute)) // the clock also jumps back
	key := fmt.Sprint("visitor ", i)
	o := f.order(random)
	switch n := random.IntN(100); {
	case n < 60:
		return f.sell(key, o, random)
	case n < 80:
		return f.reserveAndCapture(key, o, random)
	case n < 82:
		return f.withdrawAndEnroll(key, o.Objects[0], o.Question, random)
	case n < 84:
		return check.Err(f.ledger.Advance(f.Context(), api.AdvanceRequest{Key: key, Truth: f.truth}))
	case n < 95:
		r, err := f.ledger.Release(f.Context(), api.ReleaseRequest{Key: key, Question: o.Question, Object: o.Objects[0], Epsilon: o.Epsilon, Truth: f.truth})
		if err == nil {
			f.recordResponse(r)
		}
		return f.ignoreRefusal(err)
	default:
		_, err := f.ledger.Answer(f.Context(), api.AnswerRequest{Key: key, Question: o.Question, Query: "majority:yes", Epsilon: Nano(f, 10_000_000), Objects: o.Objects, Partial: true, AcceptLoss: true, Truth: f.truth})
		return f.ignoreRefusal(err)
	}
}

// order returns an order for one to four objects at one of twenty levels.
func (f *tradeTest) order(random *rand.Rand) api.Order {
	o := api.Order{
		Buyer: []string{"acme", "zeta", "initech", "umbrella", "hooli"}[random.IntN(5)], Question: []string{"vote", "smoker"}[random.IntN(2)],
		Epsilon: Nano(f, int64(1+min(random.IntN(20), random.IntN(20)))*100_000_000),
	}
	for _, n := range random.Perm(len(f.objects))[:1+random.IntN(4)] {
		o.Objects = append(o.Objects, f.objects[n])
	}
	return o
}

func (f *tradeTest) sell(key string, o api.Order, random *rand.Rand) error {
	r := api.SellRequest{Key: key, Order: o, Partial: random.IntN(4) > 0, Truth: f.truth}
	if random.IntN(5) == 0 {
		q, err := f.ledger.Quote(f.Context(), o)
		if err != nil {
			return err
		}
		r.QuoteID = q.ID
	}
	s, err := f.ledger.Sell(f.Context(), r)
	return f.recordSale(s, err)
}

func (f *tradeTest) reserveAndCapture(key string, o api.Order, random *rand.Rand) error {
	r, err := f.ledger.Reserve(f.Context(), api.ReserveRequest{Key: key, Order: o, For: time.Duration(1+random.IntN(200)) * time.Minute, Partial: random.IntN(2) == 0})
	if err != nil {
		return f.ignoreRefusal(err)
	}
	switch random.IntN(4) {
	case 0:
		return f.ignoreRefusal(f.ledger.Cancel(f.Context(), key+" cancelled", r.Number))
	case 1:
		return nil // neither captured nor cancelled
	}
	s, err := f.ledger.Capture(f.Context(), api.CaptureRequest{Key: key + " paid", Reservation: r.Number, Partial: random.IntN(2) == 0, Truth: f.truth})
	if err == nil && (s.Number != r.Number || s.Price > r.Price || s.Price+s.Refund != r.Price) {
		return fmt.Errorf("reserved %+v, and sold %+v", r, s)
	}
	return f.recordSale(s, err)
}

// withdrawAndEnroll withdraws an object and, most of the time, enrolls it again.
func (f *tradeTest) withdrawAndEnroll(key, object, question string, random *rand.Rand) error {
	if err := f.ledger.Withdraw(f.Context(), api.ObjectRequest{Key: key, Object: object}); err != nil || random.IntN(10) == 0 {
		return err
	}
	o, err := f.ledger.Object(f.Context(), object)
	if err != nil {
		return err
	}
	for _, c := range o.Chains {
		if _, err := f.ledger.Enroll(f.Context(), api.EnrollRequest{Key: key + " back in " + c.Question, Question: c.Question, Objects: []string{object}, Policy: *c.Policy}); err != nil {
			return err
		}
	}
	return nil
}

// recordSale records a sale and its deliveries.
func (f *tradeTest) recordSale(s api.Sale, err error) error {
	if err != nil {
		return f.ignoreRefusal(err)
	}
	if _, twice := f.sales.LoadOrStore(s.Number, s); twice {
		return fmt.Errorf("two requests returned sale %d", s.Number)
	}
	price, n := int64(0), uint64(0)
	for d, err := range f.ledger.Deliveries(f.Context(), s.Number) {
		if err != nil {
			return err
		}
		price += d.Price
		n++
		f.recordResponse(d.Response)
	}
	if price != s.Price || n != s.Objects || s.Draws+s.Resales+s.Degradations+s.Insertions != n {
		return fmt.Errorf("%+v delivers %d objects for %d", s, n, price)
	}
	return nil
}

// recordResponse compares a response with earlier ones.
func (f *tradeTest) recordResponse(r api.Response) {
	at := fmt.Sprint(r.Question, " ", r.Object, " ", r.Epsilon)
	before, known := f.responses.LoadOrStore(at, r)
	check.That(f, !known || before == r, "two responses at one ε: %+v and %+v", before, r)
}

// ignoreRefusal ignores refusals, which are expected.
func (f *tradeTest) ignoreRefusal(err error) error {
	var refused *api.RefusedError
	var quote *api.QuoteError
	if errors.As(err, &refused) || errors.As(err, &quote) || errors.Is(err, &api.ReservationError{}) {
		f.refused.Add(1)
		return nil
	}
	return err
}

func (anyLedger) Trade_TwoThousandConcurrently_IsConsistent(t *T) {
	f := newTradeTest(t)
	for _, err := range race(t, 2000, f.visit) {
		t.Error(err)
	}
	f.clock.Set(ledgertest.Begin().AddDate(0, 0, 1))
	AuditAll(t, f.ledger)
	f.clock.Set(ledgertest.Begin()) // the log's time is later, so the ledger ignores it
	f.wantRecorded()
	f.wantCeilings()
	f.wantAllKinds()
}

// wantRecorded compares what callers got with what is recorded.
func (f *tradeTest) wantRecorded() {
	f.Helper()
	sum, n := int64(0), uint64(0)
	f.sales.Range(func(_, value any) bool {
		got := value.(api.Sale)
		sum, n = sum+got.Price, n+1
		recorded := check.Value(f.ledger.Sale(f.Context(), got.Number))(f)
		check.That(f, fmt.Sprint(recorded) == fmt.Sprint(got),
			"the buyer got %+v, recorded is %+v", got, recorded)
		return true
	})
	s := Stats(f, f.ledger)
	check.That(f, s.Sales == n && s.Revenue == sum, "buyers got %d sales for %d, recorded are %+v", n, sum, s)
	for _, name := range f.objects {
		for _, c := range ObjectOf(f, f.ledger, name).Chains {
			for _, at := range c.Levels {
				if got, known := f.responses.Load(fmt.Sprint(c.Question, " ", name, " ", at.Epsilon)); known && got.(api.Response).Value != at.Response {
					f.Errorf("a caller got %+v, recorded is %+v", got, at)
				}
			}
		}
	}
}

// wantCeilings checks the log: no draw is above the ceiling of its instant, no spending above the
// cap, and no draw lacks a requested true value. At the end, spent and held budget together fit
// under the cap.
func (f *tradeTest) wantCeilings() {
	f.Helper()
	limit, spent, level := Eps(f, tradeCap).Nano(), map[string]int64{}, map[string]int64{}
	draws, request, latest := map[string]int{}, 1, map[string]int{} // a sweep may draw several levels from one true value
	policies := map[string]policy.Policy{}
	for _, c := range ObjectOf(f, f.ledger, f.objects[0]).Chains {
		policies[c.Question] = *c.Policy
	}
	last := time.Time{}
	for _, ev := range Events(f, f.ledger) {
		check.That(f, !ev.Time.Before(last), "event %d is earlier than the one before it", ev.Number)
		last = ev.Time
		r, _ := RecordedBy(ev)
		chain := r.Question + "/" + r.Object
		charged, _ := ev.Says.(says.Charged)
		switch {
		case MethodOf(ev) == "raise":
			if ceiling := policies[r.Question].Ceiling(ev.Time, 0); ceiling.Less(r.Epsilon) {
				f.Errorf("event %d raises %q to ε=%s under the ceiling %s", ev.Number, chain, r.Epsilon, ceiling)
			}
			spent[r.Object] += r.Epsilon.Nano() - level[chain]
			level[chain] = r.Epsilon.Nano()
			if latest[chain] != request {
				draws[chain]++
			}
			latest[chain] = request
		case ev.Kind() == "settled":
			request++
		case ev.Kind() == "charged":
			spent[charged.Object] += charged.Epsilon.Nano()
		}
		check.That(f, spent[ev.Object()] <= limit,
			"event %d: %q has spent %d, above the cap %d", ev.Number, ev.Object(), spent[ev.Object()], limit)
	}
	times := f.truths.Times()
	for chain, n := range draws {
		asked := times[chain]
		check.That(f, asked >= n, "%q: %d requests drew from the true value, which was requested %d times", chain, n, asked)
	}
	for _, name := range f.objects {
		o := ObjectOf(f, f.ledger, name)
		check.That(f, o.Spent == Nano(f, spent[name]), "%q has spent %s, by the log %d", name, o.Spent, spent[name])
		if all, err := o.Spent.Add(o.Held); err != nil || o.Cap.Less(all) {
			f.Errorf("%q has spent %s and holds %s under the cap %s", name, o.Spent, o.Held, o.Cap)
		}
	}
}

// wantAllKinds fails if some kind of sale or event did not occur.
func (f *tradeTest) wantAllKinds() {
	f.Helper()
	log := Events(f, f.ledger)
	methods, kinds := map[string]int{}, map[string]int{}
	for _, ev := range log {
		kinds[ev.Kind()]++
		if ev.Kind() == "sold" {
			methods[MethodOf(ev)]++
		}
	}
	for _, method := range []string{"raise", "degrade", "insert", "resale"} {
		check.That(f, methods[method] != 0, "nothing was sold by %s", method)
	}
	for _, kind := range []string{"released", "charged", "reserved", "held", "cancelled", "sale", "withdrawn"} {
		check.That(f, kinds[kind] != 0, "there is no event of the kind %s", kind)
	}
	asked := 0
	for _, n := range f.truths.Times() {
		asked += n
	}
	draws := 0
	for _, ev := range log {
		if MethodOf(ev) == "raise" {
			draws++
		}
	}
	f.Logf("%d events, sold by %v, %v; %d calls were refused; %d draws from %d requested true values", len(log), methods, kinds, f.refused.Load(), draws, asked)
}

// Buyers want one object at all levels concurrently. Each level is drawn or derived once, and all
// buyers pay the same.
func (anyLedger) Sell_OneObjectConcurrently_OneResponseEach(t *T) {
	const buyers, levels = 25, 20
	l := Sellers(t, NewLedger(t), "2", "2", "ann")
	failed := race(t, buyers*levels, func(i int) error {
		r := Purchase(t, fmt.Sprint(i), fmt.Sprint("buyer ", i%buyers), fmt.Sprintf("%d.%d", (i/buyers+1)/10, (i/buyers+1)%10), "ann")
		return check.Err(l.Sell(t.Context(), r))
	})
	for _, err := range failed {
		t.Error(err)
	}
	o := ObjectOf(t, l, "ann")
	if c := o.Chains[0]; len(c.Levels) != levels || o.Spent != Eps(t, "2") {
		t.Errorf("%d levels are recorded, for ε=%s", len(c.Levels), o.Spent)
	}
	recorded := 0
	for _, ev := range Events(t, l) {
		if ev.Kind() == "sold" && MethodOf(ev) != "resale" {
			recorded++
		}
	}
	most := BuyersOf(t, l)["buyer 0"].Paid
	check.That(t, recorded == levels && o.Earned == buyers*most,
		"%d responses were made; earned %d, want %d buyers times %d", recorded, o.Earned, buyers, most)
	AuditAll(t, l)
}

// Objects are forgotten and enrolled again while buyers trade. The money adds up, no object has
// spent more than its cap, and no response outlives the levels of its object.
func (anyLedger) Trade_ObjectsForgottenConcurrently_IsConsistent(t *T) {
	f := newTradeTest(t)
	names := f.objects[:6]
	for _, name := range names { // so that there is something to erase
		check.Must(t, check.Err(f.ledger.Release(t.Context(), api.ReleaseRequest{Key: "before " + name, Question: "vote", Object: name, Epsilon: Eps(t, "0.1"), Truth: f.truth})))
	}
	for _, err := range race(t, 600, func(i int) error {
		random := rand.New(rand.NewPCG(uint64(i), 11))
		key, o := fmt.Sprint("visitor ", i), f.order(random)
		o.Objects = names[random.IntN(3):][:1+random.IntN(3)]
		err := error(nil)
		switch n := random.IntN(100); {
		case n < 12:
			if err = f.ledger.Forget(f.Context(), api.ObjectRequest{Key: key, Object: o.Objects[0]}); err != nil {
				break
			}
			fallthrough
		case n < 20:
			for question, p := range map[string]policy.Policy{"vote": f.terms("vote"), "smoker": f.terms("smoker"), "diary": f.terms("diary")} {
				if _, err := f.ledger.Enroll(f.Context(), api.EnrollRequest{Key: key + " back in " + question, Question: question, Objects: o.Objects[:1], Policy: p}); err != nil {
					return err
				}
			}
		case n < 50:
			_, err = f.ledger.Sell(f.Context(), api.SellRequest{Key: key, Order: o, Partial: random.IntN(2) == 0, Truth: f.truth})
		case n < 70:
			var r api.Reservation
			if r, err = f.ledger.Reserve(f.Context(), api.ReserveRequest{Key: key, Order: o, For: time.Hour, Partial: random.IntN(2) == 0}); err == nil {
				_, err = f.ledger.Capture(f.Context(), api.CaptureRequest{Key: key + " paid", Reservation: r.Number, Partial: random.IntN(2) == 0, Truth: f.truth})
			}
		case n < 80:
			_, err = f.ledger.Answer(f.Context(), api.AnswerRequest{Key: key, Question: o.Question, Query: "majority:yes", Epsilon: Nano(f, 1_000_000), Objects: o.Objects, Partial: true, AcceptLoss: true, Truth: f.truth})
		case n < 85:
			_, err = f.ledger.Advance(f.Context(), api.AdvanceRequest{Key: key, Truth: f.truth})
		default:
			_, err = f.ledger.Release(f.Context(), api.ReleaseRequest{Key: key, Question: o.Question, Object: o.Objects[0], Epsilon: o.Epsilon, Truth: f.truth})
			if errors.Is(err, api.ErrForgotten) {
				return nil
			}
		}
		return f.ignoreRefusal(err)
	}) {
		t.Error(err)
	}
	AuditAll(t, f.ledger)
	for _, name := range names[:3] {
		check.Must(t, f.ledger.Forget(t.Context(), api.ObjectRequest{Key: "at last " + name, Object: name}))
	}
	AuditAll(t, f.ledger)
	kinds := map[string]int{}
	for _, ev := range Events(t, f.ledger) {
		if kinds[ev.Kind()]++; ev.Erased {
			kinds["erased "+ev.Kind()]++
			if ev.Kind() == "sold" || ev.Kind() == "held" || ev.Kind() == "released" {
				kinds["erased response"]++
			}
		}
	}
	for _, kind := range []string{"forgotten", "erased enrolled", "erased response", "sold", "held"} {
		check.That(t, kinds[kind] != 0, "there is no event that is %s", kind)
	}
	for number := uint64(1); number <= Stats(t, f.ledger).Sales; number++ {
		for _, err := range f.ledger.Deliveries(f.Context(), number) {
			if err != nil && !errors.Is(err, api.ErrUnknown) { // a reservation
				t.Errorf("sale %d: %v", number, err)
			}
		}
	}
	t.Log(kinds)
}

// terms returns the policy of a question.
func (f *tradeTest) terms(question string) policy.Policy {
	for _, c := range ObjectOf(f, f.ledger, f.objects[20]).Chains {
		if c.Question == question {
			return *c.Policy
		}
	}
	f.Fatalf("no question %s", question)
	return policy.Policy{}
}

// Of requests for budget that fits once, one succeeds, and a reservation can always be paid for.
func (anyLedger) Reserve_Concurrent_CanAlwaysBeCaptured(t *T) {
	const rounds = 20
	for round := range rounds {
		l := Sellers(t, Open(t, ledger.Options{Now: ledgertest.Begin}), "2", "1", "ann")
		Define(t, l, Smoker())
		EnrollUnder(t, l, "smoker", Market(t, "2"), "1", "ann")
		granted := make([]privacy.Epsilon, 8)
		failed := race(t, len(granted), func(i int) error {
			o := api.Order{Buyer: fmt.Sprint("buyer ", i), Question: []string{"vote", "smoker"}[i%2], Epsilon: Nano(t, int64(i+2)*100_000_000), Objects: []string{"ann"}}
			key := fmt.Sprint(i)
			if (i/2+round)%2 == 0 {
				return check.Err(l.Sell(t.Context(), api.SellRequest{Key: key, Order: o, Truth: SameTruth("yes")}))
			}
			r, err := l.Reserve(t.Context(), api.ReserveRequest{Key: key, Order: o, For: time.Hour})
			if err != nil {
				return err
			}
			s, err := l.Capture(t.Context(), api.CaptureRequest{Key: key + " paid", Reservation: r.Number, Truth: SameTruth("yes")})
			if err != nil {
				return fmt.Errorf("what was reserved: %v", err) // no longer a refusal
			}
			granted[i] = s.Epsilon
			return nil
		})
		wantOverCap(t, failed)
		check.That(t, len(failed) != len(granted), "every request was refused")
		AuditAll(t, l)
	}
}
