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

// saleTerms is what the terms of a policy let the buyer have.
type saleTerms struct {
	policy  policy.Policy
	holders int                    // largest number of holders of a level; 0 for any number
	reasons [MostLevels]api.Reason // by index of the level: why it is not sold now; "" if it is
	opens   time.Time              // when the sale opens, if that is in the future
	closes  time.Time              // when the sale closes, or zero
}

// comes reports whether the terms sell a level later. i is the index of the level.
func (f *saleTerms) comes(i int) bool {
	return f.reasons[i] == api.SaleClosed && !f.opens.IsZero()
}

// offer returns what the policy with a number lets the buyer have.
func (o *Count) offer(number uint32, p policy.Policy) *saleTerms {
	if known := o.offers[number]; known != nil {
		return known
	}
	one := &saleTerms{policy: p}
	o.offers[number] = one
	sale := p.Terms()
	if !o.Buying {
		return one
	}
	for i, epsilon := range o.Levels {
		one.reasons[i] = Barrier(sale, o.Bid.Client, epsilon, o.State.Now)
	}
	if sale == nil {
		return one
	}
	one.holders, one.closes = sale.Holders(), sale.Closes()
	if o.State.Now.Before(sale.Opens()) {
		one.opens = sale.Opens()
	}
	o.changes(one.opens)
	o.changes(one.closes)
	return one
}

// changes notes that the result changes at a time, if that is in the future.
func (o *Count) changes(at time.Time) {
	if at.After(o.State.Now) && (o.until.IsZero() || at.Before(o.until)) {
		o.until = at
	}
}

// from returns when time alone will allow a level to an object of a kind, if there are no other
// charges until then. ever is false if time alone never allows it. within reports whether the
// budget allows the level at once.
func (o *Count) from(f *saleTerms, k *kind, epsilon privacy.Epsilon, within bool) (at time.Time, ever bool) {
	if ever = within; !within {
		at, ever = f.policy.Reaches(state.Plus(epsilon, k.beside), k.buyers)
	}
	at = Latest(at, k.expires, f.opens, o.State.Clock)
	return at, ever && (f.closes.IsZero() || at.Before(f.closes))
}

// sum adds the counts of all kinds to the levels and clears them.
func (o *Count) sum() {
	for k, one := range o.kinds {
		o.sumAlike(&k, one)
	}
	clear(o.kinds)
	o.alike = nil
}

// sumAlike adds the objects of one kind to the levels.
func (o *Count) sumAlike(k *kind, one *group) {
	f := o.offers[k.policy]
	var now, ever uint64 // numbers of objects whose budgets allow the level
	for i := len(o.Levels) - 1; i >= 0; i-- {
		now, ever = now+uint64(one.now[i+1]), ever+uint64(one.ever[i+1])
		switch sum := &o.counts[i]; {
		case k.apart.has(i):
		case f.comes(i):
			o.wait(sum, f, k, now, true)
			o.wait(sum, f, k, ever-now, false)
		case f.reasons[i] == "":
			sum.Can += now
			o.pay(sum, f, k, now)
			o.wait(sum, f, k, ever-now, false)
		}
	}
	o.rises(f, k)
}

// pay adds the price of some objects to a level. A sum that is too large becomes the largest int64.
func (o *Count) pay(sum *api.BudgetLevel, f *saleTerms, k *kind, objects uint64) {
	sale := f.policy.Terms()
	if !o.Buying || sale == nil || objects == 0 {
		return
	}
	each := uint64(sale.Upgrade(k.held, sum.Epsilon, int64(k.paid)))
	if over, all := bits.Mul64(objects, each); over != 0 || all > math.MaxInt64-uint64(sum.Price) {
		sum.Price = math.MaxInt64
	} else {
		sum.Price += int64(all)
	}
}

