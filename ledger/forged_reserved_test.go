package ledger

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/policy"
)

// captures are forgeries of whom a sale that was reserved leaves out: cid and eve were, at 0.25.
func (g ground) captures(t *testing.T) map[string]pairOfLogs {
	t.Helper()
	deal := func(objects, refused, price uint64) event.Deal {
		d := aSale(t, third, hooli, "0.25", price)
		d.Objects, d.Refused = objects, refused
		return d
	}
	reserved := withSettled(uint64(len(g.log))+1, []event.Change{
		&event.Reserved{Deal: deal(2, 0, 50), Expires: epoch().Add(200 * time.Hour)},
		&event.Held{Object: "cid", Sale: third, Price: 25, Policy: 2}, &event.Held{Object: "eve", Sale: third, Price: 25, Policy: 3},
	})
	cid := &event.Sold{Object: "cid", Sale: third, Price: 25, Response: event.Response{Value: event.Value{Index: 1}, Method: event.MethodDegrade}}
	eve := &event.Sold{Object: "eve", Sale: third, Price: 25, Response: event.Response{Value: event.Value{Index: 1}, Method: event.MethodRaise}}
	captured := func(sold []*event.Sold, tally event.SaleTally, left ...api.Refusal) []event.Change {
		counts := event.Counts{tally.Draws, 0, tally.Degradations}
		changes := []event.Change{&event.SaleMade{Deal: deal(uint64(len(sold)), uint64(len(left)), 25*uint64(len(sold))), Tally: tally}}
		for _, c := range sold {
			changes = append(changes, c)
		}
		for _, r := range left {
			changes = append(changes, &event.ObjectRefused{Question: 1, Refusal: r})
		}
		return append(append([]event.Change{}, reserved...), append(changes, g.end(func(c *event.Settled) {
			c.Sale, c.Refused, c.Counts = third, uint64(len(left)), counts
		}))...)
	}
	untold := func(name string) api.Refusal {
		return api.Refusal{Object: name, Reason: api.NoTruth, Asked: eps(t, "0.25"), Remedy: "truth"}
	}
	stranger := api.Refusal{Object: "zoe", Reason: api.NotEnrolled, Asked: eps(t, "0.25"), Remedy: "enrolling"}
	draw, degrade := event.SaleTally{Draws: 1}, event.SaleTally{Degradations: 1}
	both, noEve := captured([]*event.Sold{cid, eve}, event.SaleTally{Draws: 1, Degradations: 1}), captured([]*event.Sold{cid}, degrade, untold("eve"))
	return map[string]pairOfLogs{
		"captured without cid":               {settled: true, sound: both, forged: captured([]*event.Sold{eve}, draw), why: "names 1 objects sold and 0 refused, of 2 reserved"},
		"captured without eve":               {settled: true, sound: noEve, forged: captured([]*event.Sold{cid}, degrade), why: "names 1 objects sold and 0 refused, of 2 reserved"},
		"captured, and a stranger is out":    {settled: true, sound: both, forged: captured([]*event.Sold{cid, eve}, event.SaleTally{Draws: 1, Degradations: 1}, stranger), why: "names 2 objects sold and 1 refused, of 2 reserved"},
		"captured, a stranger out for eve":   {settled: true, sound: noEve, forged: captured([]*event.Sold{cid}, degrade, stranger), why: "refuses 1 objects that were not reserved"},
		"captured, one without truth is out": {settled: true, sound: noEve, forged: captured([]*event.Sold{cid}, degrade, untold("fay")), why: "refuses 1 objects that were not reserved"},
	}
}

