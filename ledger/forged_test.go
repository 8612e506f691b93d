package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/kv/kvtest"
	"github.com/sluicedp/sluice/policy"
)

// Invariant 9, against whoever can write the file: a log that no ledger can have written is refused, although
// every record of it is in order and all hashes fit. Each forgery stands next to what it was made from, which is
// sound and differs from it in the one thing that is forged.

// ground is a sound log that all forgeries begin with.
type ground struct {
	log       []event
	stated    map[string]stated    // sound statements about the objects, to follow on it
	forgotten map[string]forgotten // likewise
}

// The objects of the ground:
//
//	ann, bob  vote, up to ε=0.5 and after 10 hours up to 1; ann has answered at 0.25, both a query at 0.1
//	ann       smoker, with no policy
//	cid, dan  vote, on the market; cid at 0.5 is held by acme and zeta, as many as may; dan has withdrawn
//	eve       vote, on the market, with half of ε=1 for each order
//	fay       vote, with no policy
//	zoe       a stranger, who was refused
//
// The buyers are acme, zeta, hooli and initech, whom the terms bar; the sales are 1 and 2. All of it happened at
// epoch.
func newGround(t *testing.T, truthKey []byte) ground {
	t.Helper()
	s := &kvtest.Memory{}
	begin(t, s)
	l := openMemory(t, s, Options{Now: epoch, TruthKey: truthKey})
	l.sampler, l.queries = steadySampler(), medians()
	timed, err := policy.Steps(policy.Step{At: epoch(), Ceiling: eps(t, "0.5")}, policy.Step{At: epoch().Add(10 * time.Hour), Ceiling: eps(t, "1")})
	must(t, err)
	terms := market(t, "1.5", func(m *policy.Market) {
		m.Stride, m.Holders, m.Barred, m.Until = eps(t, "0.25"), 2, []string{"initech"}, epoch().Add(100*time.Hour)
	})
	halves, err := policy.Unlock(eps(t, "1"), 2)
	must(t, err)
	unlocked, err := policy.Min(market(t, "1.5"), halves)
	must(t, err)
	define(t, l, vote())
	define(t, l, smoker())
	enrollUnder(t, l, "vote", timed, "2", "ann", "bob")
	enroll(t, l, "smoker", "2", "ann")
	enrollUnder(t, l, "vote", terms, "2", "cid", "dan")
	enrollUnder(t, l, "vote", unlocked, "2", "eve")
	enroll(t, l, "vote", "2", "fay")
	for i, name := range []string{"hooli", "initech"} { // who have bought nothing
		_, _, err = l.submit(t.Context(), func(s *state) ([]change, error) {
			return []change{&buyerNamed{uint32(i + 1), name}, &settled{key: name, digest: [32]byte{1}, first: s.counters.events + 1, final: true}}, nil
		})
		must(t, err)
	}
	sell(t, l, purchase(t, "1", "acme", "0.5", "cid"))
	sell(t, l, purchase(t, "2", "zeta", "0.5", "cid"))
	release(t, l, releaseOf(t, "3", "ann", "0.25"))
	answerTo(t, l, inquire(t, "4", "majority:yes", "0.1", ballots("ann"), "ann", "bob"))
	r := order(t, "5", "0.25", "ann", "zoe")
	r.Partial = true
	carryOut(t, l, r)
	must(t, l.Withdraw(t.Context(), "6", "dan"))
	g := ground{log: logOf(t, pairs(t, s)), stated: map[string]stated{}, forgotten: map[string]forgotten{}}
	must(t, l.view(t.Context(), func(s *state) error {
		for _, name := range []string{"ann", "bob", "cid", "dan", "eve", "fay", "zoe"} {
			c, err := s.forget(name)
			must(t, err)
			g.forgotten[name] = *c.(*forgotten)
			if o, known, err := s.object(name); err == nil && known {
				numbers, err := s.eventsAbout(o)
				must(t, err)
				g.stated[name] = stated{name, o.forgotten, numbers, o.account()}
			}
		}
		return nil
	}))
	return g
}

const (
	hooli, initech, acme, zeta = 1, 2, 3, 4 // the buyers' numbers
	third                      = 3          // the number of the next sale
)

// end settles a request that begins behind the ground.
func (g ground) end(edits ...func(*settled)) change {
	c := &settled{key: "x", digest: [32]byte{1}, first: asItBegan, final: true, spent: asItCosts}
	for _, edit := range edits {
		edit(c)
	}
	return c
}

// withSettled puts behind the events of each request, of which the first has a number, the one that settles it, unless
// there is one.
func withSettled(number uint64, changes []change) (all []change) {
	first := number
	for i, c := range changes {
		all = append(all, c)
		next := kind(0)
		if i+1 < len(changes) {
			next = changes[i+1].kind()
		}
		at := number + uint64(len(all)) - 1
		if c.kind() == kindSettled {
			first = at + 1
		}
		if !endsRequest(c, next, changes[min(i+1, len(changes)-1)]) {
			continue
		}
		end := &settled{key: fmt.Sprint("settles ", at), digest: [32]byte{9}, first: first, final: true, spent: asItCosts}
		for n := first; n <= at; n++ {
			end.account(all[n-number], n)
		}
		all = append(all, end)
		first = at + 2
	}
	return all
}

// endsRequest tells whether an event is the last one of a request, but for the one that settles it.
func endsRequest(c change, next kind, after change) bool {
	goesOn := map[kind][]kind{
		kindPolicy: {kindEnrolled}, kindBuyer: {kindReserved, kindSale}, kindBound: {kindReleased, kindCharged, kindSale, kindSettled},
		kindCharged: {kindCharged, kindAnswered}, kindAnswered: {kindRefused}, kindRefused: {kindRefused}, kindSold: {kindRefused}, kindHeld: {kindRefused},
	}
	switch c.kind() {
	case kindSettled, kindReserved, kindSale, kindRefused, kindTruthKey, kindNoiseKey, kindCreated:
		return false
	case kindHeld, kindSold:
		number, _ := shareOf(c)
		if other, is := shareOf(after); is && other == number && next != 0 {
			return false
		}
	}
	return next != kindSettled && !slices.Contains(goesOn[c.kind()], next)
}

// account adds what an event of a request comes to.
func (c *settled) account(one change, number uint64) {
	switch one := one.(type) {
	case *enrolled:
		c.counts[enrolledNow]++
	case *released:
		c.counts[verdictOf(one.method)]++
	case *sold:
		c.counts[verdictOf(one.method)]++
		c.sale = one.sale
	case *held:
		c.sale = one.sale
	case *answered:
		c.answer = number
		if c.counts[drawn] = 1; one.method == methodDegrade || one.method == methodInsert {
			c.counts = counts{derived: 1}
		}
	case *objectRefused:
		c.refused++
	case *withdrawn:
		c.alone, c.object = true, one.object
	case *stated:
		c.alone, c.object = true, one.object
	}
}

func verdictOf(m method) verdict {
	return map[method]verdict{methodRaise: drawn, methodResale: reused, methodDegrade: derived, methodInsert: derived}[m]
}

// pairOfLogs is a forgery, and what it was made from.
type pairOfLogs struct {
	sound, forged []change
	why           string
	after         time.Duration // since epoch
}

