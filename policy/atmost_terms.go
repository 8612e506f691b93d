package policy

import (
	"errors"
	"fmt"
	"math/big"
	"slices"

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
	for _, name := range p.buyers {
		if !q.Allows(name) {
			return fmt.Errorf("buyer %.40q might not buy", name)
		}
	}
	if len(p.buyers) > 0 {
		return nil
	}
	if len(q.buyers) > 0 {
		return errors.New("only some buyers might buy, and now everybody may")
	}
	for _, name := range q.barred {
		if !listed(p.barred, name) {
			return fmt.Errorf("buyer %.40q was barred", name)
		}
	}
	return nil
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
	// Between neighbouring bends both prices are straight, before they are rounded up: who is not below at both ends is not below in between.
	lowest, highest := big.NewRat(stride, 1), big.NewRat(count*stride, 1)
	for _, at := range slices.Concat([]*big.Rat{highest, lowest}, p.bends(), q.bends()) {
		if at.Cmp(lowest) < 0 || at.Cmp(highest) > 0 {
			continue
		}
		if price, before := p.unrounded(at), q.unrounded(at); price.Cmp(before) < 0 {
			nano, _ := at.Float64()
			return fmt.Errorf("about ε=%.9g costs %s, and did cost %s", nano/1e9, price.FloatString(2), before.FloatString(2))
		}
	}
	return nil
}

// bends returns where the price may change its slope, in nano-nats: at the points of the curve, and where it leaves the floor.
func (t *Terms) bends() (all []*big.Rat) {
	before := Price{}
	for _, p := range t.curve {
		all = append(all, big.NewRat(p.Epsilon.Nano(), 1))
		if before.Amount < t.floor && t.floor < p.Amount {
			all = append(all, onLine(p.Epsilon.Nano(), before.Epsilon.Nano(), p.Amount, before.Amount, big.NewRat(t.floor, 1)))
		}
		before = p
	}
	return all
}

// unrounded returns the price at a level above 0 in nano-nats before it is rounded up.
func (t *Terms) unrounded(at *big.Rat) *big.Rat {
	before := Price{}
	price := new(big.Rat)
	for _, p := range t.curve {
		price.SetInt64(p.Amount)
		if at.Cmp(big.NewRat(p.Epsilon.Nano(), 1)) <= 0 {
			price = onLine(p.Amount, before.Amount, p.Epsilon.Nano(), before.Epsilon.Nano(), at)
			break
		}
		before = p
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
