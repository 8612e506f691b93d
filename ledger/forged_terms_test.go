package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicedp/sluice/internal/check"
	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/enrollment"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/kv"
	"github.com/sluicedp/sluice/policy"
)

// baseMarket returns the terms of cid and dan in the base log, edited.
func baseMarket(t *testing.T, edit func(*policy.Market)) policy.Policy {
	t.Helper()
	return market(t, "1.5", func(m *policy.Market) {
		m.Stride, m.Holders, m.Barred, m.Until = eps(t, "0.25"), 2, []string{"initech"}, epoch().Add(100*time.Hour)
		edit(m)
	})
}

// other is the number of the first policy that is defined after the base log.
const other = 4

// withPolicies puts definitions of policies before changes. The first policy has the number other.
func withPolicies(policies []policy.Policy, changes ...event.Change) (all []event.Change) {
	for i, p := range policies {
		all = append(all, &event.PolicyDefined{Number: uint32(other + i), JSON: p.String()})
	}
	return append(all, changes...)
}

// terms are forged changes of terms, most of them of bob, which has spent 0.1 of its cap of 2.
func (bl baseLog) terms(t *testing.T) map[string]soundAndForged {
	t.Helper()
	to := func(name string, number uint32, limit, consent string) event.Change {
		return &event.TermsChanged{Object: name, Question: 1, Policy: number, Cap: eps(t, limit), Consent: consent}
	}
	one := func(name string, number uint32, limit, consent string) []event.Change {
		return []event.Change{to(name, number, limit, consent)}
	}
	agreed := func(name string, p policy.Policy) soundAndForged { // a change that needs consent
		return soundAndForged{sound: withPolicies([]policy.Policy{p}, to(name, other, "2", "form 17")), forged: withPolicies([]policy.Policy{p}, to(name, other, "2", "")), why: `"` + name + `", question 1: terms change without consent:`}
	}
	terms := func(edit func(*policy.Market)) soundAndForged { return agreed("cid", baseMarket(t, edit)) }
	lower, nothing := one("bob", 1, "1.5", ""), func(*event.Settled) {}
	lowered := func(name string) event.Change {
		return to(name, map[string]uint32{"ann": 1, "bob": 1, "cid": 2}[name], "1.5", "")
	}
	settledWith := func(edit func(*event.Settled), changes ...event.Change) []event.Change {
		return append(changes, bl.end(func(c *event.Settled) { c.Counts[enrollment.Done] = uint64(len(changes)); edit(c) }))
	}
	release := func(name, epsilon string) event.Change {
		return &event.Released{Object: name, Question: 1, Epsilon: eps(t, epsilon), Response: event.Response{Value: event.Value{Index: 1}, Method: event.MethodRaise}}
	}
	sixth := withPolicies([]policy.Policy{policy.Fixed(eps(t, "0.6"))}, to("bob", other, "2", ""))
	return map[string]soundAndForged{
		"a cap raised":                 {sound: one("bob", 1, "1.999999999", ""), forged: one("bob", 1, "2.000000001", ""), why: "without consent: the cap would be ε=2.000000001, and is ε=2"},
		"a cap raised, 2":              {sound: one("bob", 1, "3", "form 17"), forged: one("bob", 1, "3", ""), why: "without consent"},
		"a cap raised back":            {sound: append(lower[:1:1], to("bob", 1, "2", "form 17")), forged: append(lower[:1:1], to("bob", 1, "2", "")), why: "without consent: the cap would be ε=2, and is ε=1.5"},
		"a cap raised for a while":     {sound: []event.Change{to("bob", 1, "3", "form 17"), to("bob", 1, "2", "")}, forged: []event.Change{to("bob", 1, "3", ""), to("bob", 1, "2", "")}, why: "without consent"},
		"no cap":                       {sound: lower, forged: one("bob", 1, "0", ""), why: "they are not possible, or change nothing"},
		"the same cap":                 {sound: lower, forged: one("bob", 1, "2", ""), why: "they are not possible, or change nothing"},
		"the same terms, agreed to":    {sound: lower, forged: one("bob", 1, "2", "form 17"), why: "they are not possible, or change nothing"},
		"a policy that there is not":   {sound: one("bob", 3, "1", "form 17"), forged: one("bob", other, "1", "form 17"), why: "gets policy 4"},
		"no question":                  {sound: lower, forged: []event.Change{&event.TermsChanged{Object: "bob", Policy: 1, Cap: eps(t, "1")}}, why: "never enrolled"},
		"a question that is not its":   {sound: lower, forged: []event.Change{&event.TermsChanged{Object: "bob", Question: 2, Policy: 1, Cap: eps(t, "1")}}, why: "never enrolled"},
		"a stranger's":                 {sound: lower, forged: one("zoe", 1, "1", ""), why: "never enrolled"},
		"of no object":                 {sound: lower, forged: one("", 1, "1", ""), why: "never enrolled"},
		"withdrawn":                    {sound: one("dan", 2, "1.5", ""), forged: one("dan", 2, "2.5", ""), why: "without consent"},
		"a ceiling raised":             {sound: withPolicies([]policy.Policy{policy.Fixed(eps(t, "0.5"))}, to("bob", other, "2", "")), forged: withPolicies([]policy.Policy{policy.Fixed(eps(t, "0.500000001"))}, to("bob", other, "2", "")), why: "without consent"},
		"a ceiling raised, agreed to":  agreed("bob", policy.Fixed(eps(t, "0.500000001"))),
		"no policy any more":           {sound: one("bob", 0, "2", "form 17"), forged: one("bob", 0, "2", ""), why: "without consent"},
		"a policy where was none":      {sound: one("fay", 1, "2", ""), forged: one("fay", 1, "2.000000001", ""), why: "terms change without consent: the cap"},
		"a lower price":                terms(func(m *policy.Market) { m.Prices = perNat(t, 99) }),
		"a higher price":               {sound: withPolicies([]policy.Policy{baseMarket(t, func(m *policy.Market) { m.Prices = perNat(t, 101) })}, to("cid", other, "2", "")), forged: withPolicies([]policy.Policy{baseMarket(t, func(m *policy.Market) { m.Prices = perNat(t, 101) })}, to("cid", other, "2", ""), to("cid", 2, "2", "")), why: "without consent"},
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
		"two more than there were":     {settled: true, sound: settledWith(nothing, lowered("ann"), lowered("bob")), forged: settledWith(func(c *event.Settled) { c.Counts[enrollment.Done] = 3 }, lowered("ann"), lowered("bob")), why: "counts [3 0 0]"},
		"unchanged, not changed":       {settled: true, sound: settledWith(nothing, lowered("bob")), forged: settledWith(func(c *event.Settled) { c.Counts = event.Counts{0, 1, 0} }, lowered("bob")), why: "counts [0 1 0]"},
		"out of order":                 {settled: true, sound: settledWith(nothing, lowered("ann"), lowered("bob")), forged: settledWith(nothing, lowered("bob"), lowered("ann")), why: "is after"},
		"twice in a request":           {settled: true, sound: settledWith(nothing, lowered("bob")), forged: settledWith(nothing, lowered("bob"), to("bob", 1, "1.25", "")), why: "counts [2 0 0]"},
		"released above a new cap":     {sound: append(one("bob", 1, "0.4", ""), release("bob", "0.3")), forged: append(one("bob", 1, "0.4", ""), release("bob", "0.300000001")), why: "exceed its cap"},
		"released below what is spent": {sound: append(one("bob", 1, "0.05", ""), to("bob", 1, "1", "form 17"), release("bob", "0.3")), forged: append(one("bob", 1, "0.05", ""), release("bob", "0.000000001")), why: "exceed its cap"},
		"released above new terms":     {sound: withPolicies([]policy.Policy{policy.Fixed(eps(t, "0.25"))}, to("bob", other, "2", ""), release("bob", "0.15")), forged: withPolicies([]policy.Policy{policy.Fixed(eps(t, "0.25"))}, to("bob", other, "2", ""), release("bob", "0.150000001")), why: "above its ceiling of 0.25"},
		"back under its former terms":  {sound: append(one("dan", 2, "1.5", ""), enrolledEvent(t, "dan", 2, "1.5")), forged: append(one("dan", 2, "1.5", ""), enrolledEvent(t, "dan", 2, "2")), why: "with another policy or cap than it had"},
		"consent until a day":          {sound: sixth, forged: sixth, why: "without consent", soundAfter: 10 * time.Hour, after: 10*time.Hour - 1}, // at 10 hours the ceiling is 1
		"forgotten":                    {sound: append([]event.Change{bl.forgottenEvent("bob")}, lower...), forged: append([]event.Change{bl.forgottenEvent("bob")}, to("bob", 1, "2.5", "")), why: "without consent"},
	}
}