func (g ground) sales(t *testing.T) map[string]pairOfLogs {
	t.Helper()
	again, fresh := response{value{index: 1}, methodResale}, response{value{index: 1}, methodRaise}
	draw, resale := saleTally{draws: 1}, saleTally{resales: 1}
	of := func(buyer uint32, epsilon string, price uint64) deal { return aSale(t, third, buyer, epsilon, price) }
	sale := func(d deal, n saleTally, name string, r response) []change {
		return []change{&saleMade{d, n}, &sold{name, third, d.price, r}}
	}
	hold := func(d deal, name string) []change {
		return []change{&reserved{d, epoch().Add(200 * time.Hour)}, &held{name, third, d.price}}
	}
	first := g.log[indexOf(t, g.log, func(c change) bool { s, ok := c.(*sold); return ok && s.sale == 1 })].change.(*sold).response
	again.value = first.value
	settledSale := func(refused uint64, end *settled, left ...change) []change {
		d := of(acme, "0.5", 0)
		d.refused = refused
		changes := sale(d, resale, "cid", again)
		return append(append(changes, left...), end)
	}
	refusal := func(name string) change {
		return &objectRefused{1, Refusal{Object: name, Reason: NotEnrolled, Asked: eps(t, "0.5"), Helps: HelpsEnrolling}}
	}
	ended := func(sale, refused uint64) *settled {
		return g.end(func(c *settled) { c.sale, c.refused, c.counts = sale, refused, counts{reused: 1} }).(*settled)
	}
	reserving := func(number uint64, buyer uint32, price uint64) []change { // cid at 0.75
		d := aSale(t, number, buyer, "0.75", price)
		return []change{&reserved{d, epoch().Add(200 * time.Hour)}, &held{"cid", number, price}}
	}
	taking := func(number uint64, buyer uint32, price uint64, r response) []change {
		n := saleTally{draws: 1}
		if r.method == methodResale {
			n = saleTally{resales: 1}
		}
		if buyer == acme || buyer == zeta {
			n.upgrades = 1
		}
		return []change{&saleMade{aSale(t, number, buyer, "0.75", price), n}, &sold{"cid", number, price, r}}
	}
	sameAgain := response{fresh.value, methodResale}
	bothReserve := slices.Concat(reserving(third, hooli, 75), reserving(third+1, acme, 25))
	bothBuy := slices.Concat(bothReserve, taking(third, hooli, 75, fresh), taking(third+1, acme, 25, sameAgain))
	eve := func(e1, e2 string, price uint64) []change { // two orders for eve, of different buyers
		second := aSale(t, third+1, zeta, e2, price)
		return append(sale(of(acme, e1, 50), draw, "eve", fresh), &saleMade{second, draw}, &sold{"eve", third + 1, price, fresh})
	}
	return map[string]pairOfLogs{
		"sold too cheap":                {sound: sale(of(acme, "1", 50), saleTally{draws: 1, upgrades: 1}, "cid", fresh), forged: sale(of(acme, "1", 49), saleTally{draws: 1, upgrades: 1}, "cid", fresh), why: "the price is 50, not 49"},
		"sold too dear":                 {sound: sale(of(acme, "0.5", 0), resale, "cid", again), forged: sale(of(acme, "0.5", 1), resale, "cid", again), why: "the price is 0, not 1"},
		"held too cheap":                {sound: hold(of(zeta, "1", 50), "cid"), forged: hold(of(zeta, "1", 0), "cid"), why: "the price is 50, not 0"},
		"held too dear":                 {sound: hold(of(hooli, "1", 100), "cid"), forged: hold(of(hooli, "1", 101), "cid"), why: "the price is 100, not 101"},
		"sold to whom it bars":          {sound: sale(of(hooli, "1", 100), draw, "cid", fresh), forged: sale(of(initech, "1", 100), draw, "cid", fresh), why: `it is not for sale to "initech"`},
		"held for whom it bars":         {sound: hold(of(hooli, "1", 100), "cid"), forged: hold(of(initech, "1", 100), "cid"), why: `it is not for sale to "initech"`},
		"sold off the stride":           {sound: sale(of(hooli, "0.75", 75), draw, "cid", fresh), forged: sale(of(hooli, "0.7", 70), draw, "cid", fresh), why: "it is not for sale"},
		"held off the stride":           {sound: hold(of(hooli, "0.75", 75), "cid"), forged: hold(of(hooli, "0.7", 70), "cid"), why: "it is not for sale"},
		"sold above the offer":          {sound: sale(of(hooli, "1.5", 150), draw, "cid", fresh), forged: sale(of(hooli, "1.75", 175), draw, "cid", fresh), why: "it is not for sale"},
		"held above the offer":          {sound: hold(of(hooli, "1.5", 150), "cid"), forged: hold(of(hooli, "1.75", 175), "cid"), why: "it is not for sale"},
		"sold to one too many":          {sound: sale(of(acme, "0.5", 0), resale, "cid", again), forged: sale(of(hooli, "0.5", 50), resale, "cid", again), why: "2 buyers hold it at ε=0.5, and 0 have reserved it, of 2 who may"},
		"held for one too many":         {sound: hold(of(acme, "0.5", 0), "cid"), forged: hold(of(hooli, "0.5", 50), "cid"), why: "2 buyers hold it at ε=0.5, and 0 have reserved it, of 2 who may"},
		"reserved by one too many":      {sound: bothReserve, forged: slices.Concat(bothReserve, reserving(third+2, zeta, 25)), why: "0 buyers hold it at ε=0.75, and 2 have reserved it, of 2 who may"},
		"sold where all is reserved":    {sound: bothBuy, forged: slices.Concat(bothReserve, taking(third+2, zeta, 25, fresh)), why: "0 buyers hold it at ε=0.75, and 2 have reserved it, of 2 who may"},
		"sold where the rest is held":   {sound: slices.Concat(reserving(third, hooli, 75), taking(third+1, acme, 25, fresh)), forged: slices.Concat(reserving(third, hooli, 75), taking(third+1, acme, 25, fresh), taking(third+2, zeta, 25, sameAgain)), why: "1 buyers hold it at ε=0.75, and 1 have reserved it, of 2 who may"},
		"reserved where the rest is so": {sound: bothBuy, forged: slices.Concat(reserving(third, hooli, 75), taking(third, hooli, 75, fresh), reserving(third+1, acme, 25), reserving(third+2, zeta, 25)), why: "1 buyers hold it at ε=0.75, and 1 have reserved it, of 2 who may"},
		"sold without terms":            {sound: sale(of(acme, "0.5", 50), draw, "eve", fresh), forged: sale(of(acme, "0.5", 0), draw, "fay", fresh), why: "it is not for sale"},
		"held without terms":            {sound: hold(of(acme, "0.5", 50), "eve"), forged: hold(of(acme, "0.5", 0), "fay"), why: "it is not for sale"},
		"an order too little":           {sound: sale(of(acme, "0.5", 50), draw, "eve", fresh), forged: sale(of(acme, "0.500000001", 51), draw, "eve", fresh), why: "above the ceiling of 0.5"},
		"an order too little, 2":        {sound: eve("0.5", "1", 100), forged: eve("0.5", "1.000000001", 101), why: "above the ceiling of 1"},
		"more in the tally":             {sound: sale(of(acme, "0.5", 50), draw, "eve", fresh), forged: sale(of(acme, "0.5", 50), saleTally{draws: 1, resales: 1}, "eve", fresh), why: "counts other objects than it has"},
		"less in the tally":             {sound: sale(of(acme, "0.5", 50), draw, "eve", fresh), forged: sale(of(acme, "0.5", 50), saleTally{}, "eve", fresh), why: "counts other objects than it has"},
		"upgrades in the tally":         {sound: sale(of(acme, "0.5", 50), draw, "eve", fresh), forged: sale(of(acme, "0.5", 50), saleTally{draws: 1, upgrades: 2}, "eve", fresh), why: "counts other objects than it has"},
		"settles another's sale":        {sound: settledSale(0, ended(third, 0)), forged: settledSale(0, ended(2, 0)), why: "settles sale 2, which is another's"},
		"settles no sale":               {sound: settledSale(0, ended(third, 0)), forged: settledSale(0, ended(third+1, 0)), why: "settles sale 4, which is another's"},
		"one left out":                  {sound: settledSale(1, ended(third, 1), refusal("zoe")), forged: settledSale(0, ended(third, 1), refusal("zoe")), why: "settles sale 3, which is another's"},
		"somebody else left out":        {sound: settledSale(0, ended(third, 0)), forged: settledSale(1, ended(third, 0), &withdrawn{"bob"}), why: "settles sale 3, which is another's"},
		"nobody left out":               {sound: settledSale(0, ended(third, 0)), forged: settledSale(1, ended(third, 0)), why: "settles sale 3, which is another's"},
		"settled late": {
			sound:  settledSale(0, ended(third, 0)),
			forged: append(sale(of(acme, "0.5", 0), resale, "cid", again), &withdrawn{"bob"}, ended(third, 0)), why: "settles sale 3, which is another's",
		},
	}
}

// A sale is over when the terms say so.
func TestNothingIsSoldAfterTheMarketHasClosed(t *testing.T) {
	g := newGround(t, nil)
	d := aSale(t, third, hooli, "1", 100)
	for name, changes := range map[string][]change{
		"sold": {&saleMade{d, saleTally{draws: 1}}, &sold{"cid", third, 100, response{value{index: 1}, methodRaise}}},
		"held": {&reserved{d, epoch().Add(200 * time.Hour)}, &held{"cid", third, 100}},
	} {
		at := func(after time.Duration) error {
			log := followedBy(withSettled(uint64(len(g.log))+1, changes)...)(slices.Clone(g.log))
			for i := range log[len(g.log):] {
				log[len(g.log)+i].time = epoch().Add(after)
			}
			return replayWhole(&kvtest.Memory{}, log)
		}
		if err := at(100*time.Hour - 1); err != nil {
			t.Errorf("%s in time: %v", name, err)
		}
		wantForged(t, at(100*time.Hour), "it is not for sale")
	}
}

