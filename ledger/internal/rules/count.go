package rules

import (
	"slices"
	"time"

	"github.com/sluicedp/sluice/ledger/api"
	"github.com/sluicedp/sluice/ledger/internal/event"
	"github.com/sluicedp/sluice/ledger/internal/state"
	"github.com/sluicedp/sluice/privacy"
)

// MaxLevels is the largest number of levels in one request for a budget.
const MaxLevels = 100

// maxGroups is the largest number of groups that are kept. When there are more, their counts are
// added up and the groups are cleared, so that memory is bounded.
const maxGroups = 1024

// Count counts the objects of a panel that can have a response at each of some levels, now and
// later. The exported fields are set before the first object is added. Add counts one object, and
// Result returns the counts.
//
// Most objects have few different terms and histories. So objects with the same [groupKey] are
// counted together, by the number of levels that their budgets allow.
type Count struct {
	Rules  *Rules            // of the ledger
	State  *state.State      // the snapshot
	Bid    Bid               // the question and the buyer
	Buying bool              // the count is for a buyer; otherwise it is for the host
	Levels []privacy.Epsilon // the levels to count at, ascending; 1 to MaxLevels
	// WithoutTruth are the sorted names of objects for which nothing can be drawn, because the host
	// has no true value of them.
	WithoutTruth []string
	// Maxima, unless nil, gets for each object the highest level that it can have at once. Lowest
	// and the refusals are then not computed.
	Maxima Maxima
	// Lowest is an upper bound of the largest ε that all objects can have at once. It begins with
	// the highest ε possible, and each object may lower it.
	Lowest privacy.Epsilon

	objects       uint64                  // number of objects added
	counts        []api.BudgetLevel       // by index of the level
	refused       map[api.Reason]*refused // refusals at the highest level
	lowestKey     groupKey                // group of the object for which Lowest was computed last
	hasExceptions bool                    // for an object and a level, the terms alone do not decide
	until         time.Time               // the first time at which the result changes without an event, or zero
	offers        map[uint32]*saleTerms   // by number of the policy
	groups        map[groupKey]*group     // the groups since the last sum
	lastKey       groupKey                // group of the last object; the next object is often in the same
	lastGroup     *group                  // groups[lastKey], or nil if there is none
}

// levelSet is a set of indexes of levels.
type levelSet [(MaxLevels + 63) / 64]uint64

func (b *levelSet) add(i int)      { b[i/64] |= 1 << (i % 64) }
func (b *levelSet) has(i int) bool { return b[i/64]>>(i%64)&1 == 1 }

// groupKey has what the objects of a group have in common. It decides at which levels, and when, an
// object with a given budget can answer.
type groupKey struct {
	policy   uint32
	buyers   uint64          // number of buyers of the chain, including this one if it is new
	answered privacy.Epsilon // spent by the chain in addition to its highest level
	held     privacy.Epsilon // the highest level that the buyer holds
	paid     uint64          // by the buyer
	expires  time.Time       // the end of the last reservation that holds budget of the object, or zero
	separate levelSet        // levels at which its objects are counted one by one: see markSeparate
}

// group counts the objects with the same groupKey. now[n] is the number of objects whose budgets
// allow exactly the n lowest levels at once.
type group struct {
	now  [MaxLevels + 1]uint32
	ever [MaxLevels + 1]uint32 // the same if time raises the ceiling enough
}

// refused counts the objects refused at the highest level for one reason.
type refused struct {
	api.RefusalSum
	isNeverHelped bool // for at least one of the objects, time alone never helps
}

// Add counts the object with a name, in its group and, where the terms alone do not decide, by
// itself. It lowers Lowest to what the object can have, and counts the object as refused if it
// cannot have the highest level. If Maxima is set, it adds to Maxima instead. An object that is not
// enrolled or has withdrawn is refused at all levels.
func (c *Count) Add(name string) error {
	var subject Subject
	top := c.Levels[len(c.Levels)-1]
	if c.objects++; c.objects == 1 {
		c.begin()
	}
	refusal, err := ReadSubject(c.State, c.Bid.Question, name, top, &subject)
	if err != nil {
		return err
	}
	if refusal != nil {
		c.Lowest = privacy.Epsilon{}
		c.refuse(refusal.Reason, privacy.Epsilon{}, time.Time{}, false) // at every ε, and time does not help
		return nil
	}
	span, err := c.Rules.Span(c.State, &subject, c.requestFor(&subject))
	if err != nil {
		return err
	}
	if _, untold := slices.BinarySearch(c.WithoutTruth, name); untold {
		// Nothing can be drawn, so only levels up to the current one are possible.
		span.Now = state.Lower(span.Now, subject.Chain.Current())
		span.Ever = span.Now
	}
	k, err := c.groupKeyOf(&subject, &span)
	if err != nil {
		return err
	}
	if k != c.lastKey || c.lastGroup == nil {
		c.selectGroup(k)
	}
	for i := range c.Levels {
		if !k.separate.has(i) {
			continue
		}
		if err := c.countSeparately(&subject, &k, &span, i); err != nil {
			return err
		}
	}
	c.lastGroup.now[c.levelsWithin(span.Now)]++
	c.lastGroup.ever[c.levelsWithin(span.Ever)]++
	if c.Maxima != nil {
		return c.addMaximum(&subject, &span)
	}
	if err := c.lower(&subject, &k, &span); err != nil {
		return err
	}
	return c.refuseAtTop(&subject, &k, &span)
}

