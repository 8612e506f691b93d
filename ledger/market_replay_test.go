package ledger

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/kv/kvtest"
	"github.com/sluicedp/sluice/policy"
)

// Invariant 9 for the market: the state is the fold of the log, and apply refuses a log that no ledger can
// have written. The fold of what sales write is compared with what is stored wherever a test audits.

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

// marketHistory is a sound log with every kind of event of the market. Of its three objects cid has
// withdrawn at its end.
func marketHistory(t *testing.T) []event {
	t.Helper()
	s, clock := &kvtest.Memory{}, newClock(epoch())
	begin(t, s)
	l := sellers(t, openMemory(t, s, Options{Now: clock.read}), "3", "2", "ann", "bob", "cid")
	l.sampler = steadySampler()
	hold := func(key, buyer, epsilon string, d time.Duration, object string) {
		reserve(t, l, ReserveRequest{Key: key, Order: purchase(t, "", buyer, epsilon, object).Order, For: d})
	}
	sell(t, l, purchase(t, "1", "acme", "0.5", "ann", "bob"))
	sell(t, l, purchase(t, "2", "zeta", "0.5", "ann"))
	hold("3", "zeta", "1", time.Hour, "bob")
	commit(t, l, "3c", soldReserved)
	hold("4", "acme", "1", time.Hour, "ann")
	must(t, l.Cancel(t.Context(), "4c", givenUp))
	hold("5", "zeta", "1", time.Hour, "ann")
	clock.set(epoch().Add(2 * time.Hour))
	hold("6", "acme", "1.5", time.Hour, "ann")
	must(t, l.Withdraw(t.Context(), "7", "cid"))
	return logOf(t, pairs(t, s))
}

func TestASoundMarketReplays(t *testing.T) {
	log := marketHistory(t)
	must(t, replay(&kvtest.Memory{}, log))
	for k := kindBuyer; k <= kindWithdrawn; k++ {
		indexOf(t, log, func(c change) bool { return c.kind() == k })
	}
}

// followedBy appends events to a log, at the time of its last.
func followedBy(changes ...change) func([]event) []event {
	return func(log []event) []event {
		for _, c := range changes {
			log = append(log, event{number: uint64(len(log)) + 1, time: log[len(log)-1].time, change: c})
		}
		return log
	}
}

// aSale is a deal of one object that could follow on marketHistory.
func aSale(t *testing.T, number uint64, buyer uint32, epsilon string, price uint64) deal {
	return deal{sale: number, buyer: buyer, question: 1, epsilon: eps(t, epsilon), objects: 1, price: price}
}

// forgery is what cannot follow on a log, and what there is to be said against it, so that it is not refused for
// something else.
type forgery struct {
	why     string
	changes []change
}

// wantForged checks that a log is refused for the reason given.
func wantForged(t *testing.T, err error, why string) {
	t.Helper()
	if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), why) {
		t.Errorf("got the error %v, want ErrCorrupt: %s", err, why)
	}
}