// A capture counts who else has reserved the level, also if the event by which it was reserved did not; and an object
// of it costs no more than was reserved, whatever the terms have become.
func TestACaptureIsComparedWithItsReservation(t *testing.T) {
	g := newGround(t, nil)
	d := aSale(t, third, hooli, "0.75", 75)
	reservation := withSettled(uint64(len(g.log))+1, []change{&reserved{d, epoch().Add(200 * time.Hour)}, &held{"cid", third, 75}})
	capture := func(price uint64) []change {
		d := d
		d.price = price
		return withSettled(uint64(len(g.log)+len(reservation))+1, []change{&saleMade{d, saleTally{draws: 1}}, &sold{"cid", third, price, response{value{index: 1}, methodRaise}}})
	}
	log := followedBy(reservation...)(slices.Clone(g.log))
	for name, one := range map[string]struct {
		why   string
		price uint64 // due by the terms as they are now
		spoil func(*state)
	}{
		"as reserved": {"", 75, func(*state) {}},
		"one more has reserved": {"0 buyers hold it at ε=0.75, and 2 have reserved it, of 2 who may", 75, func(s *state) {
			o, _, err := s.object("cid")
			must(t, err)
			for number, buyer := range map[uint64]uint32{8: acme, 9: zeta} {
				r := sale{status: saleReserved, buyer: buyer, question: 1, epsilon: d.epsilon, objects: 1, granted: s.counters.events, expires: epoch().Add(time.Hour)}
				must(t, s.putSale(number, r))
				o.held = append(o.held, number)
			}
			must(t, s.putObject("cid", o))
		}},
		"dearer": {"was reserved for 75", 76, func(s *state) {
			c, _, err := s.chain(1, "cid")
			must(t, err)
			dearer := market(t, "1.5", func(m *policy.Market) { m.Floor = 76 })
			must(t, s.put(bucketPolicies, policyNumberKey(c.policy), []byte(dearer.String())))
			// What the sale as a whole may cost was higher, for others.
			r, err := s.sale(third)
			must(t, err)
			r.price = 100
			must(t, s.putSale(third, r))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := replayed(t, log)
			err := m.Update(func(w kv.Writer) error {
				s, err := writeState(w, epoch())
				must(t, err)
				one.spoil(s)
				for _, c := range capture(one.price) {
					if err := s.append(s.costing(event{number: s.counters.events + 1, time: epoch(), change: c})); err != nil {
						return err
					}
				}
				return nil
			})
			if one.why == "" {
				must(t, err)
				return
			}
			wantForged(t, err, one.why)
		})
	}
}

func (g ground) definitions(t *testing.T) map[string]pairOfLogs {
	t.Helper()
	q := func(number uint32, name string, values ...string) []change {
		return []change{&questionDefined{number, Question{Name: name, Values: values, Encoding: Direct}}}
	}
	p := func(json string) []change { return []change{&policyDefined{3, json}} }
	in := func(name string, question, policy uint32, limit string) []change {
		return []change{&enrolled{name, question, policy, 0, eps(t, limit)}}
	}
	b := func(name string) []change { return []change{&buyerNamed{5, name}} }
	fixed := policy.Fixed(eps(t, "0.125")).String()
	bob := g.forgotten["bob"]
	questions, enrolment := q(3, "hobby", "chess", "go"), in("new", 1, 1, "1")
	return map[string]pairOfLogs{
		"a question's name twice":    {sound: questions, forged: q(3, "vote", "chess", "go"), why: `question "vote" is defined twice`},
		"a question of one value":    {sound: questions, forged: q(3, "hobby", "chess"), why: "has 1 values"},
		"a question of no value":     {sound: questions, forged: q(3, "hobby"), why: "has 0 values"},
		"a value twice":              {sound: questions, forged: q(3, "hobby", "go", "go"), why: "twice"},
		"a question's name is odd":   {sound: questions, forged: q(3, "hob\x00by", "chess", "go"), why: "control character"},
		"a value is odd":             {sound: questions, forged: q(3, "hobby", "chess", "g\no"), why: "control character"},
		"a value is empty":           {sound: questions, forged: q(3, "hobby", "chess", ""), why: "is empty"},
		"a policy twice":             {sound: []change{&policyDefined{4, fixed}}, forged: []change{&policyDefined{4, g.policy(t, 1)}}, why: "is there already"},
		"a policy with a space":      {sound: []change{&policyDefined{4, fixed}}, forged: []change{&policyDefined{4, strings.Replace(fixed, ":", ": ", 1)}}, why: "is not canonical"},
		"a policy that there is not": {sound: []change{&policyDefined{4, fixed}}, forged: []change{&policyDefined{4, `{"kind":"martian"}`}}, why: "martian"},
		"a limit that is void": {
			sound:  []change{&policyDefined{4, `{"kind":"market","max":"1","price":[["1",1]],"stride":"0.5","holders":1}`}},
			forged: []change{&policyDefined{4, `{"kind":"market","max":"1","price":[["1",1]],"holders":1}`}}, why: "holders needs a stride or levels",
		},
		"a policy's number":             {sound: []change{&policyDefined{4, fixed}}, forged: p(fixed), why: "policy 3 follows on policy 3"},
		"a buyer's name is odd":         {sound: b("pied piper"), forged: b("pied\tpiper"), why: "control character"},
		"a buyer without a name":        {sound: b("pied piper"), forged: b(""), why: "is empty"},
		"an unknown question":           {sound: enrolment, forged: in("new", 3, 1, "1"), why: "enrolled in question 3"},
		"no question":                   {sound: enrolment, forged: in("new", 0, 1, "1"), why: "enrolled in question 0"},
		"an unknown policy":             {sound: enrolment, forged: in("new", 1, 4, "1"), why: "under policy 4"},
		"no cap":                        {sound: enrolment, forged: in("new", 1, 1, "0"), why: "with the cap 0"},
		"an object's name is odd":       {sound: enrolment, forged: in("ne\x7fw", 1, 1, "1"), why: "control character"},
		"an object's name ends a key":   {sound: enrolment, forged: in("new\x00", 1, 1, "1"), why: "control character"},
		"an object's name is too long":  {sound: in(strings.Repeat("n", 256), 1, 1, "1"), forged: in(strings.Repeat("n", 257), 1, 1, "1"), why: "257 bytes"},
		"an object's name is no UTF-8":  {sound: enrolment, forged: in("n\xffw", 1, 1, "1"), why: "is not UTF-8"},
		"an object without a name":      {sound: enrolment, forged: in("", 1, 1, "1"), why: "is empty"},
		"another cap elsewhere":         {sound: in("bob", 2, 0, "2"), forged: in("bob", 2, 0, "3"), why: "under other ceilings"},
		"another policy when back":      {sound: append([]change{&withdrawn{"bob"}}, in("bob", 1, 1, "2")...), forged: append([]change{&withdrawn{"bob"}}, in("bob", 1, 2, "2")...), why: "under other ceilings"},
		"withdrawn twice":               {sound: []change{&withdrawn{"bob"}}, forged: []change{&withdrawn{"dan"}}, why: `"dan" withdraws twice`},
		"an epoch of nothing":           {sound: []change{&epochBegun{"bob", 1}}, forged: []change{&epochBegun{"fay", 1}}, why: "nothing happened in the last one"},
		"an epoch twice":                {sound: []change{&epochBegun{"bob", 1}}, forged: []change{&epochBegun{"bob", 1}, &epochBegun{"bob", 1}}, why: "nothing happened in the last one"},
		"an epoch of another question":  {sound: []change{&epochBegun{"bob", 1}}, forged: []change{&epochBegun{"bob", 2}}, why: "without being enrolled"},
		"an epoch after leaving":        {sound: []change{&epochBegun{"bob", 1}}, forged: []change{&withdrawn{"bob"}, &epochBegun{"bob", 1}}, why: "after it has withdrawn"},
		"a stranger withdraws":          {sound: []change{&withdrawn{"bob"}}, forged: []change{&withdrawn{"zoe"}}, why: "without being there"},
		"withdrawn after all is forgot": {sound: []change{&bob, &enrolled{"bob", 1, 1, 0, eps(t, "2")}, &withdrawn{"bob"}}, forged: []change{&bob, &withdrawn{"bob"}}, why: `"bob" withdraws twice`},
	}
}

// policy returns what the ground says of a policy.
func (g ground) policy(t *testing.T, number uint32) string {
	t.Helper()
	i := indexOf(t, g.log, func(c change) bool { p, ok := c.(*policyDefined); return ok && p.number == number })
	return g.log[i].change.(*policyDefined).json
}

