package rules

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/policy"
	"github.com/sluicedp/sluice/privacy"
)

// saleTerms is what the terms of a policy let the buyer have at the counted levels. For the host,
// all levels are possible.
type saleTerms struct {
	policy  policy.Policy
	holders int                   // largest number of holders of a level; 0 for any number
	reasons [MaxLevels]api.Reason // by index of the level: why it is not sold now; "" if it is
	opens   time.Time             // when the sale opens, if that is in the future
	closes  time.Time             // when the sale closes, or zero
}

// opensLater reports whether the terms do not sell a level now, but will when the sale opens. i is
// the index of the level.
func (t *saleTerms) opensLater(i int) bool {
	return t.reasons[i] == api.SaleClosed && !t.opens.IsZero()
}

// offer returns what the policy p, with a number, lets the buyer have. It computes that at the
// first call for the number, and notes when the sale opens or closes as times at which the result
// changes.
func (c *Count) offer(number uint32, p policy.Policy) *saleTerms {
	if known := c.offers[number]; known != nil {
		return known
	}
	one := &saleTerms{policy: p}
	c.offers[number] = one
	sale := p.Terms()
	if !c.Buying {
		return one
	}
	for i, epsilon := range c.Levels {
		one.reasons[i] = Barrier(sale, c.Bid.Client, epsilon, c.State.Now)
	}
	if sale == nil {
		return one
	}
	one.holders, one.closes = sale.Holders(), sale.Closes()
	if c.State.Now.Before(sale.Opens()) {
		one.opens = sale.Opens()
	}
	c.noteChange(one.opens)
	c.noteChange(one.closes)
	return one
}

// noteChange notes that the result changes at a time. It keeps the earliest of these times that are
// in the future. at may be zero.
func (c *Count) noteChange(at time.Time) {
	if at.After(c.State.Now) && (c.until.IsZero() || at.Before(c.until)) {
		c.until = at
	}
}

// from returns the time from which an object of the group k can have a level, if there are no other
// charges until then. within reports whether its budget allows the level at once; otherwise the
// ceiling must rise first. All reservations must have ended, and the sale must be open. ever is
// false if that time never comes, or comes after the sale has closed.
func (c *Count) from(f *saleTerms, k *groupKey, epsilon privacy.Epsilon, within bool) (at time.Time, ever bool) {
	if ever = within; !within {
		at, ever = f.policy.Reaches(state.Plus(epsilon, k.answered), k.buyers)
	}
	at = Latest(at, k.expires, f.opens, c.State.Clock)
	return at, ever && (f.closes.IsZero() || at.Before(f.closes))
}

// sum adds the counts of all groups to the counts of the levels, and clears the groups.
func (c *Count) sum() {
	for k, one := range c.groups {
		c.sumGroup(&k, one)
	}
	clear(c.groups)
	c.lastGroup = nil
}

// sumGroup adds the objects of one group to the counts of the levels. An object whose budget allows
// n levels is able at the n lowest levels. So the sums are formed from the highest level down.
// Levels in k.separate were counted object by object.
func (c *Count) sumGroup(k *groupKey, one *group) {
	f := c.offers[k.policy]
	var now, ever uint64 // numbers of objects whose budgets allow level i, at once and if the ceiling rises
	for i := len(c.Levels) - 1; i >= 0; i-- {
		now, ever = now+uint64(one.now[i+1]), ever+uint64(one.ever[i+1])
		switch sum := &c.counts[i]; {
		case k.separate.has(i): // counted by countSeparately
		case f.opensLater(i):
			c.wait(sum, f, k, now, true)
			c.wait(sum, f, k, ever-now, false)
		case f.reasons[i] == "":
			sum.Can += now
			c.pay(sum, f, k, now)
			c.wait(sum, f, k, ever-now, false)
		}
	}
	c.noteRises(f, k)
}

// pay adds the price of some objects of the group k to a level. All of them have the same price. A
// sum that is too large becomes the largest int64.
func (c *Count) pay(sum *api.BudgetLevel, f *saleTerms, k *groupKey, objects uint64) {
	sale := f.policy.Terms()
	if !c.Buying || sale == nil || objects == 0 {
		return
	}
	each := uint64(sale.Upgrade(k.held, sum.Epsilon, int64(k.paid)))
	if over, all := bits.Mul64(objects, each); over != 0 || all > math.MaxInt64-uint64(sum.Price) {
		sum.Price = math.MaxInt64
	} else {
		sum.Price += int64(all)
	}
}