// A capture leaves out everybody who cannot answer any more, each in a way of its own. All of these logs are sound: whole, and when somebody
// is forgotten whom they are about.
func TestWhateverACaptureLeavesOutIsSound(t *testing.T) {
	withdraws := func(t *testing.T, l *Ledger, name string) {
		must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "withdraws " + name, Object: name}))
	}
	back := func(t *testing.T, l *Ledger, name string) {
		_, err := l.Enroll(t.Context(), api.EnrollRequest{Key: "back " + name, Question: "vote", Policy: market(t, "1"), Cap: eps(t, "2"), Objects: []string{name}})
		must(t, err)
	}
	answers := func(t *testing.T, l *Ledger, name string) { release(t, l, releaseOf(t, "answers "+name, name, "0.1")) }
	renews := func(t *testing.T, l *Ledger, name string) {
		answers(t, l, name)
		must(t, l.BeginEpoch(t.Context(), api.EpochRequest{Key: "renews " + name, Question: "vote", Object: name}))
	}
	lowered := func(t *testing.T, l *Ledger, name string) {
		_, err := l.ChangeTerms(t.Context(), api.ChangeTermsRequest{Key: "lowers " + name, Question: "vote", Objects: []string{name}, Cap: eps(t, "0.2")})
		must(t, err)
	}
	gone := func(t *testing.T, l *Ledger, name string) { forget(t, l, name) }
	type step = func(*testing.T, *Ledger, string)
	for name, one := range map[string]struct {
		before map[string][]step // what becomes of whom, between reservation and capture
		asked  map[string][]step // while the host is asked for truths
		untold string
		left   int // how many the capture names that it leaves out
	}{
		"nobody":                              {},
		"one has no truth":                    {untold: "bob", left: 1},
		"one withdraws":                       {before: map[string][]step{"bob": {withdraws}}, left: 1},
		"one withdraws, and comes back":       {before: map[string][]step{"bob": {withdraws, back}}, left: 1},
		"one begins an epoch":                 {before: map[string][]step{"bob": {renews}}, left: 1},
		"one has a lower cap":                 {before: map[string][]step{"bob": {lowered}}, left: 1},
		"one is forgotten":                    {before: map[string][]step{"bob": {gone}}},
		"one is forgotten, and comes back":    {before: map[string][]step{"bob": {gone, back, answers}}},
		"one is forgotten, two are out":       {before: map[string][]step{"ann": {withdraws}, "bob": {gone}, "cid": {renews}}, left: 2},
		"two are forgotten":                   {before: map[string][]step{"ann": {gone}, "dan": {gone}}},
		"one is forgotten while asked":        {asked: map[string][]step{"bob": {gone}}, left: 1},
		"one is forgotten, another meanwhile": {before: map[string][]step{"ann": {gone}}, asked: map[string][]step{"dan": {gone}}, left: 1},
		"one is forgotten and back meanwhile": {before: map[string][]step{"ann": {gone}}, asked: map[string][]step{"bob": {gone, back}}, left: 1},
		"one withdraws meanwhile":             {asked: map[string][]step{"bob": {withdraws}}, untold: "ann", left: 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := &kv.Memory{}
			begin(t, s)
			l := sellers(t, openMemory(t, s, Options{Now: epoch}), "1", "2", "ann", "bob", "cid", "dan")
			reserve(t, l, api.ReserveRequest{Key: "reserves", Order: purchase(t, "", "acme", "0.5", "ann", "bob", "cid", "dan").Order, For: time.Hour})
			do := func(steps map[string][]step) {
				for _, name := range sortedKeys(steps) {
					for _, do := range steps[name] {
						do(t, l, name)
					}
				}
			}
			do(one.before)
			asked := false
			sale, err := l.Capture(t.Context(), api.CaptureRequest{Key: "captures", Reservation: 1, Partial: true, Truth: func(_ context.Context, _ string, names []string) ([]string, error) {
				values := make([]string, len(names))
				for i, name := range names {
					if values[i] = "yes"; name == one.untold {
						values[i] = ""
					}
				}
				if !asked {
					asked = true
					do(one.asked)
				}
				return values, nil
			}})
			must(t, err)
			check.That(t, len(sale.Refused) == one.left, "left out: %v", sale.Refused)
			auditAll(t, l, s)
			for i, name := range []string{"cid", "bob", "ann", "dan"} {
				must(t, l.Forget(t.Context(), api.ObjectRequest{Key: fmt.Sprint("forgets ", i), Object: name}))
				auditAll(t, l, s)
			}
		})
	}
}