func (bl baseLog) forgottenEvent(name string) event.Change {
	c := bl.forgotten[name]
	return &c
}

func enrolledEvent(t *testing.T, name string, number uint32, limit string) event.Change {
	t.Helper()
	return &event.Enrolled{Object: name, Question: 1, Policy: number, Cap: eps(t, limit)}
}

// perNat returns prices of about this amount for each nat.
func perNat(t *testing.T, amount int64) []policy.Price {
	t.Helper()
	return []policy.Price{{Epsilon: eps(t, "1"), Amount: amount}, {Epsilon: eps(t, "1000"), Amount: 1000*amount - 99}}
}

// dealsUnderOtherTerms are forged deals with cid, whose terms change. Its response at 0.5 was sold
// to acme and zeta, for 50 each.
func (bl baseLog) dealsUnderOtherTerms(t *testing.T) map[string]soundAndForged {
	t.Helper()
	to := func(number uint32, limit, consent string) event.Change {
		return &event.TermsChanged{Object: "cid", Question: 1, Policy: number, Cap: eps(t, limit), Consent: consent}
	}
	hold := func(number uint64, buyer uint32, epsilon string, price uint64, terms uint32) []event.Change {
		return []event.Change{&event.Reserved{Deal: aSale(t, number, buyer, epsilon, price), Expires: epoch().Add(200 * time.Hour)}, &event.Held{Object: "cid", Sale: number, Price: price, Policy: terms}}
	}
	sale := func(number uint64, buyer uint32, epsilon string, price uint64) []event.Change { // of a drawn response
		n := event.SaleTally{Draws: 1}
		if buyer == acme || buyer == zeta {
			n.Upgrades = 1
		}
		return []event.Change{&event.SaleMade{Deal: aSale(t, number, buyer, epsilon, price), Tally: n}, &event.Sold{Object: "cid", Sale: number, Price: price, Response: event.Response{Value: event.Value{Index: 1}, Method: event.MethodRaise}}}
	}
	again := func(changes []event.Change) []event.Change { // resold, not drawn
		m, d := *changes[0].(*event.SaleMade), *changes[1].(*event.Sold)
		m.Tally.Draws, m.Tally.Resales, d.Method = 0, 1, event.MethodResale
		return []event.Change{&m, &d}
	}
	dearer := baseMarket(t, func(m *policy.Market) { m.Prices = perNat(t, 120) })
	cheaper := baseMarket(t, func(m *policy.Market) { m.Prices = perNat(t, 40) })
	raised, lowered := withPolicies([]policy.Policy{dearer}, to(other, "2", "")), withPolicies([]policy.Policy{cheaper}, to(other, "2", "a sale of ours"))
	lower := withPolicies([]policy.Policy{baseMarket(t, func(m *policy.Market) { m.Max = eps(t, "0.5") })}, to(other, "2", ""))
	below := []event.Change{&event.SaleMade{Deal: aSale(t, third, hooli, "0.25", 25), Tally: event.SaleTally{Degradations: 1}}, &event.Sold{Object: "cid", Sale: third, Price: 25, Response: event.Response{Method: event.MethodDegrade}}}
	three := withPolicies([]policy.Policy{baseMarket(t, func(m *policy.Market) { m.Holders = 3 })}, to(other, "2", "one more may"))
	twice := slices.Concat(sale(third, acme, "0.75", 25), raised, sale(third+1, acme, "1", 45)) // 120, of which 50 and 25 are paid
	until := func(end time.Duration) []event.Change {
		return withPolicies([]policy.Policy{baseMarket(t, func(m *policy.Market) { m.Until = epoch().Add(end) })}, to(other, "2", ""))
	}
	held := hold(third, hooli, "0.75", 75, 2)
	both := slices.Concat(raised[:1], held, raised[1:])
	late := slices.Concat(held, three, sale(third+1, acme, "0.75", 25), again(sale(third+2, zeta, "0.75", 25)), again(sale(third, hooli, "0.75", 75)))
	newcomer := []event.Change{&event.BuyerNamed{Number: 5, Name: "umbrella"}}
	return map[string]soundAndForged{
		"sold for what it cost before":     {sound: append(raised[:2:2], sale(third, hooli, "1", 120)...), forged: append(raised[:2:2], sale(third, hooli, "1", 100)...), why: "the price due is 120, not 100"},
		"sold for what it will cost":       {sound: append(sale(third, hooli, "1", 100), raised...), forged: append(sale(third, hooli, "1", 120), raised...), why: "the price due is 100, not 120"},
		"other terms within a sale":        {sound: append(sale(third, hooli, "1", 100), raised...), forged: slices.Concat(raised[:1], sale(third, hooli, "1", 100)[:1], raised[1:], sale(third, hooli, "1", 100)[1:]), why: "an event interrupts sale 3, or is part of a sale that was not begun"},
		"an upgrade by the old prices":     {sound: append(raised[:2:2], sale(third, acme, "1", 70)...), forged: append(raised[:2:2], sale(third, acme, "1", 50)...), why: "the price due is 70, not 50"},
		"an upgrade by the new ones alone": {sound: append(raised[:2:2], sale(third, acme, "1", 70)...), forged: append(raised[:2:2], sale(third, acme, "1", 60)...), why: "the price due is 70, not 60"},
		"an upgrade that pays back":        {sound: append(lowered[:2:2], sale(third, acme, "1", 0)...), forged: append(lowered[:2:2], sale(third, acme, "1", 1)...), why: "the price due is 0, not 1"},
		"an upgrade of an upgrade":         {sound: twice, forged: slices.Concat(twice[:4], sale(third+1, acme, "1", 70)), why: "the price due is 45, not 70"},
		"an upgrade of another's level":    {sound: append(raised[:2:2], sale(third, acme, "1", 70)...), forged: append(raised[:2:2], sale(third, hooli, "1", 70)...), why: "the price due is 120, not 70"},
		"held for what it cost before":     {sound: append(raised[:2:2], hold(third, hooli, "1", 120, other)...), forged: append(raised[:2:2], hold(third, hooli, "1", 100, other)...), why: "the price due is 120, not 100"},
		"held under the former policy":     {sound: append(raised[:2:2], hold(third, hooli, "1", 120, other)...), forged: append(raised[:2:2], hold(third, hooli, "1", 100, 2)...), why: "it is reserved under policy 2, but is enrolled under policy 4"},
		"held under another policy":        {sound: hold(third, hooli, "0.75", 75, 2), forged: hold(third, hooli, "0.75", 75, 3), why: "it is reserved under policy 3, but is enrolled under policy 2"},
		"captured for the new price":       {sound: append(both[:4:4], sale(third, hooli, "0.75", 75)...), forged: append(both[:4:4], sale(third, hooli, "0.75", 90)...), why: "sale 3 is not the order that was reserved, or the reservation is not open"},
		"captured for a lower price":       {sound: slices.Concat(held, lowered, sale(third, hooli, "0.75", 75)), forged: slices.Concat(held, lowered, sale(third, hooli, "0.75", 30)), why: "the price due is 75, not 30"},
		"captured above a new ceiling":     {sound: append(slices.Clone(held), sale(third, hooli, "0.75", 75)...), forged: slices.Concat(held, withPolicies([]policy.Policy{baseMarket(t, func(m *policy.Market) { m.Max = eps(t, "0.5") })}, to(other, "2", "")), sale(third, hooli, "0.75", 75)), why: "above its ceiling of 0.5"},
		"captured above a new cap":         {sound: slices.Concat(held, []event.Change{to(2, "0.75", "")}, sale(third, hooli, "0.75", 75)), forged: slices.Concat(held, []event.Change{to(2, "0.749999999", "")}, sale(third, hooli, "0.75", 75)), why: "exceed its cap"},
		"captured after all was withdrawn": {sound: slices.Concat(held, []event.Change{to(2, "1", "")}, sale(third, hooli, "0.75", 75)), forged: slices.Concat(held, []event.Change{&event.Withdrawn{Object: "cid"}, enrolledEvent(t, "cid", 2, "2")}, sale(third, hooli, "0.75", 75)), why: "is not a sale or did not reserve it"},
		"a fourth holder":                  {sound: late, forged: append(late[:len(late)-2:len(late)-2], append(newcomer, again(sale(third+3, 5, "0.75", 75))...)...), why: `it is not for sale to "umbrella" at ε=0.75: holders-full`},
		"sold after it has closed":         {sound: append(until(61*time.Minute), sale(third, hooli, "1", 100)...), forged: append(until(time.Hour), sale(third, hooli, "1", 100)...), why: "it is not for sale", after: time.Hour},
		"sold above a new ceiling":         {sound: append(lower[:2:2], below...), forged: append(lower[:2:2], sale(third, hooli, "0.75", 75)...), why: "it is not for sale"},
	}
}

