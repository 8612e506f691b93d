package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/enrollment"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/fold"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
)

// Invariant 9, against an attacker who can write the file: a log that no ledger can have written is
// refused, even if every record is valid and all hashes match. Each forgery is next to the sound
// events that it was made from, which differ only in what is forged.

// baseLog is a sound log. All forgeries are appended to it.
type baseLog struct {
	log       []event.Event
	stated    map[string]event.Stated    // sound statements about the objects, to append to it
	forgotten map[string]event.Forgotten // likewise
}

// The objects of the base log:
//
//	ann, bob  vote, up to ε=0.5, after 10 hours up to 1; ann answered at 0.25, both a query at 0.1
//	ann       smoker, with no policy
//	cid, dan  vote, for sale; acme and zeta hold cid at 0.5, which is the limit; dan has withdrawn
//	eve       vote, for sale, with half of ε=1 for each order
//	fay       vote, with no policy
//	zoe       a stranger, not enrolled, that was refused
//
// The buyers are acme, zeta, hooli, and initech, which the terms bar. The sales are 1 and 2. All
// events are at epoch.
func newBaseLog(t *testing.T, truthKey []byte) baseLog {
	t.Helper()
	s := &kv.Memory{}
	begin(t, s)
	l := openMemory(t, s, Options{Now: epoch, TruthKey: truthKey})
	l.engine.Chances.Values, l.requests.Sampler = steadySampler(), medians()
	timed, err := policy.Steps(policy.Step{At: epoch().Add(-time.Hour), Ceiling: eps(t, "0.3")}, policy.Step{At: epoch(), Ceiling: eps(t, "0.5")}, policy.Step{At: epoch().Add(10 * time.Hour), Ceiling: eps(t, "1")})
	must(t, err)
	terms := market(t, "1.5", func(m *policy.Market) {
		m.Stride, m.Holders, m.Barred, m.Until = eps(t, "0.25"), 2, []string{"initech"}, epoch().Add(100*time.Hour)
	})
	halves := check.Value(policy.Unlock(eps(t, "1"), 2))(t)
	unlocked := check.Value(policy.Min(market(t, "1.5"), halves))(t)
	define(t, l, vote())
	define(t, l, smoker())
	enrollUnder(t, l, "vote", timed, "2", "ann", "bob")
	enroll(t, l, "smoker", "2", "ann")
	enrollUnder(t, l, "vote", terms, "2", "cid", "dan")
	enrollUnder(t, l, "vote", unlocked, "2", "eve")
	enroll(t, l, "vote", "2", "fay")
	for i, name := range []string{"hooli", "initech"} { // buyers that have bought nothing
		_, _, err = l.engine.Submit(t.Context(), func(s *state.State) ([]event.Change, error) {
			return []event.Change{&event.BuyerNamed{Number: uint32(i + 1), Name: name}, &event.Settled{Key: name, Digest: [32]byte{1}, First: s.Counters.Events + 1, Final: true}}, nil
		})
		must(t, err)
	}
	sell(t, l, purchase(t, "1", "acme", "0.5", "cid"))
	sell(t, l, purchase(t, "2", "zeta", "0.5", "cid"))
	release(t, l, releaseOf(t, "3", "ann", "0.25"))
	answerTo(t, l, answerRequest(t, "4", "majority:yes", "0.1", ballots("ann"), "ann", "bob"))
	raise(t, l, partial(raiseOf(t, "5", "0.25", "ann", "zoe")))
	must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "6", Object: "dan"}))
	g := baseLog{log: logOf(t, pairs(t, s)), stated: map[string]event.Stated{}, forgotten: map[string]event.Forgotten{}}
	must(t, l.engine.View(t.Context(), func(s *state.State) error {
		for _, name := range []string{"ann", "bob", "cid", "dan", "eve", "fay", "zoe"} {
			c := check.Value(forgetObject(s, name))(t)
			g.forgotten[name] = *c.(*event.Forgotten)
			if o, known, err := s.Object(name); err == nil && known {
				numbers := check.Value(s.EventsAbout(o))(t)
				g.stated[name] = event.Stated{Object: name, Forgotten: o.Forgotten, Events: numbers, Account: o.Account()}
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

// end settles a request that begins after the base log.
func (bl baseLog) end(edits ...func(*event.Settled)) event.Change {
	c := &event.Settled{Key: "x", Digest: [32]byte{1}, First: fillFirst, Final: true, Spent: fillSpent}
	for _, edit := range edits {
		edit(c)
	}
	return c
}

// withSettled appends to the events of each request the event that settles it, unless it is there
// already. number is that of the first event.
func withSettled(number uint64, changes []event.Change) (all []event.Change) {
	first := number
	for i, c := range changes {
		all = append(all, c)
		next := event.Kind(0)
		if i+1 < len(changes) {
			next = changes[i+1].Kind()
		}
		at := number + uint64(len(all)) - 1
		if c.Kind() == event.KindSettled {
			first = at + 1
		}
		if !isLastOfRequest(c, next, changes[min(i+1, len(changes)-1)]) {
			continue
		}
		end := &event.Settled{Key: fmt.Sprint("settles ", at), Digest: [32]byte{9}, First: first, Final: true, Spent: fillSpent}
		for n := first; n <= at; n++ {
			countEvent(end, all[n-number], n)
		}
		if first == at {
			identifyChange(end, c, func(number uint32) string { return fmt.Sprint("question ", number) })
		}
		all = append(all, end)
		first = at + 2
	}
	return all
}

// isLastOfRequest reports whether an event is the last one of a request before the event that
// settles it.
func isLastOfRequest(c event.Change, next event.Kind, after event.Change) bool {
	goesOn := map[event.Kind][]event.Kind{
		event.KindPolicy: {event.KindEnrolled, event.KindTerms}, event.KindBuyer: {event.KindReserved, event.KindSale}, event.KindBound: {event.KindBound, event.KindReleased, event.KindCharged, event.KindSale, event.KindSettled},
		event.KindCharged: {event.KindCharged, event.KindAnswered}, event.KindAnswered: {event.KindRefused}, event.KindRefused: {event.KindRefused}, event.KindSold: {event.KindRefused}, event.KindHeld: {event.KindRefused},
	}
	switch c.Kind() {
	case event.KindSettled, event.KindReserved, event.KindSale, event.KindRefused, event.KindTruthKey, event.KindNoiseKey, event.KindCreated:
		return false
	case event.KindHeld, event.KindSold:
		number, _ := event.ShareOf(c)
		if other, is := event.ShareOf(after); is && other == number && next != 0 {
			return false
		}
	}
	return next != event.KindSettled && !slices.Contains(goesOn[c.Kind()], next)
}

// countEvent adds an event of a request to what the settled event counts.
func countEvent(c *event.Settled, one event.Change, number uint64) {
	switch one := one.(type) {
	case *event.Enrolled:
		c.Counts[enrollment.Done]++
	case *event.TermsChanged:
		c.Counts[enrollment.Done]++
	case *event.Released:
		c.Counts[verdictOf(one.Method)]++
	case *event.Sold:
		c.Counts[verdictOf(one.Method)]++
		c.Sale = one.Sale
	case *event.Held:
		c.Sale = one.Sale
	case *event.Answered:
		c.Answer = number
		if c.Counts[event.Drawn] = 1; one.Method == event.MethodDegrade || one.Method == event.MethodInsert {
			c.Counts = event.Counts{event.Derived: 1}
		}
	case *event.ObjectRefused:
		c.Refused++
	case *event.Withdrawn:
		c.Alone, c.Object = true, one.Object
	case *event.Stated:
		c.Alone, c.Object = true, one.Object
	}
}

func verdictOf(m event.Method) event.Verdict {
	return map[event.Method]event.Verdict{event.MethodRaise: event.Drawn, event.MethodResale: event.Reused, event.MethodDegrade: event.Derived, event.MethodInsert: event.Derived}[m]
}

// soundAndForged has the events of a forgery, and the sound events that it was made from.
type soundAndForged struct {
	sound, forged []event.Change
	why           string
	after         time.Duration // of the forged one, since epoch
	soundAfter    time.Duration // of the sound one, if that is at another time
	settled       bool          // the changes include the events that settle them
}

func (bl baseLog) sales(t *testing.T) map[string]soundAndForged {
	t.Helper()
	again, fresh := event.Response{Value: event.Value{Index: 1}, Method: event.MethodResale}, event.Response{Value: event.Value{Index: 1}, Method: event.MethodRaise}
	draw, resale := event.SaleTally{Draws: 1}, event.SaleTally{Resales: 1}
	of := func(buyer uint32, epsilon string, price uint64) event.Deal {
		return aSale(t, third, buyer, epsilon, price)
	}
	sale := func(d event.Deal, n event.SaleTally, name string, r event.Response) []event.Change {
		return []event.Change{&event.SaleMade{Deal: d, Tally: n}, &event.Sold{Object: name, Sale: third, Price: d.Price, Response: r}}
	}
	hold := func(d event.Deal, name string) []event.Change {
		return []event.Change{&event.Reserved{Deal: d, Expires: epoch().Add(200 * time.Hour)}, &event.Held{Object: name, Sale: third, Price: d.Price, Policy: map[string]uint32{"cid": 2, "eve": 3}[name]}}
	}
	first := bl.log[indexOf(t, bl.log, func(c event.Change) bool { s, ok := c.(*event.Sold); return ok && s.Sale == 1 })].Change.(*event.Sold).Response
	again.Value = first.Value
	settledSale := func(refused uint64, end *event.Settled, left ...event.Change) []event.Change {
		d := of(acme, "0.5", 0)
		d.Refused = refused
		changes := sale(d, resale, "cid", again)
		return append(append(changes, left...), end)
	}
	refusal := func(name string) event.Change {
		return &event.ObjectRefused{Question: 1, Refusal: api.Refusal{Object: name, Reason: api.NotEnrolled, Asked: eps(t, "0.5"), Remedy: "enrolling"}}
	}
	ended := func(sale, refused uint64) *event.Settled {
		return bl.end(func(c *event.Settled) { c.Sale, c.Refused, c.Counts = sale, refused, event.Counts{event.Reused: 1} }).(*event.Settled)
	}
	reserving := func(number uint64, buyer uint32, price uint64) []event.Change { // cid at 0.75
		d := aSale(t, number, buyer, "0.75", price)
		return []event.Change{&event.Reserved{Deal: d, Expires: epoch().Add(200 * time.Hour)}, &event.Held{Object: "cid", Sale: number, Price: price, Policy: 2}}
	}
	taking := func(number uint64, buyer uint32, price uint64, r event.Response) []event.Change {
		n := event.SaleTally{Draws: 1}
		if r.Method == event.MethodResale {
			n = event.SaleTally{Resales: 1}
		}
		if buyer == acme || buyer == zeta {
			n.Upgrades = 1
		}
		return []event.Change{&event.SaleMade{Deal: aSale(t, number, buyer, "0.75", price), Tally: n}, &event.Sold{Object: "cid", Sale: number, Price: price, Response: r}}
	}
	sameAgain := event.Response{Value: fresh.Value, Method: event.MethodResale}
	bothReserve := slices.Concat(reserving(third, hooli, 75), reserving(third+1, acme, 25))
	bothBuy := slices.Concat(bothReserve, taking(third, hooli, 75, fresh), taking(third+1, acme, 25, sameAgain))
	eve := func(e1, e2 string, price uint64) []event.Change { // two orders for eve, by different buyers
		second := aSale(t, third+1, zeta, e2, price)
		return append(sale(of(acme, e1, 50), draw, "eve", fresh), &event.SaleMade{Deal: second, Tally: draw}, &event.Sold{Object: "eve", Sale: third + 1, Price: price, Response: fresh})
	}
	return map[string]soundAndForged{
		"sold too cheap":                {sound: sale(of(acme, "1", 50), event.SaleTally{Draws: 1, Upgrades: 1}, "cid", fresh), forged: sale(of(acme, "1", 49), event.SaleTally{Draws: 1, Upgrades: 1}, "cid", fresh), why: "the price due is 50, not 49"},
		"sold too dear":                 {sound: sale(of(acme, "0.5", 0), resale, "cid", again), forged: sale(of(acme, "0.5", 1), resale, "cid", again), why: "the price due is 0, not 1"},
		"held too cheap":                {sound: hold(of(zeta, "1", 50), "cid"), forged: hold(of(zeta, "1", 0), "cid"), why: "the price due is 50, not 0"},
		"held too dear":                 {sound: hold(of(hooli, "1", 100), "cid"), forged: hold(of(hooli, "1", 101), "cid"), why: "the price due is 100, not 101"},
		"sold to whom it bars":          {sound: sale(of(hooli, "1", 100), draw, "cid", fresh), forged: sale(of(initech, "1", 100), draw, "cid", fresh), why: `it is not for sale to "initech"`},
		"held for whom it bars":         {sound: hold(of(hooli, "1", 100), "cid"), forged: hold(of(initech, "1", 100), "cid"), why: `it is not for sale to "initech"`},
		"sold off the stride":           {sound: sale(of(hooli, "0.75", 75), draw, "cid", fresh), forged: sale(of(hooli, "0.7", 70), draw, "cid", fresh), why: "it is not for sale"},
		"held off the stride":           {sound: hold(of(hooli, "0.75", 75), "cid"), forged: hold(of(hooli, "0.7", 70), "cid"), why: "it is not for sale"},
		"sold above the offer":          {sound: sale(of(hooli, "1.5", 150), draw, "cid", fresh), forged: sale(of(hooli, "1.75", 175), draw, "cid", fresh), why: "it is not for sale"},
		"held above the offer":          {sound: hold(of(hooli, "1.5", 150), "cid"), forged: hold(of(hooli, "1.75", 175), "cid"), why: "it is not for sale"},
		"sold to one too many":          {sound: sale(of(acme, "0.5", 0), resale, "cid", again), forged: sale(of(hooli, "0.5", 50), resale, "cid", again), why: `it is not for sale to "hooli" at ε=0.5: holders-full`},
		"held for one too many":         {sound: hold(of(acme, "0.5", 0), "cid"), forged: hold(of(hooli, "0.5", 50), "cid"), why: `it is not for sale to "hooli" at ε=0.5: holders-full`},
		"reserved by one too many":      {sound: bothReserve, forged: slices.Concat(bothReserve, reserving(third+2, zeta, 25)), why: `it is not for sale to "zeta" at ε=0.75: holders-full`},
		"sold where all is reserved":    {sound: bothBuy, forged: slices.Concat(bothReserve, taking(third+2, zeta, 25, fresh)), why: `it is not for sale to "zeta" at ε=0.75: holders-full`},
		"sold where the rest is held":   {sound: slices.Concat(reserving(third, hooli, 75), taking(third+1, acme, 25, fresh)), forged: slices.Concat(reserving(third, hooli, 75), taking(third+1, acme, 25, fresh), taking(third+2, zeta, 25, sameAgain)), why: `it is not for sale to "zeta" at ε=0.75: holders-full`},
		"reserved where the rest is so": {sound: bothBuy, forged: slices.Concat(reserving(third, hooli, 75), taking(third, hooli, 75, fresh), reserving(third+1, acme, 25), reserving(third+2, zeta, 25)), why: `it is not for sale to "zeta" at ε=0.75: holders-full`},
		"sold without terms":            {sound: sale(of(acme, "0.5", 50), draw, "eve", fresh), forged: sale(of(acme, "0.5", 0), draw, "fay", fresh), why: "it is not for sale"},
		"held without terms":            {sound: hold(of(acme, "0.5", 50), "eve"), forged: hold(of(acme, "0.5", 0), "fay"), why: "it is not for sale"},
		"an order too little":           {sound: sale(of(acme, "0.5", 50), draw, "eve", fresh), forged: sale(of(acme, "0.500000001", 51), draw, "eve", fresh), why: "above its ceiling of 0.5"},
		"an order too little, 2":        {sound: eve("0.5", "1", 100), forged: eve("0.5", "1.000000001", 101), why: "above its ceiling of 1"},
		"more in the tally":             {sound: sale(of(acme, "0.5", 50), draw, "eve", fresh), forged: sale(of(acme, "0.5", 50), event.SaleTally{Draws: 1, Resales: 1}, "eve", fresh), why: "its tally does not count its objects"},
		"less in the tally":             {sound: sale(of(acme, "0.5", 50), draw, "eve", fresh), forged: sale(of(acme, "0.5", 50), event.SaleTally{}, "eve", fresh), why: "its tally does not count its objects"},
		"upgrades in the tally":         {sound: sale(of(acme, "0.5", 50), draw, "eve", fresh), forged: sale(of(acme, "0.5", 50), event.SaleTally{Draws: 1, Upgrades: 2}, "eve", fresh), why: "its tally does not count its objects"},
		"settles another's sale":        {sound: settledSale(0, ended(third, 0)), forged: settledSale(0, ended(2, 0)), why: "settles sale 2, not sale 3"},
		"settles no sale":               {sound: settledSale(0, ended(third, 0)), forged: settledSale(0, ended(third+1, 0)), why: "settles sale 4, not sale 3"},
		"one left out":                  {sound: settledSale(1, ended(third, 1), refusal("zoe")), forged: settledSale(0, ended(third, 1), refusal("zoe")), why: "settles sale 3, which does not end with this event"},
		"another left out":              {sound: settledSale(0, ended(third, 0)), forged: settledSale(1, ended(third, 0), &event.Withdrawn{Object: "bob"}), why: "settles sale 3, which does not end with this event"},
		"none left out":                 {sound: settledSale(0, ended(third, 0)), forged: settledSale(1, ended(third, 0)), why: "settles sale 3, which does not end with this event"},
		"sold when it has closed":       {sound: sale(of(hooli, "1", 100), draw, "cid", fresh), forged: sale(of(hooli, "1", 100), draw, "cid", fresh), why: "it is not for sale", soundAfter: 100*time.Hour - 1, after: 100 * time.Hour},
		"held when it has closed":       {sound: hold(of(hooli, "1", 100), "cid"), forged: hold(of(hooli, "1", 100), "cid"), why: "it is not for sale", soundAfter: 100*time.Hour - 1, after: 100 * time.Hour},
		"settled late": {
			sound:  settledSale(0, ended(third, 0)),
			forged: append(sale(of(acme, "0.5", 0), resale, "cid", again), &event.Withdrawn{Object: "bob"}, ended(third, 0)), why: "settles sale 3, not sale 0",
		},
	}
}

// A capture is refused if, by now, more buyers have reserved the level than the terms allow, or if
// the object costs more than was reserved.
func TestApply_CaptureUnlikeReservation_IsRefused(t *testing.T) {
	g := newBaseLog(t, nil)
	d := aSale(t, third, hooli, "0.75", 75)
	reservation := withSettled(uint64(len(g.log))+1, []event.Change{&event.Reserved{Deal: d, Expires: epoch().Add(200 * time.Hour)}, &event.Held{Object: "cid", Sale: third, Price: 75, Policy: 2}})
	capture := func(price uint64) []event.Change {
		d := d
		d.Price = price
		return withSettled(uint64(len(g.log)+len(reservation))+1, []event.Change{&event.SaleMade{Deal: d, Tally: event.SaleTally{Draws: 1}}, &event.Sold{Object: "cid", Sale: third, Price: price, Response: event.Response{Value: event.Value{Index: 1}, Method: event.MethodRaise}}})
	}
	log := followedBy(reservation...)(slices.Clone(g.log))
	for name, one := range map[string]struct {
		why   string
		price uint64 // due by the terms as they are now
		spoil func(*state.State)
	}{
		"as reserved": {"", 75, func(*state.State) {}},
		"one more has reserved": {"the level has its largest number of holders already: holders-full", 75, func(s *state.State) {
			o, _, err := s.Object("cid")
			must(t, err)
			for number, buyer := range map[uint64]uint32{8: acme, 9: zeta} {
				r := state.Sale{Status: state.SaleReserved, Buyer: buyer, Question: 1, Epsilon: d.Epsilon, Objects: 1, Granted: s.Counters.Events, Expires: epoch().Add(time.Hour)}
				must(t, s.PutSale(number, r))
				o.Held = append(o.Held, number)
			}
			must(t, s.PutObject("cid", o))
		}},
		"dearer": {"but was reserved for 75", 76, func(s *state.State) {
			c, _, err := s.Chain(1, "cid")
			must(t, err)
			dearer := market(t, "1.5", func(m *policy.Market) { m.Floor = 76 })
			must(t, s.Put(state.BucketPolicies, state.PolicyNumberKey(c.Policy), []byte(dearer.String())))
			// The reserved price of the whole sale is higher, because of other objects.
			r := check.Value(s.Sale(third))(t)
			r.Price = 100
			must(t, s.PutSale(third, r))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := replayed(t, log)
			err := m.Update(func(w kv.Writer) error {
				s := check.Value(state.Begin(w, epoch()))(t)
				one.spoil(s)
				for _, c := range capture(one.price) {
					if err := fold.Append(s, filledIn(s, event.Event{Number: s.Counters.Events + 1, Time: epoch(), Change: c})); err != nil {
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

func (bl baseLog) definitions(t *testing.T) map[string]soundAndForged {
	t.Helper()
	q := func(number uint32, name string, values ...string) []event.Change {
		return []event.Change{&event.QuestionDefined{Number: number, Question: api.Question{Name: name, Values: values, Encoding: "direct"}}}
	}
	p := func(json string) []event.Change { return []event.Change{&event.PolicyDefined{Number: 3, JSON: json}} }
	in := func(name string, question, policy uint32, limit string) []event.Change {
		return []event.Change{&event.Enrolled{Object: name, Question: question, Policy: policy, Noise: 0, Cap: eps(t, limit)}}
	}
	b := func(name string) []event.Change { return []event.Change{&event.BuyerNamed{Number: 5, Name: name}} }
	fixed := policy.Fixed(eps(t, "0.125")).String()
	bob := bl.forgotten["bob"]
	questions, enrolment := q(3, "hobby", "chess", "go"), in("new", 1, 1, "1")
	return map[string]soundAndForged{
		"a question's name twice":    {sound: questions, forged: q(3, "vote", "chess", "go"), why: `question "vote" is defined twice`},
		"a question of one value":    {sound: questions, forged: q(3, "hobby", "chess"), why: "has one value"},
		"a question of no value":     {sound: questions, forged: q(3, "hobby"), why: "has 0 values"},
		"a value twice":              {sound: questions, forged: q(3, "hobby", "go", "go"), why: "twice"},
		"a question's name is odd":   {sound: questions, forged: q(3, "hob\x00by", "chess", "go"), why: "control character"},
		"a value is odd":             {sound: questions, forged: q(3, "hobby", "chess", "g\no"), why: "control character"},
		"a value is empty":           {sound: questions, forged: q(3, "hobby", "chess", ""), why: "is empty"},
		"a policy twice":             {sound: []event.Change{&event.PolicyDefined{Number: 4, JSON: fixed}}, forged: []event.Change{&event.PolicyDefined{Number: 4, JSON: bl.policy(t, 1)}}, why: "is defined twice"},
		"a policy with a space":      {sound: []event.Change{&event.PolicyDefined{Number: 4, JSON: fixed}}, forged: []event.Change{&event.PolicyDefined{Number: 4, JSON: strings.Replace(fixed, ":", ": ", 1)}}, why: "is not canonical"},
		"a policy that there is not": {sound: []event.Change{&event.PolicyDefined{Number: 4, JSON: fixed}}, forged: []event.Change{&event.PolicyDefined{Number: 4, JSON: `{"kind":"martian"}`}}, why: "martian"},
		"a limit that is void": {
			sound:  []event.Change{&event.PolicyDefined{Number: 4, JSON: `{"kind":"market","max":"1","price":[["1",1]],"stride":"0.5","holders":1}`}},
			forged: []event.Change{&event.PolicyDefined{Number: 4, JSON: `{"kind":"market","max":"1","price":[["1",1]],"holders":1}`}}, why: "holders needs a stride or levels",
		},
		"a policy's number":             {sound: []event.Change{&event.PolicyDefined{Number: 4, JSON: fixed}}, forged: p(fixed), why: "policy 3 follows policy 3"},
		"a buyer's name is odd":         {sound: b("pied piper"), forged: b("pied\tpiper"), why: "control character"},
		"a buyer without a name":        {sound: b("pied piper"), forged: b(""), why: "is empty"},
		"an unknown question":           {sound: enrolment, forged: in("new", 3, 1, "1"), why: "question 3, policy"},
		"no question":                   {sound: enrolment, forged: in("new", 0, 1, "1"), why: "question 0, policy"},
		"an unknown policy":             {sound: enrolment, forged: in("new", 1, 4, "1"), why: "policy 4, cap 1"},
		"no cap":                        {sound: enrolment, forged: in("new", 1, 1, "0"), why: "cap 0"},
		"an object's name is odd":       {sound: enrolment, forged: in("ne\x7fw", 1, 1, "1"), why: "control character"},
		"an object's name ends a key":   {sound: enrolment, forged: in("new\x00", 1, 1, "1"), why: "control character"},
		"an object's name is too long":  {sound: in(strings.Repeat("n", 256), 1, 1, "1"), forged: in(strings.Repeat("n", 257), 1, 1, "1"), why: "257 bytes"},
		"an object's name is no UTF-8":  {sound: enrolment, forged: in("n\xffw", 1, 1, "1"), why: "is not UTF-8"},
		"an object without a name":      {sound: enrolment, forged: in("", 1, 1, "1"), why: "is empty"},
		"another cap elsewhere":         {sound: in("bob", 2, 0, "2"), forged: in("bob", 2, 0, "3"), why: "with another policy or cap than it had"},
		"another policy when back":      {sound: append([]event.Change{&event.Withdrawn{Object: "bob"}}, in("bob", 1, 1, "2")...), forged: append([]event.Change{&event.Withdrawn{Object: "bob"}}, in("bob", 1, 2, "2")...), why: "with another policy or cap than it had"},
		"withdrawn twice":               {sound: []event.Change{&event.Withdrawn{Object: "bob"}}, forged: []event.Change{&event.Withdrawn{Object: "dan"}}, why: `"dan" withdraws twice`},
		"an epoch of nothing":           {sound: []event.Change{&event.EpochBegun{Object: "bob", Question: 1}}, forged: []event.Change{&event.EpochBegun{Object: "fay", Question: 1}}, why: "but its current epoch is unused"},
		"an epoch twice":                {sound: []event.Change{&event.EpochBegun{Object: "bob", Question: 1}}, forged: []event.Change{&event.EpochBegun{Object: "bob", Question: 1}, &event.EpochBegun{Object: "bob", Question: 1}}, why: "but its current epoch is unused"},
		"an epoch of another question":  {sound: []event.Change{&event.EpochBegun{Object: "bob", Question: 1}}, forged: []event.Change{&event.EpochBegun{Object: "bob", Question: 2}}, why: "is not enrolled"},
		"an epoch after leaving":        {sound: []event.Change{&event.EpochBegun{Object: "bob", Question: 1}}, forged: []event.Change{&event.Withdrawn{Object: "bob"}, &event.EpochBegun{Object: "bob", Question: 1}}, why: "has withdrawn, and an event"},
		"a stranger withdraws":          {sound: []event.Change{&event.Withdrawn{Object: "bob"}}, forged: []event.Change{&event.Withdrawn{Object: "zoe"}}, why: "but does not exist"},
		"withdrawn after all is forgot": {sound: []event.Change{&bob, &event.Enrolled{Object: "bob", Question: 1, Policy: 1, Noise: 0, Cap: eps(t, "2")}, &event.Withdrawn{Object: "bob"}}, forged: []event.Change{&bob, &event.Withdrawn{Object: "bob"}}, why: `"bob" withdraws twice`},
	}
}

// policy returns the JSON of a policy in the base log.
func (bl baseLog) policy(t *testing.T, number uint32) string {
	t.Helper()
	i := indexOf(t, bl.log, func(c event.Change) bool { p, ok := c.(*event.PolicyDefined); return ok && p.Number == number })
	return bl.log[i].Change.(*event.PolicyDefined).JSON
}

func (bl baseLog) draws(t *testing.T) map[string]soundAndForged {
	t.Helper()
	raise := func(name string, question uint32, epsilon string) []event.Change {
		return []event.Change{&event.Released{Object: name, Question: question, Epsilon: eps(t, epsilon), Response: event.Response{Value: event.Value{Index: 1}, Method: event.MethodRaise}}}
	}
	charge := func(name string, epsilon string) event.Change {
		return &event.Charged{Object: name, Question: 1, Epsilon: eps(t, epsilon)}
	}
	bobs := &event.Answered{Question: 1, Query: "winner", Panel: event.PanelOf([]string{"bob"}), Objects: 1, Epsilon: eps(t, "0.1"), Result: event.Result{Output: 1}, Method: event.MethodFresh}
	with := func(a event.Answered, edit func(*event.Answered)) event.Change { edit(&a); return &a }
	answer := []event.Change{charge("bob", "0.1"), bobs}
	former := *bl.log[indexOf(t, bl.log, func(c event.Change) bool { return c.Kind() == event.KindAnswered })].Change.(*event.Answered)
	lower := func(edit func(*event.Answered)) []event.Change {
		return []event.Change{with(former, func(a *event.Answered) {
			a.Epsilon, a.Method, a.Base = eps(t, "0.05"), event.MethodDegrade, fillBase
			edit(a)
		})}
	}
	nothing := func(*event.Answered) {}
	// A raise of the former answer from ε=0.1, which costs each object the difference.
	to := func(epsilon, cost string, how event.Method, edit func(*event.Answered)) (changes []event.Change) {
		if cost != "" {
			changes = []event.Change{charge("ann", cost), charge("bob", cost)}
		}
		return append(changes, with(former, func(a *event.Answered) {
			a.Epsilon, a.Method, a.Score, a.Base = eps(t, epsilon), how, -7, fillBase
			edit(a)
		}))
	}
	raised := to("0.2", "0.1", event.MethodRaise, nothing)
	after := func(first []event.Change, then ...event.Change) []event.Change {
		return append(slices.Clone(first), then...)
	}
	bobBack := []event.Change{&event.EpochBegun{Object: "bob", Question: 1}}
	both := []event.Change{charge("ann", "0.1"), charge("bob", "0.1"), with(*bobs, func(a *event.Answered) { a.Objects, a.Panel = 2, event.PanelOf([]string{"ann", "bob"}) })}
	three := event.PanelOf([]string{"ann", "bob", "zoe"}).Partly()
	partly := func(panel event.PanelSum, refused ...string) []event.Change { // ann and bob are charged
		changes := []event.Change{both[0], both[1], with(*bobs, func(a *event.Answered) { a.Objects, a.Panel = 2, panel })}
		for _, name := range refused {
			changes = append(changes, &event.ObjectRefused{Question: 1, Refusal: api.Refusal{Object: name, Reason: api.NotEnrolled, Asked: eps(t, "0.1"), Remedy: "enrolling"}})
		}
		end := func(c *event.Settled) {
			c.Counts[event.Drawn], c.Answer, c.Refused = 1, uint64(len(bl.log))+3, uint64(len(refused))
		}
		return append(changes, bl.end(end))
	}
	leaving := partly(three, "zoe")
	return map[string]soundAndForged{
		"about others":                   {sound: both, forged: partly(event.PanelOf([]string{"bob", "fay"})), why: "the charged objects and 0"},
		"about one more, left out":       {sound: leaving, forged: partly(three), why: "the charged objects and 0"},
		"about another, left out":        {sound: leaving, forged: partly(three, "zac"), why: "the charged and the refused objects are not the panel"},
		"one more is left out":           {sound: leaving, forged: partly(three, "zac", "zoe"), why: "the charged and the refused objects are not the panel"},
		"left out of a whole answer":     {sound: both, forged: partly(event.PanelOf([]string{"ann", "bob"}), "zoe"), why: "the charged objects and 1"},
		"left out, and it is whole":      {sound: leaving, forged: partly(event.PanelOf([]string{"ann", "bob", "zoe"}), "zoe"), why: "the charged and the refused objects are not the panel"},
		"one charged for all":            {sound: both, forged: []event.Change{both[1], both[1], both[2]}, why: `"bob" is charged after "bob"`},
		"charged out of order":           {sound: both, forged: []event.Change{both[1], both[0], both[2]}, why: `"ann" is charged after "bob"`},
		"the former answer is another's": {sound: leaving, forged: append(leaving[:len(leaving)-1:len(leaving)-1], bl.end(func(c *event.Settled) { c.Counts[event.Drawn], c.Answer, c.Refused = 1, uint64(len(bl.log)), 1 })), why: "settles the answer of event"},
		"released above the ceiling":     {sound: raise("ann", 1, "0.4"), forged: raise("ann", 1, "0.400000001"), why: "above its ceiling of 0.5"}, // 0.1 was for the answer
		"released ahead of time":         {sound: raise("ann", 1, "0.4"), forged: raise("ann", 1, "0.9"), why: "above its ceiling of 0.5", after: 10*time.Hour - 1},
		"released above a later one":     {sound: raise("ann", 1, "0.9"), forged: raise("ann", 1, "0.900000001"), why: "above its ceiling of 1", after: 10 * time.Hour},
		"released above the cap":         {sound: raise("ann", 2, "1.65"), forged: raise("ann", 2, "1.650000001"), why: "exceed its cap"},
		"released without an order":      {sound: raise("bob", 1, "0.3"), forged: raise("eve", 1, "0.3"), why: "above its ceiling of 0"},
		"charged above the ceiling":      {sound: []event.Change{charge("bob", "0.4"), with(*bobs, func(a *event.Answered) { a.Epsilon = eps(t, "0.4") })}, forged: []event.Change{charge("bob", "0.400000001"), with(*bobs, func(a *event.Answered) { a.Epsilon = eps(t, "0.400000001") })}, why: "above its ceiling of 0.5"},
		"charged for no answer":          {sound: answer, forged: answer[:1], why: "1 objects are charged, and no answer follows"},
		"charged, and then something":    {sound: append(slices.Clone(answer), &event.Withdrawn{Object: "bob"}), forged: []event.Change{answer[0], &event.Withdrawn{Object: "bob"}, answer[1]}, why: "objects are charged, and no answer follows"},
		"charged less than it costs":     {sound: answer, forged: []event.Change{charge("bob", "0.099999999"), bobs}, why: "not every object in the panel"},
		"charged nothing":                {sound: answer, forged: []event.Change{charge("bob", "0"), bobs}, why: "is charged 0"},
		"charged by question":            {sound: answer, forged: []event.Change{charge("bob", "0.1"), with(*bobs, func(a *event.Answered) { a.Question, a.Result = 2, event.Result{Scored: true} })}, why: "not every object in the panel"},
		"one charged less":               {sound: both, forged: []event.Change{charge("ann", "0.1"), charge("bob", "0.05"), both[2]}, why: "unlike the other objects of the panel"},
		"one charged for another":        {sound: both, forged: []event.Change{&event.Charged{Object: "ann", Question: 2, Epsilon: eps(t, "0.1")}, charge("bob", "0.1"), both[2]}, why: "unlike the other objects of the panel"},
		"charged in no question":         {sound: answer, forged: []event.Change{&event.Charged{Object: "bob", Question: 2, Epsilon: eps(t, "0.1")}, bobs}, why: "is not enrolled"},
		"charged after it has gone":      {sound: answer, forged: []event.Change{charge("dan", "0.1"), bobs}, why: "has withdrawn, and an event"},
		"a larger panel":                 {sound: answer, forged: []event.Change{answer[0], with(*bobs, func(a *event.Answered) { a.Objects = 2 })}, why: "not every object in the panel of 2"},
		"a smaller panel":                {sound: both, forged: []event.Change{both[0], both[1], bobs}, why: "not every object in the panel of 1"},
		"a panel of no object":           {sound: answer, forged: []event.Change{with(*bobs, func(a *event.Answered) { a.Objects = 0 })}, why: "about 0 objects"},
		"a free answer":                  {sound: answer, forged: []event.Change{bobs}, why: "not every object in the panel of 1"},
		"an answer that cannot be":       {sound: answer, forged: []event.Change{answer[0], with(*bobs, func(a *event.Answered) { a.Output = 3 })}, why: "3"},
		"a query that there is not":      {sound: answer, forged: []event.Change{answer[0], with(*bobs, func(a *event.Answered) { a.Query = "loser" })}, why: "loser"},
		"a query about no value":         {sound: answer, forged: []event.Change{answer[0], with(*bobs, func(a *event.Answered) { a.Query = "majority:maybe" })}, why: "maybe"},
		"an answer at 0":                 {sound: answer, forged: []event.Change{with(former, func(a *event.Answered) { a.Epsilon, a.Method, a.Base = eps(t, "0"), event.MethodDegrade, fillBase })}, why: "at ε=0"},
		"a second answer":                {sound: answer, forged: []event.Change{charge("ann", "0.1"), charge("bob", "0.1"), &former}, why: "an answer at ε=0.1 is recorded twice"},
		"a derived answer is charged":    {sound: lower(nothing), forged: append([]event.Change{charge("ann", "0.05"), charge("bob", "0.05")}, lower(nothing)...), why: "not every object in the panel"},
		"derived from none":              {sound: lower(nothing), forged: lower(func(a *event.Answered) { a.Panel[0]++ }), why: "an answer at ε=0.05 by method degrade is not possible with 0"},
		"derived from below":             {sound: lower(nothing), forged: lower(func(a *event.Answered) { a.Epsilon = eps(t, "0.2") }), why: "an answer at ε=0.2 by method degrade is not possible with 1"},
		"derived about others":           {sound: lower(nothing), forged: lower(func(a *event.Answered) { a.Objects = 3 }), why: "objects is derived from an answer about another number of objects"},
		"raised for less":                {sound: raised, forged: to("0.2", "0.099999999", event.MethodRaise, nothing), why: "not every object in the panel"},
		"raised for more":                {sound: raised, forged: to("0.2", "0.15", event.MethodRaise, nothing), why: "not every object in the panel"},
		"raised for nothing":             {sound: raised, forged: to("0.2", "", event.MethodRaise, nothing), why: "not every object in the panel of 2"},
		"raised for one alone":           {sound: raised, forged: []event.Change{charge("bob", "0.1"), raised[2]}, why: "not every object in the panel of 2"},
		"raised about fewer": {sound: raised, forged: []event.Change{charge("bob", "0.1"), with(former, func(a *event.Answered) {
			a.Epsilon, a.Method, a.Objects, a.Base = eps(t, "0.2"), event.MethodRaise, 1, fillBase
		})}, why: "an answer about 1 objects is derived from an answer about another number of objects"},
		"fresh for the difference": {sound: raised, forged: to("0.2", "0.1", event.MethodFresh, nothing), why: "not every object in the panel", after: 10 * time.Hour},
		"raised in full":           {sound: to("0.2", "0.2", event.MethodFresh, nothing), forged: to("0.2", "0.2", event.MethodRaise, nothing), why: "not every object in the panel", after: 10 * time.Hour},
		"raised below the top":     {sound: after(raised, to("0.3", "0.1", event.MethodRaise, nothing)...), forged: after(raised, to("0.15", "0.05", event.MethodRaise, nothing)...), why: "an answer is raised to ε=0.15, with 1 recorded answers below and 1 above", after: 10 * time.Hour},
		"raised from none":         {sound: raised, forged: to("0.2", "0.1", event.MethodRaise, func(a *event.Answered) { a.Panel[0]++ }), why: "an answer is raised to ε=0.2, with 0 recorded answers below and 0 above"},
		"raised to where it is":    {sound: raised, forged: to("0.1", "0.1", event.MethodRaise, nothing), why: "an answer at ε=0.1 is recorded twice"},
		"raised as an output":      {sound: raised, forged: to("0.2", "0.1", event.MethodRaise, func(a *event.Answered) { a.Result = event.Result{Output: 1} }), why: "has probability 0"},
		"raised from an output": {sound: after(answer, charge("bob", "0.2"), with(*bobs, func(a *event.Answered) { a.Epsilon = eps(t, "0.2") })), forged: after(answer, charge("bob", "0.1"), with(*bobs, func(a *event.Answered) {
			a.Epsilon, a.Method, a.Result = eps(t, "0.2"), event.MethodRaise, event.Result{Scored: true}
		})), why: "a score, but the query has 3 answers"},
		"an output that there is not":   {sound: to("0.2", "0.2", event.MethodFresh, nothing), forged: to("0.2", "0.2", event.MethodFresh, func(a *event.Answered) { a.Result = event.Result{Output: 2} }), why: "2", after: 10 * time.Hour},
		"a score for the winner":        {sound: answer, forged: []event.Change{answer[0], with(*bobs, func(a *event.Answered) { a.Result = event.Result{Scored: true} })}, why: "a score, but the query has 3 answers"},
		"fresh below one that is there": {sound: to("0.2", "0.2", event.MethodFresh, nothing), forged: to("0.05", "0.05", event.MethodFresh, nothing), why: "a fresh answer at ε=0.05 is below a recorded answer", after: 10 * time.Hour},
		"inserted below all":            {sound: lower(nothing), forged: lower(func(a *event.Answered) { a.Method = event.MethodInsert }), why: "an answer at ε=0.05 by method insert is not possible with 1"},
		"degraded between two":          {sound: after(raised, to("0.15", "", event.MethodInsert, nothing)...), forged: after(raised, to("0.15", "", event.MethodDegrade, nothing)...), why: "an answer at ε=0.15 by method degrade is not possible with 2"},
		"inserted above all":            {sound: after(raised, to("0.15", "", event.MethodInsert, nothing)...), forged: after(raised, to("0.25", "", event.MethodInsert, nothing)...), why: "an answer at ε=0.25 by method insert is not possible with 2"},
		"inserted as an output":         {sound: after(raised, to("0.15", "", event.MethodInsert, nothing)...), forged: after(raised, to("0.15", "", event.MethodDegrade, func(a *event.Answered) { a.Result = event.Result{Output: 1} })...), why: "has probability 0"},
		"inserted for a charge":         {sound: after(raised, to("0.15", "", event.MethodInsert, nothing)...), forged: after(raised, to("0.15", "0.05", event.MethodInsert, nothing)...), why: "not every object in the panel", after: 10 * time.Hour},
		"raised after an epoch":         {sound: after(bobBack, to("0.2", "0.2", event.MethodFresh, nothing)...), forged: after(bobBack, raised...), why: "and an object of its panel was forgotten", after: 10 * time.Hour},
		"inserted between beginnings":   {sound: after(after(bobBack, to("0.2", "0.2", event.MethodFresh, nothing)...), to("0.15", "", event.MethodDegrade, nothing)...), forged: after(after(bobBack, to("0.2", "0.2", event.MethodFresh, nothing)...), to("0.15", "", event.MethodInsert, nothing)...), why: "an answer at ε=0.15 by method insert is not possible with 2", after: 10 * time.Hour},
		"a response that there is not":  {sound: []event.Change{&event.Released{Object: "ann", Question: 2, Epsilon: eps(t, "0.1"), Response: event.Response{Value: event.Value{Index: 1}, Method: event.MethodRaise}}}, forged: []event.Change{&event.Released{Object: "ann", Question: 2, Epsilon: eps(t, "0.1"), Response: event.Response{Value: event.Value{Index: 2}, Method: event.MethodRaise}}}, why: "the response value 2"},
		"drawn below the current level": {sound: raise("ann", 1, "0.3"), forged: raise("ann", 1, "0.2"), why: "by method raise"},
	}
}

func (bl baseLog) requests(t *testing.T) map[string]soundAndForged {
	t.Helper()
	left := func(names ...string) (all []event.Change) {
		for _, name := range names {
			all = append(all, &event.ObjectRefused{Question: 1, Refusal: api.Refusal{Object: name, Reason: api.NotEnrolled, Asked: eps(t, "0.5"), Remedy: "enrolling"}})
		}
		return all
	}
	refused := func(n uint64) event.Change { return bl.end(func(c *event.Settled) { c.Refused = n }) }
	next := uint64(len(bl.log)) + 1
	answer := uint64(indexOf(t, bl.log, func(c event.Change) bool { return c.Kind() == event.KindAnswered })) + 1
	again := func(ev uint64) event.Change {
		return bl.end(func(c *event.Settled) { c.Answer, c.Counts = ev, event.Counts{event.Reused: 1} })
	}
	raise := func(name string) event.Change {
		return &event.Released{Object: name, Question: 1, Epsilon: eps(t, "0.3"), Response: event.Response{Value: event.Value{Index: 1}, Method: event.MethodRaise}}
	}
	nothing := func(*event.Settled) {}
	settledWith := func(edit func(*event.Settled)) []event.Change {
		return []event.Change{raise("bob"), bl.end(func(c *event.Settled) { c.Counts[event.Drawn] = 1; edit(c) })}
	}
	swept := func(one event.SweptCount, counts event.Counts) []event.Change {
		return settledWith(func(c *event.Settled) { c.Swept, c.Counts = []event.SweptCount{one}, counts })
	}
	asSwept := swept(event.SweptCount{Question: 1, Raised: 1, Unchanged: 2}, event.Counts{1, 2, 0})
	part := func(done uint64) []event.Change {
		return settledWith(func(c *event.Settled) { c.Final, c.Done = false, done })
	}
	later := func(done uint64) []event.Change {
		return append(left("zoe"), bl.end(func(c *event.Settled) { c.Final, c.Refused, c.Done = false, 1, done }))
	}
	return map[string]soundAndForged{
		"a million raised":    {sound: settledWith(nothing), forged: settledWith(func(c *event.Settled) { c.Counts[event.Drawn] = 1_000_000 }), why: "counts [1000000 0 0]"},
		"two raised":          {sound: settledWith(nothing), forged: settledWith(func(c *event.Settled) { c.Counts[event.Drawn] = 2 }), why: "counts [2 0 0], but its events enrol, withdraw or put under other terms 0 objects, raise 1 and derive"},
		"none raised":         {sound: settledWith(nothing), forged: settledWith(func(c *event.Settled) { c.Counts = event.Counts{} }), why: "counts [0 0 0], but its events enrol, withdraw or put under other terms 0 objects, raise 1 and derive"},
		"derived, not raised": {sound: settledWith(nothing), forged: settledWith(func(c *event.Settled) { c.Counts = event.Counts{event.Derived: 1} }), why: "counts [0 0 1]"},
		"more had it than there are": {sound: settledWith(nothing), forged: settledWith(func(c *event.Settled) {
			c.Counts[event.Reused], c.Again = 1000, event.Wanted{Question: 1, Epsilon: eps(t, "0.3")}
		}), why: "hands out 1001 responses"},
		"it cost less":                {sound: settledWith(nothing), forged: settledWith(func(c *event.Settled) { c.Spent, c.First = 1, next }), why: "costs 1 nano-nats, but its events cost 300000000"},
		"it cost more":                {sound: settledWith(nothing), forged: settledWith(func(c *event.Settled) { c.Spent, c.First = 300_000_001, next }), why: "costs 300000001 nano-nats, but its events cost 300000000"},
		"it began before":             {sound: settledWith(nothing), forged: settledWith(func(c *event.Settled) { c.First = next - 1 }), why: "but has 1 events"},
		"of those to come":            {sound: settledWith(nothing), forged: settledWith(func(c *event.Settled) { c.Through = next + 1 }), why: "of objects up to event"},
		"another sweep than was":      {sound: asSwept, forged: swept(event.SweptCount{Question: 1, Unchanged: 2}, event.Counts{0, 2, 0}), why: "counts 0 raised chains of question 1, but its events raise 1"},
		"a sweep of another question": {sound: asSwept, forged: swept(event.SweptCount{Question: 2, Raised: 1, Unchanged: 2}, event.Counts{1, 2, 0}), why: "counts 1 raised chains of question 2, but its events raise 0"},
		"a sweep of other counts":     {sound: asSwept, forged: swept(event.SweptCount{Question: 1, Raised: 1, Unchanged: 2}, event.Counts{1, 0, 0}), why: "counts [1 0 0], but its questions count [1 2 0]"},
		"more is dealt with":          {sound: part(1), forged: part(2), why: "counts 2 objects done, but 0 were done before and 1 by this part"},
		"one refused, none counted":   {sound: append(left("zoe"), refused(1)), forged: append(left("zoe"), refused(0)), why: "counts 0 refusals, but the log has 1"},
		"one refused, two counted":    {sound: append(left("new", "zoe"), refused(2)), forged: append(left("zoe"), refused(2)), why: "counts 2 refusals, but the log has 1"},
		"none refused, one counted":   {sound: []event.Change{refused(0)}, forged: []event.Change{refused(1)}, why: "counts 1 refusals, but the log has 0"},
		"refused by no request":       {sound: append(left("zoe"), refused(1)), forged: left("zoe"), why: "1 refusals,"},
		"refused, and then something": {sound: append([]event.Change{&event.Withdrawn{Object: "bob"}}, append(left("zoe"), refused(1))...), forged: append(left("zoe"), &event.Withdrawn{Object: "bob"}, refused(1)), why: "no request settles 1 refusals"},
		"a name that cannot be":       {sound: append(left("new"), refused(1)), forged: append(left("ne\nw"), refused(1)), why: "control character"},
		"no object is refused":        {sound: append(left("new"), refused(1)), forged: append(left(""), refused(1)), why: "is empty"},
		"begun by no event":           {sound: []event.Change{bl.end()}, forged: []event.Change{bl.end(func(c *event.Settled) { c.First = 0 })}, why: "begun by event 0"},
		"begun after its end":         {sound: []event.Change{bl.end()}, forged: []event.Change{bl.end(func(c *event.Settled) { c.First = next + 1 })}, why: "begun by event"},
		"answered after its end":      {sound: []event.Change{again(answer)}, forged: []event.Change{again(next)}, why: "settles the answer of event"},
		"answered by something else":  {sound: []event.Change{again(answer)}, forged: []event.Change{again(answer - 1)}, why: "which is not an answer"},
		"answered, and none counted":  {sound: []event.Change{again(answer)}, forged: []event.Change{bl.end(func(c *event.Settled) { c.Answer = answer })}, why: "counts [0 0 0]"},
		"answered again, and drawn":   {sound: []event.Change{again(answer)}, forged: []event.Change{bl.end(func(c *event.Settled) { c.Answer, c.Counts = answer, event.Counts{event.Drawn: 1} })}, why: "counts [1 0 0]"},
		"answered again, without zoe": {sound: []event.Change{again(answer)}, forged: append(left("zoe"), bl.end(func(c *event.Settled) { c.Answer, c.Counts, c.Refused = answer, event.Counts{event.Reused: 1}, 1 })), why: "left out 0, or others"},
		"at an end, and not":          {sound: []event.Change{bl.end(func(c *event.Settled) { c.Final, c.Object = false, "ann" })}, forged: []event.Change{bl.end(func(c *event.Settled) { c.Object = "ann" })}, why: "its settled event is not one of such a request"},
		"ends with an odd name":       {sound: []event.Change{bl.end(func(c *event.Settled) { c.Final, c.Object = false, "fay" })}, forged: []event.Change{bl.end(func(c *event.Settled) { c.Final, c.Object = false, "\t" })}, why: "which is unknown or not its last object"},
		"done twice":                  {sound: []event.Change{bl.end(func(c *event.Settled) { c.Final, c.Object = false, "ann" }), bl.end()}, forged: []event.Change{bl.end(), bl.end()}, why: `request "x" is settled twice`},
		"a part of other objects":     {sound: []event.Change{bl.end(func(c *event.Settled) { c.Final, c.Object = false, "ann" }), bl.end()}, forged: []event.Change{bl.end(func(c *event.Settled) { c.Final, c.Object = false, "ann" }), bl.end(func(c *event.Settled) { c.Through = 1 })}, why: "of objects up to event 1"},
		"a part without progress":     {sound: append(part(1), later(2)...), forged: append(part(1), later(1)...), why: "counts 1 objects done, but 1 were done before and 1 by this part"},
		"a part of another":           {sound: []event.Change{bl.end(func(c *event.Settled) { c.Final, c.Object = false, "ann" }), bl.end()}, forged: []event.Change{bl.end(func(c *event.Settled) { c.Final, c.Object = false, "ann" }), bl.end(func(c *event.Settled) { c.Digest[0]++ })}, why: `request "x" is settled twice`},
	}
}

func (bl baseLog) lastEvents(t *testing.T) map[string]soundAndForged {
	t.Helper()
	ann, zoe := bl.forgotten["ann"], bl.forgotten["zoe"]
	forgets := func(c event.Forgotten, edit func(*event.Forgotten)) []event.Change {
		c.Chains = slices.Clone(c.Chains)
		edit(&c)
		return []event.Change{&c}
	}
	states := func(name string, edit func(*event.Stated)) []event.Change {
		c := bl.stated[name]
		c.Events = slices.Clone(c.Events)
		edit(&c)
		return []event.Change{&c}
	}
	all := forgets(ann, func(*event.Forgotten) {})
	stranger := forgets(zoe, func(*event.Forgotten) {})
	whole := states("ann", func(*event.Stated) {})
	one := nano(t, 1)
	out := map[string]soundAndForged{
		"more events":                 {sound: all, forged: forgets(ann, func(c *event.Forgotten) { c.Events++ }), why: "events, but the log has"},
		"fewer events":                {sound: all, forged: forgets(ann, func(c *event.Forgotten) { c.Events-- }), why: "events, but the log has"},
		"no events":                   {sound: all, forged: forgets(ann, func(c *event.Forgotten) { c.Events = 0 }), why: "0 events, but the log has"},
		"no end of events":            {sound: all, forged: forgets(ann, func(c *event.Forgotten) { c.Events = 1<<64 - 1 }), why: "events, but the log has"},
		"forgotten with another cap":  {sound: all, forged: forgets(ann, func(c *event.Forgotten) { c.Cap = state.Plus(c.Cap, one) }), why: "its terms are not those that it had"},
		"forgotten without a cap":     {sound: all, forged: forgets(ann, func(c *event.Forgotten) { *c = event.Forgotten{Object: c.Object, Events: c.Events} }), why: "are not what it has spent"},
		"forgotten with a lower sum":  {sound: all, forged: forgets(ann, func(c *event.Forgotten) { c.Spent = state.Minus(c.Spent, one) }), why: "are not what it has spent"},
		"forgotten with a higher sum": {sound: all, forged: forgets(ann, func(c *event.Forgotten) { c.Spent = state.Plus(c.Spent, one) }), why: "are not what it has spent"},
		"forgotten with earnings":     {sound: all, forged: forgets(ann, func(c *event.Forgotten) { c.Earned++ }), why: "events, but the log has"},
		"forgotten without earnings":  {sound: forgets(bl.forgotten["cid"], func(*event.Forgotten) {}), forged: forgets(bl.forgotten["cid"], func(c *event.Forgotten) { c.Earned-- }), why: "events, but the log has"},
		"a chain has spent less": {sound: all, forged: forgets(ann, func(c *event.Forgotten) {
			c.Chains[0].Spent, c.Spent = state.Minus(c.Chains[0].Spent, one), state.Minus(c.Spent, one)
		}), why: "are not what it has spent"},
		"a chain has spent more": {sound: all, forged: forgets(ann, func(c *event.Forgotten) { c.Chains[1].Spent, c.Spent = one, state.Plus(c.Spent, one) }), why: "are not what it has spent"},
		"one chain for another": {sound: all, forged: forgets(ann, func(c *event.Forgotten) {
			c.Chains[1].Spent, c.Chains[0].Spent = one, state.Minus(c.Chains[0].Spent, one)
		}), why: "has not spent"},
		"a chain under another policy":  {sound: all, forged: forgets(ann, func(c *event.Forgotten) { c.Chains[0].Policy = 2 }), why: "its terms are not those that it had"},
		"a chain without its policy":    {sound: all, forged: forgets(ann, func(c *event.Forgotten) { c.Chains[0].Policy = 0 }), why: "its terms are not those that it had"},
		"a chain under no known policy": {sound: all, forged: forgets(ann, func(c *event.Forgotten) { c.Chains[0].Policy = 4 }), why: "chain of question 1 under policy 4"},
		"a chain of no known question":  {sound: all, forged: forgets(ann, func(c *event.Forgotten) { c.Chains = append(c.Chains, event.Remnant{Question: 3}) }), why: "chain of question 3"},
		"a chain of no question":        {sound: all, forged: forgets(ann, func(c *event.Forgotten) { c.Chains[0].Question = 0 }), why: "chain of question 0"},
		"a chain left out":              {sound: all, forged: forgets(ann, func(c *event.Forgotten) { c.Chains = c.Chains[:1] }), why: "are not what it has spent"},
		"chains out of order":           {sound: all, forged: forgets(ann, func(c *event.Forgotten) { slices.Reverse(c.Chains) }), why: "chain of question 1"},
		"a chain twice":                 {sound: all, forged: forgets(ann, func(c *event.Forgotten) { c.Chains[1] = event.Remnant{Question: 1, Policy: 1, Spent: eps(t, "0")} }), why: "chain of question 1"},
		"a chain that there is not":     {sound: forgets(bl.forgotten["bob"], func(*event.Forgotten) {}), forged: forgets(bl.forgotten["bob"], func(c *event.Forgotten) { c.Chains = append(c.Chains, event.Remnant{Question: 2}) }), why: "has not spent"},
		"a stranger with a cap":         {sound: stranger, forged: forgets(zoe, func(c *event.Forgotten) { c.Cap = one }), why: "its totals are not possible"},
		"a stranger with earnings":      {sound: stranger, forged: forgets(zoe, func(c *event.Forgotten) { c.Earned = 1 }), why: "its totals are not possible"},
		"a stranger with a chain":       {sound: stranger, forged: forgets(zoe, func(c *event.Forgotten) { c.Cap, c.Chains = one, []event.Remnant{{Question: 1}} }), why: "has not spent"},
		"a stranger with a chain, 2":    {sound: stranger, forged: forgets(zoe, func(c *event.Forgotten) { c.Chains = []event.Remnant{{Question: 1}} }), why: "its totals are not possible"},
		"a stranger with more events":   {sound: stranger, forged: forgets(zoe, func(c *event.Forgotten) { c.Events++ }), why: "events, but the log has"},
		"an unknown object":             {sound: stranger, forged: forgets(zoe, func(c *event.Forgotten) { c.Object = "new" }), why: "events, but the log has"},
		"an unknown object, 2":          {sound: stranger, forged: forgets(zoe, func(c *event.Forgotten) { c.Object, c.Events = "new", 0 }), why: "its totals are not possible"},
		"forgotten without a name":      {sound: stranger, forged: forgets(zoe, func(c *event.Forgotten) { c.Object = "" }), why: "is empty"},
		"forgotten twice":               {sound: all, forged: append(slices.Clone(all), all...), why: "events, but the log has"},
		"forgotten twice of no events":  {sound: all, forged: append(slices.Clone(all), forgets(ann, func(c *event.Forgotten) { c.Events = 0 })...), why: "its totals are not possible"},
		"a response of the forgotten":   {sound: all, forged: append(slices.Clone(all), &event.Released{Object: "ann", Question: 1, Epsilon: eps(t, "0.3"), Response: event.Response{Value: event.Value{Index: 1}, Method: event.MethodRaise}}), why: "has withdrawn, and an event"},
		"the forgotten spend it again":  {sound: append(slices.Clone(all), &event.Enrolled{Object: "ann", Question: 2, Policy: 0, Noise: 0, Cap: eps(t, "2")}, &event.Released{Object: "ann", Question: 2, Epsilon: eps(t, "1.65"), Response: event.Response{Value: event.Value{Index: 1}, Method: event.MethodRaise}}), forged: append(slices.Clone(all), &event.Enrolled{Object: "ann", Question: 2, Policy: 0, Noise: 0, Cap: eps(t, "2")}, &event.Released{Object: "ann", Question: 2, Epsilon: eps(t, "1.650000001"), Response: event.Response{Value: event.Value{Index: 1}, Method: event.MethodRaise}}), why: "exceed its cap"},
		"and under the same ceiling":    {sound: append(slices.Clone(all), &event.Enrolled{Object: "ann", Question: 1, Policy: 1, Noise: 0, Cap: eps(t, "2")}, &event.Released{Object: "ann", Question: 1, Epsilon: eps(t, "0.15"), Response: event.Response{Value: event.Value{Index: 1}, Method: event.MethodRaise}}), forged: append(slices.Clone(all), &event.Enrolled{Object: "ann", Question: 1, Policy: 1, Noise: 0, Cap: eps(t, "2")}, &event.Released{Object: "ann", Question: 1, Epsilon: eps(t, "0.150000001"), Response: event.Response{Value: event.Value{Index: 1}, Method: event.MethodRaise}}), why: "above its ceiling of 0.5"},
		"back under another policy":     {sound: append(slices.Clone(all), &event.Enrolled{Object: "ann", Question: 1, Policy: 1, Noise: 0, Cap: eps(t, "2")}), forged: append(slices.Clone(all), &event.Enrolled{Object: "ann", Question: 1, Policy: 2, Noise: 0, Cap: eps(t, "2")}), why: "with another policy or cap than it had"},
		"back with another cap":         {sound: append(slices.Clone(all), &event.Enrolled{Object: "ann", Question: 1, Policy: 1, Noise: 0, Cap: eps(t, "2")}), forged: append(slices.Clone(all), &event.Enrolled{Object: "ann", Question: 1, Policy: 1, Noise: 0, Cap: eps(t, "3")}), why: "with another policy or cap than it had"},

		"stated, but one event":             {sound: whole, forged: states("ann", func(c *event.Stated) { c.Events = c.Events[1:] }), why: "does not list all its events, or has other amounts"},
		"stated, but the last":              {sound: whole, forged: states("ann", func(c *event.Stated) { c.Events = c.Events[:len(c.Events)-1] }), why: "does not list all its events, or has other amounts"},
		"stated, and one more":              {sound: whole, forged: states("ann", func(c *event.Stated) { c.Events = append([]uint64{1}, c.Events...) }), why: "does not list all its events, or has other amounts"},
		"stated, and itself":                {sound: whole, forged: states("ann", func(c *event.Stated) { c.Events = append(c.Events, uint64(len(bl.log))+1) }), why: "does not list all its events, or has other amounts"},
		"stated of another":                 {sound: whole, forged: states("ann", func(c *event.Stated) { c.Object = "bob" }), why: "does not list all its events, or has other amounts"},
		"stated with another's events":      {sound: whole, forged: states("ann", func(c *event.Stated) { c.Events = bl.stated["bob"].Events }), why: "does not list all its events, or has other amounts"},
		"stated out of order":               {sound: whole, forged: states("ann", func(c *event.Stated) { slices.Reverse(c.Events) }), why: "does not list all its events, or has other amounts"},
		"stated of a stranger":              {sound: whole, forged: states("ann", func(c *event.Stated) { *c = event.Stated{Object: "zoe"} }), why: "which does not exist"},
		"stated with less spent":            {sound: whole, forged: states("ann", func(c *event.Stated) { c.Spent = state.Minus(c.Spent, one) }), why: "does not list all its events, or has other amounts"},
		"stated with another cap":           {sound: whole, forged: states("ann", func(c *event.Stated) { c.Cap = state.Plus(c.Cap, one) }), why: "does not list all its events, or has other amounts"},
		"stated with less earned":           {sound: states("cid", func(*event.Stated) {}), forged: states("cid", func(c *event.Stated) { c.Earned-- }), why: "does not list all its events, or has other amounts"},
		"stated as forgotten":               {sound: whole, forged: states("ann", func(c *event.Stated) { c.Forgotten = 1 }), why: "does not list all its events, or has other amounts"},
		"stated twice, without the former":  {sound: whole, forged: append(slices.Clone(whole), whole...), why: "does not list all its events, or has other amounts"},
		"stated after all was forgotten":    {sound: append(slices.Clone(all), states("ann", func(c *event.Stated) { c.Events, c.Forgotten = nil, uint64(len(bl.log))+1 })...), forged: append(slices.Clone(all), whole...), why: "does not list all its events, or has other amounts"},
		"stated, but that it was forgotten": {sound: append(slices.Clone(all), states("ann", func(c *event.Stated) { c.Events, c.Forgotten = nil, uint64(len(bl.log))+1 })...), forged: append(slices.Clone(all), states("ann", func(c *event.Stated) { c.Events = nil })...), why: "does not list all its events, or has other amounts"},
	}
	return out
}

func TestApply_ForgedEvents_AreRefused(t *testing.T) {
	g := newBaseLog(t, nil)
	must(t, replayWhole(&kv.Memory{}, g.log))
	for _, forgeries := range []map[string]soundAndForged{g.definitions(t), g.draws(t), g.requests(t), g.sales(t), g.captures(t), g.holds(t), g.lastEvents(t), g.terms(t), g.dealsUnderOtherTerms(t), g.refusedTerms(t), g.withdrawals(t)} {
		for name, one := range forgeries {
			t.Run(name, func(t *testing.T) { g.wantRefused(t, one) })
		}
	}
}

// wantRefused checks that a forgery cannot be appended to the base log, and that the sound events
// it was made from can.
func (bl baseLog) wantRefused(t *testing.T, one soundAndForged) {
	t.Helper()
	follow := func(changes []event.Change, after time.Duration) error {
		if !one.settled {
			changes = withSettled(uint64(len(bl.log))+1, changes)
		}
		log := followedBy(changes...)(slices.Clone(bl.log))
		for i := range log[len(bl.log):] {
			log[len(bl.log)+i].Time = epoch().Add(after)
		}
		return replayWhole(&kv.Memory{}, log)
	}
	must(t, follow(one.sound, cmp.Or(one.soundAfter, one.after)))
	wantForged(t, follow(one.forged, one.after), one.why)
}

// The first event says how the ledger was created, and no other event does.
func TestApply_ForgedFirstEvent_IsRefused(t *testing.T) {
	g := newBaseLog(t, truthKey())
	for name, one := range map[string]struct {
		why   string
		forge func(log []event.Event) []event.Event
	}{
		"created twice":   {"the creation of the ledger must be the first event, and only that", followedBy(&event.Created{Currency: "EUR"})},
		"never created":   {"the creation of the ledger must be the first event, and only that", func(log []event.Event) []event.Event { return renumber(log[1:]) }},
		"no currency":     {"the currency is empty", func(log []event.Event) []event.Event { log[0].Change = &event.Created{}; return log }},
		"an odd currency": {"control character", func(log []event.Event) []event.Event { log[0].Change = &event.Created{Currency: "E\rR"}; return log }},
		"bound without a key": {"without a truth key", func(log []event.Event) []event.Event {
			i := indexOf(t, log, func(c event.Change) bool { return c.Kind() == event.KindTruthKey })
			log[i].Change = &event.NoiseKeySet{Number: 1, Name: "2026", Check: event.Tag{1}}
			return log
		}},
	} {
		t.Run(name, func(t *testing.T) {
			wantForged(t, replayWhole(&kv.Memory{}, one.forge(slices.Clone(g.log))), one.why)
		})
	}
}

// erasedLog is a sound log in which one object, ann, and one stranger, zoe, are erased, and bob is
// not.
func erasedLog(t *testing.T) []event.Event {
	t.Helper()
	s := &kv.Memory{}
	begin(t, s)
	l := sellers(t, openMemory(t, s, Options{Now: epoch, TruthKey: truthKey()}), "3", "2", "ann", "bob")
	l.engine.Chances.Values, l.requests.Sampler = steadySampler(), medians()
	sell(t, l, partialSale(purchase(t, "1", "acme", "0.5", "ann", "bob", "zoe")))
	reserve(t, l, api.ReserveRequest{Key: "2", Order: purchase(t, "", "acme", "1", "ann", "bob").Order, For: time.Hour})
	answerTo(t, l, answerRequest(t, "3", "majority:yes", "0.25", ballots("ann", "bob"), "ann", "bob"))
	release(t, l, releaseOf(t, "4", "ann", "0.75"))
	_, _, err := l.engine.Submit(t.Context(), func(s *state.State) ([]event.Change, error) {
		return []event.Change{&event.Settled{Key: "5", Digest: [32]byte{5}, First: s.Counters.Events + 1, Object: "ann"}}, nil
	})
	must(t, err)
	makeStatement(t, l, "ann")
	must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "6", Object: "ann"}))
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "7", Object: "ann"}))
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "8", Object: "zoe"}))
	auditStore(t, s)
	return logOf(t, pairs(t, s))
}

// forgedEvent returns a function that changes the first event of a type that is erased, or that is
// not.
func forgedEvent[C any, P interface {
	*C
	event.Change
}](erased bool, edit func(*C)) func(*testing.T, []event.Event) []event.Event {
	return func(t *testing.T, log []event.Event) []event.Event {
		i := slices.IndexFunc(log, func(ev event.Event) bool {
			_, is := ev.Change.(P)
			return is && (ev.Erased != nil) == erased
		})
		check.Need(t, i >= 0, "no event of this kind")
		c := *log[i].Change.(P)
		edit(&c)
		log[i].Change = P(&c)
		return log
	}
}

// erasedAt returns a log with one more event erased.
func erasedAt(log []event.Event, at int) []event.Event {
	log = slices.Clone(log)
	log[at] = event.Entry{Event: log[at]}.Erase().Event
	return log
}

// After objects are forgotten, what is left of the log must be consistent with what their forgotten
// events say.
func TestApply_ForgedErasures_AreRefused(t *testing.T) {
	about := func(t *testing.T, log []event.Event, name string) *event.Event {
		t.Helper()
		i := indexOf(t, log, func(c event.Change) bool { f, ok := c.(*event.Forgotten); return ok && f.Object == name })
		return &log[i]
	}
	forget := func(name string, edit func(*event.Forgotten)) func(*testing.T, []event.Event) []event.Event {
		return func(t *testing.T, log []event.Event) []event.Event {
			ev := about(t, log, name)
			c := *ev.Change.(*event.Forgotten)
			c.Chains = slices.Clone(c.Chains)
			edit(&c)
			ev.Change = &c
			return log
		}
	}
	whole := erasedLog(t)
	kinds := map[event.Kind]bool{}
	for _, ev := range whole {
		if ev.Erased != nil {
			kinds[ev.Change.Kind()] = true
		}
	}
	for _, k := range []event.Kind{event.KindEnrolled, event.KindReleased, event.KindSettled, event.KindCharged, event.KindHeld, event.KindSold, event.KindWithdrawn, event.KindBound, event.KindRefused, event.KindStated} {
		check.That(t, kinds[k], "no event of kind %s is erased", k)
	}
	must(t, replayWhole(&kv.Memory{}, whole))
	for name, one := range map[string]struct {
		why   string
		forge func(t *testing.T, log []event.Event) []event.Event
	}{
		"no event says it is forgotten":    {"erased events", func(t *testing.T, log []event.Event) []event.Event { return log[:len(log)-4] }},
		"no event says so of the stranger": {"1 erased events", func(t *testing.T, log []event.Event) []event.Event { return log[:len(log)-2] }},
		"fewer are forgotten":              {"1 erased events", forget("ann", func(c *event.Forgotten) { c.Events-- })},
		"more are forgotten":               {"events, but the log has", forget("zoe", func(c *event.Forgotten) { c.Events++ })},
		"another's are forgotten":          {"events, but the log has", forget("ann", func(c *event.Forgotten) { c.Events += 2 })},
		"it earned more":                   {"events, but the log has", forget("ann", func(c *event.Forgotten) { c.Earned++ })},
		"it earned less":                   {"erased events", forget("ann", func(c *event.Forgotten) { c.Earned-- })},
		"it spent above its cap":           {"are not what it has spent", forget("ann", func(c *event.Forgotten) { c.Spent, c.Chains[0].Spent = eps(t, "3"), eps(t, "3") })},
		"its chains spent something else":  {"are not what it has spent", forget("ann", func(c *event.Forgotten) { c.Chains[0].Spent = eps(t, "0.5") })},
		"it spent less": {"which cost 250000000 nano-nats", forget("ann", func(c *event.Forgotten) {
			c.Spent, c.Chains[0].Spent = state.Minus(c.Spent, eps(t, "0.25")), state.Minus(c.Chains[0].Spent, eps(t, "0.25"))
		})},
		"it spent nothing":            {"which cost", forget("ann", func(c *event.Forgotten) { c.Spent, c.Chains[0].Spent = eps(t, "0"), eps(t, "0") })},
		"it had no chains":            {"its totals are not possible", forget("ann", func(c *event.Forgotten) { c.Chains, c.Spent = nil, eps(t, "0") })},
		"it had no cap":               {"its totals are not possible", forget("ann", func(c *event.Forgotten) { c.Cap = eps(t, "0") })},
		"its name cannot be":          {"control character", forget("ann", func(c *event.Forgotten) { c.Object = "an\x00n" })},
		"a stranger's name cannot be": {"control character", forget("zoe", func(c *event.Forgotten) { c.Object = "z\noe" })},
		"a stranger earned something": {"its totals are not possible", func(t *testing.T, log []event.Event) []event.Event {
			log = forget("ann", func(c *event.Forgotten) { c.Earned -= 50 })(t, log)
			return forget("zoe", func(c *event.Forgotten) { c.Earned += 50 })(t, log)
		}},
		"a stranger was more than mentioned": {"events, but the log has", func(t *testing.T, log []event.Event) []event.Event {
			mentions := uint64(0)
			for _, ev := range log {
				c, isSettled := ev.Change.(*event.Settled)
				if ev.Erased != nil && (ev.Change.Kind() == event.KindRefused || isSettled && !c.Named) {
					mentions++
				}
			}
			ann, zoe := about(t, log, "ann"), about(t, log, "zoe")
			ann.Change, zoe.Change = zoe.Change, ann.Change // exchanged, the log is as sound
			for i := range log {
				if log[i].Change.Kind() == event.KindForgotten {
					reidentify(log, i)
				}
			}
			must(t, replayWhole(&kv.Memory{}, log))
			more := mentions // with the one that it has, one more than it was mentioned
			log = forget("ann", func(c *event.Forgotten) { c.Events -= more })(t, log)
			return forget("zoe", func(c *event.Forgotten) { c.Events += more })(t, log)
		}},
		"sold for less":        {"is not the sum of its objects", forgedEvent(true, func(c *event.Sold) { c.Price-- })},
		"sold for more":        {"is not part of sale", forgedEvent(true, func(c *event.Sold) { c.Price += 51 })},
		"held for less":        {"is not the sum of its objects", forgedEvent(true, func(c *event.Held) { c.Price-- })},
		"sold in another sale": {"or is part of a sale that was not begun", forgedEvent(true, func(c *event.Sold) { c.Sale++ })},
		"it says it upgrades":  {"is not the sum of its objects", forgedEvent(false, func(c *event.SaleMade) { c.Tally.Upgrades = 2 })},
		"it counts no objects": {"its tally does not count its objects", forgedEvent(false, func(c *event.SaleMade) { c.Tally = event.SaleTally{Draws: 1} })},
		"a larger panel":       {"not every object in the panel of 3", forgedEvent(true, func(c *event.Answered) { c.Objects++ })},
		"another ε":            {"not every object in the panel", forgedEvent(true, func(c *event.Answered) { c.Epsilon = eps(t, "0.2") })},
		"fewer were refused": {"counts 0 refusals, but the log has 1", func(t *testing.T, log []event.Event) []event.Event {
			i := indexOf(t, log, isSettled("1"))
			c := *log[i].Change.(*event.Settled)
			c.Refused, c.Sale = 0, 0
			log[i].Change = &c
			return log
		}},
		"bob borrows an erased event, and has spent less": {"are not what it has spent", func(t *testing.T, log []event.Event) []event.Event {
			var o state.Object
			must(t, replayed(t, log).View(func(r kv.Reader) error {
				s, err := state.Snapshot(r)
				must(t, err)
				o, _, err = s.Object("bob")
				return err
			}))
			i := indexOf(t, log, func(c event.Change) bool { f, ok := c.(*event.Forgotten); return ok && f.Object == "ann" })
			bobs := &event.Forgotten{Object: "bob", Events: o.Total() + 1, Account: o.Account(), Chains: []event.Remnant{{Question: 1, Policy: 1, Spent: state.Minus(o.Spent, eps(t, "0.25"))}}}
			bobs.Spent = bobs.Chains[0].Spent
			log = slices.Insert(log, i, event.Event{Time: log[i].Time, Change: bobs})
			return renumber(forget("ann", func(c *event.Forgotten) { c.Events-- })(t, log))
		}},
		"an end is erased": {"is complete, but its last event is erased", func(t *testing.T, log []event.Event) []event.Event {
			return erasedAt(log, 1+indexOf(t, log, func(c event.Change) bool { _, is := c.(*event.QuestionDefined); return is }))
		}},
		"one that was not forgotten": {"is not enrolled in question 1", func(t *testing.T, log []event.Event) []event.Event {
			return erasedAt(log, indexOf(t, log, isEnrolled("bob")))
		}},
		"erased after all was forgotten": {"1 erased events", func(t *testing.T, log []event.Event) []event.Event {
			return erasedAt(followedBy(&event.Withdrawn{Object: "bob"})(log), len(log))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			wantForged(t, replayWhole(&kv.Memory{}, one.forge(t, slices.Clone(whole))), one.why)
		})
	}
	wantSameRecords(t, "replay event by event", pairs(t, replayedSingly(t, whole)), pairs(t, replayed(t, whole)))
}

func replayed(t *testing.T, log []event.Event) *kv.Memory {
	t.Helper()
	s := &kv.Memory{}
	must(t, replayWhole(s, log))
	return s
}

// Erasing an event destroys its salt, and changes neither its leaf nor the tree above it.
func TestForget_ErasedEvents_KeepTheirLeaves(t *testing.T) {
	s := &kv.Memory{}
	begin(t, s)
	l := sellers(t, openMemory(t, s, Options{Now: epoch, TruthKey: truthKey()}), "3", "2", "ann", "bob")
	sell(t, l, purchase(t, "1", "acme", "0.5"))
	before := check.Value(l.Head(t.Context(), 0))(t)
	former := logOf(t, pairs(t, s))
	must(t, l.Forget(t.Context(), api.ObjectRequest{Key: "f", Object: "ann"}))
	after := check.Value(l.Head(t.Context(), before.Events))(t)
	check.That(t, after == before,
		"the head of the first %d events was %v, and is %v", before.Events, before.Root, after.Root)
	erased := 0
	for i, ev := range logOf(t, pairs(t, s))[:before.Events] {
		check.That(t, ev.Leaf() == former[i].Leaf(), "event %d has another leaf", ev.Number)
		if ev.Erased == nil {
			continue
		}
		erased++
		if c, is := former[i].Change.(*event.Settled); is && c.Named {
			continue // of a request that names several objects
		}
		if p, ok := former[i].Change.(event.Personal); !ok || p.About() != "ann" || ev.Salt != (event.Salt{}) || ev.Change.(event.Personal).About() != "" {
			t.Errorf("event %d was %+v, and is %+v", ev.Number, former[i], ev)
		}
	}
	if erased != 4 { // enrolled, bound, sold, and the names of those enrolled
		t.Errorf("%d events are erased", erased)
	}
	must(t, check.Err(l.Consistency(t.Context(), before.Events, before.Events+2)))
	auditAll(t, l, s)
}