// wait adds to a level some objects of the group k that must wait for it, unless time alone never
// helps them. within reports whether their budgets allow the level at once, so that they wait for
// other reasons.
func (c *Count) wait(sum *api.BudgetLevel, f *saleTerms, k *groupKey, objects uint64, within bool) {
	if objects == 0 {
		return
	}
	if at, ever := c.from(f, k, sum.Epsilon, within); ever {
		sum.Later += objects
		sum.From = Latest(sum.From, at)
	}
}

// noteRises notes when the ceiling of a group rises next, as a time at which the result changes.
// The largest ε may rise then, even if all objects can have each counted level already.
func (c *Count) noteRises(f *saleTerms, k *groupKey) {
	most := k.buyers
	if !k.expires.IsZero() {
		most++ // the ceiling with the share of a buyer that has reserved also limits, see HeadroomOf
	}
	for buyers := k.buyers; buyers <= most; buyers++ {
		if at, ever := f.policy.Rises(c.State.Clock, buyers); ever {
			c.noteChange(at)
		}
	}
}

// refuseAtTop counts an object as refused if it cannot have the highest level. It finds the reason,
// the largest ε that is possible instead, and the time from which time alone allows the highest
// level.
func (c *Count) refuseAtTop(subject *Subject, k *groupKey, span *Span) error {
	i := len(c.Levels) - 1
	top, f := c.Levels[i], c.offers[k.policy]
	reason, waits, err := c.barrier(subject, k, i)
	waits = waits && c.canHandOut(subject, span, i)
	if err == nil && reason == "" {
		reason, err = c.budgetReason(subject, span, top)
	}
	if err != nil || reason == "" {
		return err
	}
	var largest privacy.Epsilon
	if DependsOnEpsilon(reason) {
		largest, err = c.Rules.Within(subject, c.Bid.Question, span, state.Below(top), c.offering(subject))
		if err != nil {
			return err
		}
	}
	var from time.Time
	// For other reasons, time alone does not help.
	ever := reason == api.ChainCeiling || reason == api.ObjectCap || waits
	if ever = ever && !span.Ever.Less(top); ever {
		from, ever = c.from(f, k, top, !span.Now.Less(top))
	}
	c.refuse(reason, largest, from, ever)
	return nil
}

// budgetReason returns why a level of an object is not possible, apart from the terms: budget, full
// chain, missing key or missing true value. It returns "" if the level is possible.
func (c *Count) budgetReason(subject *Subject, span *Span, epsilon privacy.Epsilon) (api.Reason, error) {
	if !span.Recorded && !span.Now.Less(epsilon) {
		return "", nil
	}
	if _, untold := slices.BinarySearch(c.WithoutTruth, subject.Name); untold {
		return api.NoTruth, nil
	}
	req := c.requestFor(subject)
	req.Epsilon = epsilon
	_, refusal, err := c.Rules.Assess(c.State, subject, req)
	if err != nil || refusal == nil {
		return "", err
	}
	return refusal.Reason, nil
}

// refuse counts an object that is refused at the highest level. largest is the largest ε that is
// possible instead, or 0. If ever is set, time alone allows the level from the time from on. The
// sums for the reason have the lowest largest ε and the latest time.
func (c *Count) refuse(reason api.Reason, largest privacy.Epsilon, from time.Time, ever bool) {
	one := c.refused[reason]
	if one == nil {
		one = &refused{}
		one.Reason, one.Largest = reason, largest
		c.refused[reason] = one
	}
	one.Count++
	one.Largest = state.Lower(one.Largest, largest)
	one.From = Latest(one.From, from)
	one.isNeverHelped = one.isNeverHelped || !ever
}

// Result returns what was counted, and the first time at which the result changes without an event,
// or zero. It is called once, after the last object.
func (c *Count) Result() (out api.Budget, until time.Time) {
	c.sum()
	out = api.Budget{
		Question: c.Bid.Question.Name, Objects: c.objects, Event: c.State.Counters.Events, At: c.State.Clock,
		Largest: c.Lowest, Levels: c.counts,
	}
	for _, one := range c.refused {
		if one.isNeverHelped {
			one.From = time.Time{}
		}
		out.Refused = append(out.Refused, one.RefusalSum)
	}
	slices.SortFunc(out.Refused, api.RefusalSum.Compare)
	return out, c.until
}

// IsLowestProven reports whether all counted objects can certainly have the level c.Lowest. If it
// is false, a later object may have lowered c.Lowest to a level that the terms of an earlier object
// do not sell. The caller then counts again.
func (c *Count) IsLowestProven() bool {
	switch {
	case c.Lowest.IsZero():
		return true
	case c.hasExceptions || !c.Buying:
		return !c.hasExceptions // for the host, all levels are on offer
	}
	for _, f := range c.offers {
		if sale := f.policy.Terms(); sale == nil || f.holders > 0 || !sale.Offers(c.Lowest) {
			return false
		}
	}
	return true
}
