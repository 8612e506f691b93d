package ledger

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
)

// Invariant 9 for the market: the state is the fold of the log, and apply refuses a log that no
// ledger can have written. Tests that audit compare the fold of what sales write with the stored
// records.

// The sales of marketHistory, by their numbers.
const (
	soldFirst    = 1 // ann and bob at 0.5 to acme
	soldAgain    = 2 // ann at 0.5 to zeta
	soldReserved = 3 // bob at 1 to zeta, reserved before
	givenUp      = 4 // ann at 1 for acme
	outOfTime    = 5 // ann at 1 for zeta
	running      = 6 // ann at 1.5 for acme
	nextSale     = 7
)

// marketHistory returns a sound log with every kind of event of the market. Of its three objects,
// cid has withdrawn at its end.
func marketHistory(t *testing.T) []event.Event {
	t.Helper()
	s, clock := &kv.Memory{}, newClock(epoch())
	begin(t, s)
	l := sellers(t, openMemory(t, s, Options{Now: clock.read}), "3", "2", "ann", "bob", "cid")
	l.engine.Chances.Values = steadySampler()
	hold := func(key, buyer, epsilon string, d time.Duration, object string) {
		reserve(t, l, api.ReserveRequest{Key: key, Order: purchase(t, "", buyer, epsilon, object).Order, For: d})
	}
	sell(t, l, purchase(t, "1", "acme", "0.5", "ann", "bob"))
	sell(t, l, purchase(t, "2", "zeta", "0.5", "ann"))
	hold("3", "zeta", "1", time.Hour, "bob")
	capture(t, l, "3c", soldReserved)
	hold("4", "acme", "1", time.Hour, "ann")
	must(t, l.Cancel(t.Context(), "4c", givenUp))
	hold("5", "zeta", "1", time.Hour, "ann")
	clock.set(epoch().Add(2 * time.Hour))
	hold("6", "acme", "1.5", time.Hour, "ann")
	must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "7", Object: "cid"}))
	return logOf(t, pairs(t, s))
}

func TestReplay_SoundMarketLog_IsAccepted(t *testing.T) {
	log := marketHistory(t)
	must(t, replay(&kv.Memory{}, log))
	for k := event.KindBuyer; k <= event.KindWithdrawn; k++ {
		indexOf(t, log, func(c event.Change) bool { return c.Kind() == k })
	}
}

// followedBy appends events to a log, at the time of its last.
func followedBy(changes ...event.Change) func([]event.Event) []event.Event {
	return func(log []event.Event) []event.Event {
		for _, c := range changes {
			log = append(log, event.Event{Number: uint64(len(log)) + 1, Time: log[len(log)-1].Time, Change: c})
		}
		return log
	}
}

// aSale returns a deal of one object that could follow marketHistory.
func aSale(t *testing.T, number uint64, buyer uint32, epsilon string, price uint64) event.Deal {
	return event.Deal{Sale: number, Buyer: buyer, Question: 1, Epsilon: eps(t, epsilon), Objects: 1, Price: price}
}

// forgery is a list of changes that cannot follow a log, and a part of the expected error, so that
// they are not refused for another reason.
type forgery struct {
	why     string
	changes []event.Change
}

// wantForged checks that a log is refused for the reason given.
func wantForged(t *testing.T, err error, why string) {
	t.Helper()
	check.That(t, errors.Is(err, api.ErrCorrupt) && strings.Contains(err.Error(), why),
		"got the error %v, want ErrCorrupt: %s", err, why)
}