// unsoundMarkets are events that cannot follow on marketHistory.
func unsoundMarkets(t *testing.T) map[string]forgery {
	half := eps(t, "0.5")
	again := response{value{index: 0}, methodResale}
	fresh := response{value{index: 0}, methodRaise}
	made := func(d deal, n ...saleTally) change { return &saleMade{d, append(n, saleTally{})[0]} }
	draw, resale := saleTally{draws: 1}, saleTally{resales: 1}
	dearer := func(n saleTally) saleTally { n.upgrades++; return n }
	later := epoch().Add(100 * time.Hour)
	with := func(d deal, change func(*deal)) deal { change(&d); return d }
	carriedOut := aSale(t, running, 1, "1.5", 100)
	return map[string]forgery{
		"sold without a sale":              {"sale 0 is not complete, or not begun", []change{&sold{"ann", nextSale, 50, again}}},
		"sold in sale 0":                   {"sale 0 is not complete, or not begun", []change{&sold{"ann", 0, 50, again}}},
		"sold long after its sale":         {"sale 0 is not complete, or not begun", []change{&sold{"ann", soldFirst, 50, again}}},
		"sold in a reservation":            {"sale 0 is not complete, or not begun", []change{&sold{"ann", running, 50, again}}},
		"sold in what was given up":        {"sale 0 is not complete, or not begun", []change{&sold{"ann", givenUp, 50, again}}},
		"sold once more than the sale has": {"sale 7 is settled by none", []change{made(aSale(t, nextSale, 1, "0.5", 0), resale), &sold{"ann", nextSale, 0, again}, &sold{"bob", nextSale, 0, again}}},
		"sold after withdrawal":            {"object \"cid\" takes part in question 1 after it has withdrawn", []change{made(aSale(t, nextSale, 1, "0.5", 50), draw), &sold{"cid", nextSale, 50, fresh}}},
		"sold by a stranger":               {"object \"zoe\" takes part in question 1 without being enrolled", []change{made(aSale(t, nextSale, 1, "0.5", 50), draw), &sold{"zoe", nextSale, 50, fresh}}},
		"sold with another response":       {"object \"ann\", sale 7: the response is not the recorded one", []change{made(aSale(t, nextSale, 1, "0.5", 0), resale), &sold{"ann", nextSale, 0, response{value{index: 2}, methodResale}}}},
		"resold without a record":          {"object \"ann\", sale 7: the response is not the recorded one", []change{made(aSale(t, nextSale, 1, "0.75", 25), dearer(resale)), &sold{"ann", nextSale, 25, again}}},
		"drawn twice":                      {"a response of value 0 at ε=0.5 by raise", []change{made(aSale(t, nextSale, 1, "0.5", 0), draw), &sold{"ann", nextSale, 0, fresh}}},
		"drawn over the cap":               {"it spends more than its cap of 2", []change{made(aSale(t, nextSale, 1, "2.000000001", 150), dearer(draw)), &sold{"ann", nextSale, 150, fresh}}},
		"a buyer named twice":              {"buyer \"acme\" is named twice", []change{&buyerNamed{3, "acme"}}},
		"a buyer's number twice":           {"buyer 2 follows on buyer 2", []change{&buyerNamed{2, "initech"}}},
		"a gap in the buyers' numbers":     {"buyer 4 follows on buyer 2", []change{&buyerNamed{4, "initech"}}},
		"a sale's number twice":            {"sale 1 is not what was reserved", []change{made(aSale(t, soldFirst, 1, "0.5", 0))}},
		"a gap in the sales' numbers":      {"sale 8 follows on sale 6", []change{made(aSale(t, nextSale+1, 1, "0.5", 0))}},
		"sale 0":                           {"sale 0 is missing", []change{made(aSale(t, 0, 1, "0.5", 0))}},
		"a reservation's number twice":     {"sale 6 follows on sale 6", []change{&reserved{aSale(t, running, 1, "1.5", 100), later}}},
		"a gap in the reservations":        {"sale 8 follows on sale 6", []change{&reserved{aSale(t, nextSale+1, 1, "0.5", 0), later}}},
		"a sale to nobody":                 {"sale 7 is of nothing, or to nobody", []change{made(aSale(t, nextSale, 0, "0.5", 0))}},
		"a sale to an unnamed buyer":       {"sale 7 is of nothing, or to nobody", []change{made(aSale(t, nextSale, 3, "0.5", 0))}},
		"a sale at ε=0":                    {"sale 7 is of nothing, or to nobody", []change{made(aSale(t, nextSale, 1, "0", 0))}},
		"a sale about no question":         {"sale 7 is of nothing, or to nobody", []change{made(with(aSale(t, nextSale, 1, "0.5", 0), func(d *deal) { d.question = 0 }))}},
		"a sale about an unknown question": {"sale 7 is of nothing, or to nobody", []change{made(with(aSale(t, nextSale, 1, "0.5", 0), func(d *deal) { d.question = 2 }))}},
		"a sale of nobody":                 {"sale 7 is of nothing, or to nobody", []change{made(with(aSale(t, nextSale, 1, "0.5", 0), func(d *deal) { d.objects = 0 }))}},
		"a reservation of nobody":          {"sale 7 is of nothing, or to nobody", []change{&reserved{with(aSale(t, nextSale, 1, "0.5", 0), func(d *deal) { d.objects = 0 }), later}}},
		"a reservation for nobody":         {"sale 7 is of nothing, or to nobody", []change{&reserved{aSale(t, nextSale, 0, "0.5", 0), later}}},
		"a price above the reserved one":   {"sale 6 is not what was reserved", []change{made(with(carriedOut, func(d *deal) { d.price++ }))}},
		"more objects than reserved":       {"sale 6 is not what was reserved", []change{made(with(carriedOut, func(d *deal) { d.objects++ }))}},
		"another buyer than reserved":      {"sale 6 is not what was reserved", []change{made(with(carriedOut, func(d *deal) { d.buyer = 2 }))}},
		"another question than reserved":   {"sale 6 is not what was reserved", []change{&questionDefined{2, Question{Name: "q", Values: []string{"a", "b"}, Encoding: Direct}}, &settled{key: "q", digest: [32]byte{1}, first: uint64(len(marketHistory(t))) + 1, final: true}, made(with(carriedOut, func(d *deal) { d.question = 2 }))}},
		"another ε than reserved":          {"sale 6 is not what was reserved", []change{made(with(carriedOut, func(d *deal) { d.epsilon = half }))}},
		"a sale of what was given up":      {"sale 4 is not what was reserved", []change{made(aSale(t, givenUp, 1, "1", 50))}},
		"a sale of what has expired":       {"sale 5 is not what was reserved", []change{made(aSale(t, outOfTime, 2, "1", 50))}},
		"a reservation sold twice":         {"sale 3 is not what was reserved", []change{made(aSale(t, soldReserved, 2, "1", 100))}},
		"given up twice":                   {"sale 4 is cancelled without being reserved", []change{&cancelled{givenUp}}},
		"a sale given up":                  {"sale 1 is cancelled without being reserved", []change{&cancelled{soldFirst}}},
		"a sold reservation given up":      {"sale 3 is cancelled without being reserved", []change{&cancelled{soldReserved}}},
		"nothing given up":                 {"sale 7 is missing", []change{&cancelled{nextSale}}},
		"held twice":                       {"object \"ann\", at 0, is no part of sale 7", []change{&reserved{with(aSale(t, nextSale, 1, "0.5", 0), func(d *deal) { d.objects = 2 }), later}, &held{"ann", nextSale, 0}, &held{"ann", nextSale, 0}}},
		"held long after its reservation":  {"sale 0 is not complete, or not begun", []change{&held{"bob", running, 0}}},
		"held for a sale":                  {"no request records an event of the kind held", []change{made(aSale(t, nextSale, 1, "0.5", 0), resale), &held{"ann", nextSale, 0}}},
		"held without a reservation":       {"sale 0 is not complete, or not begun", []change{&held{"ann", nextSale, 0}}},
		"held once more than reserved":     {"sale 7 is settled by none", []change{&reserved{aSale(t, nextSale, 1, "0.5", 0), later}, &held{"ann", nextSale, 0}, &held{"bob", nextSale, 0}}},
		"held after withdrawal":            {"object \"cid\" takes part in question 1 after it has withdrawn", []change{&reserved{aSale(t, nextSale, 1, "0.5", 0), later}, &held{"cid", nextSale, 0}}},
		"held of a stranger":               {"object \"zoe\" takes part in question 1 without being enrolled", []change{&reserved{aSale(t, nextSale, 1, "0.5", 0), later}, &held{"zoe", nextSale, 0}}},
		"a stranger withdraws":             {"object \"zoe\" withdraws without being there", []change{&withdrawn{"zoe"}}},
		"released after withdrawal":        {"object \"cid\" takes part in question 1 after it has withdrawn", []change{&released{"cid", 1, half, fresh}}},
		"charged after withdrawal":         {"object \"cid\" takes part in question 1 after it has withdrawn", []change{&charged{"cid", 1, half}}},
		"enrolled while taking part":       {"object \"ann\" is enrolled twice in question 1", []change{&enrolled{"ann", 1, 1, 0, eps(t, "2")}}},
		"back under another cap":           {"object \"cid\" comes to question 1 under other ceilings than it had", []change{&enrolled{"cid", 1, 1, 0, eps(t, "3")}}},
		"back without a policy":            {"object \"cid\" comes to question 1 under other ceilings than it had", []change{&enrolled{"cid", 1, 0, 0, eps(t, "2")}}},
		"more revenue than can be counted": {"sale 7 brings more than can be counted", []change{made(aSale(t, nextSale, 1, "0.5", math.MaxInt64), resale)}},
	}
}