// refusedTerms are forged refusals of an enrollment or a change of terms.
func (bl baseLog) refusedTerms(t *testing.T) map[string]soundAndForged {
	t.Helper()
	refused := func(r api.Refusal, first ...event.Change) []event.Change {
		changes := append(slices.Clone(first), &event.ObjectRefused{Question: 1, Refusal: r})
		return append(changes, bl.end(func(c *event.Settled) { c.Refused, c.Counts[event.Drawn] = 1, uint64(len(first)) }))
	}
	consent := api.Refusal{Object: "bob", Reason: api.NeedsConsent, Remedy: "consent", Why: "the cap would be higher", Ceiling: eps(t, "2"), Asked: eps(t, "3")}
	higher := api.Refusal{Object: "bob", Reason: api.NeedsConsent, Remedy: "consent", Why: "the ceiling would be higher"}
	limit := api.Refusal{Object: "bob", Reason: api.CapDiffers, Remedy: "terms", Ceiling: eps(t, "2"), Spent: eps(t, "0.1"), Asked: eps(t, "3")}
	policies := api.Refusal{Object: "ann", Reason: api.PolicyDiffers, Remedy: "terms", Spent: eps(t, "0.25")}
	stranger := api.Refusal{Object: "zoe", Reason: api.NotEnrolled, Remedy: "enrolling"}
	pair := func(sound api.Refusal, edit func(*api.Refusal), why string) soundAndForged {
		forged := sound
		edit(&forged)
		return soundAndForged{sound: refused(sound), forged: refused(forged), why: why}
	}
	lower := &event.TermsChanged{Object: "cid", Question: 1, Policy: 2, Cap: eps(t, "1.5")}
	in := enrolledEvent(t, "new", 0, "1")
	raised := &event.Released{Object: "fay", Question: 1, Epsilon: eps(t, "0.3"), Response: event.Response{Value: event.Value{Index: 1}, Method: event.MethodRaise}}
	otherKind := func(r api.Refusal, c event.Change) soundAndForged { // in a request of the wrong kind
		return soundAndForged{settled: true, sound: refused(r), forged: refused(r, c), why: "has no such refusals"}
	}
	return map[string]soundAndForged{
		"a lower cap than its own":        pair(consent, func(r *api.Refusal) { r.Ceiling = eps(t, "1.9") }, "a refusal is"),
		"a higher cap that is none":       pair(consent, func(r *api.Refusal) { r.Asked = eps(t, "1.5") }, "a refusal is"),
		"consent to its own cap":          pair(consent, func(r *api.Refusal) { r.Asked = eps(t, "2") }, "a refusal is"),
		"consent to no cap":               pair(consent, func(r *api.Refusal) { r.Asked = eps(t, "0") }, "a refusal is"),
		"consent for no reason":           pair(consent, func(r *api.Refusal) { r.Why = "" }, "a refusal is"),
		"consent for reasons without end": pair(higher, func(r *api.Refusal) { r.Why = strings.Repeat("w", 513) }, "a refusal is"),
		"consent, and enrolling helps":    pair(consent, func(r *api.Refusal) { r.Remedy = "enrolling" }, "a refusal is"),
		"consent, and nothing helps":      pair(higher, func(r *api.Refusal) { r.Remedy = "" }, "a refusal is"),
		"consent of a stranger":           pair(higher, func(r *api.Refusal) { r.Object = "zoe" }, "a refusal is"),
		"consent, and something is spent": pair(higher, func(r *api.Refusal) { r.Spent = eps(t, "0.1") }, "a refusal is"),
		"another cap than its own":        pair(limit, func(r *api.Refusal) { r.Ceiling = eps(t, "1") }, "a refusal is"),
		"another cap that is its own":     pair(limit, func(r *api.Refusal) { r.Asked = eps(t, "2") }, "a refusal is"),
		"another cap of 0":                pair(limit, func(r *api.Refusal) { r.Asked = eps(t, "0") }, "a refusal is"),
		"another cap, and more is spent":  pair(limit, func(r *api.Refusal) { r.Spent = eps(t, "0.2") }, "a refusal is"),
		"another cap of a stranger":       pair(limit, func(r *api.Refusal) { r.Object = "new" }, "a refusal is"),
		"another cap, and nothing helps":  pair(limit, func(r *api.Refusal) { r.Remedy = "" }, "a refusal is"),
		"another policy, and less spent":  pair(policies, func(r *api.Refusal) { r.Spent = eps(t, "0.1") }, "a refusal is"),
		"another policy of a stranger":    pair(policies, func(r *api.Refusal) { r.Object, r.Spent = "zoe", eps(t, "0") }, "a refusal is"),
		"another policy, and a reason":    pair(policies, func(r *api.Refusal) { r.Why = "it is another" }, "a refusal is"),
		"never enrolled, and it is":       pair(stranger, func(r *api.Refusal) { r.Object = "bob" }, "a refusal is"),
		"by a request about no question": {settled: true, sound: refused(limit), forged: func() []event.Change {
			forged := refused(limit)
			forged[0].(*event.ObjectRefused).Question = 0
			return forged
		}(), why: "a refusal is"},
		"by one about two questions": {settled: true, sound: refused(stranger, lower), forged: func() []event.Change {
			forged := refused(stranger, lower)
			forged[1].(*event.ObjectRefused).Question = 2
			return forged
		}(), why: "counts [1 0 0]"},
		"consent, by an enrolment":   otherKind(consent, in),
		"consent, by a raise":        otherKind(consent, raised),
		"another cap, by a change":   otherKind(limit, lower),
		"another policy, by a raise": otherKind(policies, raised),
		"nothing asked, by a raise":  otherKind(stranger, raised),
	}
}

