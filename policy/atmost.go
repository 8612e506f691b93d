package policy

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/sluicedp/sluice/privacy"
)

// ErrMore says that a policy allows more than another, or that nobody has shown that it does not. The
// error that wraps it says what.
var ErrMore = errors.New("the policy may allow more")

// AtMost returns nil if it is certain that a policy p allows nothing, from an instant on, that q does
// not allow: whoever has agreed to q then loses nothing by p. That is so if, at every later instant and
// after any number of buyers, the ceiling of p is not above that of q; and if p is for sale, so is q, to
// every buyer of p, at every level of p, whenever p is, to as many holders, and for no more than p
// asks. A policy that releases by the calendar what q only sells allows more.
//
// Otherwise the error wraps [ErrMore]. It is also returned where the answer is not known: for sums of
// several [Unlock], for example, whose ceilings cross between two of very many buyers. The zero value
// allows nothing.
func AtMost(p, q Policy, from time.Time) error {
	if p.Equal(q) || p.node == nil {
		return nil
	}
	if q.node == nil {
		q = Fixed(privacy.Epsilon{})
	}
	c := comparison{from: instantOf(from), left: maxWork}
	err := c.ceilings(p.node, q.node)
	if err == nil {
		err = c.offers(p.node, q.node)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMore, err)
	}
	return nil
}

// maxWork bounds the ceilings that a comparison computes: a fraction of a second.
const maxWork = 1 << 20

// comparison is what AtMost knows of its question.
type comparison struct {
	from instant
	left int // ceilings that may still be computed
	work int // of these, for what is looked at
}

// ceilings returns nil if the ceiling of p is never above that of q.
func (c *comparison) ceilings(p, q *node) error {
	if p.text == q.text {
		return nil
	}
	if whole, ok := q.rule.(combined); ok && whole.name == "min" {
		for _, part := range whole.of {
			if err := c.ceilings(p, part); err != nil {
				return err
			}
		}
		return nil
	}
	if lower, ok := p.rule.(unlock); ok {
		if upper, ok := q.rule.(unlock); ok && lower.atMost(upper) {
			return nil
		}
	}
	err := c.afterAny(p, q)
	if whole, ok := p.rule.(combined); ok && whole.name == "min" && errors.Is(err, errTooLong) {
		for _, part := range whole.of {
			if c.ceilings(part, q) == nil {
				return nil
			}
		}
	}
	return err
}

// afterAny returns nil if the ceiling of p is not above that of q after any number of buyers.
func (c *comparison) afterAny(p, q *node) error {
	c.work = min(c.left, maxWork/4)
	c.left -= c.work
	defer func() { c.left += max(0, c.work) }()
	one, other := p.orders(), q.orders()
	if err := cmp.Or(c.above(p, q, one, one), c.above(p, q, other, other)); err != nil {
		return err
	}
	return c.between(p, q, 0, max(one, other))
}

// atMost tells whether r is certain to unlock no more than another: its whole is not larger, and the share of each buyer is not. That
// is enough: up to the smaller number of orders both rise in proportion, and afterwards only one does, to at most its whole.
func (r unlock) atMost(other unlock) bool {
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

// between returns nil if the ceiling of p is not above that of q after any number of buyers from first to last. Neither falls with the
// buyers: so it is enough if p after the last is not above q after the first, and if it is, each half is looked at.
func (c *comparison) between(p, q *node, first, last uint64) error {
	higher := c.above(p, q, last, first)
	if higher == nil || first == last {
		return higher
	}
	middle := first + (last-first)/2
	if err := c.between(p, q, first, middle); err != nil {
		return err
	}
	return c.between(p, q, middle+1, last)
}

// errTooLong says that a comparison was given up.
var errTooLong = errors.New("it would take too long to show that its ceiling is never higher")

// above returns an error if, at some later instant, the ceiling of p after some buyers is above that of q after fewer, or as many.
func (c *comparison) above(p, q *node, buyers, fewer uint64) error {
	if c.work -= p.cost() + q.cost(); c.work < 0 {
		return errTooLong
	}
	lower, upper := p.lineAfter(buyers), q.lineAfter(fewer)
	check := func(at instant) error {
		most, allowed := ceilingAt(lower, at), ceilingAt(upper, at)
		if !allowed.Less(most) {
			return nil
		}
		return fmt.Errorf("its ceiling is ε=%v after %d buyers at %s, and was ε=%v", most, buyers, at, allowed)
	}
	if err := check(c.from); err != nil {
		return err
	}
	for _, s := range lower[passedBy(lower, c.from):] {
		if err := check(s.at); err != nil {
			return err
		}
	}
	return nil
}

// cost returns how many ceilings of parts lineAfter computes, about.
func (n *node) cost() int {
	if n.byOrders == nil {
		return 1
	}
	return n.steps * n.policies
}