// wait adds objects that must wait for a level. within reports whether their budgets allow it at
// once.
func (o *Count) wait(sum *api.BudgetLevel, f *saleTerms, k *kind, objects uint64, within bool) {
	if objects == 0 {
		return
	}
	if at, ever := o.from(f, k, sum.Epsilon, within); ever {
		sum.Later += objects
		sum.From = Latest(sum.From, at)
	}
}

// rises notes when the ceiling of a kind rises next. That may change the largest ε, even if all
// objects can have each level.
func (o *Count) rises(f *saleTerms, k *kind) {
	most := k.buyers
	if !k.expires.IsZero() {
		most++ // as if a buyer with a reservation had bought
	}
	for buyers := k.buyers; buyers <= most; buyers++ {
		if at, ever := f.policy.Rises(o.State.Clock, buyers); ever {
			o.changes(at)
		}
	}
}

// refuseAtTop counts an object as refused if it cannot have the highest level, with the reason.
func (o *Count) refuseAtTop(x *Subject, k *kind, span *Span) error {
	i := len(o.Levels) - 1
	top, f := o.Levels[i], o.offers[k.policy]
	reason, waits, err := o.barrier(x, k, i)
	waits = waits && o.handsOut(x, span, i)
	if err == nil && reason == "" {
		reason, err = o.short(x, span, top)
	}
	if err != nil || reason == "" {
		return err
	}
	var largest privacy.Epsilon
	if DependsOnEpsilon(reason) {
		if largest, err = o.Rules.Within(x, o.Bid.Question, span, state.Below(top), o.on(x)); err != nil {
			return err
		}
	}
	var from time.Time
	ever := reason == api.ChainCeiling || reason == api.ObjectCap || waits
	if ever = ever && !span.Ever.Less(top); ever {
		from, ever = o.from(f, k, top, !span.Now.Less(top))
	}
	o.refuse(reason, largest, from, ever)
	return nil
}

// short returns why the budget of an object does not allow a level, or which key or true value is
// missing. It returns "" if the level is possible.
func (o *Count) short(x *Subject, span *Span, epsilon privacy.Epsilon) (api.Reason, error) {
	if !span.Recorded && !span.Now.Less(epsilon) {
		return "", nil
	}
	if _, untold := slices.BinarySearch(o.Untold, x.Name); untold {
		return api.NoTruth, nil
	}
	ask := o.asking(x)
	ask.Epsilon = epsilon
	_, refusal, err := o.Rules.Assess(o.State, x, ask)
	if err != nil || refusal == nil {
		return "", err
	}
	return refusal.Reason, nil
}

// refuse counts an object that is refused at the highest level.
func (o *Count) refuse(reason api.Reason, largest privacy.Epsilon, from time.Time, ever bool) {
	one := o.refused[reason]
	if one == nil {
		one = &refused{}
		one.Reason, one.Largest = reason, largest
		o.refused[reason] = one
	}
	one.Count++
	one.Largest = state.Lower(one.Largest, largest)
	one.From = Latest(one.From, from)
	one.never = one.never || !ever
}

// Result returns what was counted, and the time at which time alone changes it, or zero.
func (o *Count) Result() (out api.Budget, until time.Time) {
	o.sum()
	out = api.Budget{
		Question: o.Bid.Question.Name, Objects: o.objects, Event: o.State.Counters.Events, At: o.State.Clock,
		Largest: o.Lowest, Levels: o.counts,
	}
	for _, one := range o.refused {
		if one.never {
			one.From = time.Time{}
		}
		out.Refused = append(out.Refused, one.RefusalSum)
	}
	slices.SortFunc(out.Refused, api.RefusalSum.Compare)
	return out, o.until
}

// Proven reports whether all counted objects can have the level o.Lowest. If it is false, objects
// that were counted before the last one may not have that level.
func (o *Count) Proven() bool {
	switch {
	case o.Lowest.IsZero():
		return true
	case o.odd || !o.Buying:
		return !o.odd
	}
	for _, f := range o.offers {
		if sale := f.policy.Terms(); sale == nil || f.holders > 0 || !sale.Offers(o.Lowest) {
			return false
		}
	}
	return true
}
