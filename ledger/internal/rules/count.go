package rules

import (
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// MostLevels is how many ε can be asked about at once.
const MostLevels = 100

// mostKinds is how many kinds of objects are counted apart before they are summed, and begun anew.
const mostKinds = 1024

// Count counts how many objects of a panel can have a response at each of some levels, now and
// later.
// The exported fields up to Levels are set before the first object is added.
type Count struct {
	Rules  *Rules            // of the ledger
	State  *state.State      // the snapshot that is counted in
	Bid    Bid               // the question, and who buys
	Buying bool              // somebody buys; else the host asks for itself
	Levels []privacy.Epsilon // that are asked about, rising, 1 to MostLevels
	// Untold are names, in order, of objects that nothing can be drawn for, since the host has no
	// true value of them.
	Untold []string
	// Tops, unless nil, gets for each object the highest level that it can have at once.
	Tops Tops
	// Lowest is an ε that all objects could have: at first the highest there is, at last the largest
	// ε for all.
	Lowest privacy.Epsilon

	objects  uint64
	counts   []api.BudgetLevel
	refused  map[api.Reason]*refused // at the highest level
	lowestOf kind                    // of the last object that was asked for it
	odd      bool                    // somebody has other levels than the terms say
	until    time.Time               // when time changes something, or zero
	offers   map[uint32]*saleTerms
	kinds    map[kind]*group
	last     kind // the one counted last, which most often comes again
	alike    *group
}

// places are a set of levels, by their places.
type places [(MostLevels + 63) / 64]uint64

func (b *places) add(i int)      { b[i/64] |= 1 << (i % 64) }
func (b *places) has(i int) bool { return b[i/64]>>(i%64)&1 == 1 }

// kind is what objects have in common that are counted together.
type kind struct {
	policy  uint32
	buyers  uint64          // that the chain would have served
	beside  privacy.Epsilon // what the chain has spent beside its highest level
	held    privacy.Epsilon // the highest level that the buyer holds
	paid    uint64          // by the buyer
	expires time.Time       // the end of the last reservation that holds something of the object, or zero
	apart   places          // levels that are counted for each object: not only the terms decide
}

// alike are the objects of a kind, by how many of the levels their budgets allow.
type group struct {
	now  [MostLevels + 1]uint32 // at once
	ever [MostLevels + 1]uint32 // if time raises the ceiling as far as need be
}

// refused are those refused at the highest level for one reason.
type refused struct {
	api.RefusalSum
	never bool // time alone does not help all of them
}

// Add counts an object that a name stands for.
func (o *Count) Add(name string) error {
	var x Subject
	top := o.Levels[len(o.Levels)-1]
	if o.objects++; o.objects == 1 {
		o.begin()
	}
	refusal, err := ReadSubject(o.State, o.Bid.Question, name, top, &x)
	if err != nil {
		return err
	}
	if refusal != nil {
		o.Lowest = privacy.Epsilon{}
		o.refuse(refusal.Reason, privacy.Epsilon{}, time.Time{}, false)
		return nil
	}
	span, err := o.Rules.Span(o.State, &x, o.asking(&x))
	if err != nil {
		return err
	}
	if _, untold := slices.BinarySearch(o.Untold, name); untold {
		span.Now = state.Lower(span.Now, x.Chain.Current())
		span.Ever = span.Now
	}
	k, err := o.kindOf(&x, &span)
	if err != nil {
		return err
	}
	if k != o.last || o.alike == nil {
		o.turnTo(k)
	}
	for i := range o.Levels {
		if !k.apart.has(i) {
			continue
		}
		if err := o.countApart(&x, &k, &span, i); err != nil {
			return err
		}
	}
	o.alike.now[o.within(span.Now)]++
	o.alike.ever[o.within(span.Ever)]++
	if o.Tops != nil {
		return o.addTop(&x, &span)
	}
	if err := o.lower(&x, &k, &span); err != nil {
		return err
	}
	return o.refuseAtTop(&x, &k, &span)
}

// begin gets ready for the first object.
func (o *Count) begin() {
	o.counts = make([]api.BudgetLevel, len(o.Levels))
	for i, epsilon := range o.Levels {
		o.counts[i].Epsilon = epsilon
	}
	o.refused = map[api.Reason]*refused{}
	o.offers, o.kinds = map[uint32]*saleTerms{}, map[kind]*group{}
}

// asking is what is asked of an object, at whatever ε.
func (o *Count) asking(x *Subject) Asking {
	ask := Asking{Question: o.Bid.Question, Epsilon: privacy.MaxEpsilon(), At: o.State.Clock}
	if o.Buying {
		ask.Buyer, ask.Newcomer = o.Bid.Buyer, x.Chain.HeldBy(o.Bid.Buyer).IsZero()
	}
	return ask
}

// within returns how many of the levels are not above an ε.
func (o *Count) within(epsilon privacy.Epsilon) int {
	n, found := slices.BinarySearchFunc(o.Levels, epsilon, privacy.Epsilon.Compare)
	if found {
		n++
	}
	return n
}

// turnTo makes a kind the one that is counted.
func (o *Count) turnTo(k kind) {
	one := o.kinds[k]
	if one == nil {
		if len(o.kinds) == mostKinds {
			o.sum()
		}
		one = &group{}
		o.kinds[k] = one
	}
	o.last, o.alike = k, one
}

// kindOf returns the kind of an object.
func (o *Count) kindOf(x *Subject, span *Span) (k kind, err error) {
	o.offer(x.Chain.Policy, x.Policy)
	k = kind{policy: x.Chain.Policy, buyers: x.Chain.Buyers, beside: x.Chain.Answered}
	if k.expires, err = o.heldUntil(x); err != nil {
		return k, err
	}
	if o.Buying {
		if k.held = x.Chain.HeldBy(o.Bid.Buyer); k.held.IsZero() {
			k.buyers++
		} else {
			k.paid = x.Chain.PaidBy(o.Bid.Buyer)
		}
	}
	return k, o.setApart(x, &k, span)
}

// heldUntil returns when the last of the reservations ends that hold something of an object, or
// zero. The end of each changes something.
func (o *Count) heldUntil(x *Subject) (last time.Time, err error) {
	for _, number := range x.Object.Held {
		r, err := o.State.Sale(number)
		if err != nil {
			return last, err
		}
		if r.HoldsOn(x.Object, o.State.Now) {
			o.changes(r.Expires)
			last = Latest(last, r.Expires)
		}
	}
	return last, nil
}

// setApart finds the levels at which not only the terms decide: an object may hand out none but
// recorded levels, the buyer may hold a level, and other buyers may hold or reserve it.
func (o *Count) setApart(x *Subject, k *kind, span *Span) error {
	switch {
	case span.Recorded:
		o.odd = true
		for i := range o.Levels {
			k.apart.add(i)
		}
		return nil
	case !o.Buying || k.held.IsZero() && o.offers[k.policy].holders == 0:
		return nil
	}
	add := func(epsilon privacy.Epsilon) {
		if i, found := slices.BinarySearchFunc(o.Levels, epsilon, privacy.Epsilon.Compare); found {
			k.apart.add(i)
		} else {
			o.odd = true // it counts where the largest ε for all is looked for
		}
	}
	for _, at := range x.Chain.Levels {
		add(at.Epsilon)
	}
	for _, number := range x.Object.Held {
		r, err := o.State.Sale(number)
		if err != nil {
			return err
		}
		add(r.Epsilon)
	}
	return nil
}

// barrier returns why a buyer may not have a level of an object now, whatever its budget, or "", and
// whether the buyer may have it later, by time alone.
func (o *Count) barrier(x *Subject, k *kind, i int) (reason api.Reason, waits bool, err error) {
	f := o.offers[k.policy]
	if !o.Buying || !k.apart.has(i) {
		return f.reasons[i], f.comes(i), nil
	}
	bid := o.Bid
	bid.Epsilon = o.Levels[i]
	refusal, err := bid.CheckSale(o.State, x)
	if err != nil || refusal == nil {
		o.odd = o.odd || f.reasons[i] != ""
		return "", false, err
	}
	reason, waits = refusal.Reason, refusal.Remedy == event.RemedyWaiting
	o.odd = o.odd || f.reasons[i] == ""
	if f.comes(i) && f.holders > 0 { // it may still have all its holders when the sale opens
		refusal, err = bid.CheckHolders(o.State, x, bid.Epsilon, f.holders)
		waits = refusal == nil || refusal.Remedy == event.RemedyWaiting
		o.odd = o.odd || refusal != nil
	}
	return reason, waits, err
}

// countApart counts an object at a level, by its place, that is counted apart.
func (o *Count) countApart(x *Subject, k *kind, span *Span, i int) error {
	if !o.handsOut(x, span, i) || span.Ever.Less(o.Levels[i]) {
		return nil
	}
	reason, waits, err := o.barrier(x, k, i)
	if err != nil {
		return err
	}
	f, within := o.offers[k.policy], !span.Now.Less(o.Levels[i])
	switch {
	case reason != "" && !waits:
	case waits || !within:
		o.wait(&o.counts[i], f, k, 1, within)
	default:
		o.counts[i].Can++
		o.pay(&o.counts[i], f, k, 1)
	}
	return nil
}

// handsOut reports whether an object can hand out a level, by its place, if the budget allows it:
// some can hand out recorded levels only.
func (o *Count) handsOut(x *Subject, span *Span, i int) bool {
	_, recorded := x.Chain.At(o.Levels[i])
	return !span.Recorded || recorded && span.capacity.fits(o.Bid.Question, &x.Chain, o.Levels[i])
}

// lower lowers the ε that all could have to what an object could, at once.
func (o *Count) lower(x *Subject, k *kind, span *Span) (err error) {
	same := *k == o.lowestOf && k.held.IsZero() && !span.Recorded && o.offers[k.policy].holders == 0
	if same && o.objects > 1 && !span.Now.Less(o.Lowest) {
		return nil // its like could have it
	}
	o.Lowest, err = o.Rules.Within(x, o.Bid.Question, span, o.Lowest, o.on(x))
	o.lowestOf = *k
	return err
}

// addTop notes the highest level that an object can have at once.
func (o *Count) addTop(x *Subject, span *Span) error {
	top, err := o.Rules.Within(x, o.Bid.Question, span, privacy.MaxEpsilon(), o.on(x))
	if err == nil {
		o.Tops.add(top)
	}
	return err
}

// on is what may be had of an object, whatever its budget.
func (o *Count) on(x *Subject) Offering {
	if o.Buying {
		return o.Bid.Offer(o.State, x)
	}
	return Offered(o.Bid.Question)
}

// Tops are the highest levels of objects, each once: there the number of those who can answer
// changes.
type Tops map[privacy.Epsilon]struct{}

// mostTops is how many are kept: further ones are left out, since so many are too many to be asked
// about anyway.
const mostTops = 1 << 14

func (t Tops) add(top privacy.Epsilon) {
	if !top.IsZero() && len(t) < mostTops {
		t[top] = struct{}{}
	}
}

// Levels returns at most MostLevels levels to ask about, rising: all of them, or the lowest, the
// highest and some evenly between.
func (t Tops) Levels() []privacy.Epsilon {
	all := make([]privacy.Epsilon, 0, len(t))
	for top := range t {
		all = append(all, top)
	}
	slices.SortFunc(all, privacy.Epsilon.Compare)
	if len(all) <= MostLevels {
		return all
	}
	some := make([]privacy.Epsilon, MostLevels)
	for i := range some {
		some[i] = all[i*(len(all)-1)/(MostLevels-1)]
	}
	return some
}