// unsoundMarkets returns events that cannot follow marketHistory.
func unsoundMarkets(t *testing.T) map[string]forgery {
	half := eps(t, "0.5")
	again, fresh := event.Response{Method: event.MethodResale}, event.Response{Method: event.MethodRaise}
	inserted, degraded := event.Response{Method: event.MethodInsert}, event.Response{Method: event.MethodDegrade}
	made := func(d event.Deal, n ...event.SaleTally) event.Change {
		return &event.SaleMade{Deal: d, Tally: append(n, event.SaleTally{})[0]}
	}
	draw, resale := event.SaleTally{Draws: 1}, event.SaleTally{Resales: 1}
	dearer := func(n event.SaleTally) event.SaleTally { n.Upgrades++; return n }
	later := epoch().Add(100 * time.Hour)
	with := func(d event.Deal, change func(*event.Deal)) event.Deal { change(&d); return d }
	captured := aSale(t, running, 1, "1.5", 100)
	two := func(d event.Deal) event.Deal { d.Objects = 2; return d }
	end := func(key string) event.Change {
		return &event.Settled{Key: key, First: uint64(len(marketHistory(t))) + 1, Final: true}
	}
	return map[string]forgery{
		"sold without a sale":              {"an event interrupts sale 0, or is part of a sale that was not begun", []event.Change{&event.Sold{Object: "ann", Sale: nextSale, Price: 50, Response: again}}},
		"sold in sale 0":                   {"an event interrupts sale 0, or is part of a sale that was not begun", []event.Change{&event.Sold{Object: "ann", Sale: 0, Price: 50, Response: again}}},
		"sold long after its sale":         {"an event interrupts sale 0, or is part of a sale that was not begun", []event.Change{&event.Sold{Object: "ann", Sale: soldFirst, Price: 50, Response: again}}},
		"sold in a reservation":            {"an event interrupts sale 0, or is part of a sale that was not begun", []event.Change{&event.Sold{Object: "ann", Sale: running, Price: 50, Response: again}}},
		"sold in what was given up":        {"an event interrupts sale 0, or is part of a sale that was not begun", []event.Change{&event.Sold{Object: "ann", Sale: givenUp, Price: 50, Response: again}}},
		"sold once more than the sale has": {"refusals, sale 7 or the answer of event", []event.Change{made(aSale(t, nextSale, 1, "0.5", 0), resale), &event.Sold{Object: "ann", Sale: nextSale, Price: 0, Response: again}, &event.Sold{Object: "bob", Sale: nextSale, Price: 0, Response: again}}},
		"sold after withdrawal":            {"object \"cid\" has withdrawn, and an event in question 1 is about it", []event.Change{made(aSale(t, nextSale, 1, "0.5", 50), draw), &event.Sold{Object: "cid", Sale: nextSale, Price: 50, Response: fresh}}},
		"sold by a stranger":               {"object \"zoe\" is not enrolled in question 1", []event.Change{made(aSale(t, nextSale, 1, "0.5", 50), draw), &event.Sold{Object: "zoe", Sale: nextSale, Price: 50, Response: fresh}}},
		"sold with another response":       {"the response sold is not the recorded one", []event.Change{made(aSale(t, nextSale, 1, "0.5", 0), resale), &event.Sold{Object: "ann", Sale: nextSale, Price: 0, Response: event.Response{Value: event.Value{Index: 2}, Method: event.MethodResale}}}},
		"resold without a record":          {"the response sold is not the recorded one", []event.Change{made(aSale(t, nextSale, 1, "0.75", 25), dearer(resale)), &event.Sold{Object: "ann", Sale: nextSale, Price: 25, Response: again}}},
		"drawn twice":                      {"the response value 0 at ε=0.5 by method raise", []event.Change{made(aSale(t, nextSale, 1, "0.5", 0), draw), &event.Sold{Object: "ann", Sale: nextSale, Price: 0, Response: fresh}}},
		"drawn over the cap":               {"its spent budget would exceed its cap of 2", []event.Change{made(aSale(t, nextSale, 1, "2.000000001", 150), dearer(draw)), &event.Sold{Object: "ann", Sale: nextSale, Price: 150, Response: fresh}}},
		"a buyer named twice":              {"buyer \"acme\" is named twice", []event.Change{&event.BuyerNamed{Number: 3, Name: "acme"}}},
		"a buyer's number twice":           {"buyer 2 follows buyer 2", []event.Change{&event.BuyerNamed{Number: 2, Name: "initech"}}},
		"a gap in the buyers' numbers":     {"buyer 4 follows buyer 2", []event.Change{&event.BuyerNamed{Number: 4, Name: "initech"}}},
		"a sale's number twice":            {"sale 1 is not the order that was reserved, or the reservation is not open", []event.Change{made(aSale(t, soldFirst, 1, "0.5", 0))}},
		"a gap in the sales' numbers":      {"sale 8 follows sale 6", []event.Change{made(aSale(t, nextSale+1, 1, "0.5", 0))}},
		"sale 0":                           {"sale 0 is missing", []event.Change{made(aSale(t, 0, 1, "0.5", 0))}},
		"a reservation's number twice":     {"sale 6 follows sale 6", []event.Change{&event.Reserved{Deal: aSale(t, running, 1, "1.5", 100), Expires: later}}},
		"a gap in the reservations":        {"sale 8 follows sale 6", []event.Change{&event.Reserved{Deal: aSale(t, nextSale+1, 1, "0.5", 0), Expires: later}}},
		"a sale without a buyer":           {"sale 7: needs a known buyer and question", []event.Change{made(aSale(t, nextSale, 0, "0.5", 0))}},
		"a sale to an unnamed buyer":       {"sale 7: needs a known buyer and question", []event.Change{made(aSale(t, nextSale, 3, "0.5", 0))}},
		"a sale at ε=0":                    {"sale 7: needs a known buyer and question", []event.Change{made(aSale(t, nextSale, 1, "0", 0))}},
		"a sale about no question":         {"sale 7: needs a known buyer and question", []event.Change{made(with(aSale(t, nextSale, 1, "0.5", 0), func(d *event.Deal) { d.Question = 0 }))}},
		"a sale about an unknown question": {"sale 7: needs a known buyer and question", []event.Change{made(with(aSale(t, nextSale, 1, "0.5", 0), func(d *event.Deal) { d.Question = 2 }))}},
		"a sale of no objects":             {"sale 7: needs a known buyer and question", []event.Change{made(with(aSale(t, nextSale, 1, "0.5", 0), func(d *event.Deal) { d.Objects = 0 }))}},
		"a reservation of no objects":      {"sale 7: needs a known buyer and question", []event.Change{&event.Reserved{Deal: with(aSale(t, nextSale, 1, "0.5", 0), func(d *event.Deal) { d.Objects = 0 }), Expires: later}}},
		"a reservation without a buyer":    {"sale 7: needs a known buyer and question", []event.Change{&event.Reserved{Deal: aSale(t, nextSale, 0, "0.5", 0), Expires: later}}},
		"a price above the reserved one":   {"sale 6 is not the order that was reserved, or the reservation is not open", []event.Change{made(with(captured, func(d *event.Deal) { d.Price++ }))}},
		"more objects than reserved":       {"sale 6 is not the order that was reserved, or the reservation is not open", []event.Change{made(with(captured, func(d *event.Deal) { d.Objects++ }))}},
		"another buyer than reserved":      {"sale 6 is not the order that was reserved, or the reservation is not open", []event.Change{made(with(captured, func(d *event.Deal) { d.Buyer = 2 }))}},
		"another question than reserved":   {"sale 6 is not the order that was reserved, or the reservation is not open", []event.Change{&event.QuestionDefined{Number: 2, Question: api.Question{Name: "q", Values: []string{"a", "b"}, Encoding: "direct"}}, &event.Settled{Key: "q", Spent: fillSpent, First: uint64(len(marketHistory(t))) + 1, Final: true}, made(with(captured, func(d *event.Deal) { d.Question = 2 }))}},
		"another ε than reserved":          {"sale 6 is not the order that was reserved, or the reservation is not open", []event.Change{made(with(captured, func(d *event.Deal) { d.Epsilon = half }))}},
		"a sale of what was given up":      {"sale 4 is not the order that was reserved, or the reservation is not open", []event.Change{made(aSale(t, givenUp, 1, "1", 50))}},
		"a sale of what has expired":       {"sale 5 is not the order that was reserved, or the reservation is not open", []event.Change{made(aSale(t, outOfTime, 2, "1", 50))}},
		"a reservation sold twice":         {"sale 3 is not the order that was reserved, or the reservation is not open", []event.Change{made(aSale(t, soldReserved, 2, "1", 100))}},
		"given up twice":                   {"sale 4 is cancelled, but is not an open reservation", []event.Change{&event.Cancelled{Sale: givenUp}}},
		"a sale given up":                  {"sale 1 is cancelled, but is not an open reservation", []event.Change{&event.Cancelled{Sale: soldFirst}}},
		"a sold reservation given up":      {"sale 3 is cancelled, but is not an open reservation", []event.Change{&event.Cancelled{Sale: soldReserved}}},
		"nothing given up":                 {"sale 7 is missing", []event.Change{&event.Cancelled{Sale: nextSale}}},
		"held twice":                       {"object \"ann\" at the price 0 is not part of sale 7", []event.Change{&event.Reserved{Deal: with(aSale(t, nextSale, 1, "0.5", 0), func(d *event.Deal) { d.Objects = 2 }), Expires: later}, &event.Held{Object: "ann", Sale: nextSale, Price: 0, Policy: 1}, &event.Held{Object: "ann", Sale: nextSale, Price: 0, Policy: 1}}},
		"held long after its reservation":  {"an event interrupts sale 0, or is part of a sale that was not begun", []event.Change{&event.Held{Object: "bob", Sale: running, Price: 0, Policy: 1}}},
		"held for a sale":                  {"no request records an event of kind held", []event.Change{made(aSale(t, nextSale, 1, "0.5", 0), resale), &event.Held{Object: "ann", Sale: nextSale, Price: 0, Policy: 1}}},
		"held without a reservation":       {"an event interrupts sale 0, or is part of a sale that was not begun", []event.Change{&event.Held{Object: "ann", Sale: nextSale, Price: 0, Policy: 1}}},
		"held once more than reserved":     {"refusals, sale 7 or the answer of event", []event.Change{&event.Reserved{Deal: aSale(t, nextSale, 1, "0.5", 0), Expires: later}, &event.Held{Object: "ann", Sale: nextSale, Price: 0, Policy: 1}, &event.Held{Object: "bob", Sale: nextSale, Price: 0, Policy: 1}}},
		"held after withdrawal":            {"object \"cid\" has withdrawn, and an event in question 1 is about it", []event.Change{&event.Reserved{Deal: aSale(t, nextSale, 1, "0.5", 0), Expires: later}, &event.Held{Object: "cid", Sale: nextSale, Price: 0, Policy: 1}}},
		"held of a stranger":               {"object \"zoe\" is not enrolled in question 1", []event.Change{&event.Reserved{Deal: aSale(t, nextSale, 1, "0.5", 0), Expires: later}, &event.Held{Object: "zoe", Sale: nextSale, Price: 0, Policy: 1}}},
		"a stranger withdraws":             {"object \"zoe\" withdraws, but does not exist", []event.Change{&event.Withdrawn{Object: "zoe"}}},
		"released after withdrawal":        {"object \"cid\" has withdrawn, and an event in question 1 is about it", []event.Change{&event.Released{Object: "cid", Question: 1, Epsilon: half, Response: fresh}}},
		"charged after withdrawal":         {"object \"cid\" has withdrawn, and an event in question 1 is about it", []event.Change{&event.Charged{Object: "cid", Question: 1, Epsilon: half}}},
		"enrolled while taking part":       {"object \"ann\" is enrolled twice in question 1", []event.Change{&event.Enrolled{Object: "ann", Question: 1, Policy: 1, Noise: 0, Cap: eps(t, "2")}}},
		"back under another cap":           {"object \"cid\" is enrolled again in question 1 with another policy or cap than it had", []event.Change{&event.Enrolled{Object: "cid", Question: 1, Policy: 1, Noise: 0, Cap: eps(t, "3")}}},
		"back without a policy":            {"object \"cid\" is enrolled again in question 1 with another policy or cap than it had", []event.Change{&event.Enrolled{Object: "cid", Question: 1, Policy: 0, Noise: 0, Cap: eps(t, "2")}}},
		"its objects cost more":            {"object \"ann\" at the price 51 is not part of sale 7", []event.Change{made(aSale(t, nextSale, 1, "1", 50), dearer(draw)), &event.Sold{Object: "ann", Sale: nextSale, Price: 51, Response: fresh}}},
		"its objects cost less":            {"sale 7: its price or its tally is not the sum of its objects", []event.Change{made(aSale(t, nextSale, 1, "1", 50), dearer(draw)), &event.Sold{Object: "ann", Sale: nextSale, Price: 49, Response: fresh}}},
		"it draws and says it resells":     {"more responses by raise, or upgrades, than were counted", []event.Change{made(aSale(t, nextSale, 1, "1", 50), dearer(resale)), &event.Sold{Object: "ann", Sale: nextSale, Price: 50, Response: fresh}}},
		"it has more draws":                {"sale 7: its tally does not count its objects", []event.Change{made(aSale(t, nextSale, 1, "1", 50), dearer(event.SaleTally{Draws: 2}))}},
		"it upgrades and does not say so":  {"more responses by raise, or upgrades, than were counted", []event.Change{made(aSale(t, nextSale, 1, "1", 50), draw), &event.Sold{Object: "ann", Sale: nextSale, Price: 50, Response: fresh}}},
		"it says it upgrades":              {"sale 7: its price or its tally is not the sum of its objects", []event.Change{made(aSale(t, nextSale, 1, "0.5", 0), dearer(resale)), &event.Sold{Object: "ann", Sale: nextSale, Price: 0, Response: again}}},
		"an object sold twice":             {"object \"ann\" at the price 0 is not part of sale 7", []event.Change{made(two(aSale(t, nextSale, 1, "0.5", 0)), event.SaleTally{Resales: 2}), &event.Sold{Object: "ann", Sale: nextSale, Price: 0, Response: again}, &event.Sold{Object: "ann", Sale: nextSale, Price: 0, Response: again}}},
		"objects out of order":             {"object \"ann\" at the price 0 is not part of sale 7", []event.Change{made(two(aSale(t, nextSale, 1, "0.5", 0)), event.SaleTally{Resales: 2}), &event.Sold{Object: "bob", Sale: nextSale, Price: 0, Response: again}, &event.Sold{Object: "ann", Sale: nextSale, Price: 0, Response: again}}},
		"an object is missing":             {"an event interrupts sale 7, or is part of a sale that was not begun", []event.Change{made(two(aSale(t, nextSale, 1, "0.5", 0)), event.SaleTally{Resales: 2}), &event.Sold{Object: "ann", Sale: nextSale, Price: 0, Response: again}, end("x")}},
		"an object not reserved":           {"object \"bob\" is sold, but sale 6 is not a sale or did not reserve it", []event.Change{made(aSale(t, running, 1, "1.5", 100), dearer(draw)), &event.Sold{Object: "bob", Sale: running, Price: 100, Response: fresh}}},
		"no object is reserved":            {"an event interrupts sale 7, or is part of a sale that was not begun", []event.Change{&event.Reserved{Deal: aSale(t, nextSale, 1, "0.5", 0), Expires: epoch().Add(9 * time.Hour)}, end("x")}},
		"reserved for a time that is over": {"reservation 7 expires before it is granted", []event.Change{&event.Reserved{Deal: aSale(t, nextSale, 1, "0.5", 0), Expires: epoch().Add(time.Hour)}}},
		"reserved objects cost less":       {"sale 7: its price or its tally is not the sum of its objects", []event.Change{&event.Reserved{Deal: aSale(t, nextSale, 1, "1", 51), Expires: epoch().Add(9 * time.Hour)}, &event.Held{Object: "ann", Sale: nextSale, Price: 50, Policy: 1}}},
		"a raise below the current level":  {"the response value 0 at ε=0.25 by method raise", []event.Change{made(aSale(t, nextSale, 1, "0.25", 0), draw), &event.Sold{Object: "ann", Sale: nextSale, Price: 0, Response: fresh}}},
		"a derivation above the current":   {"the response value 0 at ε=1 by method insert", []event.Change{made(aSale(t, nextSale, 1, "1", 50), event.SaleTally{Insertions: 1, Upgrades: 1}), &event.Sold{Object: "ann", Sale: nextSale, Price: 50, Response: inserted}}},
		"an insertion below the lowest":    {"the response value 0 at ε=0.25 by method insert", []event.Change{made(aSale(t, nextSale, 1, "0.25", 0), event.SaleTally{Insertions: 1}), &event.Sold{Object: "ann", Sale: nextSale, Price: 0, Response: inserted}}},
		"a degradation between two levels": {"the response value 0 at ε=0.75 by method degrade", []event.Change{made(aSale(t, nextSale, 1, "0.75", 25), event.SaleTally{Degradations: 1, Upgrades: 1}), &event.Sold{Object: "bob", Sale: nextSale, Price: 25, Response: degraded}}},
		"a response the question has not":  {"the response value 3 at ε=1 by method raise", []event.Change{made(aSale(t, nextSale, 1, "1", 50), dearer(draw)), &event.Sold{Object: "ann", Sale: nextSale, Price: 50, Response: event.Response{Value: event.Value{Index: 3}, Method: event.MethodRaise}}}},
		"more revenue than can be counted": {"sale 7: the revenue would exceed the largest amount that can be counted", []event.Change{made(aSale(t, nextSale, 1, "0.5", math.MaxInt64), resale)}},
	}
}

