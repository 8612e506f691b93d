package ledger

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/enrollment"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/policy"
)

// groundMarket are the terms of cid, dan and eve of the ground, edited.
func groundMarket(t *testing.T, edit func(*policy.Market)) policy.Policy {
	t.Helper()
	return market(t, "1.5", func(m *policy.Market) {
		m.Stride, m.Holders, m.Barred, m.Until = eps(t, "0.25"), 2, []string{"initech"}, epoch().Add(100*time.Hour)
		edit(m)
	})
}

// other is the number of the first policy that is defined behind the ground.
const other = 4

// under defines policies, the first of which is number 4, before changes.
func under(policies []policy.Policy, changes ...event.Change) (all []event.Change) {
	for i, p := range policies {
		all = append(all, &event.PolicyDefined{Number: uint32(other + i), JSON: p.String()})
	}
	return append(all, changes...)
}

// Other terms of bob, who has spent 0.1 of his cap of 2, and of others.
func (g ground) terms(t *testing.T) map[string]pairOfLogs {
	t.Helper()
	to := func(name string, number uint32, limit, consent string) event.Change {
		return &event.TermsChanged{Object: name, Question: 1, Policy: number, Cap: eps(t, limit), Consent: consent}
	}
	one := func(name string, number uint32, limit, consent string) []event.Change {
		return []event.Change{to(name, number, limit, consent)}
	}
	agreed := func(name string, p policy.Policy) pairOfLogs { // what goes with consent alone
		return pairOfLogs{sound: under([]policy.Policy{p}, to(name, other, "2", "form 17")), forged: under([]policy.Policy{p}, to(name, other, "2", "")), why: `"` + name + `" in question 1, without consent`}
	}
	terms := func(edit func(*policy.Market)) pairOfLogs { return agreed("cid", groundMarket(t, edit)) }
	lower, nothing := one("bob", 1, "1.5", ""), func(*event.Settled) {}
	lowered := func(name string) event.Change {
		return to(name, map[string]uint32{"ann": 1, "bob": 1, "cid": 2}[name], "1.5", "")
	}
	told := func(edit func(*event.Settled), changes ...event.Change) []event.Change {
		return append(changes, g.end(func(c *event.Settled) { c.Counts[enrollment.Done] = uint64(len(changes)); edit(c) }))
	}
	release := func(name, epsilon string) event.Change {
		return &event.Released{Object: name, Question: 1, Epsilon: eps(t, epsilon), Response: event.Response{Value: event.Value{Index: 1}, Method: event.MethodRaise}}
	}
	return map[string]pairOfLogs{
		"a cap raised":                 {sound: one("bob", 1, "1.999999999", ""), forged: one("bob", 1, "2.000000001", ""), why: "without consent: the cap would be ε=2.000000001, and is ε=2"},
		"a cap raised, 2":              {sound: one("bob", 1, "3", "form 17"), forged: one("bob", 1, "3", ""), why: "without consent"},
		"a cap raised back":            {sound: append(lower[:1:1], to("bob", 1, "2", "form 17")), forged: append(lower[:1:1], to("bob", 1, "2", "")), why: "without consent: the cap would be ε=2, and is ε=1.5"},
		"a cap raised for a while":     {sound: []event.Change{to("bob", 1, "3", "form 17"), to("bob", 1, "2", "")}, forged: []event.Change{to("bob", 1, "3", ""), to("bob", 1, "2", "")}, why: "without consent"},
		"no cap":                       {sound: lower, forged: one("bob", 1, "0", ""), why: "which cannot be"},
		"the same cap":                 {sound: lower, forged: one("bob", 1, "2", ""), why: "or changes nothing"},
		"the same terms, agreed to":    {sound: lower, forged: one("bob", 1, "2", "form 17"), why: "or changes nothing"},
		"a policy that there is not":   {sound: one("bob", 3, "1", "form 17"), forged: one("bob", other, "1", "form 17"), why: "comes under policy 4"},
		"no question":                  {sound: lower, forged: []event.Change{&event.TermsChanged{Object: "bob", Policy: 1, Cap: eps(t, "1")}}, why: "never enrolled"},
		"a question that is not its":   {sound: lower, forged: []event.Change{&event.TermsChanged{Object: "bob", Question: 2, Policy: 1, Cap: eps(t, "1")}}, why: "never enrolled"},
		"a stranger's":                 {sound: lower, forged: one("zoe", 1, "1", ""), why: "never enrolled"},
		"those of nobody":              {sound: lower, forged: one("", 1, "1", ""), why: "never enrolled"},
		"of who has withdrawn":         {sound: one("dan", 2, "1.5", ""), forged: one("dan", 2, "2.5", ""), why: "without consent"},
		"a ceiling raised":             {sound: under([]policy.Policy{policy.Fixed(eps(t, "0.5"))}, to("bob", other, "2", "")), forged: under([]policy.Policy{policy.Fixed(eps(t, "0.500000001"))}, to("bob", other, "2", "")), why: "without consent"},
		"a ceiling raised, agreed to":  agreed("bob", policy.Fixed(eps(t, "0.500000001"))),
		"no policy any more":           {sound: one("bob", 0, "2", "form 17"), forged: one("bob", 0, "2", ""), why: "without consent"},
		"a policy where was none":      {sound: one("fay", 1, "2", ""), forged: one("fay", 1, "2.000000001", ""), why: "without consent: the cap"},
		"a lower price":                terms(func(m *policy.Market) { m.Prices = perNat(t, 99) }),
		"a higher price":               {sound: under([]policy.Policy{groundMarket(t, func(m *policy.Market) { m.Prices = perNat(t, 101) })}, to("cid", other, "2", "")), forged: under([]policy.Policy{groundMarket(t, func(m *policy.Market) { m.Prices = perNat(t, 101) })}, to("cid", other, "2", ""), to("cid", 2, "2", "")), why: "without consent"},
		"one more buyer":               terms(func(m *policy.Market) { m.Barred = nil }),
		"one more holder":              terms(func(m *policy.Market) { m.Holders = 3 }),
		"holders without number":       terms(func(m *policy.Market) { m.Holders = 0 }),
		"more levels":                  terms(func(m *policy.Market) { m.Stride = eps(t, "0.125") }),
		"one more day":                 terms(func(m *policy.Market) { m.Until = m.Until.Add(24 * time.Hour) }),
		"days without end":             terms(func(m *policy.Market) { m.Until = time.Time{} }),
		"up to a higher level":         terms(func(m *policy.Market) { m.Max = eps(t, "1.75") }),
		"on the market at all":         {sound: one("bob", 2, "2", "form 17"), forged: one("bob", 2, "2", ""), why: "without consent"},
		"consent of nothing at all":    {sound: one("bob", 1, "3", " form 17"), forged: one("bob", 1, "3", "\t"), why: "control character"},
		"consent without end":          {sound: one("bob", 1, "3", strings.Repeat("c", 1024)), forged: one("bob", 1, "3", strings.Repeat("c", 1025)), why: "at most 1024"},
		"consent that is no text":      {sound: one("bob", 1, "3", "form 17"), forged: one("bob", 1, "3", "form \xff"), why: "UTF-8"},
		"consent to less that is none": {sound: one("bob", 1, "1", "form 17"), forged: one("bob", 1, "1", "form\x00"), why: "control character"},
		"two more than there were":     {settled: true, sound: told(nothing, lowered("ann"), lowered("bob")), forged: told(func(c *event.Settled) { c.Counts[enrollment.Done] = 3 }, lowered("ann"), lowered("bob")), why: "counts [3 0 0]"},
		"unchanged, not changed":       {settled: true, sound: told(nothing, lowered("bob")), forged: told(func(c *event.Settled) { c.Counts = event.Counts{0, 1, 0} }, lowered("bob")), why: "counts [0 1 0]"},
		"out of order":                 {settled: true, sound: told(nothing, lowered("ann"), lowered("bob")), forged: told(nothing, lowered("bob"), lowered("ann")), why: "comes behind"},
		"twice in a request":           {settled: true, sound: told(nothing, lowered("bob")), forged: told(nothing, lowered("bob"), to("bob", 1, "1.25", "")), why: "counts [2 0 0]"},
		"released above a new cap":     {sound: append(one("bob", 1, "0.4", ""), release("bob", "0.3")), forged: append(one("bob", 1, "0.4", ""), release("bob", "0.300000001")), why: "more than its cap"},
		"released below what is spent": {sound: append(one("bob", 1, "0.05", ""), to("bob", 1, "1", "form 17"), release("bob", "0.3")), forged: append(one("bob", 1, "0.05", ""), release("bob", "0.000000001")), why: "more than its cap"},
		"released above new terms":     {sound: under([]policy.Policy{policy.Fixed(eps(t, "0.25"))}, to("bob", other, "2", ""), release("bob", "0.15")), forged: under([]policy.Policy{policy.Fixed(eps(t, "0.25"))}, to("bob", other, "2", ""), release("bob", "0.150000001")), why: "above the ceiling of 0.25"},
		"back under its former terms":  {sound: append(one("dan", 2, "1.5", ""), enrolment(t, "dan", 2, "1.5")), forged: append(one("dan", 2, "1.5", ""), enrolment(t, "dan", 2, "2")), why: "under other ceilings"},
		"of who is forgotten":          {sound: append([]event.Change{g.forgottenEvent("bob")}, lower...), forged: append([]event.Change{g.forgottenEvent("bob")}, to("bob", 1, "2.5", "")), why: "without consent"},
	}
}