func (g ground) draws(t *testing.T) map[string]pairOfLogs {
	t.Helper()
	raise := func(name string, question uint32, epsilon string) []change {
		return []change{&released{name, question, eps(t, epsilon), response{value{index: 1}, methodRaise}}}
	}
	charge := func(name string, epsilon string) change { return &charged{name, 1, eps(t, epsilon)} }
	bobs := &answered{question: 1, query: "winner", panel: sumOf([]string{"bob"}), objects: 1, epsilon: eps(t, "0.1"), result: result{output: 1}, method: methodFresh}
	with := func(a answered, edit func(*answered)) change { edit(&a); return &a }
	answer := []change{charge("bob", "0.1"), bobs}
	former := *g.log[indexOf(t, g.log, func(c change) bool { return c.kind() == kindAnswered })].change.(*answered)
	lower := func(edit func(*answered)) []change {
		return []change{with(former, func(a *answered) { a.epsilon, a.method = eps(t, "0.05"), methodDegrade; edit(a) })}
	}
	nothing := func(*answered) {}
	// A raise of the former answer from ε=0.1, which costs everybody the difference.
	to := func(epsilon, cost string, how method, edit func(*answered)) (changes []change) {
		if cost != "" {
			changes = []change{charge("ann", cost), charge("bob", cost)}
		}
		return append(changes, with(former, func(a *answered) { a.epsilon, a.method, a.score = eps(t, epsilon), how, -7; edit(a) }))
	}
	raised := to("0.2", "0.1", methodRaise, nothing)
	after := func(first []change, then ...change) []change { return append(slices.Clone(first), then...) }
	bobForgotten := g.forgotten["bob"]
	bobBack := []change{&bobForgotten, &enrolled{"bob", 1, 1, 0, eps(t, "2")}}
	both := []change{charge("ann", "0.1"), charge("bob", "0.1"), with(*bobs, func(a *answered) { a.objects, a.panel = 2, sumOf([]string{"ann", "bob"}) })}
	three := sumOf([]string{"ann", "bob", "zoe"}).partly()
	partly := func(panel panelSum, refused ...string) []change { // ann and bob are charged
		changes := []change{both[0], both[1], with(*bobs, func(a *answered) { a.objects, a.panel = 2, panel })}
		for _, name := range refused {
			changes = append(changes, &objectRefused{1, Refusal{Object: name, Reason: NotEnrolled, Asked: eps(t, "0.1"), Helps: HelpsEnrolling}})
		}
		end := func(c *settled) { c.counts[drawn], c.answer, c.refused = 1, uint64(len(g.log))+3, uint64(len(refused)) }
		return append(changes, g.end(end))
	}
	leaving := partly(three, "zoe")
	return map[string]pairOfLogs{
		"about others":                   {sound: both, forged: partly(sumOf([]string{"bob", "fay"})), why: "are not those it is about, without 0"},
		"about one more, left out":       {sound: leaving, forged: partly(three), why: "are not those it is about, without 0"},
		"about somebody else, left out":  {sound: leaving, forged: partly(three, "zac"), why: "who was charged for the answer and who was refused"},
		"one more is left out":           {sound: leaving, forged: partly(three, "zac", "zoe"), why: "who was charged for the answer and who was refused"},
		"left out of a whole answer":     {sound: both, forged: partly(sumOf([]string{"ann", "bob"}), "zoe"), why: "are not those it is about, without 1"},
		"left out, and it is whole":      {sound: leaving, forged: partly(sumOf([]string{"ann", "bob", "zoe"}), "zoe"), why: "who was charged for the answer and who was refused"},
		"one charged for all":            {sound: both, forged: []change{both[1], both[1], both[2]}, why: `"bob" is charged after "bob"`},
		"charged out of order":           {sound: both, forged: []change{both[1], both[0], both[2]}, why: `"ann" is charged after "bob"`},
		"the former answer is another's": {sound: leaving, forged: append(leaving[:len(leaving)-1:len(leaving)-1], g.end(func(c *settled) { c.counts[drawn], c.answer, c.refused = 1, uint64(len(g.log)), 1 })), why: "settles the answer of event"},
		"released above the ceiling":     {sound: raise("ann", 1, "0.4"), forged: raise("ann", 1, "0.400000001"), why: "above the ceiling of 0.5"}, // 0.1 was for the answer
		"released ahead of time":         {sound: raise("ann", 1, "0.4"), forged: raise("ann", 1, "0.9"), why: "above the ceiling of 0.5", after: 10*time.Hour - 1},
		"released above a later one":     {sound: raise("ann", 1, "0.9"), forged: raise("ann", 1, "0.900000001"), why: "above the ceiling of 1", after: 10 * time.Hour},
		"released above the cap":         {sound: raise("ann", 2, "1.65"), forged: raise("ann", 2, "1.650000001"), why: "more than its cap"},
		"released without an order":      {sound: raise("bob", 1, "0.3"), forged: raise("eve", 1, "0.3"), why: "above the ceiling of 0"},
		"charged above the ceiling":      {sound: []change{charge("bob", "0.4"), with(*bobs, func(a *answered) { a.epsilon = eps(t, "0.4") })}, forged: []change{charge("bob", "0.400000001"), with(*bobs, func(a *answered) { a.epsilon = eps(t, "0.400000001") })}, why: "above the ceiling of 0.5"},
		"charged for no answer":          {sound: answer, forged: answer[:1], why: "1 objects are charged for no answer"},
		"charged, and then something":    {sound: append(slices.Clone(answer), &withdrawn{"bob"}), forged: []change{answer[0], &withdrawn{"bob"}, answer[1]}, why: "charged for no answer"},
		"charged less than it costs":     {sound: answer, forged: []change{charge("bob", "0.099999999"), bobs}, why: "not everybody in the panel"},
		"charged nothing":                {sound: answer, forged: []change{charge("bob", "0"), bobs}, why: "is charged 0"},
		"charged by question":            {sound: answer, forged: []change{charge("bob", "0.1"), with(*bobs, func(a *answered) { a.question = 2 })}, why: "not everybody in the panel"},
		"one charged less":               {sound: both, forged: []change{charge("ann", "0.1"), charge("bob", "0.05"), both[2]}, why: "others otherwise"},
		"one charged for another":        {sound: both, forged: []change{&charged{"ann", 2, eps(t, "0.1")}, charge("bob", "0.1"), both[2]}, why: "others otherwise"},
		"charged in no question":         {sound: answer, forged: []change{&charged{"bob", 2, eps(t, "0.1")}, bobs}, why: "without being enrolled"},
		"charged after it has gone":      {sound: answer, forged: []change{charge("dan", "0.1"), bobs}, why: "after it has withdrawn"},
		"a larger panel":                 {sound: answer, forged: []change{answer[0], with(*bobs, func(a *answered) { a.objects = 2 })}, why: "not everybody in the panel of 2"},
		"a smaller panel":                {sound: both, forged: []change{both[0], both[1], bobs}, why: "not everybody in the panel of 1"},
		"a panel of nobody":              {sound: answer, forged: []change{with(*bobs, func(a *answered) { a.objects = 0 })}, why: "not everybody in the panel of 0"},
		"a free answer":                  {sound: answer, forged: []change{bobs}, why: "not everybody in the panel of 1"},
		"an answer that cannot be":       {sound: answer, forged: []change{answer[0], with(*bobs, func(a *answered) { a.output = 3 })}, why: "3"},
		"a query that there is not":      {sound: answer, forged: []change{answer[0], with(*bobs, func(a *answered) { a.query = "loser" })}, why: "loser"},
		"a query about no value":         {sound: answer, forged: []change{answer[0], with(*bobs, func(a *answered) { a.query = "majority:maybe" })}, why: "maybe"},
		"an answer at 0":                 {sound: answer, forged: []change{with(former, func(a *answered) { a.epsilon, a.method = eps(t, "0"), methodDegrade })}, why: "at ε=0"},
		"a second answer":                {sound: answer, forged: []change{charge("ann", "0.1"), charge("bob", "0.1"), &former}, why: "a second answer at ε=0.1"},
		"a derived answer is charged":    {sound: lower(nothing), forged: append([]change{charge("ann", "0.05"), charge("bob", "0.05")}, lower(nothing)...), why: "not everybody in the panel"},
		"derived from none":              {sound: lower(nothing), forged: lower(func(a *answered) { a.panel[0]++ }), why: "at ε=0.05 by degrade among 0"},
		"derived from below":             {sound: lower(nothing), forged: lower(func(a *answered) { a.epsilon = eps(t, "0.2") }), why: "at ε=0.2 by degrade among 1"},
		"derived about others":           {sound: lower(nothing), forged: lower(func(a *answered) { a.objects = 3 }), why: "is derived from none"},
		"raised for less":                {sound: raised, forged: to("0.2", "0.099999999", methodRaise, nothing), why: "not everybody in the panel"},
		"raised for more":                {sound: raised, forged: to("0.2", "0.15", methodRaise, nothing), why: "not everybody in the panel"},
		"raised for nothing":             {sound: raised, forged: to("0.2", "", methodRaise, nothing), why: "not everybody in the panel of 2"},
		"raised for one alone":           {sound: raised, forged: []change{charge("bob", "0.1"), raised[2]}, why: "not everybody in the panel of 2"},
		"raised about fewer":             {sound: raised, forged: []change{charge("bob", "0.1"), with(former, func(a *answered) { a.epsilon, a.method, a.objects = eps(t, "0.2"), methodRaise, 1 })}, why: "an answer about 1 objects is derived from none"},
		"fresh for the difference":       {sound: raised, forged: to("0.2", "0.1", methodFresh, nothing), why: "not everybody in the panel", after: 10 * time.Hour},
		"raised in full":                 {sound: to("0.2", "0.2", methodFresh, nothing), forged: to("0.2", "0.2", methodRaise, nothing), why: "not everybody in the panel", after: 10 * time.Hour},
		"raised below the top":           {sound: after(raised, to("0.3", "0.1", methodRaise, nothing)...), forged: after(raised, to("0.15", "0.05", methodRaise, nothing)...), why: "a raise to ε=0.15, with 1 answers below and 1 above", after: 10 * time.Hour},
		"raised from none":               {sound: raised, forged: to("0.2", "0.1", methodRaise, func(a *answered) { a.panel[0]++ }), why: "a raise to ε=0.2, with 0 answers below and 0 above"},
		"raised to where it is":          {sound: raised, forged: to("0.1", "0.1", methodRaise, nothing), why: "a second answer at ε=0.1"},
		"raised as an output":            {sound: raised, forged: to("0.2", "0.1", methodRaise, func(a *answered) { a.result = result{output: 1} }), why: "is derived from none"},
		"raised from an output":          {sound: after(answer, charge("bob", "0.2"), with(*bobs, func(a *answered) { a.epsilon = eps(t, "0.2") })), forged: after(answer, charge("bob", "0.1"), with(*bobs, func(a *answered) { a.epsilon, a.method, a.result = eps(t, "0.2"), methodRaise, result{scored: true} })), why: "a score for a query with 3 answers"},
		"an output that there is not":    {sound: to("0.2", "0.2", methodFresh, nothing), forged: to("0.2", "0.2", methodFresh, func(a *answered) { a.result = result{output: 2} }), why: "2", after: 10 * time.Hour},
		"a score for the winner":         {sound: answer, forged: []change{answer[0], with(*bobs, func(a *answered) { a.result = result{scored: true} })}, why: "a score for a query with 3 answers"},
		"fresh below one that is there":  {sound: to("0.2", "0.2", methodFresh, nothing), forged: to("0.05", "0.05", methodFresh, nothing), why: "a fresh answer at ε=0.05, below one that is there", after: 10 * time.Hour},
		"inserted below all":             {sound: lower(nothing), forged: lower(func(a *answered) { a.method = methodInsert }), why: "at ε=0.05 by insert among 1"},
		"degraded between two":           {sound: after(raised, to("0.15", "", methodInsert, nothing)...), forged: after(raised, to("0.15", "", methodDegrade, nothing)...), why: "at ε=0.15 by degrade among 2"},
		"inserted above all":             {sound: after(raised, to("0.15", "", methodInsert, nothing)...), forged: after(raised, to("0.25", "", methodInsert, nothing)...), why: "at ε=0.25 by insert among 2"},
		"inserted as an output":          {sound: after(raised, to("0.15", "", methodInsert, nothing)...), forged: after(raised, to("0.15", "", methodDegrade, func(a *answered) { a.result = result{output: 1} })...), why: "is derived from none"},
		"inserted for a charge":          {sound: after(raised, to("0.15", "", methodInsert, nothing)...), forged: after(raised, to("0.15", "0.05", methodInsert, nothing)...), why: "not everybody in the panel", after: 10 * time.Hour},
		"raised after forgetting":        {sound: after(bobBack, to("0.2", "0.2", methodFresh, nothing)...), forged: after(bobBack, raised...), why: "is raised after somebody in its panel was forgotten", after: 10 * time.Hour},
		"inserted between beginnings":    {sound: after(after(bobBack, to("0.2", "0.2", methodFresh, nothing)...), to("0.15", "", methodDegrade, nothing)...), forged: after(after(bobBack, to("0.2", "0.2", methodFresh, nothing)...), to("0.15", "", methodInsert, nothing)...), why: "at ε=0.15 by insert among 2", after: 10 * time.Hour},
		"a response that there is not":   {sound: []change{&released{"ann", 2, eps(t, "0.1"), response{value{index: 1}, methodRaise}}}, forged: []change{&released{"ann", 2, eps(t, "0.1"), response{value{index: 2}, methodRaise}}}, why: "a response of value 2"},
		"drawn below the current level":  {sound: raise("ann", 1, "0.3"), forged: raise("ann", 1, "0.2"), why: "by raise"},
	}
}