func TestApply_ForgedMarketEvent_IsCorrupt(t *testing.T) {
	log := marketHistory(t)
	for name, forged := range unsoundMarkets(t) {
		t.Run(name, func(t *testing.T) {
			spoilt := followedBy(forged.changes...)(log[:len(log):len(log)])
			must(t, replay(&kv.Memory{}, spoilt[:len(spoilt)-1])) // it is the last event that cannot be
			wantForged(t, replay(&kv.Memory{}, spoilt), forged.why)
		})
	}
}

// These events differ from the forged ones only in what makes those unsound, and are accepted.
func TestApply_NearestSoundMarketEvent_IsAccepted(t *testing.T) {
	log := marketHistory(t)
	again, fresh := event.Response{Value: event.Value{Index: 0}, Method: event.MethodResale}, event.Response{Value: event.Value{Index: 0}, Method: event.MethodRaise}
	for name, changes := range map[string][]event.Change{
		"resold":     {&event.SaleMade{Deal: aSale(t, nextSale, 1, "0.5", 0), Tally: event.SaleTally{Resales: 1}}, &event.Sold{Object: "ann", Sale: nextSale, Price: 0, Response: again}},
		"drawn":      {&event.SaleMade{Deal: aSale(t, nextSale, 1, "2", 150), Tally: event.SaleTally{Draws: 1, Upgrades: 1}}, &event.Sold{Object: "ann", Sale: nextSale, Price: 150, Response: fresh}},
		"committed":  {&event.SaleMade{Deal: aSale(t, running, 1, "1.5", 100), Tally: event.SaleTally{Draws: 1, Upgrades: 1}}, &event.Sold{Object: "ann", Sale: running, Price: 100, Response: fresh}},
		"given up":   {&event.Cancelled{Sale: running}},
		"a buyer":    {&event.BuyerNamed{Number: 3, Name: "initech"}},
		"held":       {&event.Reserved{Deal: aSale(t, nextSale, 1, "0.5", 0), Expires: epoch().Add(9 * time.Hour)}, &event.Held{Object: "ann", Sale: nextSale, Price: 0, Policy: 1}},
		"back again": {&event.Enrolled{Object: "cid", Question: 1, Policy: 1, Noise: 0, Cap: eps(t, "2")}, &event.Released{Object: "cid", Question: 1, Epsilon: eps(t, "0.5"), Response: fresh}},
	} {
		err := replay(&kv.Memory{}, followedBy(withSettled(uint64(len(log))+1, changes)...)(log[:len(log):len(log)]))
		check.That(t, err == nil, "%s: %v", name, err)
	}
}