func (g ground) forgottenEvent(name string) event.Change {
	c := g.forgotten[name]
	return &c
}

func enrolment(t *testing.T, name string, number uint32, limit string) event.Change {
	t.Helper()
	return &event.Enrolled{Object: name, Question: 1, Policy: number, Cap: eps(t, limit)}
}

// perNat are prices of so much for each nat, about.
func perNat(t *testing.T, amount int64) []policy.Price {
	t.Helper()
	return []policy.Price{{Epsilon: eps(t, "1"), Amount: amount}, {Epsilon: eps(t, "1000"), Amount: 1000*amount - 99}}
}

// Deals with cid, whose response at 0.5 acme and zeta hold, for 50 each, and whose terms change.
func (g ground) dealsUnderOtherTerms(t *testing.T) map[string]pairOfLogs {
	t.Helper()
	to := func(number uint32, limit, consent string) event.Change {
		return &event.TermsChanged{Object: "cid", Question: 1, Policy: number, Cap: eps(t, limit), Consent: consent}
	}
	hold := func(number uint64, buyer uint32, epsilon string, price uint64, terms uint32) []event.Change {
		return []event.Change{&event.Reserved{Deal: aSale(t, number, buyer, epsilon, price), Expires: epoch().Add(200 * time.Hour)}, &event.Held{Object: "cid", Sale: number, Price: price, Policy: terms}}
	}
	sale := func(number uint64, buyer uint32, epsilon string, price uint64) []event.Change { // of a response that is drawn
		n := event.SaleTally{Draws: 1}
		if buyer == acme || buyer == zeta {
			n.Upgrades = 1
		}
		return []event.Change{&event.SaleMade{Deal: aSale(t, number, buyer, epsilon, price), Tally: n}, &event.Sold{Object: "cid", Sale: number, Price: price, Response: event.Response{Value: event.Value{Index: 1}, Method: event.MethodRaise}}}
	}
	again := func(changes []event.Change) []event.Change { // not drawn, but resold
		m, d := *changes[0].(*event.SaleMade), *changes[1].(*event.Sold)
		m.Tally.Draws, m.Tally.Resales, d.Method = 0, 1, event.MethodResale
		return []event.Change{&m, &d}
	}
	dearer := groundMarket(t, func(m *policy.Market) { m.Prices = perNat(t, 120) })
	cheaper := groundMarket(t, func(m *policy.Market) { m.Prices = perNat(t, 40) })
	raised, lowered := under([]policy.Policy{dearer}, to(other, "2", "")), under([]policy.Policy{cheaper}, to(other, "2", "a sale of ours"))
	lower := under([]policy.Policy{groundMarket(t, func(m *policy.Market) { m.Max = eps(t, "0.5") })}, to(other, "2", ""))
	below := []event.Change{&event.SaleMade{Deal: aSale(t, third, hooli, "0.25", 25), Tally: event.SaleTally{Degradations: 1}}, &event.Sold{Object: "cid", Sale: third, Price: 25, Response: event.Response{Method: event.MethodDegrade}}}
	three := under([]policy.Policy{groundMarket(t, func(m *policy.Market) { m.Holders = 3 })}, to(other, "2", "one more may"))
	twice := slices.Concat(sale(third, acme, "0.75", 25), raised, sale(third+1, acme, "1", 45)) // 120, of which 50 and 25 are paid
	until := func(end time.Duration) []event.Change {
		return under([]policy.Policy{groundMarket(t, func(m *policy.Market) { m.Until = epoch().Add(end) })}, to(other, "2", ""))
	}
	held := hold(third, hooli, "0.75", 75, 2)
	both := slices.Concat(raised[:1], held, raised[1:])
	late := slices.Concat(held, three, sale(third+1, acme, "0.75", 25), again(sale(third+2, zeta, "0.75", 25)), again(sale(third, hooli, "0.75", 75)))
	newcomer := []event.Change{&event.BuyerNamed{Number: 5, Name: "umbrella"}}
	return map[string]pairOfLogs{
		"sold for what it cost before":     {sound: append(raised[:2:2], sale(third, hooli, "1", 120)...), forged: append(raised[:2:2], sale(third, hooli, "1", 100)...), why: "the price is 120, not 100"},
		"sold for what it will cost":       {sound: append(sale(third, hooli, "1", 100), raised...), forged: append(sale(third, hooli, "1", 120), raised...), why: "the price is 100, not 120"},
		"other terms within a sale":        {sound: append(sale(third, hooli, "1", 100), raised...), forged: slices.Concat(raised[:1], sale(third, hooli, "1", 100)[:1], raised[1:], sale(third, hooli, "1", 100)[1:]), why: "sale 3 is not complete"},
		"an upgrade by the old prices":     {sound: append(raised[:2:2], sale(third, acme, "1", 70)...), forged: append(raised[:2:2], sale(third, acme, "1", 50)...), why: "the price is 70, not 50"},
		"an upgrade by the new ones alone": {sound: append(raised[:2:2], sale(third, acme, "1", 70)...), forged: append(raised[:2:2], sale(third, acme, "1", 60)...), why: "the price is 70, not 60"},
		"an upgrade that pays back":        {sound: append(lowered[:2:2], sale(third, acme, "1", 0)...), forged: append(lowered[:2:2], sale(third, acme, "1", 1)...), why: "the price is 0, not 1"},
		"an upgrade of an upgrade":         {sound: twice, forged: slices.Concat(twice[:4], sale(third+1, acme, "1", 70)), why: "the price is 45, not 70"},
		"an upgrade of another's level":    {sound: append(raised[:2:2], sale(third, acme, "1", 70)...), forged: append(raised[:2:2], sale(third, hooli, "1", 70)...), why: "the price is 120, not 70"},
		"held for what it cost before":     {sound: append(raised[:2:2], hold(third, hooli, "1", 120, other)...), forged: append(raised[:2:2], hold(third, hooli, "1", 100, other)...), why: "the price is 120, not 100"},
		"held under the former policy":     {sound: append(raised[:2:2], hold(third, hooli, "1", 120, other)...), forged: append(raised[:2:2], hold(third, hooli, "1", 100, 2)...), why: "it is reserved under policy 2, and was under policy 4"},
		"held under another policy":        {sound: hold(third, hooli, "0.75", 75, 2), forged: hold(third, hooli, "0.75", 75, 3), why: "it is reserved under policy 3, and was under policy 2"},
		"captured for the new price":       {sound: append(both[:4:4], sale(third, hooli, "0.75", 75)...), forged: append(both[:4:4], sale(third, hooli, "0.75", 90)...), why: "sale 3 is not what was reserved"},
		"captured for a lower price":       {sound: slices.Concat(held, lowered, sale(third, hooli, "0.75", 75)), forged: slices.Concat(held, lowered, sale(third, hooli, "0.75", 30)), why: "the price is 75, not 30"},
		"captured above a new ceiling":     {sound: append(slices.Clone(held), sale(third, hooli, "0.75", 75)...), forged: slices.Concat(held, under([]policy.Policy{groundMarket(t, func(m *policy.Market) { m.Max = eps(t, "0.5") })}, to(other, "2", "")), sale(third, hooli, "0.75", 75)), why: "above the ceiling of 0.5"},
		"captured above a new cap":         {sound: slices.Concat(held, []event.Change{to(2, "0.75", "")}, sale(third, hooli, "0.75", 75)), forged: slices.Concat(held, []event.Change{to(2, "0.749999999", "")}, sale(third, hooli, "0.75", 75)), why: "more than its cap"},
		"captured after all was withdrawn": {sound: slices.Concat(held, []event.Change{to(2, "1", "")}, sale(third, hooli, "0.75", 75)), forged: slices.Concat(held, []event.Change{&event.Withdrawn{Object: "cid"}, enrolment(t, "cid", 2, "2")}, sale(third, hooli, "0.75", 75)), why: "was not reserved for it"},
		"a fourth holder":                  {sound: late, forged: append(late[:len(late)-2:len(late)-2], append(newcomer, again(sale(third+3, 5, "0.75", 75))...)...), why: `it is not for sale to "umbrella" at ε=0.75: holders-full`},
		"sold after it has closed":         {sound: append(until(61*time.Minute), sale(third, hooli, "1", 100)...), forged: append(until(time.Hour), sale(third, hooli, "1", 100)...), why: "it is not for sale", after: time.Hour},
		"sold above a new ceiling":         {sound: append(lower[:2:2], below...), forged: append(lower[:2:2], sale(third, hooli, "0.75", 75)...), why: "it is not for sale"},
	}
}