// withdrawals are forgeries of requests that withdraw objects. A request about several objects
// counts them; a request about one object names it.
func (bl baseLog) withdrawals(t *testing.T) map[string]soundAndForged {
	t.Helper()
	gone := func(edit func(*event.Settled), objects ...string) []event.Change {
		var changes []event.Change
		for _, name := range objects {
			changes = append(changes, &event.Withdrawn{Object: name})
		}
		return append(changes, bl.end(func(c *event.Settled) { c.Counts[enrollment.Done] = uint64(len(objects)); edit(c) }))
	}
	nothing := func(*event.Settled) {}
	alone := func(c *event.Settled) { c.Alone, c.Object, c.Counts = true, "bob", event.Counts{} }
	return map[string]soundAndForged{
		"one more has gone":      {settled: true, sound: gone(nothing, "bob", "eve"), forged: gone(func(c *event.Settled) { c.Counts[enrollment.Done] = 3 }, "bob", "eve"), why: "counts [3 0 0]"},
		"one fewer has gone":     {settled: true, sound: gone(nothing, "bob", "eve"), forged: gone(func(c *event.Settled) { c.Counts[enrollment.Done] = 1 }, "bob", "eve"), why: "counts [1 0 0]"},
		"they go out of order":   {settled: true, sound: gone(nothing, "bob", "eve"), forged: gone(nothing, "eve", "bob"), why: "is after"},
		"one goes, and is first": {settled: true, sound: gone(alone, "bob"), forged: gone(alone, "bob", "eve"), why: "only, but its events are about"},
		"one goes, for another":  {settled: true, sound: gone(alone, "bob"), forged: gone(func(c *event.Settled) { c.Alone, c.Object, c.Counts = true, "eve", event.Counts{} }, "bob"), why: "only, but its events are about"},
	}
}