func (g ground) requests(t *testing.T) map[string]pairOfLogs {
	t.Helper()
	left := func(names ...string) (all []change) {
		for _, name := range names {
			all = append(all, &objectRefused{1, Refusal{Object: name, Reason: NotEnrolled, Asked: eps(t, "0.5"), Helps: HelpsEnrolling}})
		}
		return all
	}
	refused := func(n uint64) change { return g.end(func(c *settled) { c.refused = n }) }
	next := uint64(len(g.log)) + 1
	answer := uint64(indexOf(t, g.log, func(c change) bool { return c.kind() == kindAnswered })) + 1
	again := func(event uint64) change {
		return g.end(func(c *settled) { c.answer, c.counts = event, counts{reused: 1} })
	}
	raise := func(name string) change {
		return &released{name, 1, eps(t, "0.3"), response{value{index: 1}, methodRaise}}
	}
	nothing := func(*settled) {}
	told := func(edit func(*settled)) []change {
		return []change{raise("bob"), g.end(func(c *settled) { c.counts[drawn] = 1; edit(c) })}
	}
	part := func(done uint64) []change {
		return told(func(c *settled) { c.final, c.done = false, done })
	}
	return map[string]pairOfLogs{
		"a million raised":            {sound: told(nothing), forged: told(func(c *settled) { c.counts[drawn] = 1_000_000 }), why: "counts [1000000 0 0]"},
		"two raised":                  {sound: told(nothing), forged: told(func(c *settled) { c.counts[drawn] = 2 }), why: "counts [2 0 0], where 0 objects are enrolled, 1 raised"},
		"none raised":                 {sound: told(nothing), forged: told(func(c *settled) { c.counts = counts{} }), why: "counts [0 0 0], where 0 objects are enrolled, 1 raised"},
		"derived, not raised":         {sound: told(nothing), forged: told(func(c *settled) { c.counts = counts{derived: 1} }), why: "counts [0 0 1]"},
		"more had it than there are":  {sound: told(func(c *settled) { c.counts[reused] = 2 }), forged: told(func(c *settled) { c.counts[reused] = 1000 }), why: "counts [1 1000 0], of"},
		"it cost less":                {sound: told(nothing), forged: told(func(c *settled) { c.spent, c.first = 1, next }), why: "costs 1 nano-nats, its events 300000000"},
		"it cost more":                {sound: told(nothing), forged: told(func(c *settled) { c.spent, c.first = 300_000_001, next }), why: "costs 300000001 nano-nats, its events 300000000"},
		"it began before":             {sound: told(nothing), forged: told(func(c *settled) { c.first = next - 1 }), why: "where 1 events are to be settled"},
		"of those to come":            {sound: told(nothing), forged: told(func(c *settled) { c.through = next + 1 }), why: "of objects up to event"},
		"another sweep than was":      {sound: told(func(c *settled) { c.swept = []sweptCount{{1, 1, 2, 0}}; c.counts[sweepUnchanged] = 2 }), forged: told(func(c *settled) { c.swept = []sweptCount{{1, 0, 2, 0}}; c.counts = counts{0, 2, 0} }), why: "raised 0 chains of question 1, where 1 were raised"},
		"a sweep of another question": {sound: told(func(c *settled) { c.swept = []sweptCount{{1, 1, 2, 0}}; c.counts[sweepUnchanged] = 2 }), forged: told(func(c *settled) { c.swept = []sweptCount{{2, 1, 2, 0}}; c.counts[sweepUnchanged] = 2 }), why: "raised 1 chains of question 2, where 0 were raised"},
		"a sweep of other counts":     {sound: told(func(c *settled) { c.swept = []sweptCount{{1, 1, 2, 0}}; c.counts[sweepUnchanged] = 2 }), forged: told(func(c *settled) { c.swept = []sweptCount{{1, 1, 2, 0}} }), why: "counts [1 0 0], its questions [1 2 0]"},
		"more is dealt with":          {sound: part(1), forged: part(2), why: "has dealt with 2 objects, with 0 of them before and 1 now"},
		"one refused, none counted":   {sound: append(left("zoe"), refused(1)), forged: append(left("zoe"), refused(0)), why: "refuses 0 objects where 1 were named"},
		"one refused, two counted":    {sound: append(left("new", "zoe"), refused(2)), forged: append(left("zoe"), refused(2)), why: "refuses 2 objects where 1 were named"},
		"none refused, one counted":   {sound: []change{refused(0)}, forged: []change{refused(1)}, why: "refuses 1 objects where 0 were named"},
		"refused by no request":       {sound: append(left("zoe"), refused(1)), forged: left("zoe"), why: "1 refusals"},
		"refused, and then something": {sound: append([]change{&withdrawn{"bob"}}, append(left("zoe"), refused(1))...), forged: append(left("zoe"), &withdrawn{"bob"}, refused(1)), why: "1 objects are refused by no request"},
		"a name that cannot be":       {sound: append(left("new"), refused(1)), forged: append(left("ne\nw"), refused(1)), why: "control character"},
		"nobody is refused":           {sound: append(left("new"), refused(1)), forged: append(left(""), refused(1)), why: "is empty"},
		"begun by no event":           {sound: []change{g.end()}, forged: []change{g.end(func(c *settled) { c.first = 0 })}, why: "begun by event 0"},
		"begun after its end":         {sound: []change{g.end()}, forged: []change{g.end(func(c *settled) { c.first = next + 1 })}, why: "begun by event"},
		"answered after its end":      {sound: []change{again(answer)}, forged: []change{again(next)}, why: "settles the answer of event"},
		"answered by something else":  {sound: []change{again(answer)}, forged: []change{again(answer - 1)}, why: "which is none"},
		"answered, and none counted":  {sound: []change{again(answer)}, forged: []change{g.end(func(c *settled) { c.answer = answer })}, why: "counts [0 0 0]"},
		"answered again, and drawn":   {sound: []change{again(answer)}, forged: []change{g.end(func(c *settled) { c.answer, c.counts = answer, counts{drawn: 1} })}, why: "counts [1 0 0]"},
		"answered again, without zoe": {sound: []change{again(answer)}, forged: append(left("zoe"), g.end(func(c *settled) { c.answer, c.counts, c.refused = answer, counts{reused: 1}, 1 })), why: "left out 0, or others"},
		"at an end, and not":          {sound: []change{g.end(func(c *settled) { c.final, c.object = false, "ann" })}, forged: []change{g.end(func(c *settled) { c.object = "ann" })}, why: "settled as one that it is not"},
		"stands at an odd name":       {sound: []change{g.end(func(c *settled) { c.final, c.object = false, "new" })}, forged: []change{g.end(func(c *settled) { c.final, c.object = false, "\t" })}, why: "control character"},
		"done twice":                  {sound: []change{g.end(func(c *settled) { c.final = false }), g.end()}, forged: []change{g.end(), g.end()}, why: `request "x" is settled twice`},
		"a part of another":           {sound: []change{g.end(func(c *settled) { c.final = false }), g.end()}, forged: []change{g.end(func(c *settled) { c.final = false }), g.end(func(c *settled) { c.digest[0]++ })}, why: `request "x" is settled twice`},
	}
}