// A change to terms that allow more from some day on needs consent until that day: the audit asks at the time of the event.
func TestConsentIsLookedAtAsOfTheTimeOfTheEvent(t *testing.T) {
	g := newGround(t, nil)
	at := func(after time.Duration) error { // bob's ceiling is 0.5 for 10 hours, then 1
		changes := under([]policy.Policy{policy.Fixed(eps(t, "0.6"))}, &event.TermsChanged{Object: "bob", Question: 1, Policy: other, Cap: eps(t, "2")})
		log := followedBy(withSettled(uint64(len(g.log))+1, changes)...)(slices.Clone(g.log))
		for i := range log[len(g.log):] {
			log[len(g.log)+i].Time = epoch().Add(after)
		}
		return replayWhole(&kv.Memory{}, log)
	}
	must(t, at(10*time.Hour))
	wantForged(t, at(10*time.Hour-1), "without consent")
}

// Whom an enrolment or a change of terms left out, and why.
func (g ground) refusedTerms(t *testing.T) map[string]pairOfLogs {
	t.Helper()
	refused := func(r api.Refusal, first ...event.Change) []event.Change {
		changes := append(slices.Clone(first), &event.ObjectRefused{Question: 1, Refusal: r})
		return append(changes, g.end(func(c *event.Settled) { c.Refused, c.Counts[event.Drawn] = 1, uint64(len(first)) }))
	}
	consent := api.Refusal{Object: "bob", Reason: api.NeedsConsent, Remedy: "consent", Why: "the cap would be higher", Ceiling: eps(t, "2"), Asked: eps(t, "3")}
	higher := api.Refusal{Object: "bob", Reason: api.NeedsConsent, Remedy: "consent", Why: "the ceiling would be higher"}
	limit := api.Refusal{Object: "bob", Reason: api.CapDiffers, Remedy: "terms", Ceiling: eps(t, "2"), Spent: eps(t, "0.1"), Asked: eps(t, "3")}
	policies := api.Refusal{Object: "ann", Reason: api.PolicyDiffers, Remedy: "terms", Spent: eps(t, "0.25")}
	stranger := api.Refusal{Object: "zoe", Reason: api.NotEnrolled, Remedy: "enrolling"}
	pair := func(sound api.Refusal, edit func(*api.Refusal), why string) pairOfLogs {
		forged := sound
		edit(&forged)
		return pairOfLogs{sound: refused(sound), forged: refused(forged), why: why}
	}
	lower := &event.TermsChanged{Object: "cid", Question: 1, Policy: 2, Cap: eps(t, "1.5")}
	in := enrolment(t, "new", 0, "1")
	raised := &event.Released{Object: "fay", Question: 1, Epsilon: eps(t, "0.3"), Response: event.Response{Value: event.Value{Index: 1}, Method: event.MethodRaise}}
	told := func(r api.Refusal, c event.Change) pairOfLogs { // by the wrong sort of request
		return pairOfLogs{settled: true, sound: refused(r), forged: refused(r, c), why: "refuses"}
	}
	return map[string]pairOfLogs{
		"a lower cap than its own":        pair(consent, func(r *api.Refusal) { r.Ceiling = eps(t, "1.9") }, "a refusal says"),
		"a higher cap that is none":       pair(consent, func(r *api.Refusal) { r.Asked = eps(t, "1.5") }, "a refusal says"),
		"consent to its own cap":          pair(consent, func(r *api.Refusal) { r.Asked = eps(t, "2") }, "a refusal says"),
		"consent to no cap":               pair(consent, func(r *api.Refusal) { r.Asked = eps(t, "0") }, "a refusal says"),
		"consent for no reason":           pair(consent, func(r *api.Refusal) { r.Why = "" }, "a refusal says"),
		"consent for reasons without end": pair(higher, func(r *api.Refusal) { r.Why = strings.Repeat("w", 513) }, "a refusal says"),
		"consent, and enrolling helps":    pair(consent, func(r *api.Refusal) { r.Remedy = "enrolling" }, "a refusal says"),
		"consent, and nothing helps":      pair(higher, func(r *api.Refusal) { r.Remedy = "" }, "a refusal says"),
		"consent of who is not there":     pair(higher, func(r *api.Refusal) { r.Object = "zoe" }, "a refusal says"),
		"consent, and something is spent": pair(higher, func(r *api.Refusal) { r.Spent = eps(t, "0.1") }, "a refusal says"),
		"another cap than its own":        pair(limit, func(r *api.Refusal) { r.Ceiling = eps(t, "1") }, "a refusal says"),
		"another cap that is its own":     pair(limit, func(r *api.Refusal) { r.Asked = eps(t, "2") }, "a refusal says"),
		"another cap of 0":                pair(limit, func(r *api.Refusal) { r.Asked = eps(t, "0") }, "a refusal says"),
		"another cap, and more is spent":  pair(limit, func(r *api.Refusal) { r.Spent = eps(t, "0.2") }, "a refusal says"),
		"another cap of nobody":           pair(limit, func(r *api.Refusal) { r.Object = "new" }, "a refusal says"),
		"another cap, and nothing helps":  pair(limit, func(r *api.Refusal) { r.Remedy = "" }, "a refusal says"),
		"another policy, and less spent":  pair(policies, func(r *api.Refusal) { r.Spent = eps(t, "0.1") }, "a refusal says"),
		"another policy of nobody":        pair(policies, func(r *api.Refusal) { r.Object, r.Spent = "zoe", eps(t, "0") }, "a refusal says"),
		"another policy, and a reason":    pair(policies, func(r *api.Refusal) { r.Why = "it is another" }, "a refusal says"),
		"never enrolled, and it is":       pair(stranger, func(r *api.Refusal) { r.Object = "bob" }, "a refusal says"),
		"by a request about no question": {settled: true, sound: refused(limit), forged: func() []event.Change {
			forged := refused(limit)
			forged[0].(*event.ObjectRefused).Question = 0
			return forged
		}(), why: "a refusal says"},
		"by one about two questions": {settled: true, sound: refused(stranger, lower), forged: func() []event.Change {
			forged := refused(stranger, lower)
			forged[1].(*event.ObjectRefused).Question = 2
			return forged
		}(), why: "counts [1 0 0]"},
		"consent, by an enrolment":   told(consent, in),
		"consent, by a raise":        told(consent, raised),
		"another cap, by a change":   told(limit, lower),
		"another policy, by a raise": told(policies, raised),
		"nothing asked, by a raise":  told(stranger, raised),
	}
}

