package policy

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"sort"

	"github.com/sluicedp/sluice/privacy"
)

// offers returns nil if everything that p sells from c.from on is sold by q too, on terms that are
// no better for buyers. Otherwise the error says what p sells on better terms. It also returns an
// error if p releases by time what q sells.
func (c *comparison) offers(p, q *node) error {
	switch {
	case p.terms == nil && q.terms != nil && p.isTimed:
		return errors.New("the calendar would release what was for sale")
	case p.terms == nil || p.terms.closes != unbounded && p.terms.closes <= c.from:
		return nil
	case q.terms == nil:
		return errors.New("the chain was not for sale")
	}
	for _, check := range []func(p, q *Terms) error{c.checkWindow, checkHolders, checkBuyers, checkOffer} {
		if err := check(p.terms, q.terms); err != nil {
			return err
		}
	}
	return nil
}

// checkWindow returns an error if p sells at an instant from c.from on at which q does not.
func (c *comparison) checkWindow(p, q *Terms) error {
	if max(p.opens, c.from) < max(q.opens, c.from) {
		return fmt.Errorf("its sale opens before %s", q.opens)
	}
	if q.closes != unbounded && (p.closes == unbounded || q.closes < p.closes) {
		return fmt.Errorf("its sale is open after %s", q.closes)
	}
	return nil
}

// checkHolders returns an error if under p more buyers may hold a level than under q. 0 means no
// limit.
func checkHolders(p, q *Terms) error {
	if q.holders != 0 && (p.holders == 0 || q.holders < p.holders) {
		return fmt.Errorf("a level may be held by more than %d buyers", q.holders)
	}
	return nil
}

// checkBuyers returns an error if some buyer may buy under p but not under q.
func checkBuyers(p, q *Terms) error {
	name, found := firstOf(p.buyers, true, q.barred) // a buyer that p lists and q bars
	if !found && len(q.buyers) > 0 {
		name, found = firstOf(p.buyers, false, q.buyers) // a buyer that p lists and q does not
	}
	switch {
	case found:
		return fmt.Errorf("buyer %.40q was not allowed to buy", name)
	case len(p.buyers) > 0:
		return nil
	case len(q.buyers) > 0:
		return errors.New("the sale was limited to listed buyers and is now open to all")
	}
	if name, found = firstOf(q.barred, false, p.barred); found { // a buyer that q bars and p does not
		return fmt.Errorf("buyer %.40q was barred", name)
	}
	return nil
}

// firstOf returns the first of the names that is on the list if isListed, or that is not on the
// list otherwise. found is false if there is none. Both names and list must be sorted.
func firstOf(names []string, isListed bool, list []string) (name string, found bool) {
	for _, name := range names {
		for len(list) > 0 && list[0] < name {
			list = list[1:]
		}
		if (len(list) > 0 && list[0] == name) == isListed {
			return name, true
		}
	}
	return "", false
}

// maxListed is the largest number of multiples of a stride that are checked one by one.
const maxListed = 1024

// checkOffer returns an error if p offers a level that q does not offer, or offers it for less.
func checkOffer(p, q *Terms) error {
	levels := p.levels
	if len(levels) == 0 {
		stride := p.step()
		count := p.max.Nano() / stride
		if count > maxListed {
			return checkMultiples(p, q, stride, count)
		}
		for k := range count {
			levels = append(levels, nanos((k+1)*stride))
		}
	}
	for _, level := range levels {
		switch {
		case !q.Offers(level):
			return notOffered(level)
		case p.Price(level) < q.Price(level):
			return fmt.Errorf("ε=%v costs %d minor units, less than %d before", level, p.Price(level), q.Price(level))
		}
	}
	return nil
}

// notOffered returns the error for a level that p sells and q does not.
func notOffered(level privacy.Epsilon) error { return fmt.Errorf("ε=%v was not for sale", level) }

// step returns the distance between the levels on offer, in nano-nats, where levels are not listed.
func (t *Terms) step() int64 { return max(1, t.stride.Nano()) }

// checkMultiples is [checkOffer] for the first count multiples of a stride in nano-nats, of which
// there are too many to check one by one.
func checkMultiples(p, q *Terms, stride, count int64) error {
	switch highest := nanos(count * stride); {
	case q.max.Less(highest):
		return notOffered(highest)
	case len(q.levels) > 0 || stride%q.step() != 0:
		return errors.New("some of its levels were not for sale")
	}
	// Before rounding, both prices are linear in ε between neighbouring points of the two curves.
	// If p is not below q at both ends of such an interval, it is not below q inside it. The price
	// of p also changes its slope at the level where it rises above its floor, so that level is
	// checked too. The same level of q needs no check: there the price of q is below the straight
	// line between the neighbouring points.
	lowest, highest := stride, count*stride
	left := p.leavesFloor()
	if err := cmp.Or(
		checkPrice(p, q, highest), checkPrice(p, q, lowest),
		checkPrice(p, q, min(max(left, lowest), highest)), checkPrice(p, q, min(max(left+1, lowest), highest)),
	); err != nil {
		return err
	}
	for _, bends := range []curve{p.curve, q.curve} {
		for _, bend := range bends {
			if at := bend.Epsilon.Nano(); lowest < at && at < highest {
				if err := checkPrice(p, q, at); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// checkPrice returns an error if p is cheaper than q at a level in nano-nats, before prices are
// rounded.
func checkPrice(p, q *Terms, at int64) error {
	price, before := p.exactPrice(at), q.exactPrice(at)
	if !price.less(before) {
		return nil
	}
	const text = "about ε=%.9g costs %.2f minor units, less than %.2f before"
	return fmt.Errorf(text, float64(at)/1e9, price.float64(), before.float64())
}

// exactPrice returns the price at a level in nano-nats, before it is rounded up.
func (t *Terms) exactPrice(at int64) fraction {
	price, floor := t.curve.at(at), wholeAmount(t.floor)
	if price.less(floor) {
		return floor
	}
	return price
}

// leavesFloor returns the highest level in nano-nats at which the price is still the floor, if this
// level is between two points of the curve. It returns 0 if no point is above the floor, or if the
// point before the first such point is not below it.
func (t *Terms) leavesFloor() int64 {
	i := sort.Search(len(t.curve), func(i int) bool { return t.floor < t.curve[i].Amount })
	if i == len(t.curve) {
		return 0
	}
	before, next := t.curve.before(i), t.curve[i]
	if t.floor <= before.Amount {
		return 0
	}
	hi, lo := bits.Mul64(uint64(t.floor-before.Amount), uint64(next.Epsilon.Nano()-before.Epsilon.Nano()))
	// From the point before, the price reaches the floor after this many nano-nats, rounded down.
	beyond, _ := bits.Div64(hi, lo, uint64(next.Amount-before.Amount))
	return before.Epsilon.Nano() + int64(beyond)
}
