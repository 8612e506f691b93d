package policy

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/sluicedp/sluice/privacy"
)

// AtMost returns nil if it is proven that, from an instant on, p allows nothing that q does not
// allow. A person who has agreed to q then loses nothing if p replaces q.
//
// The proof requires that the ceiling of p is not above the ceiling of q, at every later instant
// and after any number of buyers. If p is for sale, q must also be for sale: to every buyer of p,
// at every level of p, at all times when p is, to as many holders, and for no more than p asks. A
// policy that releases by time what q only sells allows more.
//
// Otherwise the error says what p may allow. AtMost also returns an error where it cannot decide:
// for sums of several [Unlock], for example, whose ceilings cross between two of very many buyers.
// The zero value allows nothing. AtMost takes at most about a millisecond.
func (p Policy) AtMost(q Policy, from time.Time) error {
	if p.Equal(q) || p.node == nil {
		return nil
	}
	if q.node == nil {
		q = Fixed(privacy.Epsilon{})
	}
	c := comparison{from: instantOf(from), left: min(workPerByte*(len(p.String())+len(q.String())), maxWork)}
	err := c.ceilings(p.node, q.node)
	if err == nil {
		err = c.offers(p.node, q.node)
	}
	if err != nil {
		return fmt.Errorf("the policy may allow more: %w", err)
	}
	return nil
}

// These constants bound the work of a comparison by the length of both policies, and to about a
// fifth of a millisecond. A change of terms is a short event, and each change may compare two other
// policies. The unit of work is the ceiling of one part, about 10 ns.
const (
	workPerByte = 32
	maxWork     = 1 << 14
)

// comparison is the state of one call of [Policy.AtMost]. A line is a ceiling as a step function of
// time.
type comparison struct {
	from instant
	left int // ceilings that may still be computed
	work int // the share of left for the current pair; below 0 once it is used up

	lower, upper []step // memory for lines
	found        excess // the last excess that the method above found
}

// ceilings returns nil if it is proven that the ceiling of p is never above that of q from c.from
// on, after any number of buyers. Otherwise the error says where it may be above. It tries
// sufficient conditions first, and the comparison of whole lines last.
func (c *comparison) ceilings(p, q *node) error {
	// The second case: the ceiling of q is constant, and p never rises above it.
	if p.text == q.text || !q.isTimed && !q.hasOrders && !q.limit.Less(p.limit) {
		return nil
	}
	// A minimum is at least p if each of its parts is.
	if whole, ok := q.rule.(combined); ok && whole.name == "min" {
		for _, part := range whole.of {
			if err := c.ceilings(p, part); err != nil {
				return err
			}
		}
		return nil
	}
	if c.partByPart(p, q) {
		return nil
	}
	if lower, ok := p.rule.(unlock); ok {
		if upper, ok := q.rule.(unlock); ok && lower.atMost(upper) {
			return nil
		}
	}
	err := c.afterAny(p, q)
	// A minimum is at most q if one of its parts is.
	if whole, ok := p.rule.(combined); ok && whole.name == "min" && errors.Is(err, errTooLong) {
		for _, part := range whole.of {
			if c.ceilings(part, q) == nil {
				return nil
			}
		}
	}
	return err
}

// partByPart returns true if both are sums of the same number of parts, and each part of p is at
// most the part of q in the same place. This is sufficient for p to be at most q. It takes much
// less work than a comparison of whole sums of [Unlock] and steps of time.
func (c *comparison) partByPart(p, q *node) bool {
	lower, isSum := p.rule.(combined)
	upper, areSums := q.rule.(combined)
	if !isSum || !areSums || lower.name != "sum" || upper.name != "sum" || len(lower.of) != len(upper.of) {
		return false
	}
	for i, part := range lower.of {
		if c.ceilings(part, upper.of[i]) != nil {
			return false
		}
	}
	return true
}

// afterAny compares the lines of p and q. It returns nil if the ceiling of p is not above that of q
// after any number of buyers. It returns errTooLong if the work is used up before that is known. It
// uses at most half of the work that is left, so that some remains for other pairs.
func (c *comparison) afterAny(p, q *node) error {
	c.work = c.left - c.left/2
	c.left -= c.work
	defer func() { c.left += max(0, c.work) }()
	lower, upper := inTime(p), inTime(q)
	one, other := p.orders(), q.orders()
	// Most differences show at one of these numbers of buyers. The search over all numbers is last.
	higher := c.above(lower, upper, one, one) || c.above(lower, upper, other, other) ||
		c.between(lower, upper, 0, max(one, other))
	switch e := c.found; {
	case c.work < 0:
		return errTooLong
	case higher:
		return fmt.Errorf("its ceiling after %d buyers at %s is ε=%v, above ε=%v before",
			e.buyers, e.at, e.most, e.allowed)
	}
	return nil
}

