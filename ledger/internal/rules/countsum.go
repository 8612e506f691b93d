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

// offer is what the terms of a policy let the buyer have.
type saleTerms struct {
	policy  policy.Policy
	holders int                    // that a level may have; 0 for any number
	reasons [MostLevels]api.Reason // why they sell no such level now, by its place; "" if they do
	opens   time.Time              // when they open, if that is to come
	closes  time.Time              // when they close for good, or zero
}

// comes tells whether the terms sell a level later, by its place.
func (f *saleTerms) comes(i int) bool {
	return f.reasons[i] == api.SaleClosed && !f.opens.IsZero()
}

// offer returns what the policy of a number lets the buyer have.
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

// changes notes that something is different from an instant on, if that is to come.
func (o *Count) changes(at time.Time) {
	if at.After(o.State.Now) && (o.until.IsZero() || at.Before(o.until)) {
		o.until = at
	}
}

// from returns when time alone will allow an object of a kind a level, if nothing else is asked of
// it until then. ever is false if it never will. within tells whether its budget allows the level
// at once.
func (o *Count) from(f *saleTerms, k *kind, epsilon privacy.Epsilon, within bool) (at time.Time, ever bool) {
	if ever = within; !within {
		at, ever = f.policy.Reaches(state.Plus(epsilon, k.beside), k.buyers)
	}
	at = Latest(at, k.expires, f.opens, o.State.Clock)
	return at, ever && (f.closes.IsZero() || at.Before(f.closes))
}

// sum adds what is counted so far to the levels, and forgets it.
func (o *Count) sum() {
	for k, one := range o.kinds {
		o.sumAlike(&k, one)
	}
	clear(o.kinds)
	o.alike = nil
}

// sumAlike adds those of one kind.
func (o *Count) sumAlike(k *kind, one *group) {
	f := o.offers[k.policy]
	var now, ever uint64 // that have a level in reach
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

// pay adds what objects cost. A sum that is too large stays at the largest there is.
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

// wait adds objects that must wait for a level. within tells whether their budgets allow it at
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

// rises notes when the ceiling of a kind is higher next. That may change the largest ε, even if all
// can have each of the levels.
func (o *Count) rises(f *saleTerms, k *kind) {
	most := k.buyers
	if !k.expires.IsZero() {
		most++ // as if whoever reserves had bought
	}
	for buyers := k.buyers; buyers <= most; buyers++ {
		if at, ever := f.policy.Rises(o.State.Clock, buyers); ever {
			o.changes(at)
		}
	}
}

// refuseAtTop notes why an object cannot have the highest level, if it cannot.
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

// short returns why the budget of an object, or a missing key, does not allow a level, or "".
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

// Result returns what was counted.
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

// Proven tells whether all who were counted could have the largest ε that was found. Else those who
// were looked at before the last may have less.
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