// A log is also refused if a market event inside it is left out or repeated.
func TestApply_MarketEventMissingOrRepeated_IsCorrupt(t *testing.T) {
	for name, k := range map[string]event.Kind{"buyer": event.KindBuyer, "reservation": event.KindReserved, "sale": event.KindSale} {
		log := marketHistory(t)
		i := indexOf(t, log, func(c event.Change) bool { return c.Kind() == k })
		for times, log := range map[string][]event.Event{"no": slices.Delete(slices.Clone(log), i, i+1), "a second": slices.Insert(slices.Clone(log), i, log[i])} {
			err := replay(&kv.Memory{}, renumber(log))
			check.That(t, errors.Is(err, api.ErrCorrupt), "with %s %s: %v", times, name, err)
		}
	}
}

// If a decision were wrong, apply would still enforce the cap, the reserved price and the recorded
// response: the commit fails, and nothing changes. Nor may a transaction end inside a sale, because
// no event could follow it.
func TestSubmit_WrongDecision_IsCorruptAndChangesNothing(t *testing.T) {
	l, s := openShim(t, create(t), Options{Now: epoch})
	sellers(t, l, "3", "2", "ann", "bob", "cid")
	sell(t, l, purchase(t, "1", "acme", "0.5", "ann"))
	answers := func(index int, how event.Method) event.Response {
		return event.Response{Value: event.Value{Index: index}, Method: how}
	}
	resold := &event.SaleMade{Deal: aSale(t, 2, 1, "0.5", 0), Tally: event.SaleTally{Resales: 1}}
	for name, changes := range map[string][]event.Change{
		"released over the cap": {&event.Released{Object: "ann", Question: 1, Epsilon: eps(t, "2.1"), Response: answers(0, event.MethodRaise)}},
		"sold over the cap":     {&event.SaleMade{Deal: aSale(t, 2, 1, "2.1", 160), Tally: event.SaleTally{Draws: 1, Upgrades: 1}}, &event.Sold{Object: "ann", Sale: 2, Price: 160, Response: answers(0, event.MethodRaise)}},
		"another response":      {resold, &event.Sold{Object: "ann", Sale: 2, Price: 0, Response: answers(9, event.MethodResale)}},
		"half a sale":           {resold},
		"half a reservation":    {&event.Reserved{Deal: aSale(t, 2, 1, "0.5", 0), Expires: epoch().Add(time.Hour)}},
	} {
		unchanged(t, s, func() {
			_, _, err := l.engine.Submit(t.Context(), func(*state.State) ([]event.Change, error) { return changes, nil })
			check.That(t, errors.Is(err, api.ErrCorrupt), "%s: got the error %v", name, err)
		})
	}
	sell(t, l, purchase(t, "2", "acme", "1", "ann"))
}