// begin initializes the count when the first object is added.
func (c *Count) begin() {
	c.counts = make([]api.BudgetLevel, len(c.Levels))
	for i, epsilon := range c.Levels {
		c.counts[i].Epsilon = epsilon
	}
	c.refused = map[api.Reason]*refused{}
	c.offers, c.groups = map[uint32]*saleTerms{}, map[groupKey]*group{}
}

// requestFor returns the request for an object, as of the clock. It is for the largest ε, because
// the range of possible levels ([Rules.Span]) does not depend on the requested one.
func (c *Count) requestFor(subject *Subject) Request {
	req := Request{Question: c.Bid.Question, Epsilon: privacy.MaxEpsilon(), At: c.State.Clock}
	if c.Buying {
		req.Buyer, req.IsNewBuyer = c.Bid.Buyer, subject.Chain.HeldBy(c.Bid.Buyer).IsZero()
	}
	return req
}

// levelsWithin returns the number of levels of the count that are at most an ε.
func (c *Count) levelsWithin(epsilon privacy.Epsilon) int {
	n, found := slices.BinarySearchFunc(c.Levels, epsilon, privacy.Epsilon.Compare)
	if found {
		n++
	}
	return n
}

// selectGroup makes the group with this key the current one, c.lastGroup, and adds it if necessary.
// If there are maxGroups groups, it first adds up and clears all groups.
func (c *Count) selectGroup(k groupKey) {
	one := c.groups[k]
	if one == nil {
		if len(c.groups) == maxGroups {
			c.sum()
		}
		one = &group{}
		c.groups[k] = one
	}
	c.lastKey, c.lastGroup = k, one
}

// groupKeyOf returns the group key of an object. It also puts what the object's policy lets the
// buyer have into c.offers, from which other methods read it.
func (c *Count) groupKeyOf(subject *Subject, span *Span) (k groupKey, err error) {
	c.offer(subject.Chain.Policy, subject.Policy)
	k = groupKey{policy: subject.Chain.Policy, buyers: subject.Chain.Buyers, answered: subject.Chain.Answered}
	if k.expires, err = c.heldUntil(subject); err != nil {
		return k, err
	}
	if c.Buying {
		if k.held = subject.Chain.HeldBy(c.Bid.Buyer); k.held.IsZero() {
			k.buyers++ // this buyer would be one more
		} else {
			k.paid = subject.Chain.PaidBy(c.Bid.Buyer)
		}
	}
	return k, c.markSeparate(subject, &k, span)
}

// heldUntil returns when the last open reservation of an object ends, or zero if there is none. It
// also notes the end of each as a time at which the result changes.
func (c *Count) heldUntil(subject *Subject) (last time.Time, err error) {
	for _, number := range subject.Object.Held {
		r, err := c.State.Sale(number)
		if err != nil {
			return last, err
		}
		if r.HoldsOn(subject.Object, c.State.Now) {
			c.noteChange(r.Expires)
			last = Latest(last, r.Expires)
		}
	}
	return last, nil
}

// markSeparate adds to k.separate the levels at which the terms alone do not decide whether the
// object can answer. There are three cases. The object can only have recorded levels. The buyer
// holds a level. Or other buyers hold or reserve a level whose number of holders is limited.
func (c *Count) markSeparate(subject *Subject, k *groupKey, span *Span) error {
	switch {
	case span.Recorded:
		c.hasExceptions = true
		for i := range c.Levels {
			k.separate.add(i)
		}
		return nil
	case !c.Buying || k.held.IsZero() && c.offers[k.policy].holders == 0: // no holder matters
		return nil
	}
	add := func(epsilon privacy.Epsilon) {
		if i, found := slices.BinarySearchFunc(c.Levels, epsilon, privacy.Epsilon.Compare); found {
			k.separate.add(i)
		} else {
			c.hasExceptions = true // it matters for the largest ε of all objects
		}
	}
	for _, at := range subject.Chain.Levels {
		add(at.Epsilon)
	}
	for _, number := range subject.Object.Held {
		r, err := c.State.Sale(number)
		if err != nil {
			return err
		}
		add(r.Epsilon)
	}
	return nil
}