func (g ground) ends(t *testing.T) map[string]pairOfLogs {
	t.Helper()
	ann, zoe := g.forgotten["ann"], g.forgotten["zoe"]
	forgets := func(c forgotten, edit func(*forgotten)) []change {
		c.chains = slices.Clone(c.chains)
		edit(&c)
		return []change{&c}
	}
	states := func(name string, edit func(*stated)) []change {
		c := g.stated[name]
		c.events = slices.Clone(c.events)
		edit(&c)
		return []change{&c}
	}
	all := forgets(ann, func(*forgotten) {})
	stranger := forgets(zoe, func(*forgotten) {})
	whole := states("ann", func(*stated) {})
	one := nano(t, 1)
	out := map[string]pairOfLogs{
		"more events":                    {sound: all, forged: forgets(ann, func(c *forgotten) { c.events++ }), why: "events are forgotten"},
		"fewer events":                   {sound: all, forged: forgets(ann, func(c *forgotten) { c.events-- }), why: "events are forgotten"},
		"no events":                      {sound: all, forged: forgets(ann, func(c *forgotten) { c.events = 0 }), why: "leaves behind what it cannot have"},
		"no end of events":               {sound: all, forged: forgets(ann, func(c *forgotten) { c.events = 1<<64 - 1 }), why: "events are forgotten"},
		"forgotten with another cap":     {sound: all, forged: forgets(ann, func(c *forgotten) { c.cap = plus(c.cap, one) }), why: "what it has not spent"},
		"forgotten without a cap":        {sound: all, forged: forgets(ann, func(c *forgotten) { *c = forgotten{object: c.object, events: c.events} }), why: "what it has not spent"},
		"forgotten with a lower sum":     {sound: all, forged: forgets(ann, func(c *forgotten) { c.spent = less(c.spent, one) }), why: "what it has not spent"},
		"forgotten with a higher sum":    {sound: all, forged: forgets(ann, func(c *forgotten) { c.spent = plus(c.spent, one) }), why: "what it has not spent"},
		"forgotten with earnings":        {sound: all, forged: forgets(ann, func(c *forgotten) { c.earned++ }), why: "events are forgotten"},
		"forgotten without earnings":     {sound: forgets(g.forgotten["cid"], func(*forgotten) {}), forged: forgets(g.forgotten["cid"], func(c *forgotten) { c.earned-- }), why: "events are forgotten"},
		"a chain has spent less":         {sound: all, forged: forgets(ann, func(c *forgotten) { c.chains[0].spent, c.spent = less(c.chains[0].spent, one), less(c.spent, one) }), why: "has not spent"},
		"a chain has spent more":         {sound: all, forged: forgets(ann, func(c *forgotten) { c.chains[1].spent, c.spent = one, plus(c.spent, one) }), why: "has not spent"},
		"one chain for another":          {sound: all, forged: forgets(ann, func(c *forgotten) { c.chains[1].spent, c.chains[0].spent = one, less(c.chains[0].spent, one) }), why: "has not spent"},
		"a chain under another policy":   {sound: all, forged: forgets(ann, func(c *forgotten) { c.chains[0].policy = 2 }), why: "has not spent"},
		"a chain without its policy":     {sound: all, forged: forgets(ann, func(c *forgotten) { c.chains[0].policy = 0 }), why: "has not spent"},
		"a chain under no known policy":  {sound: all, forged: forgets(ann, func(c *forgotten) { c.chains[0].policy = 4 }), why: "leaves a chain of question 1 under policy 4"},
		"a chain of no known question":   {sound: all, forged: forgets(ann, func(c *forgotten) { c.chains = append(c.chains, remnant{question: 3}) }), why: "leaves a chain of question 3"},
		"a chain of no question":         {sound: all, forged: forgets(ann, func(c *forgotten) { c.chains[0].question = 0 }), why: "leaves a chain of question 0"},
		"a chain left out":               {sound: all, forged: forgets(ann, func(c *forgotten) { c.chains = c.chains[:1] }), why: "what it has not spent"},
		"chains out of order":            {sound: all, forged: forgets(ann, func(c *forgotten) { slices.Reverse(c.chains) }), why: "leaves a chain of question 1"},
		"a chain twice":                  {sound: all, forged: forgets(ann, func(c *forgotten) { c.chains[1] = remnant{1, 1, eps(t, "0")} }), why: "leaves a chain of question 1"},
		"a chain that there is not":      {sound: forgets(g.forgotten["bob"], func(*forgotten) {}), forged: forgets(g.forgotten["bob"], func(c *forgotten) { c.chains = append(c.chains, remnant{question: 2}) }), why: "has not spent"},
		"a stranger with a cap":          {sound: stranger, forged: forgets(zoe, func(c *forgotten) { c.cap = one }), why: "leaves behind what it cannot have"},
		"a stranger with earnings":       {sound: stranger, forged: forgets(zoe, func(c *forgotten) { c.earned = 1 }), why: "leaves behind what it cannot have"},
		"a stranger with a chain":        {sound: stranger, forged: forgets(zoe, func(c *forgotten) { c.cap, c.chains = one, []remnant{{question: 1}} }), why: "has not spent"},
		"a stranger with a chain, 2":     {sound: stranger, forged: forgets(zoe, func(c *forgotten) { c.chains = []remnant{{question: 1}} }), why: "leaves behind what it cannot have"},
		"a stranger with more events":    {sound: stranger, forged: forgets(zoe, func(c *forgotten) { c.events++ }), why: "events are forgotten"},
		"somebody of whom nothing is":    {sound: stranger, forged: forgets(zoe, func(c *forgotten) { c.object = "new" }), why: "events are forgotten"},
		"somebody of whom nothing is, 2": {sound: stranger, forged: forgets(zoe, func(c *forgotten) { c.object, c.events = "new", 0 }), why: "leaves behind what it cannot have"},
		"forgotten without a name":       {sound: stranger, forged: forgets(zoe, func(c *forgotten) { c.object = "" }), why: "is empty"},
		"forgotten twice":                {sound: all, forged: append(slices.Clone(all), all...), why: "events are forgotten"},
		"forgotten twice of no events":   {sound: all, forged: append(slices.Clone(all), forgets(ann, func(c *forgotten) { c.events = 0 })...), why: "leaves behind what it cannot have"},
		"a response of the forgotten":    {sound: all, forged: append(slices.Clone(all), &released{"ann", 1, eps(t, "0.3"), response{value{index: 1}, methodRaise}}), why: "after it has withdrawn"},
		"the forgotten spend it again":   {sound: append(slices.Clone(all), &enrolled{"ann", 2, 0, 0, eps(t, "2")}, &released{"ann", 2, eps(t, "1.65"), response{value{index: 1}, methodRaise}}), forged: append(slices.Clone(all), &enrolled{"ann", 2, 0, 0, eps(t, "2")}, &released{"ann", 2, eps(t, "1.650000001"), response{value{index: 1}, methodRaise}}), why: "more than its cap"},
		"and under the same ceiling":     {sound: append(slices.Clone(all), &enrolled{"ann", 1, 1, 0, eps(t, "2")}, &released{"ann", 1, eps(t, "0.15"), response{value{index: 1}, methodRaise}}), forged: append(slices.Clone(all), &enrolled{"ann", 1, 1, 0, eps(t, "2")}, &released{"ann", 1, eps(t, "0.150000001"), response{value{index: 1}, methodRaise}}), why: "above the ceiling of 0.5"},
		"back under another policy":      {sound: append(slices.Clone(all), &enrolled{"ann", 1, 1, 0, eps(t, "2")}), forged: append(slices.Clone(all), &enrolled{"ann", 1, 2, 0, eps(t, "2")}), why: "under other ceilings"},
		"back with another cap":          {sound: append(slices.Clone(all), &enrolled{"ann", 1, 1, 0, eps(t, "2")}), forged: append(slices.Clone(all), &enrolled{"ann", 1, 1, 0, eps(t, "3")}), why: "under other ceilings"},

		"stated, but one event":             {sound: whole, forged: states("ann", func(c *stated) { c.events = c.events[1:] }), why: "leaves something out"},
		"stated, but the last":              {sound: whole, forged: states("ann", func(c *stated) { c.events = c.events[:len(c.events)-1] }), why: "leaves something out"},
		"stated, and one more":              {sound: whole, forged: states("ann", func(c *stated) { c.events = append([]uint64{1}, c.events...) }), why: "leaves something out"},
		"stated, and itself":                {sound: whole, forged: states("ann", func(c *stated) { c.events = append(c.events, uint64(len(g.log))+1) }), why: "leaves something out"},
		"stated of another":                 {sound: whole, forged: states("ann", func(c *stated) { c.object = "bob" }), why: "leaves something out"},
		"stated with another's events":      {sound: whole, forged: states("ann", func(c *stated) { c.events = g.stated["bob"].events }), why: "leaves something out"},
		"stated out of order":               {sound: whole, forged: states("ann", func(c *stated) { slices.Reverse(c.events) }), why: "leaves something out"},
		"stated of a stranger":              {sound: whole, forged: states("ann", func(c *stated) { *c = stated{object: "zoe"} }), why: "which is not there"},
		"stated with less spent":            {sound: whole, forged: states("ann", func(c *stated) { c.spent = less(c.spent, one) }), why: "leaves something out"},
		"stated with another cap":           {sound: whole, forged: states("ann", func(c *stated) { c.cap = plus(c.cap, one) }), why: "leaves something out"},
		"stated with less earned":           {sound: states("cid", func(*stated) {}), forged: states("cid", func(c *stated) { c.earned-- }), why: "leaves something out"},
		"stated as forgotten":               {sound: whole, forged: states("ann", func(c *stated) { c.forgotten = 1 }), why: "leaves something out"},
		"stated twice, without the former":  {sound: whole, forged: append(slices.Clone(whole), whole...), why: "leaves something out"},
		"stated after all was forgotten":    {sound: append(slices.Clone(all), states("ann", func(c *stated) { c.events, c.forgotten = nil, uint64(len(g.log))+1 })...), forged: append(slices.Clone(all), whole...), why: "leaves something out"},
		"stated, but that it was forgotten": {sound: append(slices.Clone(all), states("ann", func(c *stated) { c.events, c.forgotten = nil, uint64(len(g.log))+1 })...), forged: append(slices.Clone(all), states("ann", func(c *stated) { c.events = nil })...), why: "leaves something out"},
	}
	return out
}