// holds are reservations that a ceiling or a cap has no room for. cid has spent 0.5, of a cap of 2 and a ceiling of 1.5; eve has a share of
// 0.5 for each buyer.
func (g ground) holds(t *testing.T) map[string]pairOfLogs {
	t.Helper()
	hold := func(name string, question uint32, number uint64, buyer uint32, epsilon string, price uint64, terms uint32) []event.Change {
		d := aSale(t, number, buyer, epsilon, price)
		d.Question = question
		return []event.Change{&event.Reserved{Deal: d, Expires: epoch().Add(200 * time.Hour)}, &event.Held{Object: name, Sale: number, Price: price, Policy: terms}}
	}
	cid := func(number uint64, buyer uint32, epsilon string, price uint64, terms uint32) []event.Change {
		return hold("cid", 1, number, buyer, epsilon, price, terms)
	}
	lower := []event.Change{&event.TermsChanged{Object: "cid", Question: 1, Policy: 2, Cap: eps(t, "1")}}
	shrunk := under([]policy.Policy{groundMarket(t, func(m *policy.Market) { m.Max = eps(t, "1") })}, &event.TermsChanged{Object: "cid", Question: 1, Policy: other, Cap: eps(t, "2")})
	cancelled := []event.Change{&event.Cancelled{Sale: third}}
	newcomer := []event.Change{&event.BuyerNamed{Number: 5, Name: "umbra"}}
	smokes := []event.Change{&event.Enrolled{Object: "cid", Question: 2, Policy: 2, Cap: eps(t, "2")}}
	all := slices.Concat[[]event.Change]
	return map[string]pairOfLogs{
		"held above the ceiling":          {sound: hold("eve", 1, third, hooli, "0.5", 50, 3), forged: hold("eve", 1, third, hooli, "0.500000001", 51, 3), why: "which costs 0.500000001; the ceiling is 0.5, 0 is spent, 0.5 remains"},
		"held above the cap":              {sound: all(lower, cid(third, hooli, "1", 100, 2)), forged: all(lower, cid(third, hooli, "1.25", 125, 2)), why: "object-cap: ε=1.25 asked, which costs 0.75; the ceiling is 1, 0.5 is spent, 0.5 remains"},
		"held above what a holder holds":  {sound: all(cid(third, zeta, "1.5", 100, 2), cancelled, shrunk, cid(third+1, hooli, "0.75", 75, other)), forged: all(cid(third, zeta, "1.5", 100, 2), shrunk, cid(third+1, hooli, "0.75", 75, other)), why: "chain-ceiling: ε=0.75 asked, which costs 0.25; the ceiling is 1, 0.5 is spent, 0 remains"},
		"held above what a buyer holds":   {sound: all(cid(third, hooli, "1.5", 150, 2), cancelled, shrunk, newcomer, cid(third+1, 5, "0.75", 75, other)), forged: all(cid(third, hooli, "1.5", 150, 2), shrunk, newcomer, cid(third+1, 5, "0.75", 75, other)), why: "chain-ceiling: ε=0.75 asked, which costs 0.25; the ceiling is 1, 0.5 is spent, 0 remains"},
		"held above another question's":   {sound: all(smokes, cid(third, hooli, "1.5", 150, 2), hold("cid", 2, third+1, hooli, "0.5", 50, 2)), forged: all(smokes, cid(third, hooli, "1.5", 150, 2), hold("cid", 2, third+1, hooli, "0.75", 75, 2)), why: "object-cap: ε=0.75 asked, which costs 0.75; the ceiling is 2, 0.5 is spent, 0.5 remains"},
		"held above its own of the other": {sound: all(smokes, hold("cid", 2, third, hooli, "1.25", 125, 2), cid(third+1, hooli, "0.75", 75, 2)), forged: all(smokes, hold("cid", 2, third, hooli, "1.25", 125, 2), cid(third+1, hooli, "1", 100, 2)), why: "object-cap: ε=1 asked, which costs 0.5; the ceiling is 2, 0.5 is spent, 0.25 remains"},
	}
}