// barrier returns why the buyer may not have a level of an object now, without regard to the
// budget, or "" if it may. waits reports whether time alone will allow it later. i is the index of
// the level. If the result is not that of the terms alone, barrier sets c.hasExceptions.
func (c *Count) barrier(subject *Subject, k *groupKey, i int) (reason api.Reason, waits bool, err error) {
	f := c.offers[k.policy]
	if !c.Buying || !k.separate.has(i) {
		return f.reasons[i], f.opensLater(i), nil
	}
	bid := c.Bid
	bid.Epsilon = c.Levels[i]
	refusal, err := bid.CheckSale(c.State, subject)
	if err != nil || refusal == nil {
		c.hasExceptions = c.hasExceptions || f.reasons[i] != ""
		return "", false, err
	}
	reason, waits = refusal.Reason, refusal.Remedy == event.RemedyWaiting
	c.hasExceptions = c.hasExceptions || f.reasons[i] == ""
	if f.opensLater(i) && f.holders > 0 { // when the sale opens, the level may have all its holders
		refusal, err = bid.CheckHolders(c.State, subject, bid.Epsilon, f.holders)
		waits = refusal == nil || refusal.Remedy == event.RemedyWaiting
		c.hasExceptions = c.hasExceptions || refusal != nil
	}
	return reason, waits, err
}

// countSeparately counts an object at a level of k.separate, where the terms alone do not decide:
// as able now, as able later, or not at all. i is the index of the level.
func (c *Count) countSeparately(subject *Subject, k *groupKey, span *Span, i int) error {
	if !c.canHandOut(subject, span, i) || span.Ever.Less(c.Levels[i]) {
		return nil
	}
	reason, waits, err := c.barrier(subject, k, i)
	if err != nil {
		return err
	}
	f, within := c.offers[k.policy], !span.Now.Less(c.Levels[i])
	switch {
	case reason != "" && !waits: // neither now nor later
	case waits || !within:
		c.wait(&c.counts[i], f, k, 1, within)
	default:
		c.counts[i].Can++
		c.pay(&c.counts[i], f, k, 1)
	}
	return nil
}

// canHandOut reports whether a level of an object is possible, apart from the budget and the terms.
// For an object that is limited to recorded levels, the level must be recorded, and the chain must
// have an entry left for the buyer. i is the index of the level.
func (c *Count) canHandOut(subject *Subject, span *Span, i int) bool {
	_, recorded := subject.Chain.At(c.Levels[i])
	return !span.Recorded || recorded && span.capacity.fits(c.Bid.Question, &subject.Chain, c.Levels[i])
}

// lower reduces c.Lowest to the highest level, at most c.Lowest, that an object can have at once.
// An object of the group compared last, with enough budget, can have c.Lowest like the object
// before it, so nothing is computed for it.
func (c *Count) lower(subject *Subject, k *groupKey, span *Span) (err error) {
	same := *k == c.lowestKey && k.held.IsZero() && !span.Recorded && c.offers[k.policy].holders == 0
	if same && c.objects > 1 && !span.Now.Less(c.Lowest) {
		return nil // an object of the same kind was compared already
	}
	c.Lowest, err = c.Rules.Within(subject, c.Bid.Question, span, c.Lowest, c.offering(subject))
	c.lowestKey = *k
	return err
}

// addMaximum adds to c.Maxima the highest level that an object can have at once.
func (c *Count) addMaximum(subject *Subject, span *Span) error {
	top, err := c.Rules.Within(subject, c.Bid.Question, span, privacy.MaxEpsilon(), c.offering(subject))
	if err == nil {
		c.Maxima.add(top)
	}
	return err
}

// offering returns the [Offering] for an object: for a buyer the levels that its terms sell, and
// for the host all levels of the question.
func (c *Count) offering(subject *Subject) Offering {
	if c.Buying {
		return c.Bid.Offer(c.State, subject)
	}
	return Offered(c.Bid.Question)
}

// Maxima is the set of the highest levels that objects can have. Between two of these levels, the
// number of objects that can answer stays the same.
type Maxima map[privacy.Epsilon]struct{}

// maxMaxima is the largest size of Maxima. Further levels are left out, because only [MaxLevels]
// are counted at.
const maxMaxima = 1 << 14

// add adds a level, unless it is 0 or the set is full.
func (m Maxima) add(top privacy.Epsilon) {
	if !top.IsZero() && len(m) < maxMaxima {
		m[top] = struct{}{}
	}
}

// Levels returns at most [MaxLevels] levels to count at, ascending. If the set has more, it returns
// the lowest, the highest, and others evenly spaced by their rank.
func (m Maxima) Levels() []privacy.Epsilon {
	all := make([]privacy.Epsilon, 0, len(m))
	for top := range m {
		all = append(all, top)
	}
	slices.SortFunc(all, privacy.Epsilon.Compare)
	if len(all) <= MaxLevels {
		return all
	}
	some := make([]privacy.Epsilon, MaxLevels)
	for i := range some {
		some[i] = all[i*(len(all)-1)/(MaxLevels-1)]
	}
	return some
}