// Many who withdraw together are counted; one who does so alone is not, and is named.
func (g ground) withdrawals(t *testing.T) map[string]pairOfLogs {
	t.Helper()
	gone := func(edit func(*event.Settled), objects ...string) []event.Change {
		var changes []event.Change
		for _, name := range objects {
			changes = append(changes, &event.Withdrawn{Object: name})
		}
		return append(changes, g.end(func(c *event.Settled) { c.Counts[enrollment.Done] = uint64(len(objects)); edit(c) }))
	}
	nothing := func(*event.Settled) {}
	alone := func(c *event.Settled) { c.Alone, c.Object, c.Counts = true, "bob", event.Counts{} }
	return map[string]pairOfLogs{
		"one more has gone":      {settled: true, sound: gone(nothing, "bob", "eve"), forged: gone(func(c *event.Settled) { c.Counts[enrollment.Done] = 3 }, "bob", "eve"), why: "counts [3 0 0]"},
		"one fewer has gone":     {settled: true, sound: gone(nothing, "bob", "eve"), forged: gone(func(c *event.Settled) { c.Counts[enrollment.Done] = 1 }, "bob", "eve"), why: "counts [1 0 0]"},
		"they go out of order":   {settled: true, sound: gone(nothing, "bob", "eve"), forged: gone(nothing, "eve", "bob"), why: "comes behind"},
		"one goes, and is first": {settled: true, sound: gone(alone, "bob"), forged: gone(alone, "bob", "eve"), why: "alone, its events about"},
		"one goes, for another":  {settled: true, sound: gone(alone, "bob"), forged: gone(func(c *event.Settled) { c.Alone, c.Object, c.Counts = true, "eve", event.Counts{} }, "bob"), why: "alone, its events about"},
	}
}
