package policy

import (
	"errors"
	"fmt"
	"math/big"
	"math/bits"
	"sort"

	"github.com/sluicedp/sluice/privacy"
)

// offers returns nil if everything that p sells is sold by q on terms that are no better.
func (c *comparison) offers(p, q *node) error {
	switch {
	case p.terms == nil && q.terms != nil && p.timed:
		return errors.New("the calendar would release what was for sale")
	case p.terms == nil || p.terms.closes != unbounded && p.terms.closes <= c.from:
		return nil
	case q.terms == nil:
		return errors.New("it was not for sale")
	}
	for _, check := range []func(p, q *Terms) error{c.checkWindow, checkHolders, checkBuyers, checkOffer} {
		if err := check(p.terms, q.terms); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparison) checkWindow(p, q *Terms) error {
	if max(p.opens, c.from) < max(q.opens, c.from) {
		return fmt.Errorf("its sale opens before %s", q.opens)
	}
	if q.closes != unbounded && (p.closes == unbounded || q.closes < p.closes) {
		return fmt.Errorf("its sale is open after %s", q.closes)
	}
	return nil
}

func checkHolders(p, q *Terms) error {
	if q.holders != 0 && (p.holders == 0 || q.holders < p.holders) {
		return fmt.Errorf("a level may be held by more than %d buyers", q.holders)
	}
	return nil
}

// checkBuyers returns an error if p may be bought by somebody who may not buy q.
func checkBuyers(p, q *Terms) error {
	name, found := firstOf(p.buyers, true, q.barred)
	if !found && len(q.buyers) > 0 {
		name, found = firstOf(p.buyers, false, q.buyers)
	}
	switch {
	case found:
		return fmt.Errorf("buyer %.40q might not buy", name)
	case len(p.buyers) > 0:
		return nil
	case len(q.buyers) > 0:
		return errors.New("only some buyers might buy, and now everybody may")
	}
	if name, found = firstOf(q.barred, false, p.barred); found {
		return fmt.Errorf("buyer %.40q was barred", name)
	}
	return nil
}

// firstOf returns the first of some names that is on a list, or is not. Both are sorted.
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

// maxListed is how many multiples of a stride are looked at one by one.
const maxListed = 1024

// checkOffer returns an error if p offers a level that q does not, or for less.
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
			return fmt.Errorf("ε=%v costs %d, and did cost %d", level, p.Price(level), q.Price(level))
		}
	}
	return nil
}

func notOffered(level privacy.Epsilon) error { return fmt.Errorf("ε=%v was not for sale", level) }

// step returns the distance of the levels on offer in nano-nats, where they are not listed.
func (t *Terms) step() int64 { return max(1, t.stride.Nano()) }

// checkMultiples is checkOffer for the first count multiples of a stride.
func checkMultiples(p, q *Terms, stride, count int64) error {
	switch highest := nanos(count * stride); {
	case q.max.Less(highest):
		return notOffered(highest)
	case len(q.levels) > 0 || stride%q.step() != 0:
		return errors.New("some of its levels were not for sale")
	}
	// Between neighbouring bends both prices are straight, before they are rounded up: who is not
	// below at both ends is not below in between. A price also bends where it leaves its floor.
	// That q does cannot matter: q is lower there than on the straight line between its neighbours.
	lowest, highest := stride, count*stride
	if err := checkPrice(p, q, big.NewRat(highest, 1)); err != nil {
		return err
	}
	if err := checkPrice(p, q, big.NewRat(lowest, 1)); err != nil {
		return err
	}
	if at := p.leavesFloor(); at != nil && at.Cmp(big.NewRat(lowest, 1)) > 0 && at.Cmp(big.NewRat(highest, 1)) < 0 {
		if err := checkPrice(p, q, at); err != nil {
			return err
		}
	}
	for _, bends := range []curve{p.curve, q.curve} {
		for _, bend := range bends {
			if at := bend.Epsilon.Nano(); lowest < at && at < highest && p.exactly(at).less(q.exactly(at)) {
				return checkPrice(p, q, big.NewRat(at, 1))
			}
		}
	}
	return nil
}