func TestApplyRefusesAMarketThatCannotBe(t *testing.T) {
	log := marketHistory(t)
	for name, forged := range unsoundMarkets(t) {
		t.Run(name, func(t *testing.T) {
			spoilt := followedBy(forged.changes...)(log[:len(log):len(log)])
			must(t, replay(&kvtest.Memory{}, spoilt[:len(spoilt)-1])) // it is the last event that cannot be
			wantForged(t, replay(&kvtest.Memory{}, spoilt), forged.why)
		})
	}
}

// What makes them unsound is what the names say: these differ in that alone, and are sound.
func TestApplyAcceptsTheNearestMarketThatCanBe(t *testing.T) {
	log := marketHistory(t)
	again, fresh := response{value{index: 0}, methodResale}, response{value{index: 0}, methodRaise}
	for name, changes := range map[string][]change{
		"resold":     {&saleMade{aSale(t, nextSale, 1, "0.5", 0), saleTally{resales: 1}}, &sold{"ann", nextSale, 0, again}},
		"drawn":      {&saleMade{aSale(t, nextSale, 1, "2", 150), saleTally{draws: 1, upgrades: 1}}, &sold{"ann", nextSale, 150, fresh}},
		"committed":  {&saleMade{aSale(t, running, 1, "1.5", 100), saleTally{draws: 1, upgrades: 1}}, &sold{"ann", running, 100, fresh}},
		"given up":   {&cancelled{running}},
		"a buyer":    {&buyerNamed{3, "initech"}},
		"held":       {&reserved{aSale(t, nextSale, 1, "0.5", 0), epoch().Add(9 * time.Hour)}, &held{"ann", nextSale, 0}},
		"back again": {&enrolled{"cid", 1, 1, 0, eps(t, "2")}, &released{"cid", 1, eps(t, "0.5"), fresh}},
	} {
		if err := replay(&kvtest.Memory{}, followedBy(withSettled(uint64(len(log))+1, changes)...)(log[:len(log):len(log)])); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The same, spoilt within: an event of the market that is left out, or comes twice.
func TestApplyRefusesAMarketWithoutItsParts(t *testing.T) {
	for name, k := range map[string]kind{"buyer": kindBuyer, "reservation": kindReserved, "sale": kindSale} {
		log := marketHistory(t)
		i := indexOf(t, log, func(c change) bool { return c.kind() == k })
		if err := replay(&kvtest.Memory{}, renumber(append(log[:i:i], log[i+1:]...))); !errors.Is(err, ErrCorrupt) {
			t.Errorf("without a %s: %v", name, err)
		}
		log = append(marketHistory(t)[:i+1], log[i:]...)
		if err := replay(&kvtest.Memory{}, renumber(log)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("with a %s twice: %v", name, err)
		}
	}
}

// If a decision were wrong, apply would still keep the cap, the reserved price and the recorded response:
// the commit fails, and nothing changes.
func TestApplyIsASecondGuardOfTheMarket(t *testing.T) {
	clock := newClock(epoch())
	l, s := openShim(t, create(t), Options{Now: clock.read})
	sellers(t, l, "3", "2", "ann", "bob", "cid")
	sell(t, l, purchase(t, "1", "acme", "0.5", "ann"))
	for name, changes := range map[string][]change{
		"over the cap":     {&saleMade{aSale(t, 2, 1, "2.1", 160), saleTally{draws: 1, upgrades: 1}}, &sold{"ann", 2, 160, response{value{index: 0}, methodRaise}}},
		"another response": {&saleMade{aSale(t, 2, 1, "0.5", 0), saleTally{resales: 1}}, &sold{"ann", 2, 0, response{value{index: 9}, methodResale}}},
	} {
		unchanged(t, s, func() {
			_, _, err := l.submit(t.Context(), func(*state) ([]change, error) { return changes, nil })
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: got the error %v", name, err)
			}
		})
	}
	sell(t, l, purchase(t, "2", "acme", "1", "ann"))
}

// These logs no ledger can have written either. What a sale says of itself must be what its objects say.
func TestApplyRefusesASaleThatContradictsItself(t *testing.T) {
	log := marketHistory(t)
	again, fresh := response{value{index: 0}, methodResale}, response{value{index: 0}, methodRaise}
	two := func(d deal) deal { d.objects = 2; return d }
	draw, resale := saleTally{draws: 1}, saleTally{resales: 1}
	dearer := func(n saleTally) saleTally { n.upgrades++; return n }
	end := func(key string) change { return &settled{key: key, first: uint64(len(log)) + 1, final: true} }
	for name, forged := range map[string]forgery{
		"its objects cost more":            {"object \"ann\", at 51, is no part of sale 7", []change{&saleMade{aSale(t, nextSale, 1, "1", 50), dearer(draw)}, &sold{"ann", nextSale, 51, fresh}, end("x")}},
		"its objects cost less":            {"sale 7 is not the sum of its objects", []change{&saleMade{aSale(t, nextSale, 1, "1", 50), dearer(draw)}, &sold{"ann", nextSale, 49, fresh}, end("x")}},
		"it draws and says it resells":     {"more responses by raise, or upgrades, than were counted", []change{&saleMade{aSale(t, nextSale, 1, "1", 50), dearer(resale)}, &sold{"ann", nextSale, 50, fresh}}},
		"it has more draws":                {"sale 7 counts other objects than it has", []change{&saleMade{aSale(t, nextSale, 1, "1", 50), dearer(saleTally{draws: 2})}}},
		"it upgrades and does not say so":  {"more responses by raise, or upgrades, than were counted", []change{&saleMade{aSale(t, nextSale, 1, "1", 50), draw}, &sold{"ann", nextSale, 50, fresh}}},
		"it says it upgrades":              {"sale 7 is not the sum of its objects", []change{&saleMade{aSale(t, nextSale, 1, "0.5", 0), dearer(resale)}, &sold{"ann", nextSale, 0, again}}},
		"an object sold twice":             {"object \"ann\", at 0, is no part of sale 7", []change{&saleMade{two(aSale(t, nextSale, 1, "0.5", 0)), saleTally{resales: 2}}, &sold{"ann", nextSale, 0, again}, &sold{"ann", nextSale, 0, again}}},
		"objects out of order":             {"object \"ann\", at 0, is no part of sale 7", []change{&saleMade{two(aSale(t, nextSale, 1, "0.5", 0)), saleTally{resales: 2}}, &sold{"bob", nextSale, 0, again}, &sold{"ann", nextSale, 0, again}}},
		"an object is missing":             {"sale 7 is not complete, or not begun", []change{&saleMade{two(aSale(t, nextSale, 1, "0.5", 0)), saleTally{resales: 2}}, &sold{"ann", nextSale, 0, again}, end("x")}},
		"an object not reserved":           {"object \"bob\" is sold without sale 6, or was not reserved for it", []change{&saleMade{aSale(t, running, 1, "1.5", 100), dearer(draw)}, &sold{"bob", running, 100, fresh}}},
		"no object is reserved":            {"sale 7 is not complete, or not begun", []change{&reserved{aSale(t, nextSale, 1, "0.5", 0), epoch().Add(9 * time.Hour)}, end("x")}},
		"reserved for a time that is over": {"reservation 7 ends before it begins", []change{&reserved{aSale(t, nextSale, 1, "0.5", 0), epoch().Add(time.Hour)}, &held{"ann", nextSale, 0}}},
		"reserved objects cost less":       {"sale 7 is not the sum of its objects", []change{&reserved{aSale(t, nextSale, 1, "1", 51), epoch().Add(9 * time.Hour)}, &held{"ann", nextSale, 50}}},
		"a raise below the current level":  {"a response of value 0 at ε=0.25 by raise", []change{&saleMade{aSale(t, nextSale, 1, "0.25", 0), draw}, &sold{"ann", nextSale, 0, fresh}}},
		"a derivation above the current":   {"a response of value 0 at ε=1 by insert", []change{&saleMade{aSale(t, nextSale, 1, "1", 50), saleTally{insertions: 1, upgrades: 1}}, &sold{"ann", nextSale, 50, response{value{index: 0}, methodInsert}}}},
		"an insertion below the lowest":    {"a response of value 0 at ε=0.25 by insert", []change{&saleMade{aSale(t, nextSale, 1, "0.25", 0), saleTally{insertions: 1}}, &sold{"ann", nextSale, 0, response{value{index: 0}, methodInsert}}}},
		"a degradation between two levels": {"a response of value 0 at ε=0.75 by degrade", []change{&saleMade{aSale(t, nextSale, 1, "0.75", 25), saleTally{degradations: 1, upgrades: 1}}, &sold{"bob", nextSale, 25, response{value{index: 0}, methodDegrade}}}},
		"a response the question has not":  {"a response of value 3 at ε=1 by raise", []change{&saleMade{aSale(t, nextSale, 1, "1", 50), dearer(draw)}, &sold{"ann", nextSale, 50, response{value{index: 3}, methodRaise}}}},
	} {
		t.Run(name, func(t *testing.T) {
			wantForged(t, replay(&kvtest.Memory{}, followedBy(forged.changes...)(log[:len(log):len(log)])), forged.why)
		})
	}
}

// Where transactions begin and end does not matter, and the fold is pure.
func TestTheMarketReplaysEventByEvent(t *testing.T) {
	log := marketHistory(t)
	whole := &kvtest.Memory{}
	must(t, replay(whole, log))
	same(t, "replay event by event", pairs(t, replayedSingly(t, log)), pairs(t, whole))
}

// A policy is what its JSON says, whoever wrote it: an object comes back under the same terms only.
func TestComingBackKeepsTheTerms(t *testing.T) {
	l := sellers(t, inMemory(t, Options{}), "2", "2", "ann")
	sell(t, l, purchase(t, "1", "acme", "1", "ann"))
	must(t, l.Withdraw(t.Context(), "w", "ann"))
	for name, p := range map[string]policy.Policy{"cheaper": market(t, "2", func(m *policy.Market) { m.Floor = 1 }), "none": {}} {
		_, err := l.Enroll(t.Context(), EnrollRequest{Key: name, Question: "vote", Objects: []string{"ann"}, Policy: p})
		if got := refusals(t, err); got[0].Reason != PolicyDiffers {
			t.Errorf("%s: %+v", name, got)
		}
	}
	_, err := l.Enroll(t.Context(), EnrollRequest{Key: "same", Question: "vote", Objects: []string{"ann"}, Policy: market(t, "2")})
	must(t, err)
	if s := sell(t, l, purchase(t, "2", "acme", "1", "ann")); s.Price != 0 || s.Resales != 1 {
		t.Errorf("what acme has paid for costs %+v", s)
	}
	if o := objectOf(t, l, "ann"); o.Spent != eps(t, "1") || o.Earned != 100 {
		t.Errorf("ann came back as %+v", o)
	}
	auditAll(t, l, l.store)
}

// A transaction that ends in the midst of a sale must not be committed: no event could follow it, and the
// ledger would be good for nothing any more.
func TestNoCommitEndsInTheMidstOfASale(t *testing.T) {
	for name, c := range map[string]change{
		"sale":        &saleMade{aSale(t, 2, 1, "0.5", 0), saleTally{resales: 1}},
		"reservation": &reserved{aSale(t, 2, 1, "0.5", 0), epoch().Add(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			l := sellers(t, inMemory(t, Options{Now: epoch}), "3", "2", "ann")
			sell(t, l, purchase(t, "1", "acme", "0.5", "ann"))
			unchanged(t, l.store, func() {
				_, _, err := l.submit(t.Context(), func(*state) ([]change, error) { return []change{c}, nil })
				wantErr(t, err, ErrCorrupt)
			})
			if _, err := l.Sell(t.Context(), purchase(t, "2", "acme", "1", "ann")); err != nil {
				t.Errorf("the next sale: %v", err)
			}
		})
	}
}