// excess is a ceiling of one policy that is above the ceiling of the other.
type excess struct {
	buyers        uint64
	at            instant
	most, allowed privacy.Epsilon
}

// timeline is a policy with the instants at which its ceiling may rise.
type timeline struct {
	*node
	instants []instant
}

// inTime returns the timeline of a node. It has no instants if the ceiling does not depend on
// buyers, because the line of the node is used then.
func inTime(n *node) timeline {
	if n.byOrders == nil {
		return timeline{node: n}
	}
	return timeline{n, instants([]*node{n})}
}

// atMost returns true if r certainly unlocks no more than other: its total is not larger, and
// neither is its share per buyer. This is sufficient: up to the smaller number of orders, both
// ceilings rise in proportion to the buyers. After that only one of them rises, to at most its
// total.
func (r unlock) atMost(other unlock) bool {
	// The shares total/orders are compared as products, of 128 bits.
	hi, lo := bits.Mul64(uint64(r.total.Nano()), uint64(other.orders))
	otherHi, otherLo := bits.Mul64(uint64(other.total.Nano()), uint64(r.orders))
	return !other.total.Less(r.total) && (hi < otherHi || hi == otherHi && lo <= otherLo)
}

// orders returns the number of buyers after which the ceiling no longer rises.
func (n *node) orders() uint64 {
	switch r := n.rule.(type) {
	case unlock:
		return uint64(r.orders)
	case combined:
		most := uint64(0)
		for _, part := range r.of {
			most = max(most, part.orders())
		}
		return most
	}
	return 0
}

// between returns true if the ceiling of p may be above that of q after some number of buyers from
// first to last. No ceiling falls when the number of buyers grows. So the answer is no if p after
// the last buyer is not above q after the first. Otherwise between compares each half. If no work
// is left, the result is not valid (c.work is below 0).
func (c *comparison) between(p, q timeline, first, last uint64) bool {
	higher := c.above(p, q, last, first)
	if !higher || first == last {
		return higher
	}
	middle := first + (last-first)/2
	return c.between(p, q, first, middle) || c.between(p, q, middle+1, last)
}

// errTooLong means that a comparison was abandoned because it needed too much work.
var errTooLong = errors.New("its ceiling may be higher: a proof that it is not would take too long")

// above returns true if, at c.from or a later instant, the ceiling of p after `buyers` buyers is
// above that of q after `fewer` buyers (fewer ≤ buyers). If so, it stores the place in c.found. If
// no work is left, it returns false, and c.work is below 0.
func (c *comparison) above(p, q timeline, buyers, fewer uint64) bool {
	if c.work < 0 {
		return false
	}
	if c.work -= p.cost() + q.cost(); c.work < 0 {
		return false
	}
	lower, upper := p.lineAt(&c.lower, buyers), q.lineAt(&c.upper, fewer)
	next := passedBy(upper, c.from) // the first step of upper after the instant that is checked
	// isHigher compares p's ceiling `most` with q's ceiling at an instant. If it is higher,
	// isHigher stores the place. The instants of its calls rise.
	isHigher := func(at instant, most privacy.Epsilon) bool {
		for next < len(upper) && upper[next].at <= at {
			next++
		}
		allowed := privacy.Epsilon{}
		if next > 0 {
			allowed = upper[next-1].ceiling
		}
		if !allowed.Less(most) {
			return false
		}
		c.found = excess{buyers, at, most, allowed}
		return true
	}
	if isHigher(c.from, ceilingAt(lower, c.from)) {
		return true
	}
	for _, s := range lower[passedBy(lower, c.from):] {
		if isHigher(s.at, s.ceiling) {
			return true
		}
	}
	return false
}

// lineAt returns the ceiling after some number of orders as a step function of time. If it must be
// computed, it overwrites *memory.
func (t timeline) lineAt(memory *[]step, orders uint64) []step {
	if t.byOrders == nil {
		return t.line()
	}
	*memory = t.appendLine((*memory)[:0], t.instants, orders)
	return *memory
}

// cost estimates how many ceilings of parts lineAt computes, plus the work to walk along the steps.
// Steps that are already computed count half.
func (t timeline) cost() int {
	if t.byOrders == nil {
		return 1 + t.steps/2
	}
	return 1 + len(t.instants)*(1+2*t.policies)
}