func TestApplyRefusesForgeries(t *testing.T) {
	g := newGround(t, nil)
	must(t, replayWhole(&kvtest.Memory{}, g.log))
	for _, forgeries := range []map[string]pairOfLogs{g.definitions(t), g.draws(t), g.requests(t), g.sales(t), g.ends(t)} {
		for name, one := range forgeries {
			t.Run(name, func(t *testing.T) { g.wantRefused(t, one) })
		}
	}
}

// wantRefused checks that a forgery cannot follow on the ground, and that what it was made from can.
func (g ground) wantRefused(t *testing.T, one pairOfLogs) {
	t.Helper()
	follow := func(changes []change) error {
		log := followedBy(withSettled(uint64(len(g.log))+1, changes)...)(slices.Clone(g.log))
		for i := range log[len(g.log):] {
			log[len(g.log)+i].time = epoch().Add(one.after)
		}
		return replayWhole(&kvtest.Memory{}, log)
	}
	must(t, follow(one.sound))
	wantForged(t, follow(one.forged), one.why)
}

// The first event is what the ledger was created with, and no other is.
func TestApplyRefusesAnotherBeginning(t *testing.T) {
	g := newGround(t, truthKey())
	for name, one := range map[string]struct {
		why   string
		forge func(log []event) []event
	}{
		"created twice":   {"the log begins with how the ledger was created", followedBy(&created{currency: "EUR"})},
		"never created":   {"the log begins with how the ledger was created", func(log []event) []event { return renumber(log[1:]) }},
		"no currency":     {"the currency is empty", func(log []event) []event { log[0].change = &created{}; return log }},
		"an odd currency": {"control character", func(log []event) []event { log[0].change = &created{currency: "E\rR"}; return log }},
		"bound without a key": {"without a key", func(log []event) []event {
			i := indexOf(t, log, func(c change) bool { return c.kind() == kindTruthKey })
			log[i].change = &noiseKeySet{1, "2026", tag{1}}
			return log
		}},
	} {
		t.Run(name, func(t *testing.T) {
			wantForged(t, replayWhole(&kvtest.Memory{}, one.forge(slices.Clone(g.log))), one.why)
		})
	}
}

// forgottenMarket is a sound log of which one object, ann, and one stranger, zoe, are erased, and bob is not.
func forgottenMarket(t *testing.T) []event {
	t.Helper()
	s := &kvtest.Memory{}
	begin(t, s)
	l := sellers(t, openMemory(t, s, Options{Now: epoch, TruthKey: truthKey()}), "3", "2", "ann", "bob")
	l.sampler, l.queries = steadySampler(), medians()
	r := purchase(t, "1", "acme", "0.5", "ann", "bob", "zoe")
	r.Partial = true
	sell(t, l, r)
	reserve(t, l, ReserveRequest{Key: "2", Order: purchase(t, "", "acme", "1", "ann", "bob").Order, For: time.Hour})
	answerTo(t, l, inquire(t, "3", "majority:yes", "0.25", ballots("ann", "bob"), "ann", "bob"))
	release(t, l, releaseOf(t, "4", "ann", "0.75"))
	_, _, err := l.submit(t.Context(), func(s *state) ([]change, error) {
		return []change{&settled{key: "5", digest: [32]byte{5}, first: s.counters.events + 1, object: "ann"}}, nil
	})
	must(t, err)
	makeStatement(t, l, "ann")
	must(t, l.Withdraw(t.Context(), "6", "ann"))
	must(t, l.Forget(t.Context(), "7", "ann"))
	must(t, l.Forget(t.Context(), "8", "zoe"))
	audit(t, s)
	return logOf(t, pairs(t, s))
}

