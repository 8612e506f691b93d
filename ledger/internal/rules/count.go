package rules

import (
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/ledger/vocabulary"
	"github.com/sluicedp/sluice/privacy"
)

// MostLevels is how many ε can be asked about at once.
const MostLevels = 100

// mostKinds is how many kinds of objects are counted apart before they are summed, and begun anew.
const mostKinds = 1024

// Count counts how many objects of a panel can have a response at each of some levels, now and later.
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
	Tops   Tops
	Lowest privacy.Epsilon // an ε that everybody could have: at first the highest that is asked for, at last the largest ε for all

	objects  uint64
	counts   []vocabulary.BudgetLevel
	refused  map[vocabulary.Reason]*refused // at the highest level
	lowestOf kind                           // of the last object that was asked for it
	odd      bool                           // somebody has other levels than the terms say
	until    time.Time                      // when time changes something, or zero
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
	allowed places          // levels that may be had though the terms say otherwise, because the buyer holds them
	blocked places          // levels that may not be had though the terms say otherwise, because others hold them
	waiting places          // levels that may be had later, when those who reserved them do not hold them; if only is set, also when the sale opens
	only    bool            // nothing but recorded levels can be had, which are those allowed: the noise key is missing, or the chain is full
}

// alike are the objects of a kind, by how many of the levels their budgets allow.
type group struct {
	now  [MostLevels + 1]uint32 // at once
	ever [MostLevels + 1]uint32 // if time raises the ceiling as far as need be
}

// refused are those refused at the highest level for one reason.
type refused struct {
	vocabulary.RefusalSum
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
	o.counts = make([]vocabulary.BudgetLevel, len(o.Levels))
	for i, epsilon := range o.Levels {
		o.counts[i].Epsilon = epsilon
	}
	o.refused = map[vocabulary.Reason]*refused{}
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
	k = kind{policy: x.Chain.Policy, buyers: x.Chain.Buyers, beside: x.Chain.Answered, only: span.Recorded}
	if k.expires, err = o.heldUntil(x); err != nil {
		return k, err
	}
	if o.Buying {
		if k.held = x.Chain.HeldBy(o.Bid.Buyer); k.held.IsZero() {
			k.buyers++
		} else {
			k.paid = x.Chain.PaidBy(o.Bid.Buyer)
		}
		if err := o.except(x, &k); err != nil {
			return k, err
		}
	}
	if k.only {
		o.allowRecorded(x, &k, span)
	}
	return k, nil
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

// except notes at which levels the buyer is not treated as the terms alone say: because it holds
// the response, or others do.
func (o *Count) except(x *Subject, k *kind) error {
	offered := o.offers[k.policy]
	if k.held.IsZero() && (offered.holders == 0 || len(x.Chain.Levels)+len(x.Object.Held) == 0) {
		return nil
	}
	levels := make([]privacy.Epsilon, 0, len(x.Chain.Levels)+len(x.Object.Held))
	for _, at := range x.Chain.Levels {
		levels = append(levels, at.Epsilon)
	}
	for _, number := range x.Object.Held {
		r, err := o.State.Sale(number)
		if err != nil {
			return err
		}
		levels = append(levels, r.Epsilon)
	}
	for _, epsilon := range levels {
		i, found := slices.BinarySearchFunc(o.Levels, epsilon, privacy.Epsilon.Compare)
		if !found {
			o.odd = true // it counts where the largest ε for all is looked for
			continue
		}
		bid := o.Bid
		bid.Epsilon = epsilon
		refusal, err := bid.CheckSale(o.State, x)
		opens := refusal != nil && offered.comes(i)
		if opens && offered.holders == 0 {
			continue
		}
		if opens { // it may still have all its holders when the sale opens
			refusal, err = bid.CheckHolders(o.State, x, epsilon, offered.holders)
		}
		switch {
		case err != nil:
			return err
		case refusal == nil && !opens && offered.reasons[i] != "":
			k.allowed.add(i)
			o.odd = true
		case refusal != nil && (opens || offered.reasons[i] == ""):
			k.blocked.add(i)
			o.odd = true
			if refusal.Remedy == vocabulary.RemedyWaiting {
				k.waiting.add(i)
			}
		}
	}
	return nil
}

// allowRecorded notes which recorded levels can be had of an object of which nothing else can.
func (o *Count) allowRecorded(x *Subject, k *kind, span *Span) {
	o.odd = true
	offered := o.offers[k.policy]
	held, waiting := k.allowed, k.waiting
	k.allowed, k.waiting = places{}, places{}
	for i, epsilon := range o.Levels {
		_, recorded := x.Chain.At(epsilon)
		switch {
		case !recorded, !span.Allows(o.Bid.Question, &x.Chain, epsilon):
		case waiting.has(i) || offered.comes(i) && !held.has(i) && !k.blocked.has(i):
			k.waiting.add(i)
		case !k.blocked.has(i) && (offered.reasons[i] == "" || held.has(i)):
			k.allowed.add(i)
		}
	}
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