// captures are forged captures of a reservation of cid and eve at 0.25, which differ in the objects
// that they leave out.
func (bl baseLog) captures(t *testing.T) map[string]soundAndForged {
	t.Helper()
	deal := func(objects, refused, price uint64) event.Deal {
		d := aSale(t, third, hooli, "0.25", price)
		d.Objects, d.Refused = objects, refused
		return d
	}
	reserved := withSettled(uint64(len(bl.log))+1, []event.Change{
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
		return append(append([]event.Change{}, reserved...), append(changes, bl.end(func(c *event.Settled) {
			c.Sale, c.Refused, c.Counts = third, uint64(len(left)), counts
		}))...)
	}
	withoutTruth := func(name string) api.Refusal {
		return api.Refusal{Object: name, Reason: api.NoTruth, Asked: eps(t, "0.25"), Remedy: "truth"}
	}
	stranger := api.Refusal{Object: "zoe", Reason: api.NotEnrolled, Asked: eps(t, "0.25"), Remedy: "enrolling"}
	draw, degrade := event.SaleTally{Draws: 1}, event.SaleTally{Degradations: 1}
	both, noEve := captured([]*event.Sold{cid, eve}, event.SaleTally{Draws: 1, Degradations: 1}), captured([]*event.Sold{cid}, degrade, withoutTruth("eve"))
	return map[string]soundAndForged{
		"captured without cid":               {settled: true, sound: both, forged: captured([]*event.Sold{eve}, draw), why: "sells 1 objects and refuses 0, but 2 were reserved"},
		"captured without eve":               {settled: true, sound: noEve, forged: captured([]*event.Sold{cid}, degrade), why: "sells 1 objects and refuses 0, but 2 were reserved"},
		"captured, and a stranger is out":    {settled: true, sound: both, forged: captured([]*event.Sold{cid, eve}, event.SaleTally{Draws: 1, Degradations: 1}, stranger), why: "sells 2 objects and refuses 1, but 2 were reserved"},
		"captured, a stranger out for eve":   {settled: true, sound: noEve, forged: captured([]*event.Sold{cid}, degrade, stranger), why: "refuses 1 objects that were not reserved"},
		"captured, one without truth is out": {settled: true, sound: noEve, forged: captured([]*event.Sold{cid}, degrade, withoutTruth("fay")), why: "refuses 1 objects that were not reserved"},
	}
}

// A partial capture leaves out the objects that can no longer answer, for different reasons. Each
// log is sound, also after its objects are forgotten.
func TestCapture_ObjectsLeftOut_LogIsSound(t *testing.T) {
	withdraws := func(t *testing.T, l *Ledger, name string) {
		must(t, l.Withdraw(t.Context(), api.ObjectRequest{Key: "withdraws " + name, Object: name}))
	}
	back := func(t *testing.T, l *Ledger, name string) {
		must(t, check.Err(l.Enroll(t.Context(), api.EnrollRequest{Key: "back " + name, Question: "vote", Policy: market(t, "1"), Cap: eps(t, "2"), Objects: []string{name}})))
	}
	answers := func(t *testing.T, l *Ledger, name string) { release(t, l, releaseOf(t, "answers "+name, name, "0.1")) }
	renews := func(t *testing.T, l *Ledger, name string) {
		answers(t, l, name)
		must(t, l.BeginEpoch(t.Context(), api.EpochRequest{Key: "renews " + name, Question: "vote", Object: name}))
	}
	lowered := func(t *testing.T, l *Ledger, name string) {
		must(t, check.Err(l.ChangeTerms(t.Context(), api.ChangeTermsRequest{Key: "lowers " + name, Question: "vote", Objects: []string{name}, Cap: eps(t, "0.2")})))
	}
	gone := func(t *testing.T, l *Ledger, name string) { forget(t, l, name) }
	type step = func(*testing.T, *Ledger, string)
	for name, one := range map[string]struct {
		before map[string][]step // what happens to which object between reservation and capture
		asked  map[string][]step // during the request for true values
		untold string
		left   int // how many objects the capture reports as left out
	}{
		"none":                               {},
		"one has no truth":                   {untold: "bob", left: 1},
		"one withdraws":                      {before: map[string][]step{"bob": {withdraws}}, left: 1},
		"one withdraws, and comes back":      {before: map[string][]step{"bob": {withdraws, back}}, left: 1},
		"one begins an epoch":                {before: map[string][]step{"bob": {renews}}, left: 1},
		"one has a lower cap":                {before: map[string][]step{"bob": {lowered}}, left: 1},
		"one is forgotten":                   {before: map[string][]step{"bob": {gone}}},
		"one is forgotten, and comes back":   {before: map[string][]step{"bob": {gone, back, answers}}},
		"one is forgotten, two are out":      {before: map[string][]step{"ann": {withdraws}, "bob": {gone}, "cid": {renews}}, left: 2},
		"two are forgotten":                  {before: map[string][]step{"ann": {gone}, "dan": {gone}}},
		"one is forgotten while asked":       {asked: map[string][]step{"bob": {gone}}, left: 1},
		"one forgotten, another while asked": {before: map[string][]step{"ann": {gone}}, asked: map[string][]step{"dan": {gone}}, left: 1},
		"one forgotten, another and back":    {before: map[string][]step{"ann": {gone}}, asked: map[string][]step{"bob": {gone, back}}, left: 1},
		"one withdraws while asked":          {asked: map[string][]step{"bob": {withdraws}}, untold: "ann", left: 2},
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
			sale := check.Value(l.Capture(t.Context(), api.CaptureRequest{Key: "captures", Reservation: 1, Partial: true, Truth: func(_ context.Context, _ string, names []string) ([]string, error) {
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
			}}))(t)
			check.That(t, len(sale.Refused) == one.left, "left out: %v", sale.Refused)
			auditAll(t, l, s)
			for i, name := range []string{"cid", "bob", "ann", "dan"} {
				must(t, l.Forget(t.Context(), api.ObjectRequest{Key: fmt.Sprint("forgets ", i), Object: name}))
				auditAll(t, l, s)
			}
		})
	}
}