// checkPrice returns an error if p is cheaper than q at a level in nano-nats, before prices are
// rounded.
func checkPrice(p, q *Terms, at *big.Rat) error {
	price, before := p.unrounded(at), q.unrounded(at)
	if price.Cmp(before) >= 0 {
		return nil
	}
	nano, _ := at.Float64()
	return fmt.Errorf("about ε=%.9g costs %s, and did cost %s", nano/1e9, price.FloatString(2), before.FloatString(2))
}

// fraction is (hi·2⁶⁴+lo)/below, below 2⁸¹, with a denominator of at most 10¹².
type fraction struct{ hi, lo, below uint64 }

func (f fraction) less(g fraction) bool {
	times := func(f fraction, n uint64) (hi, lo uint64) {
		carry, lo := bits.Mul64(f.lo, n)
		return f.hi*n + carry, lo // below 2⁶⁴: the product is below 2¹²¹
	}
	hi, lo := times(f, g.below)
	otherHi, otherLo := times(g, f.below)
	return hi < otherHi || hi == otherHi && lo < otherLo
}

// exactly is unrounded for a whole number of nano-nats.
func (t *Terms) exactly(at int64) fraction {
	before, next := t.around(func(p Price) bool { return at <= p.Epsilon.Nano() })
	if before == next {
		return fraction{0, uint64(max(t.floor, next.Amount)), 1}
	}
	width := uint64(next.Epsilon.Nano() - before.Epsilon.Nano())
	hi, lo := bits.Mul64(uint64(next.Amount-before.Amount), uint64(at-before.Epsilon.Nano()))
	baseHi, baseLo := bits.Mul64(uint64(before.Amount), width)
	lo, carry := bits.Add64(lo, baseLo, 0)
	price, floor := fraction{hi + baseHi + carry, lo, width}, fraction{0, uint64(t.floor), 1}
	if price.less(floor) {
		return floor
	}
	return price
}

// around returns the points of the curve around a level, of which isUpTo says whether it is at most
// at a point. Beyond the last point it returns that twice.
func (t *Terms) around(isUpTo func(Price) bool) (before, next Price) {
	i := sort.Search(len(t.curve), func(i int) bool { return isUpTo(t.curve[i]) })
	if i > 0 {
		before = t.curve[i-1]
	}
	if i == len(t.curve) {
		return before, before
	}
	return before, t.curve[i]
}

// leavesFloor returns the level in nano-nats from which on the price is above the floor, or nil if
// that is a point of the curve, or none.
func (t *Terms) leavesFloor() *big.Rat {
	before, next := t.around(func(p Price) bool { return t.floor < p.Amount })
	if before.Amount < t.floor && t.floor < next.Amount {
		return onLine(next.Epsilon.Nano(), before.Epsilon.Nano(), next.Amount, before.Amount, big.NewRat(t.floor, 1))
	}
	return nil
}

// unrounded returns the price at a level above 0 in nano-nats before it is rounded up.
func (t *Terms) unrounded(at *big.Rat) *big.Rat {
	before, next := t.around(func(p Price) bool { return at.Cmp(big.NewRat(p.Epsilon.Nano(), 1)) <= 0 })
	price := new(big.Rat).SetInt64(next.Amount)
	if before != next {
		price = onLine(next.Amount, before.Amount, next.Epsilon.Nano(), before.Epsilon.Nano(), at)
	}
	if floor := big.NewRat(t.floor, 1); price.Cmp(floor) < 0 {
		return floor
	}
	return price
}

// onLine returns y at an x on the straight line through (x0, y0) and (x1, y1), for x0 < x1.
func onLine(y1, y0, x1, x0 int64, x *big.Rat) *big.Rat {
	y := new(big.Rat).Sub(x, big.NewRat(x0, 1))
	y.Mul(y, big.NewRat(y1-y0, x1-x0))
	return y.Add(y, big.NewRat(y0, 1))
}