// What is left of a log must add up as well.
func TestApplyRefusesForgedErasures(t *testing.T) {
	nth := func(t *testing.T, log []event, k kind, erased bool) *event {
		t.Helper()
		for i := range log {
			if log[i].change.kind() == k && (log[i].erased != nil) == erased {
				return &log[i]
			}
		}
		t.Fatalf("no event of kind %s", k)
		return nil
	}
	about := func(t *testing.T, log []event, name string) *event {
		t.Helper()
		i := indexOf(t, log, func(c change) bool { f, ok := c.(*forgotten); return ok && f.object == name })
		return &log[i]
	}
	forget := func(name string, edit func(*forgotten)) func(*testing.T, []event) []event {
		return func(t *testing.T, log []event) []event {
			ev := about(t, log, name)
			c := *ev.change.(*forgotten)
			c.chains = slices.Clone(c.chains)
			edit(&c)
			ev.change = &c
			return log
		}
	}
	whole := forgottenMarket(t)
	kinds := map[kind]bool{}
	for _, ev := range whole {
		if ev.erased != nil {
			kinds[ev.change.kind()] = true
		}
	}
	for _, k := range []kind{kindEnrolled, kindReleased, kindSettled, kindCharged, kindHeld, kindSold, kindWithdrawn, kindBound, kindRefused, kindStated} {
		if !kinds[k] {
			t.Errorf("no event of kind %s is erased", k)
		}
	}
	must(t, replayWhole(&kvtest.Memory{}, whole))
	for name, one := range map[string]struct {
		why   string
		forge func(t *testing.T, log []event) []event
	}{
		"nobody says that it is forgotten": {"erased events", func(t *testing.T, log []event) []event { return log[:len(log)-4] }},
		"nobody says so of the stranger":   {"1 erased events", func(t *testing.T, log []event) []event { return log[:len(log)-2] }},
		"fewer are forgotten":              {"1 erased events", forget("ann", func(c *forgotten) { c.events-- })},
		"more are forgotten":               {"events are forgotten", forget("zoe", func(c *forgotten) { c.events++ })},
		"another's are forgotten":          {"events are forgotten", forget("ann", func(c *forgotten) { c.events += 2 })},
		"it earned more":                   {"events are forgotten", forget("ann", func(c *forgotten) { c.earned++ })},
		"it earned less":                   {"erased events", forget("ann", func(c *forgotten) { c.earned-- })},
		"it spent above its cap":           {"what it has not spent", forget("ann", func(c *forgotten) { c.spent, c.chains[0].spent = eps(t, "3"), eps(t, "3") })},
		"its chains spent something else":  {"what it has not spent", forget("ann", func(c *forgotten) { c.chains[0].spent = eps(t, "0.5") })},
		"it spent less": {"which cost 250000000 nano-nats", forget("ann", func(c *forgotten) {
			c.spent, c.chains[0].spent = less(c.spent, eps(t, "0.25")), less(c.chains[0].spent, eps(t, "0.25"))
		})},
		"it spent nothing":            {"which cost", forget("ann", func(c *forgotten) { c.spent, c.chains[0].spent = eps(t, "0"), eps(t, "0") })},
		"it had no chains":            {"leaves behind what it cannot have", forget("ann", func(c *forgotten) { c.chains, c.spent = nil, eps(t, "0") })},
		"it had no cap":               {"leaves behind what it cannot have", forget("ann", func(c *forgotten) { c.cap = eps(t, "0") })},
		"its name cannot be":          {"control character", forget("ann", func(c *forgotten) { c.object = "an\x00n" })},
		"a stranger's name cannot be": {"control character", forget("zoe", func(c *forgotten) { c.object = "z\noe" })},
		"a stranger earned something": {"leaves behind what it cannot have", func(t *testing.T, log []event) []event {
			log = forget("ann", func(c *forgotten) { c.earned -= 50 })(t, log)
			return forget("zoe", func(c *forgotten) { c.earned += 50 })(t, log)
		}},
		"sold for less": {"is not the sum of its objects", func(t *testing.T, log []event) []event {
			ev := nth(t, log, kindSold, true)
			c := *ev.change.(*sold)
			c.price--
			ev.change = &c
			return log
		}},
		"sold for more": {"is no part of sale", func(t *testing.T, log []event) []event {
			ev := nth(t, log, kindSold, true)
			c := *ev.change.(*sold)
			c.price += 51
			ev.change = &c
			return log
		}},
		"held for less": {"is not the sum of its objects", func(t *testing.T, log []event) []event {
			ev := nth(t, log, kindHeld, true)
			c := *ev.change.(*held)
			c.price--
			ev.change = &c
			return log
		}},
		"sold in another sale": {"is not complete, or not begun", func(t *testing.T, log []event) []event {
			ev := nth(t, log, kindSold, true)
			c := *ev.change.(*sold)
			c.sale++
			ev.change = &c
			return log
		}},
		"it says it upgrades": {"is not the sum of its objects", func(t *testing.T, log []event) []event {
			ev := nth(t, log, kindSale, false)
			c := *ev.change.(*saleMade)
			c.tally.upgrades = 2
			ev.change = &c
			return log
		}},
		"it counts no objects": {"counts other objects than it has", func(t *testing.T, log []event) []event {
			ev := nth(t, log, kindSale, false)
			c := *ev.change.(*saleMade)
			c.tally = saleTally{draws: 1}
			ev.change = &c
			return log
		}},
		"a larger panel": {"not everybody in the panel of 3", func(t *testing.T, log []event) []event {
			ev := nth(t, log, kindAnswered, false)
			c := *ev.change.(*answered)
			c.objects++
			ev.change = &c
			return log
		}},
		"another ε": {"not everybody in the panel", func(t *testing.T, log []event) []event {
			ev := nth(t, log, kindAnswered, false)
			c := *ev.change.(*answered)
			c.epsilon = eps(t, "0.2")
			ev.change = &c
			return log
		}},
		"fewer were refused": {"refuses 0 objects where 1 were named", func(t *testing.T, log []event) []event {
			i := indexOf(t, log, isSettled("1"))
			c := *log[i].change.(*settled)
			c.refused, c.sale = 0, 0
			log[i].change = &c
			return log
		}},
		"bob borrows an erased event, and has spent less": {"has not spent", func(t *testing.T, log []event) []event {
			var o object
			must(t, replayed(t, log).View(func(r kv.Reader) error {
				s, err := readState(r)
				must(t, err)
				o, _, err = s.object("bob")
				return err
			}))
			i := indexOf(t, log, func(c change) bool { f, ok := c.(*forgotten); return ok && f.object == "ann" })
			bobs := &forgotten{"bob", o.total() + 1, o.account(), []remnant{{1, 1, less(o.spent, eps(t, "0.25"))}}}
			bobs.spent = bobs.chains[0].spent
			log = slices.Insert(log, i, event{time: log[i].time, change: bobs})
			return renumber(forget("ann", func(c *forgotten) { c.events-- })(t, log))
		}},
		"an end is erased": {"its end is erased", func(t *testing.T, log []event) []event {
			i := indexOf(t, log, isSettled("1"))
			log[i] = logged{event: log[i]}.erase().event
			return log
		}},
		"one that was not forgotten": {"takes part in question 1 without being enrolled", func(t *testing.T, log []event) []event {
			i := indexOf(t, log, isEnrolled("bob"))
			log[i] = logged{event: log[i]}.erase().event
			return log
		}},
		"erased after all was forgotten": {"1 erased events", func(t *testing.T, log []event) []event {
			log = followedBy(&withdrawn{"bob"})(log)
			i := len(log) - 1
			log[i] = logged{event: log[i]}.erase().event
			return log
		}},
	} {
		t.Run(name, func(t *testing.T) {
			wantForged(t, replayWhole(&kvtest.Memory{}, one.forge(t, slices.Clone(whole))), one.why)
		})
	}
	same(t, "replay event by event", pairs(t, replayedSingly(t, whole)), pairs(t, replayed(t, whole)))
}

func replayed(t *testing.T, log []event) *kvtest.Memory {
	t.Helper()
	s := &kvtest.Memory{}
	must(t, replayWhole(s, log))
	return s
}

// An event that is about nobody cannot be erased: its record is refused before anything is made of it.
func TestNothingElseCanBeErased(t *testing.T) {
	for _, n := range goldenEntries(t) {
		sum := commitment{1}
		record := logged{event: event{number: n.number, time: n.time, change: n.change, erased: &sum}, hashes: n.hashes}
		_, err := decodeEntry(n.number, record.Encode())
		_, about := n.change.(personal)
		if (err == nil) != about || err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("an erased event of kind %s: %v", n.change.kind(), err)
		}
	}
}

// Erasing an event changes neither its leaf nor anything above it, and destroys its salt.
func TestErasedEventsKeepTheirPlace(t *testing.T) {
	s := &kvtest.Memory{}
	begin(t, s)
	l := sellers(t, openMemory(t, s, Options{Now: epoch, TruthKey: truthKey()}), "3", "2", "ann", "bob")
	sell(t, l, purchase(t, "1", "acme", "0.5"))
	before, err := l.Head(t.Context(), 0)
	must(t, err)
	former := logOf(t, pairs(t, s))
	must(t, l.Forget(t.Context(), "f", "ann"))
	after, err := l.Head(t.Context(), before.Events)
	must(t, err)
	if after != before {
		t.Errorf("the head of the first %d events was %v, and is %v", before.Events, before.Root, after.Root)
	}
	erased := 0
	for i, ev := range logOf(t, pairs(t, s))[:before.Events] {
		if ev.leaf() != former[i].leaf() {
			t.Errorf("event %d has another leaf", ev.number)
		}
		if ev.erased == nil {
			continue
		}
		erased++
		if p, ok := former[i].change.(personal); !ok || p.about() != "ann" || ev.salt != (salt{}) || ev.change.(personal).about() != "" {
			t.Errorf("event %d was %+v, and is %+v", ev.number, former[i], ev)
		}
	}
	if erased != 3 { // enrolled, bound, sold
		t.Errorf("%d events are erased", erased)
	}
	_, err = l.Consistency(t.Context(), before.Events, before.Events+2)
	must(t, err)
	auditAll(t, l, s)
}