// holds are forged reservations above a ceiling or a cap. cid has spent 0.5, of a cap of 2 and a
// ceiling of 1.5. eve has a share of 0.5 for each buyer.
func (bl baseLog) holds(t *testing.T) map[string]soundAndForged {
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
	shrunk := withPolicies([]policy.Policy{baseMarket(t, func(m *policy.Market) { m.Max = eps(t, "1") })}, &event.TermsChanged{Object: "cid", Question: 1, Policy: other, Cap: eps(t, "2")})
	cancelled := []event.Change{&event.Cancelled{Sale: third}}
	newcomer := []event.Change{&event.BuyerNamed{Number: 5, Name: "umbra"}}
	smokes := []event.Change{&event.Enrolled{Object: "cid", Question: 2, Policy: 2, Cap: eps(t, "2")}}
	all := slices.Concat[[]event.Change]
	return map[string]soundAndForged{
		"held above the ceiling":          {sound: hold("eve", 1, third, hooli, "0.5", 50, 3), forged: hold("eve", 1, third, hooli, "0.500000001", 51, 3), why: "which costs 0.500000001; the ceiling is 0.5, 0 is spent, 0.5 remains"},
		"held above the cap":              {sound: all(lower, cid(third, hooli, "1", 100, 2)), forged: all(lower, cid(third, hooli, "1.25", 125, 2)), why: "object-cap: ε=1.25 asked, which costs 0.75; the ceiling is 1, 0.5 is spent, 0.5 remains"},
		"held above what a holder holds":  {sound: all(cid(third, zeta, "1.5", 100, 2), cancelled, shrunk, cid(third+1, hooli, "0.75", 75, other)), forged: all(cid(third, zeta, "1.5", 100, 2), shrunk, cid(third+1, hooli, "0.75", 75, other)), why: "chain-ceiling: ε=0.75 asked, which costs 0.25; the ceiling is 1, 0.5 is spent, 0 remains"},
		"held above what a buyer holds":   {sound: all(cid(third, hooli, "1.5", 150, 2), cancelled, shrunk, newcomer, cid(third+1, 5, "0.75", 75, other)), forged: all(cid(third, hooli, "1.5", 150, 2), shrunk, newcomer, cid(third+1, 5, "0.75", 75, other)), why: "chain-ceiling: ε=0.75 asked, which costs 0.25; the ceiling is 1, 0.5 is spent, 0 remains"},
		"held above another question's":   {sound: all(smokes, cid(third, hooli, "1.5", 150, 2), hold("cid", 2, third+1, hooli, "0.5", 50, 2)), forged: all(smokes, cid(third, hooli, "1.5", 150, 2), hold("cid", 2, third+1, hooli, "0.75", 75, 2)), why: "object-cap: ε=0.75 asked, which costs 0.75; the ceiling is 2, 0.5 is spent, 0.5 remains"},
		"held above its own of the other": {sound: all(smokes, hold("cid", 2, third, hooli, "1.25", 125, 2), cid(third+1, hooli, "0.75", 75, 2)), forged: all(smokes, hold("cid", 2, third, hooli, "1.25", 125, 2), cid(third+1, hooli, "1", 100, 2)), why: "object-cap: ε=1 asked, which costs 0.5; the ceiling is 2, 0.5 is spent, 0.25 remains"},
	}
}

// All of an object's headroom can be reserved, after any of these histories, and the log is sound.
func TestReserve_AllHeadroom_LogIsSound(t *testing.T) {
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
	captures := func(number uint64) func() { return func() { capture(run, l, key(), number) } }
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
			must(run, check.Err(l.Enroll(run.Context(), api.EnrollRequest{Key: key(), Question: question, Policy: p, Cap: eps(run, "2"), Objects: []string{name}})))
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
	days := check.Value(policy.Steps(policy.Step{At: epoch(), Ceiling: eps(t, "0.5")}, policy.Step{At: epoch().Add(24 * time.Hour), Ceiling: eps(t, "1")}))(t)
	timed := check.Value(policy.Min(fixed, days))(t)
	for name, steps := range map[string][]func(){
		"all at once":                          {holds("vote", "acme", "1.5", "ann"), refused("vote", "acme", "1.500000001", "ann"), holds("vote", "zeta", "1.5", "ann")},
		"after a raise":                        {raises("0.7", "ann"), holds("vote", "acme", "1.5", "ann"), holds("vote", "zeta", "0.2", "ann")},
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
