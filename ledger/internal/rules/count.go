package rules

import (
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// MostLevels is the largest number of levels in one request for a budget.
const MostLevels = 100

// mostKinds is the largest number of kinds of objects that are counted separately. When there are
// more, the counts are added up and cleared.
const mostKinds = 1024

// Count counts the objects of a panel that can have a response at each of some levels, now and
// later. The exported fields up to Levels are set before the first object is added.
type Count struct {
	Rules  *Rules            // of the ledger
	State  *state.State      // the snapshot
	Bid    Bid               // the question and the buyer
	Buying bool              // the count is for a buyer; otherwise it is for the host
	Levels []privacy.Epsilon // the levels to count at, ascending; 1 to MostLevels
	// Untold are the sorted names of objects for which nothing can be drawn, because the host has
	// no true value of them.
	Untold []string
	// Tops, unless nil, gets for each object the highest level that it can have at once.
	Tops Tops
	// Lowest is an upper bound of the largest ε that all objects can have. It begins with the
	// highest ε possible, and each object may lower it.
	Lowest privacy.Epsilon

	objects  uint64
	counts   []api.BudgetLevel
	refused  map[api.Reason]*refused // refusals at the highest level
	lowestOf kind                    // kind of the last object that was compared with Lowest
	odd      bool                    // an object has other levels than its terms say
	until    time.Time               // the time at which time changes the result, or zero
	offers   map[uint32]*saleTerms
	kinds    map[kind]*group
	last     kind // kind of the last object; the next object often has the same
	// group of the last kind
	alike *group
}

// places is a set of indexes of levels.
type places [(MostLevels + 63) / 64]uint64

func (b *places) add(i int)      { b[i/64] |= 1 << (i % 64) }
func (b *places) has(i int) bool { return b[i/64]>>(i%64)&1 == 1 }

// kind is what objects have in common that are counted together.
type kind struct {
	policy  uint32
	buyers  uint64          // number of buyers that the chain would have
	beside  privacy.Epsilon // spent by the chain in addition to its highest level
	held    privacy.Epsilon // the highest level that the buyer holds
	paid    uint64          // by the buyer
	expires time.Time       // the end of the last reservation that holds budget of the object, or zero
	apart   places          // levels that are counted object by object, because they do not depend on the terms alone
}

// group counts the objects of a kind by the number of levels that their budgets allow.
type group struct {
	now  [MostLevels + 1]uint32 // allowed at once
	ever [MostLevels + 1]uint32 // allowed if time raises the ceiling enough
}

// refused counts the objects refused at the highest level for one reason.
type refused struct {
	api.RefusalSum
	never bool // time alone does not help all of them
}

// Add counts the object with a name.
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

// begin initializes the count when the first object is added.
func (o *Count) begin() {
	o.counts = make([]api.BudgetLevel, len(o.Levels))
	for i, epsilon := range o.Levels {
		o.counts[i].Epsilon = epsilon
	}
	o.refused = map[api.Reason]*refused{}
	o.offers, o.kinds = map[uint32]*saleTerms{}, map[kind]*group{}
}

// asking returns the request for an object. It is for the largest ε, because the level does not
// matter.
func (o *Count) asking(x *Subject) Asking {
	ask := Asking{Question: o.Bid.Question, Epsilon: privacy.MaxEpsilon(), At: o.State.Clock}
	if o.Buying {
		ask.Buyer, ask.Newcomer = o.Bid.Buyer, x.Chain.HeldBy(o.Bid.Buyer).IsZero()
	}
	return ask
}

// within returns the number of levels that are at most an ε.
func (o *Count) within(epsilon privacy.Epsilon) int {
	n, found := slices.BinarySearchFunc(o.Levels, epsilon, privacy.Epsilon.Compare)
	if found {
		n++
	}
	return n
}

// turnTo makes k the kind that is counted.
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

// heldUntil returns when the last reservation ends that holds budget of an object, or zero. It also
// notes the end of each reservation as a time that changes the result.
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

// setApart adds to k.apart the levels that do not depend on the terms alone. That is so if the
// object can only have recorded levels, if the buyer holds a level, or if other buyers hold or
// reserve a level.
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
			o.odd = true // it matters for the largest ε of all objects
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

// barrier returns why the buyer may not have a level of an object now, without regard to the
// budget, or "" if it may. waits reports whether time alone will allow it later. i is the index of
// the level.
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
	if f.comes(i) && f.holders > 0 { // when the sale opens, the level may have all its holders
		refusal, err = bid.CheckHolders(o.State, x, bid.Epsilon, f.holders)
		waits = refusal == nil || refusal.Remedy == event.RemedyWaiting
		o.odd = o.odd || refusal != nil
	}
	return reason, waits, err
}

// countApart counts an object at a level that is counted object by object. i is the index of the
// level.
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

// handsOut reports whether an object can have a response at a level if the budget allows it. Some
// objects can only have recorded levels. i is the index of the level.
func (o *Count) handsOut(x *Subject, span *Span, i int) bool {
	_, recorded := x.Chain.At(o.Levels[i])
	return !span.Recorded || recorded && span.capacity.fits(o.Bid.Question, &x.Chain, o.Levels[i])
}

// lower reduces o.Lowest to the highest level up to it that an object can have at once.
func (o *Count) lower(x *Subject, k *kind, span *Span) (err error) {
	same := *k == o.lowestOf && k.held.IsZero() && !span.Recorded && o.offers[k.policy].holders == 0
	if same && o.objects > 1 && !span.Now.Less(o.Lowest) {
		return nil // an object of the same kind was compared already
	}
	o.Lowest, err = o.Rules.Within(x, o.Bid.Question, span, o.Lowest, o.on(x))
	o.lowestOf = *k
	return err
}

// addTop adds the highest level that an object can have at once to o.Tops.
func (o *Count) addTop(x *Subject, span *Span) error {
	top, err := o.Rules.Within(x, o.Bid.Question, span, privacy.MaxEpsilon(), o.on(x))
	if err == nil {
		o.Tops.add(top)
	}
	return err
}

// on returns the offering for an object, without regard to its budget.
func (o *Count) on(x *Subject) Offering {
	if o.Buying {
		return o.Bid.Offer(o.State, x)
	}
	return Offered(o.Bid.Question)
}

// Tops is a set of highest levels of objects. The number of objects that can answer changes at
// these levels.
type Tops map[privacy.Epsilon]struct{}

// mostTops is the largest size of Tops. Further levels are left out, because only [MostLevels] are
// counted at.
const mostTops = 1 << 14

// add adds a level, unless it is 0 or the set is full.
func (t Tops) add(top privacy.Epsilon) {
	if !top.IsZero() && len(t) < mostTops {
		t[top] = struct{}{}
	}
}

// Levels returns at most [MostLevels] levels to count at, ascending. If there are more, it returns
// the lowest, the highest and others at even distances between them.
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