// The last that an object has left can be reserved, whatever happened before: no log with that is refused.
func TestWhateverCanBeReservedIsSound(t *testing.T) {
	now, run := epoch(), t // the subtest
	var l *Ledger
	keys := 0
	key := func() string { keys++; return fmt.Sprint("request ", keys) }
	holds := func(question, buyer, epsilon string, names ...string) func() {
		return func() {
			o := purchase(run, "", buyer, epsilon, names...).Order
			o.Question = question
			reserve(run, l, api.ReserveRequest{Key: key(), Order: o, For: 10 * time.Hour})
		}
	}
	refused := func(question, buyer, epsilon string, names ...string) func() {
		return func() {
			o := purchase(run, "", buyer, epsilon, names...).Order
			o.Question = question
			_, err := l.Reserve(run.Context(), api.ReserveRequest{Key: key(), Order: o, For: 10 * time.Hour})
			check.Need(run, len(refusals(run, err)) == 1, "%s at %s: %v", buyer, epsilon, err)
		}
	}
	captures := func(number uint64) func() { return func() { commit(run, l, key(), number) } }
	raises := func(epsilon, name string) func() {
		return func() { release(run, l, releaseOf(run, key(), name, epsilon)) }
	}
	renews := func(name string) func() {
		return func() {
			must(run, l.BeginEpoch(run.Context(), api.EpochRequest{Key: key(), Question: "vote", Object: name}))
		}
	}
	gone := func(name string) func() {
		return func() { must(run, l.Forget(run.Context(), api.ObjectRequest{Key: key(), Object: name})) }
	}
	withdraws := func(name string) func() {
		return func() { must(run, l.Withdraw(run.Context(), api.ObjectRequest{Key: key(), Object: name})) }
	}
	in := func(question, name string, p policy.Policy) func() {
		return func() {
			_, err := l.Enroll(run.Context(), api.EnrollRequest{Key: key(), Question: question, Policy: p, Cap: eps(run, "2"), Objects: []string{name}})
			must(run, err)
		}
	}
	terms := func(name, limit string, p *policy.Policy) func() {
		return func() {
			r := api.ChangeTermsRequest{Key: key(), Question: "vote", Objects: []string{name}, Policy: p, Consent: "form 17"}
			if limit != "" {
				r.Cap = eps(run, limit)
			}
			must(run, check.Err(l.ChangeTerms(run.Context(), r)))
		}
	}
	passes := func(d time.Duration) func() { return func() { now = now.Add(d) } }
	together := func(steps ...func()) func() {
		return func() {
			for _, step := range steps {
				step()
			}
		}
	}
	fixed, small := market(t, "1.5"), market(t, "0.75")
	halves := check.Value(policy.Unlock(eps(t, "1"), 2))(t)
	shares := check.Value(policy.Min(fixed, halves))(t)
	days, err := policy.Steps(policy.Step{At: epoch(), Ceiling: eps(t, "0.5")}, policy.Step{At: epoch().Add(24 * time.Hour), Ceiling: eps(t, "1")})
	must(t, err)
	timed := check.Value(policy.Min(fixed, days))(t)
	for name, steps := range map[string][]func(){
		"all at once":                          {holds("vote", "acme", "1.5", "ann"), refused("vote", "acme", "1.500000001", "ann"), holds("vote", "zeta", "1.5", "ann")},
		"behind what was raised":               {raises("0.7", "ann"), holds("vote", "acme", "1.5", "ann"), holds("vote", "zeta", "0.2", "ann")},
		"two questions":                        {in("smoker", "ann", fixed), holds("vote", "acme", "1.2", "ann"), refused("smoker", "zeta", "0.800000001", "ann"), holds("smoker", "zeta", "0.8", "ann"), captures(1), captures(2)},
		"two questions, one more of the first": {in("smoker", "ann", fixed), holds("smoker", "zeta", "0.8", "ann"), holds("vote", "acme", "0.5", "ann"), holds("vote", "acme", "1.2", "ann"), captures(3), captures(1), captures(2)},
		"two questions, one of them raised":    {in("smoker", "ann", fixed), holds("vote", "acme", "1.2", "ann"), raises("0.7", "ann"), refused("smoker", "zeta", "0.800000001", "ann"), holds("smoker", "zeta", "0.8", "ann"), captures(1), captures(2)},
		"a share for each":                     {holds("vote", "acme", "0.5", "eve"), refused("vote", "zeta", "0.500000001", "eve"), holds("vote", "zeta", "0.5", "eve"), captures(1), holds("vote", "zeta", "1", "eve"), captures(2), holds("vote", "acme", "1", "eve"), captures(3), captures(4)},
		"a share of who holds":                 {holds("vote", "acme", "0.5", "eve"), captures(1), refused("vote", "acme", "0.500000001", "eve"), holds("vote", "zeta", "1", "eve"), refused("vote", "acme", "0.500000001", "eve"), captures(2), holds("vote", "acme", "1", "eve")},
		"what ran out":                         {holds("vote", "acme", "1.5", "ann"), in("smoker", "ann", fixed), refused("smoker", "acme", "0.6", "ann"), passes(10 * time.Hour), holds("smoker", "acme", "1.5", "ann"), holds("vote", "acme", "0.5", "ann")},
		"the clock goes back":                  {passes(24 * time.Hour), raises("0.1", "tim"), passes(-time.Hour), refused("vote", "acme", "0.500000001", "tim"), holds("vote", "acme", "0.5", "tim"), passes(time.Hour), holds("vote", "acme", "1", "tim"), passes(-2 * time.Hour), refused("vote", "zeta", "0.5", "tim"), holds("vote", "zeta", "0.1", "tim"), captures(2)},
		"a cap below what is held":             {raises("0.3", "ann"), holds("vote", "acme", "1.5", "ann"), terms("ann", "0.6", nil), refused("vote", "zeta", "0.4", "ann"), holds("vote", "zeta", "0.3", "ann"), holds("vote", "zeta", "0.2", "ann"), terms("ann", "2", nil), holds("vote", "zeta", "1.5", "ann")},
		"a cap below what is spent":            {raises("0.3", "ann"), together(terms("ann", "0.1", nil), holds("vote", "acme", "0.3", "ann"), refused("vote", "zeta", "0.300000001", "ann"), terms("ann", "2", nil)), captures(1)},
		"a ceiling below what is held":         {raises("0.3", "ann"), holds("vote", "acme", "1.5", "ann"), terms("ann", "", &small), refused("vote", "zeta", "0.75", "ann"), holds("vote", "zeta", "0.3", "ann"), passes(10 * time.Hour), holds("vote", "zeta", "0.75", "ann")},
		"shares in place of a market":          {holds("vote", "acme", "1.5", "ann"), terms("ann", "", &shares), refused("vote", "zeta", "0.5", "ann"), passes(10 * time.Hour), holds("vote", "zeta", "0.5", "ann")},
		"an epoch":                             {holds("vote", "acme", "1.5", "ann"), raises("0.7", "bob"), holds("vote", "acme", "1.5", "bob"), renews("bob"), refused("vote", "zeta", "1.300000001", "bob"), holds("vote", "zeta", "1.3", "bob"), captures(3)},
		"an epoch with a share":                {holds("vote", "acme", "0.5", "eve"), captures(1), holds("vote", "zeta", "1", "eve"), renews("eve"), refused("vote", "acme", "0.500000001", "eve"), holds("vote", "acme", "0.5", "eve"), holds("vote", "zeta", "0.5", "eve"), captures(3), captures(4)},
		"forgotten, and back":                  {raises("0.7", "ann"), holds("vote", "acme", "1.5", "ann"), gone("ann"), in("vote", "ann", fixed), refused("vote", "acme", "0.800000001", "ann"), holds("vote", "acme", "0.8", "ann"), captures(2), gone("ann")},
		"withdrawn, and back":                  {in("smoker", "ann", fixed), holds("vote", "acme", "1.5", "ann"), withdraws("ann"), in("vote", "ann", fixed), in("smoker", "ann", fixed), holds("smoker", "zeta", "1.5", "ann"), holds("vote", "zeta", "0.5", "ann"), captures(2), captures(3)},
	} {
		t.Run(name, func(t *testing.T) {
			now, run = epoch(), t
			s := &kv.Memory{}
			begin(t, s)
			l = sellers(t, openMemory(t, s, Options{Now: func() time.Time { return now }}), "1.5", "2", "ann", "bob")
			define(t, l, smoker())
			enrollUnder(t, l, "vote", shares, "2", "eve")
			enrollUnder(t, l, "vote", timed, "2", "tim")
			for _, step := range steps {
				step()
				if auditAll(t, l, s); t.Failed() {
					return
				}
			}
			for _, name := range []string{"ann", "bob", "eve", "tim"} {
				must(t, l.Forget(t.Context(), api.ObjectRequest{Key: key(), Object: name}))
				auditAll(t, l, s)
			}
		})
	}
}
